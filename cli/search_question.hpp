// A search over layouts as `orrery search` does it: what is asked besides the scenario, and what
// the command and the library (api/) print of the answer.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/layout_search.hpp"
#include "cli/scenario_input.hpp"
#include "cli/search_report.hpp"
#include "sim/search/search.hpp"

namespace orrery::cli {

inline constexpr std::size_t kMostListed = 1000;
inline constexpr double kMostMarginPercent = 99;

std::string objective_words();  // names of sim::Objective: "step_time, …"

struct SearchQuestion {
    std::vector<std::string> varies;      // KEY=VALUES, as --vary takes them
    std::string objective = "step_time";  // a name of sim::Objective
    double memory_margin_percent = 0;     // of a device's memory that stays free
    sim::SearchOptions options;           // what the two above do not say
};

struct SearchAnswer {
    LayoutSearch search;  // with its errors there is no result
    sim::SearchOptions options;
    sim::SearchResult result;
    double seconds = 0;

    // What is printed of it, the file's own layout beside it, which is simulated for that. `input`
    // is what was searched; both must outlive the report.
    SearchReport report(const ScenarioInput& input, bool explain) const;
};

// Throws UsageError for words and numbers that are none, and for an objective without a price.
SearchAnswer searched(const ScenarioInput& input, const SearchQuestion& question);

}  // namespace orrery::cli
