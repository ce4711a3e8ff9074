// The points of `orrery sweep`, and what is printed and drawn of them.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/chart.hpp"
#include "cli/console.hpp"
#include "cli/scenario_input.hpp"
#include "cli/vary.hpp"
#include "sim/prediction.hpp"

namespace orrery::cli {

struct SweepPoint {
    std::vector<std::string> values;         // of the varied keys, in their order
    std::optional<plan::Scenario> scenario;  // nothing: invalid, or nothing fits of a search
    sim::Prediction prediction;
    std::vector<std::string> layout;  // of a search: what makes it the best
    std::vector<plan::Diagnostic> errors;
    std::string why;  // there is no prediction
};

// What a combination of overrides makes of the scenario, not predicted yet.
SweepPoint read_point(const ScenarioInput& input, const std::vector<std::string>& sets);
// Predicts one that has a scenario. `stop` becomes true: throws sim::Stopped.
void simulate_point(SweepPoint& point, const std::atomic<bool>* stop = nullptr);

// What of a point is drawn, and printed first.
struct Metric {
    const char* name;   // as --metric and the keys of --json spell it
    const char* label;  // of an axis, with its unit
    bool less_is_better;
    // Nothing where the point does not say.
    std::optional<double> (*value)(const SweepPoint& point);
    std::string (*text)(double value);
};
const std::vector<Metric>& metrics();

struct Sweep {
    const ScenarioInput& input;
    const std::vector<Vary>& varies;
    const std::vector<SweepPoint>& points;
    const Metric& metric;
    bool searched = false;
};

std::string sweep_text(const Sweep& sweep, const Console& console);
std::string sweep_json(const Sweep& sweep);
std::string sweep_csv(const Sweep& sweep);
bool is_sweep_csv(std::string_view text);  // by its first line
// Of one key: the metric with its interval, points that have one, ascending. Where along the axis a
// point of the sweep lies: its value, or its number where that is none.
LineChart sweep_chart(const Sweep& sweep);
double place_on_axis(const Sweep& sweep, std::size_t point);
// Of one or two keys.
std::string sweep_svg(const Sweep& sweep);

}  // namespace orrery::cli
