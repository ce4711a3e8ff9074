#include "cli/run/expected_step.hpp"

#include <fmt/format.h>

#include "plan/assemble/build_plan.hpp"
#include "plan/scenario/differing_keys.hpp"
#include "trace/describe_plan.hpp"
#include "trace/formats/trace_file.hpp"
#include "trace/joining.hpp"

namespace orrery::cli {
namespace {

trace::Trace step_of(const plan::Scenario& scenario) {
    const plan::Plan plan = plan::build_plan(scenario);
    std::vector<plan::LinkedProgram> linked;
    for (const plan::Program& program : plan.programs)
        linked.push_back(plan::link(plan, program));
    return trace::describe_plan(plan, std::move(linked));
}

bool same_plan(const trace::Trace& a, const trace::Trace& b) {
    if (a.programs.size() != b.programs.size()) return false;
    for (std::size_t p = 0; p < a.programs.size(); ++p)
        if (!trace::same_step(a, a.programs[p], b, b.programs[p])) return false;
    return true;
}

std::string or_none(const std::string& text) {
    return text.empty() ? "none" : text;
}

}  // namespace

trace::Trace expected_step(const std::string& path, const TrainRun& run) {
    trace::Trace expected = trace::read_trace(path);
    if (same_plan(expected, step_of(run.scenario))) return expected;
    std::string message = fmt::format("--expect {}: a step of another plan than this run's:", path);
    const auto keys = plan::differing_keys(expected.scenario_json, run.resolved_json);
    for (const plan::KeyDifference& key : keys)
        if (!key.pointer.starts_with("/cluster") && !key.pointer.starts_with("/run"))
            message += fmt::format("\n  {}: there {}, here {}", key.pointer, or_none(key.a),
                                   or_none(key.b));
    if (keys.empty()) message += "\n  of the same scenario, by another version of this program";
    throw ExpectedError(message);
}

}  // namespace orrery::cli
