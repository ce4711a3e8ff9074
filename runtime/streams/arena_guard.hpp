// Whether ops keep to their tensors: a debug mode of devices whose memory the host sees as its own;
// ops run one at a time then. A copy of the arena says what it must hold but for what an op writes,
// so that a byte that an op has no business with is found wherever it lies, also in zones on both
// sides of the arena: after the op, or, far from all that ops touch (in a workspace that no kernel
// uses), after the step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/executor/bound_program.hpp"
#include "runtime/streams/op_watch.hpp"

namespace orrery::runtime {

// A bug of ours, named by rank and op.
class MemoryFault : public std::logic_error {
  public:
    using std::logic_error::logic_error;
};

// Ops that wait for other ranks hold up those of this one. That closes no circle: what another rank
// needs of this one's, it gets by communication, whose order all ranks share.
class OneAtATime final : public OpWatch {
  public:
    void around(const IssuedOp& op, const OpRest& rest) override {
        const std::lock_guard alone(mutex_);
        rest.perform(op);
    }

  private:
    std::mutex mutex_;
};

class ArenaGuard final : public OpWatch {
  public:
    static constexpr std::int64_t kZone = 4096;  // bytes that stand before and behind the arena

    // Fills the zones. Throws MemoryFault where tensors lie beyond the arena, and where the plan
    // has memory that no op touches: within a resident, more than alignment leaves between two
    // tensors; BoundProgram::spare aside.
    ArenaGuard(const BoundProgram& program, plan::Rank rank, std::byte* arena);

    // Within OneAtATime, and within what fills memory that changes hands. Once a fault is found,
    // ops of other streams go by unwatched: they would find, and be named for, the same bytes.
    void around(const IssuedOp& op, const OpRest& rest) override;

    // Around an op. What it writes and does not read is filled first, with a NaN that no arithmetic
    // makes. Throws MemoryFault where any of that is left, or where a byte has changed outside of
    // what the op writes.
    void begin(const BoundOp& bound);
    void end(const BoundOp& bound);

    // After the last op of a step. Throws MemoryFault where a byte has changed that no op touches.
    void end_of_step() const;

    // What was written by no op, but by the host.
    void accept(std::int64_t offset, std::int64_t bytes);

  private:
    struct Extent {
        std::int64_t begin = 0, end = 0;
    };

    bool in_memory(const Operand& operand) const {  // and not on disk
        return operand.offset < program_.memory_bytes();
    }
    static std::vector<Extent> touched(const BoundProgram& program);
    static Extent untouched(const std::vector<Extent>& extents, const plan::Resident& resident);
    void watch(const std::vector<Extent>& extents);
    void expect_whole(const BoundOp& bound, const Operand& written) const;
    // The place in the arena of a byte that is not as expected; nothing: none.
    std::optional<std::int64_t> changed_in(const Extent& extent) const;
    void expect_unchanged(const BoundOp& bound) const;
    std::string named(const BoundOp& bound) const;
    std::byte* at(std::int64_t offset) const { return memory_.data() + kZone + offset; }

    const BoundProgram& program_;
    plan::Rank rank_;
    std::span<std::byte> memory_;      // the arena between its zones
    std::vector<std::byte> expected_;  // the same
    bool found_ = false;               // a fault
    std::vector<Extent> watched_;      // of the memory: what ops touch, with a zone around each
};

}  // namespace orrery::runtime
