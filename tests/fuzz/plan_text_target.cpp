// The text form of plans: what parses prints, and parses back to the same plan.
#include "plan/text/text.hpp"

#include "plan/assemble/build_plan.hpp"
#include "plan/check.hpp"
#include "tests/fuzz/reading.hpp"
#include "tests/fuzz/targets.hpp"

namespace orrery::fuzz {
namespace {

void run(std::string_view input) {
    const plan::ParsedPlan parsed = plan::parse_plan(input);
    ORRERY_CHECK(parsed.plan.has_value() == parsed.error.empty(), parsed.error);
    if (!parsed.plan) return;
    const std::string text = plan::to_text(*parsed.plan);
    const plan::ParsedPlan again = plan::parse_plan(text);
    ORRERY_CHECK(again.plan.has_value(), again.error + "\n" + text);
    ORRERY_CHECK(*again.plan == *parsed.plan, "another plan:\n" + text);
    ORRERY_CHECK(plan::to_text(*again.plan) == text, "another text:\n" + text);
}

std::vector<std::string> seeds() {
    const std::vector<std::vector<std::string>> layouts = {
        {"layout.global_batch_size=2"},
        {"layout.pipeline_parallel=2", "layout.tensor_parallel=2", "layout.sequence_parallel=true"},
        {"layout.zero_stage=3", "layout.recompute=selective", "model.n_layer=1"},
    };
    std::vector<std::string> texts;
    for (const auto& sets : layouts)
        texts.push_back(plan::to_text(build_plan(*read_checked(kSmallScenario, sets).scenario)));
    return texts;
}

}  // namespace

const Target kPlanText = {"plan_text", 65536, run, seeds};

}  // namespace orrery::fuzz
