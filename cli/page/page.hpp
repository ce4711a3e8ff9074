// `orrery report`: a prediction as one HTML file that opens without a network. It shows what
// simulate, explain and search print (the same functions make the numbers), draws where the time
// and the memory go, and has the timeline of the pipeline to zoom into. Its data is in the file as
// JSON, too: an element of type application/json with the id "data" (docs/report.md).
#pragma once

#include <optional>
#include <string>

#include "cli/explain.hpp"
#include "cli/goodput_text.hpp"
#include "cli/search_report.hpp"

namespace orrery::cli {

struct PageInput {
    const Explanation& explanation;        // of a prediction with its trace
    const SearchReport* search = nullptr;  // where the layout was searched for
    const GoodputReport* run = nullptr;    // where the scenario has reliability and a length
};

// The whole file. Boxes of the timeline and steps of the critical path are bounded, so that it
// stays below 3 MB whatever the scenario is.
std::string page_html(const PageInput& input);

}  // namespace orrery::cli
