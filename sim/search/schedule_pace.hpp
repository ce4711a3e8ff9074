// What a walk over a schedule takes its times from, and what it says.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/ir/action.hpp"

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

inline constexpr std::size_t kPassesOfStage = 4;  // by plan::ActionKind

// What a step's pipeline takes its time from.
struct PipelinePace {
    // Stages one after another whose passes (by plan::ActionKind) take the same.
    struct Run {
        std::int64_t stages = 0;
        std::array<PassTimes, kPassesOfStage> passes{};
        bool operator==(const Run&) const = default;
    };
    std::int64_t micro_batches = 0;
    double hop = 0;       // seconds of a message between two ranks
    bool blocks = false;  // neither computes before the transfers that it has issued have ended
    std::vector<Run> runs;
    bool operator==(const PipelinePace&) const = default;

    void add(const std::array<PassTimes, kPassesOfStage>& stage);
    std::vector<const std::array<PassTimes, kPassesOfStage>*> by_stage() const;
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

}  // namespace orrery::sim
