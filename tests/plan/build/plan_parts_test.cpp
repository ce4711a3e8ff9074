// A plan with parts that another plan had is the plan that is built alone.
#include "plan/assemble/plan_parts.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "plan/assemble/build_plan.hpp"
#include "tests/plan/small_scenarios.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

Scenario staged(const std::string& schedule, Recompute recompute, int zero_stage,
                std::int64_t layers) {
    Scenario scenario = small_llama();
    set_data(scenario, 2);
    set_micro_batches(scenario, 4);
    scenario.layout.pipeline_parallel = 2;
    scenario.layout.schedule = schedule;
    scenario.layout.recompute = recompute;
    scenario.layout.recompute_every = 2;
    scenario.layout.zero_stage = zero_stage;
    scenario.layout.layers_per_stage = {layers, layers};
    scenario.model.layers = 2 * layers;
    return scenario;
}

// One after another, as a search asks for them, and each with those that the one before left.
TEST(PlanParts, OfAnotherPlanMakeTheSamePlan) {
    PlanParts parts;
    for (const char* schedule : {"1f1b", "zb-h1"})
        for (const Recompute recompute : {Recompute::none, Recompute::full, Recompute::every_k})
            for (const int zero_stage : {0, 1, 2, 3})
                for (const std::int64_t layers : {2, 4, 1}) {
                    const Scenario scenario = staged(schedule, recompute, zero_stage, layers);
                    Plan plan = assemble_plan(scenario, parts);
                    EXPECT_TRUE(plan == assemble_plan(scenario))
                        << schedule << ", ZeRO " << zero_stage << ", " << layers << " layers";
                    parts.put_back(std::move(plan));
                }
}

// Where tensors lie in their frames is all that it lacks.
TEST(PlanParts, OfAPlanWithoutOffsetsMakeTheSamePlanButForThese) {
    const auto cleared = [](Plan plan) {
        for (Program& program : plan.programs)
            for (Procedure& procedure : program.procedures)
                for (BlockUse& use : procedure.uses)
                    for (Slot& slot : use.slots)
                        slot.offset = 0;
        return plan;
    };
    for (const char* schedule : {"1f1b", "zb-h1"})
        for (const Recompute recompute : {Recompute::none, Recompute::full, Recompute::every_k})
            for (const int zero_stage : {0, 3}) {
                const Scenario scenario = staged(schedule, recompute, zero_stage, 4);
                PlanParts parts;
                const Plan without = assemble_plan(scenario, parts, Slots::without_offsets);
                EXPECT_FALSE(without == assemble_plan(scenario));
                EXPECT_TRUE(without == cleared(assemble_plan(scenario)))
                    << schedule << ", ZeRO " << zero_stage;
            }
}

TEST(PlanParts, AreLikeThoseOfScenariosThatShareStatesOutInAnotherWay) {
    const auto of = [](int zero_stage, std::int64_t layers) {
        return staged("1f1b", Recompute::none, zero_stage, layers);
    };
    PlanParts parts;
    EXPECT_FALSE(parts.like(of(0, 2)));
    parts.put_back(assemble_plan(of(0, 2), parts));
    EXPECT_TRUE(parts.like(of(3, 2)));
    EXPECT_TRUE(parts.like(of(2, 4)));
    Scenario wider = of(0, 2);
    wider.model.mlp().ffn_hidden *= 2;
    EXPECT_FALSE(parts.like(wider));
    EXPECT_FALSE(parts.like(staged("zb-h1", Recompute::none, 0, 2)));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
