// What `orrery search` prints: as text, and as the object of --json.
#pragma once

#include <optional>
#include <string>

#include "cli/console.hpp"
#include "cli/layout_search.hpp"
#include "cli/scenario_input.hpp"

namespace orrery::cli {

struct SearchReport {
    const ScenarioInput& input;
    const LayoutSearch& search;
    const sim::SearchOptions& options;
    const sim::SearchResult& result;
    double seconds = 0;
    std::optional<sim::FoundLayout> own = std::nullopt;  // the file's layout, where it is one
    bool explain = false;
};

std::string search_text(const SearchReport& report, const Console& console);
std::string search_json(const SearchReport& report);

// The layout of a combination that was priced, settled.
plan::Scenario scenario_of(const LayoutSearch& search, const sim::PricedLayout& priced);

// A layout in the columns of a table, and their heads.
std::vector<std::string> layout_cells(const plan::Layout& layout);
std::vector<std::string> layout_heads();

}  // namespace orrery::cli
