// A run's goodput from a scenario as the command line has it, whose overrides give the layouts on
// fewer nodes as well.
#pragma once

#include "cli/scenario_input.hpp"
#include "sim/fleet/goodput.hpp"

namespace orrery::cli {

// Of a scenario with a reliability section and a length, and its prediction.
sim::Goodput run_goodput(const ScenarioInput& input, const plan::Scenario& scenario,
                         const sim::Prediction& prediction, const sim::GoodputOptions& options);

}  // namespace orrery::cli
