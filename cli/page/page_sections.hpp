// Sections of the page, each an HTML element. Internal to the page.
#pragma once

#include <string>

#include "cli/page/page.hpp"

namespace orrery::cli {

std::string tiles_html(const ReportInput& input);            // the figures that one asks for first
std::string accounts_html(const ReportInput& input);         // where the time goes
std::string memory_html(const ReportInput& input);           // of the fullest pipeline rank
std::string memory_of_ranks_html(const ReportInput& input);  // a bar for each
std::string path_html(const Explanation& explanation);       // critical path, what would shorten it
std::string days_html(const GoodputReport& run);             // where the days of the run go
std::string layouts_html(const SearchReport& search);  // the best, and the Pareto front as a chart

// The colour class of an account of a step; the timeline has the same for the same.
std::string colour_of(trace::Account account);

// A row of a table whose last cell is a bar: from `begin` to `end` of its width, in a colour class
// of page.css; `note` stands below the name. Texts are escaped here.
std::string bar_row(const std::string& name, const std::vector<std::string>& numbers, double begin,
                    double end, const std::string& colour, const std::string& note = "");

// What the script reads: {"simulate", "explain", "goodput", "search", "timeline"}.
std::string page_data(const PageInput& input);

// Made of page.css and page.js by the build.
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace orrery::cli
