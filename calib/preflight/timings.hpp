// How long each check of a preflight took, from when all who take part in it had come to it: as
// measured on a backend, and as the simulator expects it of the cluster and its profile.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "calib/preflight/preflight_plan.hpp"
#include "plan/scenario/scenario.hpp"
#include "runtime/executor/device.hpp"
#include "runtime/train/backend.hpp"
#include "sim/cost/profile.hpp"

namespace orrery::preflight {

// One check of one rank, of a pair, or of all ranks.
struct Timing {
    Check check = Check::product;
    plan::Rank rank = -1;  // −1: all
    plan::Rank peer = -1;  // −1: not of a pair
    double seconds = 0;
};

// Of one step, by rank and op. In an order that is the same for all steps of a plan: by check, then
// ranks.
std::vector<Timing> timings_of(const PreflightPlan& plan,
                               const std::vector<std::vector<runtime::OpTime>>& times);

// Of several steps, check by check.
std::vector<Timing> medians_of(const std::vector<std::vector<Timing>>& steps);

struct Measured {
    std::vector<Timing> timings;     // in rank 0's process; empty elsewhere
    std::vector<std::string> hosts;  // by rank, likewise
};

struct Steps {
    int warm_ups = 2;  // that do not count
    int counted = 5;
};

// Has ranks perform the plan so often. `agree`: called on each rank before. Throws what a backend
// throws.
Measured measure(const PreflightPlan& plan, runtime::Backend& backend, const Steps& steps,
                 const std::function<void(runtime::ControlPlane&)>& agree);

struct Expected {
    std::vector<Timing> timings;      // in the order of timings_of
    std::vector<double> relative_sd;  // of each: the curve's residual; infinite: nobody says how
                                      // long it takes, only that it is the same for all
    double step_s = 0;                // all of it, once
};

// What the cluster of `scenario` and its profile make of the plan: of kernels and links alone,
// whatever stack the scenario names. Throws as sim::build_machine.
Expected expected(const PreflightPlan& plan, const plan::Scenario& scenario,
                  const sim::Profile& profile);

}  // namespace orrery::preflight
