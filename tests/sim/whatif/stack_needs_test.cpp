// What other stacks need for the same layout is what a scenario that names them says.
#include "sim/whatif/stack_needs.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "plan/assemble/build_plan.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using Sets = std::vector<std::string>;

plan::ReadResult read(Sets sets, const std::string& stack) {
    if (!stack.empty()) sets.push_back("training.framework=" + stack);
    plan::ReadResult result =
        plan::read_scenario_text(theory::kGpt, "theory.json", "", sets, theory::library());
    EXPECT_TRUE(result.scenario) << plan::format_text(result.errors);
    return result;
}

std::vector<StackNeed> needs_of(const Sets& sets, const std::string& stack = "") {
    const plan::ReadResult result = read(sets, stack);
    return stack_needs(*result.scenario, result.resolved_json,
                       load_profiles(result.scenario->cluster), theory::library());
}

const StackNeed& of(const std::vector<StackNeed>& needs, const std::string& stack) {
    return *std::find_if(needs.begin(), needs.end(),
                         [&](const StackNeed& need) { return need.stack == stack; });
}

TEST(StackNeeds, AreThoseOfTheScenarioThatNamesTheStack) {
    for (const Sets& sets : {Sets{}, Sets{"layout.recompute=full"}, Sets{"layout.zero_stage=3"}}) {
        const std::vector<StackNeed> needs = needs_of(sets);
        ASSERT_FALSE(needs.empty());
        int known = 0;
        for (const StackNeed& need : needs) {
            if (!need.lacks.empty()) continue;
            const plan::ReadResult named = read(sets, need.stack);
            const MemoryPrediction memory =
                predict_memory(plan::build_plan(*named.scenario), *named.scenario,
                               load_profiles(named.scenario->cluster));
            EXPECT_EQ(need.peak_bytes, memory.worst().peak_bytes) << need.stack;
            EXPECT_EQ(need.fit_probability, memory.fit_probability) << need.stack;
            ++known;
        }
        EXPECT_GE(known, 2);
    }
}

TEST(StackNeeds, AStackThatLacksPartOfTheLayoutSaysWhich) {
    EXPECT_EQ(of(needs_of({"layout.zero_stage=1"}), "torchtitan").lacks, "zero_stage 1");
    EXPECT_EQ(of(needs_of({"layout.zero_stage=3"}), "torchtitan").lacks, "");
    EXPECT_NE(
        of(needs_of({"layout.pipeline_parallel=2", "layout.schedule=zb-h1"}), "megatron").lacks,
        "");
}

// Who named a stack whose memory was measured wants to know of that one.
TEST(StackNeeds, AreNotSaidBesideAMeasuredStackThatWasNamed) {
    EXPECT_TRUE(needs_of({}, "megatron").empty());
    EXPECT_FALSE(needs_of({}, "orrery").empty());  // named, and never measured on a GPU
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
