// Where the streams of a device must wait for each other: of the plan's edges, data and reuse
// alike, those that the order within streams and the waits before do not hold already.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/executor/bound_program.hpp"

namespace orrery::runtime {

class StreamSchedule {
  public:
    explicit StreamSchedule(const BoundProgram& program);

    // Ops of other streams whose events the op's stream waits for before it; by op id.
    std::span<const std::uint32_t> waits(std::uint32_t op) const;
    // Whether somebody waits for the op: it is followed by an event.
    bool marked(std::uint32_t op) const { return marked_[op]; }

  private:
    std::vector<std::uint32_t> awaited_;     // op ids, by op that waits
    std::vector<std::uint32_t> first_wait_;  // into awaited_; one more entry than ops
    std::vector<bool> marked_;
};

}  // namespace orrery::runtime
