#include "plan/text/plan_file.hpp"

#include "plan/text/text.hpp"

namespace orrery::plan {
namespace {

// Stands alone on the last line of a plan, and nowhere else in it: names have no line breaks.
constexpr std::string_view kEnd = "\nend\n";
constexpr std::string_view kFacts = "facts\n";

}  // namespace

std::string to_text(const PlanFile& file) {
    return to_text(file.plan) + std::string(kFacts) + file.facts;
}

ParsedPlanFile parse_plan_file(std::string_view text) {
    ParsedPlanFile parsed;
    const std::size_t end = text.find(kEnd);
    const std::size_t size = end == std::string_view::npos ? text.size() : end + kEnd.size();
    ParsedPlan plan = parse_plan(text.substr(0, size));
    std::string_view behind = text.substr(size);
    if (!plan.plan) {
        parsed.error = std::move(plan.error);
    } else if (!behind.starts_with(kFacts)) {
        parsed.error = "a plan alone: what was planned does not stand behind its end";
    } else {
        behind.remove_prefix(kFacts.size());
        parsed.file = {std::move(*plan.plan), std::string(behind)};
    }
    return parsed;
}

bool is_plan_text(std::string_view text) {
    return text.starts_with("orrery plan ");
}

}  // namespace orrery::plan
