// Steps that run on into one another: what each waits for of those before it.
#include "plan/ir/turns.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "plan/assemble/build_plan.hpp"
#include "plan/checks/validate_plan.hpp"
#include "tests/plan/small_scenarios.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

Scenario served(std::int64_t staleness, std::int64_t pipeline = 1) {
    Scenario s = small_gpt2();
    if (pipeline > 1) set_pipeline(s, "1f1b", pipeline, 1, 4);
    set_data(s, 2);
    s.layout.zero_stage = 1;
    s.layout.staleness = staleness;
    s.training.framework.gradient_bucket_mb = 0.001;
    return s;
}

std::vector<const Op*> ops_of(const Plan& plan) {
    std::vector<const Op*> ops;
    for (const Block& block : plan.blocks)
        for (const Op& op : block.ops)
            ops.push_back(&op);
    return ops;
}

const BlockUse& use_of(const Program& program, const LinkedProgram& linked, std::size_t id) {
    const auto procedure = static_cast<std::size_t>(program.steps[linked.step[id]].procedure);
    return program.procedures[procedure].uses[linked.use[id]];
}

// A step's first forward pass of a bucket waits for the gather of what the step staleness + 1
// before it has made of it, and for nothing of the steps since: their ops on the stream of gathers
// count from −staleness · (ops of a step) on.
TEST(Turns, AStepWaitsForTheUpdateBeforeItsStalenessAndForNoLater) {
    for (const std::int64_t pipeline : {1, 2})
        for (const std::int64_t staleness : {1, 2, 3}) {
            const Plan plan = build_plan(served(staleness, pipeline));
            const auto ops = ops_of(plan);
            for (const Program& program : plan.programs) {
                const LinkedProgram linked = link_endless(plan, program);
                const auto of_step =
                    static_cast<std::int64_t>(linked.ops_per_stream[index_of(Stream::data_comm)]);
                std::map<std::int32_t, std::int64_t> gathered;  // by bucket: ops up to its gather
                std::int64_t count = 0;
                for (std::size_t id = 0; id < linked.size(); ++id) {
                    const Op& op = *ops[linked.op[id]];
                    if (op.stream != Stream::data_comm) continue;
                    ++count;
                    if (op.kind() == OpKind::all_gather)
                        gathered[use_of(program, linked, id).bucket] = count;
                }
                ASSERT_EQ(count, of_step);
                ASSERT_GT(gathered.size(), 1U);
                std::int64_t known = -(staleness + 2) * of_step;
                std::map<std::int32_t, bool> seen;
                for (std::size_t id = 0; id < linked.size(); ++id) {
                    const Op& op = *ops[linked.op[id]];
                    if (op.stream != Stream::compute) continue;
                    for (auto w = linked.first_wait[id]; w < linked.first_wait[id + 1]; ++w)
                        if (linked.waits[w].stream == Stream::data_comm)
                            known = std::max<std::int64_t>(
                                known, static_cast<std::int32_t>(linked.waits[w].count));
                    if (program.steps[linked.step[id]].procedure < 0) continue;
                    const BlockUse& use = use_of(program, linked, id);
                    const Block& block = plan.blocks[static_cast<std::size_t>(use.block)];
                    const bool reads =
                        std::any_of(op.reads.begin(), op.reads.end(), [&](TensorId tensor) {
                            return block.tensors[static_cast<std::size_t>(tensor)].role ==
                                   Role::parameter;
                        });
                    if (!reads || gathered.count(use.bucket) == 0) continue;
                    EXPECT_GE(known, gathered.at(use.bucket) - (staleness + 1) * of_step);
                    EXPECT_LE(known, -staleness * of_step);
                    if (op.phase == Phase::forward) seen[use.bucket] = true;
                }
                EXPECT_EQ(seen.size(), gathered.size());
            }
        }
}

TEST(Turns, CopiesLieSideBySide) {
    const Plan plan = build_plan(served(2));
    const Program& program = plan.programs.front();
    ASSERT_EQ(turns_of(program), 3);
    for (std::size_t id = 0; id < program.residents.size(); ++id) {
        const Resident& all = program.residents[id];
        std::int64_t end = all.offset;
        for (std::int32_t turn = 0; turn < 3; ++turn) {
            const Resident one = at_turn(program, turn).residents[id];
            if (all.turns == 1) {
                EXPECT_EQ(one, all);
                continue;
            }
            EXPECT_EQ(one.offset, end) << all.name;
            EXPECT_EQ(one.bytes, all.bytes / 3) << all.name;
            end += one.bytes;
        }
        if (all.turns > 1) {
            EXPECT_EQ(end, all.offset + all.bytes) << all.name;
        }
    }
}

// Without staleness a plan is that of synchronous steps, whoever is said to step its parameters.
TEST(Turns, NoneIsThePlanOfShardedStates) {
    Scenario s = served(0);
    const Plan synchronous = build_plan(s);
    s.layout.data_parallel_mode = DataParallelMode::parameter_server;
    EXPECT_EQ(build_plan(s), synchronous);
}

void expect_fault(const std::function<void(Plan&)>& change, const std::string& said) {
    const Scenario s = served(1);
    Plan plan = build_plan(s);
    EXPECT_TRUE(plan_faults(plan, s).empty());
    change(plan);
    const auto faults = plan_faults(plan, s);
    EXPECT_TRUE(std::any_of(
        faults.begin(), faults.end(),
        [&](const std::string& fault) { return fault.find(said) != std::string::npos; }))
        << said << ": " << testing::PrintToString(faults);
}

TEST(Turns, APlanWhoseComputeWaitsForServersIsFound) {
    expect_fault(
        [](Plan& plan) {
            for (Block& block : plan.blocks)
                for (Op& op : block.ops)
                    if (op.kind() == OpKind::adamw) op.stream = Stream::compute;
        },
        "touches states beside their server");
    expect_fault(
        [](Plan& plan) {
            Program& program = plan.programs.front();
            program.residents[static_cast<std::size_t>(program.scalars)].turns = 1;
        },
        "waits for an update that its step does without");
    expect_fault(
        [](Plan& plan) {
            Program& program = plan.programs.front();
            const auto id = static_cast<std::size_t>(program.buckets.front().parameters);
            program.residents[id].turns = 3;
        },
        "has 3 copies, not 2");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
