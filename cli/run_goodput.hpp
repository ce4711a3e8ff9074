// A run's goodput from a scenario as the command line has it, whose overrides give the layouts on
// fewer nodes as well.
#pragma once

#include <string>

#include "cli/scenario_input.hpp"
#include "sim/fleet/goodput.hpp"

namespace orrery::cli {

// Said where training.tokens and run.steps are missing.
inline constexpr const char* kNoLength = "the scenario does not say how long the run is";

// The preset of failures that is assumed of a scenario that says nothing of them; empty: it does.
std::string assumed_reliability(const plan::Scenario& scenario);

// Of a scenario with a reliability section and a length, and its prediction.
sim::Goodput run_goodput(const ScenarioInput& input, const plan::Scenario& scenario,
                         const sim::Prediction& prediction, const sim::GoodputOptions& options);

}  // namespace orrery::cli
