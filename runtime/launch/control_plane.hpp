// What the ranks of a run tell one another beside the plan: the unique ids of communicators, what
// each has measured, that all are ready. A few small messages; tensors never come this way.
//
// One object per rank. Calls block, all ranks make the same ones in the same order, from one thread
// each at a time; check() and abort() may come from any thread at any time. A run that cannot go on
// (a rank called abort(), died, or left before all had come to finish()) ends everywhere within
// seconds: calls that wait, and all that come later, throw CommunicationError with the rank and
// what became of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/communication_error.hpp"

namespace orrery::runtime {

class ControlPlane {
  public:
    using Bytes = std::vector<std::byte>;

    ControlPlane(std::int64_t rank, std::int64_t size) : rank_(rank), size_(size) {}
    virtual ~ControlPlane() = default;
    ControlPlane(const ControlPlane&) = delete;
    ControlPlane& operator=(const ControlPlane&) = delete;

    std::int64_t rank() const { return rank_; }
    std::int64_t size() const { return size_; }

    // Of rank 0, to the others, whose `data` is replaced.
    virtual void broadcast(Bytes& data) = 0;

    // On rank 0 what each rank has, by rank: any sizes. Nothing on the others.
    virtual std::vector<Bytes> gather(std::span<const std::byte> mine) = 0;

    // The same on every rank.
    std::vector<Bytes> all_gather(std::span<const std::byte> mine);

    // Added up in the order of ranks; every rank gets the same bits.
    virtual double sum(double mine);

    // Returns once every rank has come.
    void barrier();

    // Throws where the run has ended: for a rank that waits for others elsewhere, in a collective
    // of its device.
    virtual void check() = 0;

    // A barrier, and the last call: whoever leaves after it has not failed.
    virtual void finish() = 0;

    // Ends the run for every rank, with this one and `reason`. The first reason stands. Returns at
    // once.
    virtual void abort(std::string_view reason) = 0;

  private:
    std::int64_t rank_;
    std::int64_t size_;
};

// What came as text.
inline std::string text_of(const ControlPlane::Bytes& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace orrery::runtime
