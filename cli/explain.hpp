// What `orrery explain` prints: why a step takes as long as it does, and what would shorten it, as
// text for people and as JSON for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/console.hpp"
#include "cli/report.hpp"
#include "sim/replay/measured.hpp"
#include "sim/whatif/balanced_layers.hpp"
#include "sim/whatif/what_if.hpp"
#include "trace/critical_path.hpp"

namespace orrery::cli {

struct Explanation {
    ReportInput report;
    std::vector<trace::PathSegment> path;
    std::vector<trace::PathPart> parts;
    std::vector<sim::Answer> answers;  // largest gain first
    std::optional<sim::BalancedLayers> balanced;
    double by_means_s = 0;  // of measured costs: the step that answers are asked of
};

// Of a prediction with its trace, priced by the profile, or by `costs`; simulates once per
// question.
Explanation explained(const ReportInput& report, const std::string& subcommand,
                      const Console& console, const sim::MeasuredCosts* costs = nullptr);

// A maximal run of the path on one rank.
struct PathStay {
    std::int32_t track = 0;
    trace::Picoseconds from = 0;
    trace::Picoseconds to = 0;
};
std::vector<PathStay> stays_of(const std::vector<trace::PathSegment>& path);

std::string explanation_text(const Explanation& explanation, const Console& console);

// What the critical path is made of, largest first: "compute" with its kinds of op.
struct PathWork {
    std::string name;
    double seconds = 0;
    std::string kinds;  // "gemm 83 %, attention backward 10 %"
};
std::vector<PathWork> works_of(const Explanation& explanation);

// The critical path in a few sentences, without line breaks.
std::string path_paragraph(const Explanation& explanation);

// Keys are a contract: docs/explain.md.
std::string explanation_json(const Explanation& explanation);

}  // namespace orrery::cli
