// What devices and links that are not alike cost a step: the same step is simulated where all are
// as fast as their like, and with the slowest alone. Both are folded, so that they cost little
// beside the step itself. Internal to simulate().
//
// What a rank waits for pipeline peers is bubble as far as it is there in the even step, and
// imbalance beyond: "What-if analysis", as Lin et al. 2025 (arXiv 2505.05713) call it, who compare
// a step with one that has no stragglers.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "plan/scenario/scenario.hpp"
#include "sim/cost/profile.hpp"
#include "sim/prediction.hpp"
#include "trace/accounts.hpp"

namespace orrery::sim {

// Of a rank's bubble `of_schedule` stays, at most; the rest becomes imbalance.
void leave_to_schedule(Picoseconds of_schedule, trace::Accounts& accounts);

// The step of the even cluster. `options.plan` is set, here and below.
Prediction even_step(const plan::Scenario& scenario, const Profile& profile,
                     const SimulateOptions& options);

// The bubbles of `prediction`, which is of the uneven cluster, are parted by the even step; it
// takes over which chunk is the heaviest.
void part_bubbles(const Prediction& even, const plan::Scenario& scenario, Prediction& prediction);

// How many are slow, and the slowest of each sort that the layout uses with the step of that one
// alone, in seconds; none: nothing else is uneven in the scenario.
struct SlowestAlone {
    StragglerCost counted;
    std::vector<std::pair<StragglerCost::Worst, std::optional<double>>> steps_s;
};
SlowestAlone slowest_alone(const plan::Scenario& scenario, const Profile& profile,
                           const SimulateOptions& options);

// `step` is of the uneven cluster, its accounts parted.
StragglerCost straggler_cost(const Prediction& even, const SlowestAlone& alone,
                             const StepPrediction& step);

// The same for any number of threads. Draws that come out alike are simulated once.
StepDraws draw_steps(const plan::Scenario& scenario, const Profile& profile,
                     const SimulateOptions& options, std::int64_t draws);

}  // namespace orrery::sim
