// Where the streams of a device must wait for each other: of the plan's edges, data and reuse
// alike, those that the order within streams and the waits before do not hold already.
//
// Where steps run on into one another (BoundProgram::other_turns), what is of a step before is
// waited for too. Nothing is taken to be known of those steps but the order within a stream, so
// that one schedule holds for the first steps and for all that follow, and for every turn.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/executor/bound_program.hpp"

namespace orrery::runtime {

// An op of another stream.
struct AwaitedOp {
    std::uint32_t op = 0;            // its id
    std::uint32_t steps_before = 0;  // 0: of the same step
};

class StreamSchedule {
  public:
    explicit StreamSchedule(const BoundProgram& program);

    // Those whose events the op's stream waits for before it; by op id. Steps before the first have
    // ended, and so have those that are as many steps back as the program has turns.
    std::span<const AwaitedOp> waits(std::uint32_t op) const;
    // Whether somebody waits for the op: it is followed by an event.
    bool marked(std::uint32_t op) const { return marked_[op]; }

  private:
    std::vector<AwaitedOp> awaited_;         // by op that waits
    std::vector<std::uint32_t> first_wait_;  // into awaited_; one more entry than ops
    std::vector<bool> marked_;
};

}  // namespace orrery::runtime
