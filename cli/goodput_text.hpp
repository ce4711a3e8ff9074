// What orrery goodput prints.
#pragma once

#include <string>

#include "cli/console.hpp"
#include "plan/scenario/scenario.hpp"
#include "sim/fleet/goodput.hpp"
#include "sim/prediction.hpp"

namespace orrery::cli {

inline constexpr double kDay = 86400;  // seconds

struct GoodputReport {
    const plan::Scenario& scenario;
    const sim::Prediction& prediction;
    const sim::Goodput& goodput;
    const sim::GoodputOptions& options;
    std::string assumed;         // preset of failures, where the scenario names none
    bool step_measured = false;  // --step-time
    bool timeline = false;       // with one run, day by day
};

std::string goodput_text(const GoodputReport& report, const Console& console);
std::string goodput_json(const GoodputReport& report);

std::string words_of(sim::RunAccount account);  // "waiting for checkpoints"
std::string span_text(double seconds);          // "3.09 h", "12.5 min", "17 d"
std::string length_text(double days);           // "6.2 hours", "54.3 days"

}  // namespace orrery::cli
