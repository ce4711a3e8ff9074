// Ranks that hold the same part of the model hold the same bits: every rank computes what it holds
// from the same sums. Where they differ, memory, a processor or a wire has changed something that
// nobody was told of, and it stays: each goes on from its own. Hashes of the parts, compared from
// time to time, find it, and say who has it.
//
// Parts are a parameter as the layers use it, its master and its moments, each by tensor. What
// nobody else holds (shards of ZeRO, parameters that tensor ranks share out when there is one data
// rank) cannot be compared, and is not hashed.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/executor/device.hpp"
#include "runtime/launch/control_plane.hpp"

namespace orrery::runtime {

// Replicas are not the same. The message has step, tensor and ranks with their hosts.
class ReplicaError : public std::runtime_error {
  public:
    ReplicaError(const std::string& message, std::optional<plan::Rank> odd)
        : std::runtime_error(message), odd_(odd) {}
    // The rank that holds other bits than most; of two replicas it is neither.
    std::optional<plan::Rank> odd_rank() const { return odd_; }

  private:
    std::optional<plan::Rank> odd_;
};

class ReplicaCheck {
  public:
    // All must outlive the object. All ranks make one at the same time.
    ReplicaCheck(const BoundProgram& program, const plan::Program& planned, ControlPlane& control);

    // Between steps, on all ranks. Throws ReplicaError, on every rank the same.
    void verify(const Device& device, std::int64_t step);

    std::int64_t compared_bytes() const;  // of this rank

  private:
    struct Part {
        std::string key;   // the same wherever the part is held, and nowhere else
        std::string name;  // for people
        std::int64_t offset = 0;
        std::int64_t bytes = 0;
        std::vector<plan::Rank> holders;  // ascending, at least two
    };

    void add_held(const BoundProgram& program, const plan::Program& planned);
    void keep_shared();
    std::vector<std::string> hashes(const Device& device) const;
    bool digests_agree(const std::vector<std::string>& hashes) const;
    [[noreturn]] void report(const std::vector<std::string>& hashes, std::int64_t step) const;

    ControlPlane& control_;
    std::vector<std::string> hosts_;
    std::vector<Part> parts_;  // by key
};

}  // namespace orrery::runtime
