// A scenario simulated as `orrery simulate` does it: what is asked besides the scenario, and all
// that the command and the library (api/) print of the answer.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/report.hpp"
#include "cli/scenario_input.hpp"
#include "plan/ir/plan.hpp"
#include "plan/scenario/reader.hpp"
#include "sim/cost/profile.hpp"
#include "sim/prediction.hpp"
#include "sim/replay/measured.hpp"

namespace orrery::cli {

inline constexpr std::int64_t kMostDraws = 10'000;

struct SimulationQuestion {
    bool unfolded = false;
    std::string costs_file;            // a measured trace that prices its ops; empty: none
    std::string scenario_file;         // beside which files lie that the trace's scenario names
    std::int64_t draws = 0;            // of stragglers and jitter
    bool keep_trace = false;           // with every event
    const plan::Plan* plan = nullptr;  // in place of the plan that the scenario asks for
    const std::atomic<bool>* stop = nullptr;
};

struct Simulation {
    plan::ReadResult read;
    sim::Profile profile;
    sim::Prediction prediction;
    std::optional<sim::MeasuredCosts> costs;  // of SimulationQuestion::costs_file
    std::vector<std::string> warnings;        // without a full stop

    // What is printed of it; `arguments` are those that the scenario was read from. Both must
    // outlive the result.
    ReportInput report(const ScenarioInput& arguments) const;
};

// `read` must be sound. Throws UsageError for draws where nothing is drawn, or so many, sim's
// Stopped, and what reading profiles and traces throws.
Simulation simulated(plan::ReadResult read, const SimulationQuestion& question);

}  // namespace orrery::cli
