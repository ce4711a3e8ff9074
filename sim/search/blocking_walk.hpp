// A step's pipeline where a rank computes nothing before the transfers that it has issued have
// ended: each rank goes through its passes and transfers in the order in which lowering issues
// them. A transfer begins when what it carries is there and the ones before it on both ranks have
// ended, whatever these then compute.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/schedule/schedule.hpp"
#include "sim/search/schedule_pace.hpp"

namespace orrery::sim {

class BlockingWalk {
  public:
    BlockingWalk() = default;
    // Of passes over layers alone.
    explicit BlockingWalk(const plan::Schedule& schedule);

    // Of each of several steps, in their order, four at most: they are walked side by side.
    std::vector<PipelineTimes> run(std::span<const PipelinePace* const> paces) const;
    // By pipeline rank, the passes of that schedule in its order.
    std::vector<std::vector<TimedPass>> timed(const plan::Schedule& schedule,
                                              const PipelinePace& pace) const;

  private:
    // One pass of a rank, or a transfer between two.
    struct Turn {
        std::int32_t rank = 0;        // of a transfer, that sends
        std::int32_t other = -1;      // that receives; −1: a pass
        std::int32_t pass = 0;        // kPassesOfStage × stage + plan::ActionKind
        std::int32_t waits_for = -1;  // a pass of the rank's own, by its number; −1: none
        bool both = false;            // the other sends something, too
        bool after_transfer = false;  // of a pass: the rank's last turn was one
        // Of a transfer: whether it has what the next pass of the rank, and of the other, takes.
        bool for_rank = false, for_other = false;
    };
    class Lowering;

    template <typename Seconds, typename Visit>
    std::vector<PipelineTimes> run_as(std::span<const PipelinePace* const> paces,
                                      Visit& visit) const;

    std::vector<Turn> turns_;
    std::size_t ranks_ = 0, passes_ = 0;
};

}  // namespace orrery::sim
