// The last ops of a rank, kept in memory for when the run ends badly: what it did, what it had
// begun, whom it waited for. Recording an op is a few stores, and always on.
//
// Ops are recorded by the threads of their streams; any thread may read meanwhile. Ops are pointed
// to: the plan must live for as long as the recorder is read.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plan/ir/mesh.hpp"
#include "runtime/comm/communicator.hpp"
#include "runtime/executor/bound_program.hpp"

namespace orrery::runtime {

// Times are nanoseconds of a clock that all ranks of a machine share.
struct RecordedOp {
    std::uint64_t number = 0;  // of all that the rank has begun, from 1
    const plan::Op* op = nullptr;
    std::int64_t step = 0;
    std::int32_t layer = -1;
    std::int32_t micro_batch = -1;
    std::int64_t begin = 0;                     // where it is issued: when that began
    std::optional<std::int64_t> issued = {};    // into a stream of a device; 0: it is not there yet
    std::int64_t end = 0;                       // 0: it has not ended, or not been seen to
    std::int64_t bytes = 0;                     // of communication
    std::array<std::int32_t, 2> peers{-1, -1};  // of transfers, the first two; −1: none
};

class FlightRecorder {
  public:
    static constexpr std::size_t kOps = 1024;

    FlightRecorder(const plan::Mesh& mesh, plan::Rank rank) : mesh_(mesh), rank_(rank) {}

    plan::Rank rank() const { return rank_; }
    const plan::Mesh& mesh() const { return mesh_; }

    // The number of the op, for end().
    std::uint64_t begin(const BoundOp& bound, std::int64_t step, std::int64_t now);
    // Of one that is put into a stream of a device, which performs it later.
    std::uint64_t begin_issue(const BoundOp& bound, std::int64_t step, std::int64_t now);
    void issued(std::uint64_t number, std::int64_t now);
    void end(std::uint64_t number, std::int64_t now);

    // The last ones, in the order in which they began; those that are overwritten meanwhile are
    // left out.
    std::vector<RecordedOp> ops() const;

    // Whose calls are asked for what the rank waits for: until leave(), which keeps the answer.
    void watch(const Communicator& communicator);
    void leave();
    std::optional<Waiting> waiting() const;

  private:
    struct Slot {
        std::atomic<std::uint64_t> number{0};  // 0: being written
        std::atomic<const plan::Op*> op{nullptr};
        std::atomic<std::int64_t> step{0}, begin{0}, issued{0}, end{0}, bytes{0};
        std::atomic<std::int32_t> layer{-1}, micro_batch{-1}, first_peer{-1}, second_peer{-1};
    };
    std::uint64_t begin(const BoundOp& bound, std::int64_t step, std::int64_t now,
                        std::int64_t issued);
    static void set_traffic(Slot& slot, const BoundOp& bound);
    static std::optional<RecordedOp> read(const Slot& slot, std::uint64_t number);

    plan::Mesh mesh_;
    plan::Rank rank_;
    std::atomic<std::uint64_t> begun_{0};
    std::vector<Slot> slots_ = std::vector<Slot>(kOps);
    mutable std::mutex mutex_;  // guards what follows
    const Communicator* communicator_ = nullptr;
    std::optional<Waiting> waiting_;
};

}  // namespace orrery::runtime
