// Plans whose keys are equal are linked alike; what linking reads is in the key.
#include "plan/ir/link_key.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "plan/assemble/build_plan.hpp"
#include "plan/ir/link.hpp"
#include "tests/plan/small_scenarios.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

Scenario staged(const std::string& schedule, Recompute recompute, int zero_stage,
                std::int64_t micro_batch_size) {
    Scenario scenario = small_llama();
    set_data(scenario, 2);
    scenario.layout.micro_batch_size = micro_batch_size;
    set_micro_batches(scenario, 4);
    scenario.layout.pipeline_parallel = 2;
    scenario.layout.schedule = schedule;
    scenario.layout.recompute = recompute;
    scenario.layout.recompute_every = 2;
    scenario.layout.zero_stage = zero_stage;
    scenario.layout.layers_per_stage = {2, 2};
    scenario.model.layers = 4;
    return scenario;
}

// All that it says, in one row.
std::vector<std::uint32_t> linked(const Plan& plan) {
    std::vector<std::uint32_t> all;
    for (const LinkedProgram& program : link_all(plan)) {
        for (const auto* row : {&program.op, &program.first_wait, &program.step})
            all.insert(all.end(), row->begin(), row->end());
        all.insert(all.end(), program.use.begin(), program.use.end());
        for (const Wait& wait : program.waits)
            all.insert(all.end(), {wait.count, static_cast<std::uint32_t>(wait.stream)});
        all.insert(all.end(), program.ops_per_stream.begin(), program.ops_per_stream.end());
    }
    return all;
}

TEST(LinkKey, IsThatOfPlansThatAreLinkedAlike) {
    std::vector<Plan> plans;
    for (const char* schedule : {"1f1b", "zb-h1"})
        for (const Recompute recompute : {Recompute::none, Recompute::full, Recompute::every_k})
            for (const int zero_stage : {0, 1, 2, 3})
                for (const std::int64_t size : {1, 2})
                    plans.push_back(assemble_plan(staged(schedule, recompute, zero_stage, size)));
    std::size_t shared = 0;
    for (const Plan& one : plans)
        for (const Plan& other : plans) {
            if (&one == &other || link_key(one) != link_key(other)) continue;
            ++shared;
            EXPECT_EQ(linked(one), linked(other));
        }
    EXPECT_GT(shared, 0U) << "micro-batches of another size change no order";
}

TEST(LinkKey, HasWhatLinkingReads) {
    const Plan plan = assemble_plan(staged("1f1b", Recompute::none, 2, 1));
    const auto differs = [&](auto change) {
        Plan changed = plan;
        change(changed);
        return link_key(changed) != link_key(plan);
    };
    const auto use = [](Plan& of) -> BlockUse& {
        return of.programs.front().procedures.front().uses.back();
    };
    EXPECT_TRUE(differs([&](Plan& of) { use(of).fence = !use(of).fence; }));
    EXPECT_TRUE(differs([&](Plan& of) { ++use(of).slots.front().piece; }));
    EXPECT_TRUE(differs([&](Plan& of) { ++use(of).slots.front().resident; }));
    EXPECT_TRUE(
        differs([](Plan& of) { of.programs.front().residents.back().reuses.push_back(0); }));
    EXPECT_TRUE(differs([](Plan& of) { ++of.programs.front().residents.back().first_step; }));
    EXPECT_TRUE(differs([](Plan& of) { ++of.programs.front().steps.front().stash; }));
    EXPECT_TRUE(
        differs([](Plan& of) { of.blocks.back().ops.front().stream = Stream::context_comm; }));
    EXPECT_TRUE(differs([](Plan& of) { of.blocks.front().ops.front().reads.push_back(0); }));
    EXPECT_TRUE(differs([](Plan& of) { of.blocks.front().reuse.push_back({0, 0}); }));
    EXPECT_FALSE(differs([&](Plan& of) { ++use(of).slots.front().offset; }));
    EXPECT_FALSE(differs([](Plan& of) { ++of.programs.front().residents.back().bytes; }));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
