// What `orrery compare` prints: a measured step beside the predicted one, as text for people and as
// JSON for programs.
#pragma once

#include <string>

#include "calib/compare/trace_join.hpp"
#include "cli/console.hpp"

namespace orrery::cli {

struct ComparisonReport {
    const compare::Comparison& comparison;
    std::string predicted;  // where the prediction is from, in words
    std::string measured;
    std::string prices;  // where its prices are from, in words
    std::size_t top = 0;
    std::string resolved_json = {};  // the scenario of the prediction
};

std::string comparison_text(const ComparisonReport& report, const Console& console);

// Keys are a contract: docs/compare.md. All ops, or the `top` most wrong where it is not 0.
std::string comparison_json(const ComparisonReport& report);

}  // namespace orrery::cli
