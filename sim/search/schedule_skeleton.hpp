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

#include "plan/schedule/schedule.hpp"

namespace orrery::sim {

// A pass of one stage: seconds as in StageCosts. Where its lead is below 0 it runs for so long
// without its input.
struct PassTimes {
    double lead = 0, busy = 0, tail = 0;
    double slowed = 0;  // what it takes longer for each second of a message beside it
    // What it takes longer right after transfers that the host waits for, having launched nothing.
    double launched = 0;
    // Where parameters are gathered for each pass: those that it begins with, and when after its
    // end those of the next pass can be.
    double gathers = 0, gathers_on = 0;
    bool operator==(const PassTimes&) const = default;
};

// What a step's pipeline takes its time from.
struct PipelinePace {
    // Stages one after another whose passes (by plan::ActionKind) take the same.
    struct Run {
        std::int64_t stages = 0;
        std::array<PassTimes, 4> passes{};
        bool operator==(const Run&) const = default;
    };
    std::int64_t micro_batches = 0;
    double hop = 0;       // seconds of a message between two ranks …
    bool blocks = false;  // … that keep its sender as long
    std::vector<Run> runs;
    bool operator==(const PipelinePace&) const = default;

    void add(const std::array<PassTimes, 4>& stage);
    std::vector<const std::array<PassTimes, 4>*> by_stage() const;
};

struct PipelineTimes {
    double end = 0;                 // the last pass of all
    std::vector<double> rank_ends;  // of each pipeline rank's last pass
};

// One of a step's passes, in seconds from the step's start.
struct TimedPass {
    plan::Action action;
    std::int32_t from = -1;  // pipeline rank that its input comes from over the network; −1: none
    double free = 0;         // its rank was done with the pass before
    double sent = 0;         // what it waits for was there, at the rank that made it, …
    double received = 0;     // … and here
    double gathered = 0;     // the parameters that it begins with were here
    double start = 0, end = 0;
    double freed = 0;  // its rank was done with it: later than its end where a sender is kept
};

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

  private:
    struct Node {
        std::int32_t rank = 0;
        std::int32_t pass = 0;        // of all stages': kPassesOfStage × stage + plan::ActionKind
        std::int32_t waits_for = -1;  // a node
        std::int32_t with = -1;       // in one exchange with what this node of the rank sends
        bool receives = false;        // over the network
        bool sends = false;
        bool sends_alone = false;     // nothing that the rank receives comes with it
        bool after_transfer = false;  // of the rank, in its order
    };
    struct Walk {
        std::vector<Node> nodes;
        std::vector<std::int32_t> last;  // node of each pass of a stage that is there
    };
    // Made when first asked for: of layouts that do not fit nobody asks how long they take.
    struct Walks {
        std::once_flag made;
        plan::Schedule of_more, of_fewer;  // until then
        Walk more, fewer;                  // fewer is empty where more has all
    };
    // What a chunk has in flight at a moment, and what of that the longer walk has more.
    struct Grown {
        InFlight now, more;
    };
    static constexpr std::size_t kPassesOfStage = 4;

    static Walk walk_of(const plan::Schedule& schedule, std::int32_t micro_batches);
    std::vector<std::vector<Moment>> fullest_of(const plan::Schedule& schedule) const;
    void part_moments();
    const Walks& walks() const;
    // As many steps as a Seconds has lanes; visit(node, Timing) for each pass.
    template <typename Seconds, typename Visit>
    std::vector<PipelineTimes> run(const Walk& walk, std::span<const PipelinePace* const> paces,
                                   Visit visit) const;
    template <typename Seconds>
    void run(std::span<const PipelinePace* const> paces, std::vector<PipelineTimes>& out) const;
    // Micro-batches beyond those walked ÷ those that the longer walk has more.
    double beyond(std::int64_t micro_batches) const;

    plan::ScheduleShape more_, fewer_;
    std::unique_ptr<Walks> walks_;
    bool has_fewer_ = false;  // else all micro-batches are walked
    std::int64_t micro_batches_ = 0, more_than_fewer_ = 1;
    std::vector<std::vector<std::int32_t>> stages_;                 // by rank
    std::vector<std::int32_t> rank_of_;                             // by stage
    std::vector<std::array<std::int32_t, kPassesOfStage>> counts_;  // of passes, by stage
    // By rank, the stage whose input's gradient is made last; −1: that is not its last pass.
    std::vector<std::int32_t> ends_with_;
    std::vector<std::vector<Moment>> fullest_, fullest_of_fewer_;  // by rank
    // By rank, the moments of these that differ, one after another by chunk.
    std::vector<std::vector<Grown>> moments_;
};

}  // namespace orrery::sim
