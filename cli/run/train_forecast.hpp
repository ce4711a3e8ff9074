// What a run on this computer should have taken: the simulator's step beside the one that was
// measured.
#pragma once

#include <optional>

#include "cli/run/train_run.hpp"
#include "cli/scenario_input.hpp"

namespace orrery::cli {

// By the scenario's own profile where that was measured, else by that of this computer where it has
// been made (`this-machine`). Nothing where ranks are on other devices or computers.
std::optional<StepForecast> forecast_of(const TrainRun& run, const ScenarioInput& input);

}  // namespace orrery::cli
