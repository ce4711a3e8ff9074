// What devices and links that are not alike cost a step: the same step is simulated where all are
// as fast as their like, and with the slowest alone. Both are folded, so that they cost little
// beside the step itself. Internal to simulate().
//
// What a rank waits for pipeline peers is bubble as far as it is there in the even step, and
// imbalance beyond: "What-if analysis", as Lin et al. 2025 (arXiv 2505.05713) call it, who compare
// a step with one that has no stragglers.
#pragma once

#include <cstdint>

#include "plan/scenario/scenario.hpp"
#include "sim/cost/profile.hpp"
#include "sim/prediction.hpp"
#include "trace/accounts.hpp"

namespace orrery::sim {

// Of a rank's bubble `of_schedule` stays, at most; the rest becomes imbalance.
void leave_to_schedule(Picoseconds of_schedule, trace::Accounts& accounts);

// `options.plan` is set. The step of the even cluster; the bubbles of `prediction`, which is
// of the uneven one, are parted by it, and it takes over which chunk is the heaviest.
Prediction without_stragglers(const plan::Scenario& scenario, const Profile& profile,
                              const SimulateOptions& options, Prediction& prediction);

// `step` is of the uneven cluster, its accounts parted.
StragglerCost straggler_cost(const plan::Scenario& scenario, const Profile& profile,
                             const SimulateOptions& options, const Prediction& even,
                             const StepPrediction& step);

// The same for any number of threads. Draws that come out alike are simulated once.
StepDraws draw_steps(const plan::Scenario& scenario, const Profile& profile,
                     const SimulateOptions& options, std::int64_t draws);

}  // namespace orrery::sim
