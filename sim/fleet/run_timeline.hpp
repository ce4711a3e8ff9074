// One drawn run from its first day to its last: what it does from when to when, and which failure
// each stop comes of. It takes the same draws as draw_run, whose runs are only added up. Times are
// seconds since the run began.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/fleet/run_outcome.hpp"

namespace orrery::sim {

using RunSeconds = std::array<double, kRunAccounts>;  // by RunAccount

// Training (steps), work that a failure undoes (lost_work), or a stop of one kind. A stretch of
// work is not taken apart further: the thousands of waits for checkpoints and for data in it, and
// what steps on fewer nodes take longer, are sums.
struct RunStretch {
    RunAccount does = RunAccount::steps;
    double begin_s = 0, end_s = 0;
    RunSeconds seconds{};       // sums to its length
    std::int64_t failure = -1;  // that it comes of; −1: none
};

struct RunFailure {
    double at_s = 0;
    std::size_t cause = 0;          // of RunModel::causes
    std::size_t first_stretch = 0;  // of what it costs: the work that it undoes, or the first stop
};

struct RunTimeline {
    std::uint64_t run = 0;  // its number among those drawn
    RunOutcome outcome;
    std::vector<RunStretch> stretches;  // each begins where the one before ends
    std::vector<RunFailure> failures;

    RunSeconds cost_of(std::size_t failure) const;
};

// Beside draw_run, whose outcome it has.
RunTimeline record_run(const RunModel& model, std::uint64_t seed, std::uint64_t index);

// A piece of a run. Work is spread evenly over its stretch.
struct RunCell {
    RunSeconds seconds{};
    std::size_t first_failure = 0, failures = 0;
};

// Of equal length, the last one cut off by the run's end.
std::vector<RunCell> cells_of(const RunTimeline& run, double cell_s);

}  // namespace orrery::sim
