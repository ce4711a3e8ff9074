// What `orrery diff` prints: two scenarios side by side and where the difference of their steps
// comes from, as text for people and as JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "cli/console.hpp"
#include "cli/report.hpp"
#include "plan/scenario/differing_keys.hpp"
#include "sim/whatif/difference.hpp"

namespace orrery::cli {

struct DiffReport {
    ReportInput a;
    ReportInput b;
    sim::Difference difference;
    std::vector<plan::KeyDifference> keys;
};

std::string diff_text(const DiffReport& report, const Console& console);

// What dominates, in a sentence or two, without line breaks.
std::string diff_sentence(const DiffReport& report);

// Keys are a contract: docs/explain.md.
std::string diff_json(const DiffReport& report);

}  // namespace orrery::cli
