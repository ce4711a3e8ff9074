// What a run on this computer should have taken: the simulator's step beside the one that was
// measured.
#pragma once

#include <optional>
#include <string>

#include "cli/run/train_run.hpp"
#include "cli/scenario_input.hpp"
#include "sim/cost/profile.hpp"

namespace orrery::cli {

// The scenario with a profile of the machine that its ranks are on, as far as there is one.
struct PricedRun {
    plan::Scenario scenario;
    sim::Profile profile;
    std::string why_not;  // measured on this computer, or so; empty: it is, or ranks are elsewhere
};
PricedRun priced_run(const TrainRun& run, const ScenarioInput& input);

// By the scenario's own profile where that was measured, else by that of this computer where it has
// been made (`this-machine`). Nothing where ranks are on other devices or computers.
std::optional<StepForecast> forecast_of(const TrainRun& run, const ScenarioInput& input);

}  // namespace orrery::cli
