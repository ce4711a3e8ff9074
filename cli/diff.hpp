// What `orrery diff` prints: two scenarios side by side and where the difference of their steps
// comes from, down to the ops of either that answer to each other, as text for people and as JSON
// for programs.
#pragma once

#include <string>
#include <vector>

#include "cli/console.hpp"
#include "cli/report.hpp"
#include "plan/scenario/differing_keys.hpp"
#include "sim/whatif/difference.hpp"
#include "trace/op_differences.hpp"

namespace orrery::cli {

struct DiffReport {
    ReportInput a;
    ReportInput b;
    sim::Difference difference;
    std::vector<plan::KeyDifference> keys;
    trace::OpDifferences ops;
};

std::string diff_text(const DiffReport& report, const Console& console);

// What dominates, in a sentence or two, without line breaks.
std::string diff_sentence(const DiffReport& report);

// Keys are a contract: docs/explain.md.
std::string diff_json(const DiffReport& report);

}  // namespace orrery::cli
