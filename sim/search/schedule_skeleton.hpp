// A schedule without its times: passes in an order in which each follows what it waits for, and how
// many micro-batches each pipeline rank has in flight. Made once for all layouts that share
// schedule, pipeline and micro-batches; with the times of passes a step's pipeline is one walk over
// it. Several such steps are walked side by side, each to what it is alone.
//
// Of many micro-batches only some are walked: once the pipeline is full each more adds the same, so
// that two walks give all others.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "plan/ir/communicators.hpp"
#include "plan/schedule/schedule.hpp"
#include "sim/search/blocking_walk.hpp"
#include "sim/search/schedule_pace.hpp"

namespace orrery::sim {

// What is alive of one chunk of a rank at a moment: micro-batches between forward and (the first
// half of) backward, between forward and the second half, between the halves.
struct InFlight {
    double until_backward = 0, until_weights = 0, between_halves = 0;
    bool operator==(const InFlight&) const = default;
};
using Moment = std::vector<InFlight>;  // by chunk

// What a pass of a chunk holds from its beginning on, and no more from its end on.
void begin_pass(plan::ActionKind pass, InFlight& of);
void end_pass(plan::ActionKind pass, InFlight& of);

class ScheduleSkeleton {
  public:
    // For all numbers of micro-batches that walked() takes to that of the shape.
    ScheduleSkeleton(const plan::ScheduleKind& kind, const plan::ScheduleShape& shape);
    // `order`: of a shape with other micro-batches; of passes over layers alone.
    using Order = std::function<plan::Schedule(const plan::ScheduleShape&)>;
    ScheduleSkeleton(const Order& order, const plan::ScheduleShape& shape);

    // How many of so many micro-batches are walked.
    static std::int64_t walked(std::int64_t micro_batches, std::int64_t pipeline);

    // Of each of several steps, in their order.
    std::vector<PipelineTimes> run(std::span<const PipelinePace* const> paces) const;
    PipelineTimes run(const PipelinePace& pace) const;
    // No less than any rank's last pass of such a step ends after, without a walk; 0 where not all
    // micro-batches are walked.
    std::vector<double> least_rank_ends(const PipelinePace& pace) const;

    // By pipeline rank, all passes of a schedule over the same stages, in its order.
    std::vector<std::vector<TimedPass>> timed(const plan::Schedule& schedule,
                                              const PipelinePace& pace) const;

    // Moments at which a rank may hold most.
    std::vector<Moment> fullest(std::size_t rank, std::int64_t micro_batches) const;
    // The most bytes at any of them, where a micro-batch of a chunk holds `bytes`.
    double most(std::size_t rank, std::int64_t micro_batches,
                const std::vector<InFlight>& bytes) const;
    const std::vector<std::int32_t>& stages(std::size_t rank) const { return stages_[rank]; }
    std::size_t ranks() const { return stages_.size(); }
    // By rank, between neighbouring stages.
    const std::vector<plan::Communicators>& transfers() const { return transfers_; }

  private:
    struct Node {
        std::int32_t rank = 0;
        std::int32_t pass = 0;        // of all stages': kPassesOfStage × stage + plan::ActionKind
        std::int32_t waits_for = -1;  // a node
        std::int32_t with = -1;       // in one exchange with what this node of the rank sends
        bool receives = false;        // over the network
        bool sends_alone = false;     // nothing that the rank receives comes with it
    };
    struct Walk {
        std::vector<Node> nodes;
        std::vector<std::int32_t> last;  // node of each pass of a stage that is there
    };
    // Made when first asked for: of layouts that do not fit nobody asks how long they take.
    struct Walks {
        std::once_flag made, made_blocking;
        std::mutex taken;
        plan::Schedule of_more, of_fewer;  // until the first of them are made
        Walk more, fewer;                  // fewer is empty where more has all
        BlockingWalk blocking_more, blocking_fewer;
    };
    // What a chunk has in flight at a moment, and what of that the longer walk has more.
    struct Grown {
        InFlight now, more;
    };
    static Walk walk_of(const plan::Schedule& schedule, std::int32_t micro_batches);
    std::vector<std::vector<Moment>> fullest_of(const plan::Schedule& schedule) const;
    void part_moments();
    plan::Schedule take(plan::Schedule& made, const plan::ScheduleShape& shape) const;
    const Walks& walks() const;
    const Walks& blocking_walks() const;
    // As many steps as a Seconds has lanes; visit(node, Timing) for each pass.
    template <typename Seconds, typename Visit>
    std::vector<PipelineTimes> run(const Walk& walk, std::span<const PipelinePace* const> paces,
                                   Visit visit) const;
    // As many steps as a Four has lanes, all of which block or none.
    std::vector<PipelineTimes> run_alike(std::span<const PipelinePace* const> paces) const;
    // Of those walked over all that is walked: what they are of all micro-batches.
    template <typename Shorter>
    std::vector<PipelineTimes> extrapolated_times(std::span<const PipelinePace* const> paces,
                                                  std::vector<PipelineTimes> all,
                                                  Shorter run_shorter) const;
    // Micro-batches beyond those walked ÷ those that the longer walk has more.
    double beyond(std::int64_t micro_batches) const;

    Order order_;
    plan::ScheduleShape more_, fewer_;
    std::unique_ptr<Walks> walks_;
    bool has_fewer_ = false;  // else all micro-batches are walked
    std::int64_t micro_batches_ = 0, more_than_fewer_ = 1;
    std::vector<std::vector<std::int32_t>> stages_;                 // by rank
    std::vector<std::int32_t> rank_of_;                             // by stage
    std::vector<plan::Communicators> transfers_;                    // by rank
    std::vector<std::array<std::int32_t, kPassesOfStage>> counts_;  // of passes, by stage
    // By rank, the stage whose input's gradient is made last; −1: that is not its last pass.
    std::vector<std::int32_t> ends_with_;
    std::vector<std::vector<Moment>> fullest_, fullest_of_fewer_;  // by rank
    // By rank, the moments of these that differ, one after another by chunk.
    std::vector<std::vector<Grown>> moments_;
};

}  // namespace orrery::sim
