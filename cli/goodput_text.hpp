// What orrery goodput prints.
#pragma once

#include <string>

#include "cli/console.hpp"
#include "plan/scenario/scenario.hpp"
#include "sim/fleet/goodput.hpp"
#include "sim/prediction.hpp"

namespace orrery::cli {

struct GoodputReport {
    const plan::Scenario& scenario;
    const sim::Prediction& prediction;
    const sim::Goodput& goodput;
    const sim::GoodputOptions& options;
    std::string assumed;         // preset of failures, where the scenario names none
    bool step_measured = false;  // --step-time
};

std::string goodput_text(const GoodputReport& report, const Console& console);
std::string goodput_json(const GoodputReport& report);

}  // namespace orrery::cli
