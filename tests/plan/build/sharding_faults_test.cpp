// Each rule of sharding, broken once on purpose, is reported.
#include "plan/checks/sharding_faults.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "plan/assemble/build_plan.hpp"
#include "plan/checks/validate_plan.hpp"
#include "tests/plan/small_scenarios.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

using testing::Contains;
using testing::HasSubstr;

struct Sharded {
    Scenario scenario = small_llama();
    Plan plan;

    explicit Sharded(int stage, bool reshard = true,
                     ShardedBuffers buffers = ShardedBuffers::in_place) {
        scenario.training.framework.sharded_buffers = buffers;
        set_data(scenario, 4);
        set_micro_batches(scenario, 2);
        scenario.layout.zero_stage = stage;
        scenario.layout.zero_group_size = 2;
        scenario.layout.reshard_after_forward = reshard;
        plan = build_plan(scenario);
    }

    std::vector<std::string> faults() const { return plan_faults(plan, scenario); }
    Program& program() { return plan.programs.front(); }
    const Block& block(const BlockUse& use) const {
        return plan.blocks[static_cast<std::size_t>(use.block)];
    }
    std::vector<BlockUse>& uses(const std::string& procedure) {
        for (Procedure& p : program().procedures)
            if (p.name == procedure) return p.uses;
        ADD_FAILURE() << "no procedure " << procedure;
        return program().procedures.front().uses;
    }
    // Uses of a block of this name; -1: all.
    void erase(const std::string& procedure, const std::string& name, int which) {
        auto& all = uses(procedure);
        int n = 0;
        std::erase_if(all, [&](const BlockUse& use) {
            return block(use).name == name && (n++ == which || which < 0);
        });
        ASSERT_GT(n, which);
        ASSERT_GT(n, 0);
    }
    void replace_group(const std::string& name, GroupKind from, GroupKind to) {
        bool found = false;
        for (Block& b : plan.blocks)
            for (Op& op : b.ops)
                if (b.name == name && op.group == from) {
                    op.group = to;
                    found = true;
                }
        ASSERT_TRUE(found);
    }
};

TEST(ShardingFaults, AreNoneInABuiltPlan) {
    for (int stage : {1, 2, 3})
        EXPECT_THAT(Sharded(stage).faults(), testing::IsEmpty());
    EXPECT_THAT(Sharded(3, false).faults(), testing::IsEmpty());
    for (const ShardedBuffers buffers :
         {ShardedBuffers::flat, ShardedBuffers::copied, ShardedBuffers::bucketed}) {
        for (int stage : {1, 2, 3})
            EXPECT_THAT(Sharded(stage, true, buffers).faults(), testing::IsEmpty());
        EXPECT_THAT(Sharded(3, false, buffers).faults(), testing::IsEmpty());
    }
}

// A gather fills the slot that is copied from, a copy the one that the part reads.
TEST(ShardingFaults, ReportCopiesOfOtherBuckets) {
    Sharded s(3, true, ShardedBuffers::copied);
    s.erase("forward 0", "copy.bucket", 2);
    EXPECT_THAT(s.faults(), Contains(HasSubstr("layer.forward uses bucket")));
    s = Sharded(3, true, ShardedBuffers::copied);
    s.erase("forward 0", "gather.bucket", 2);
    EXPECT_THAT(s.faults(), Contains(HasSubstr("is copied from gathered parameter ring 0, which")));
    s = Sharded(2, true, ShardedBuffers::flat);
    s.erase("backward 0", "reduce.bucket", 0);
    EXPECT_THAT(s.faults(), Contains(HasSubstr("overwrites the gradients of bucket 0")));
}

// Every gather of every action, one at a time; but of a backward pass the first two, which with 7
// parts find theirs in the ring of 2 as the forward pass just before has left them, and the last,
// since backward does not read the embedding.
TEST(ShardingFaults, ReportAPartWhoseGatherIsMissing) {
    const Sharded sound(3);
    for (const char* procedure : {"forward 0", "backward 0", "last backward 0"})
        for (int n = 0; n < 7; ++n) {
            if (std::string(procedure) != "forward 0" && (n < 2 || n == 6)) continue;
            Sharded s = sound;
            s.erase(procedure, "gather.bucket", n);
            EXPECT_THAT(s.faults(), Contains(HasSubstr("does not hold"))) << procedure << ' ' << n;
        }
}

TEST(ShardingFaults, ReportAPartThatWasOverwritten) {
    Sharded s(3);
    auto& uses = s.uses("forward 0");
    // The gather of the third part, into the slot of the first, before the first is used.
    const auto third = std::find_if(uses.begin(), uses.end(), [&](const BlockUse& use) {
        return s.block(use).name == "gather.bucket" && use.layer == 1;
    });
    ASSERT_NE(third, uses.end());
    std::rotate(uses.begin() + 1, third, third + 1);
    EXPECT_THAT(s.faults(), Contains(HasSubstr("does not hold")));
}

TEST(ShardingFaults, ReportAPartThatReadsItsShard) {
    Sharded s(3);
    for (BlockUse& use : s.uses("forward 0"))
        if (use.layer == 2 && use.position >= 0)
            for (std::size_t t = 0; t < use.slots.size(); ++t)
                if (s.block(use).tensors[t].role == Role::parameter)
                    use.slots[t].resident =
                        s.program().buckets[static_cast<std::size_t>(use.bucket)].parameters;
    EXPECT_THAT(s.faults(), Contains(HasSubstr("layer.forward reads more parameters than")));
}

// What was kept is of the step before: the optimizer has changed it.
TEST(ShardingFaults, ReportAKeptPartThatNobodyGathered) {
    Sharded s(3, false);
    s.erase("forward 0", "gather.bucket", 3);
    EXPECT_THAT(s.faults(), Contains(HasSubstr("0B0 layer.backward uses bucket")));
}

TEST(ShardingFaults, ReportGradientsThatAreNotReduced) {
    Sharded s(2);
    s.erase("backward 0", "reduce.bucket", 0);
    EXPECT_THAT(s.faults(), Contains(HasSubstr("overwrites the gradients of bucket 0")));
    s = Sharded(2);
    s.erase("last backward 0", "reduce.bucket", 6);
    EXPECT_THAT(s.faults(), Contains(HasSubstr("ends with gradients that nobody reduced")));
    s = Sharded(2);
    BlockUse& first = s.uses("backward 0").front();
    for (std::size_t t = 0; t < first.slots.size(); ++t)
        if (s.block(first).tensors[t].role == Role::gradient)
            first.slots[t].resident = s.program().gradient_ring[1];
    EXPECT_THAT(s.faults(), Contains(HasSubstr("which does not hold its gradients")));
}

TEST(ShardingFaults, ReportReplicasThatDiffer) {
    for (int stage : {1, 2, 3}) {
        Sharded s(stage);
        s.erase("last backward 0", "reduce.replicas", -1);
        EXPECT_THAT(s.faults(), Contains(HasSubstr("nothing over replica"))) << stage;
    }
}

// Experts are summed over ranks of their own, shared out between two of four that hold the same
// ones and then between parts.
TEST(ShardingFaults, ReportExpertsWhoseCopiesDiffer) {
    const auto spread = [](int ranks_that_share) {
        Sharded s(1);
        s.scenario = small_mixtral();
        set_data(s.scenario, 8);
        set_micro_batches(s.scenario, 2);
        s.scenario.layout.zero_stage = 1;
        s.scenario.layout.zero_group_size = ranks_that_share;
        s.scenario.layout.expert_parallel = 2;
        s.plan = build_plan(s.scenario);
        return s;
    };
    for (const int ranks : {2, 4})
        EXPECT_THAT(spread(ranks).faults(), testing::IsEmpty()) << ranks;
    for (const auto& [from, to, missing] :
         {std::tuple{GroupKind::expert_replica, GroupKind::replica, "nothing over expert_replica"},
          std::tuple{GroupKind::expert_shard, GroupKind::shard, "nothing over expert_shard"}}) {
        Sharded s = spread(4);
        s.replace_group(from == GroupKind::expert_shard ? "reduce.bucket" : "reduce.replicas", from,
                        to);
        EXPECT_THAT(s.faults(), Contains(HasSubstr(missing)));
    }
    Sharded s = spread(4);
    s.plan.mesh.expert = 8;
    EXPECT_THAT(s.faults(), Contains("4 ranks that share out states do not have all experts, which "
                                     "are spread over 8"));
}

TEST(ShardingFaults, ReportGradientsThatStayApart) {
    for (const int stage : {0, 1, 2}) {
        Sharded s(stage);
        s.scenario = small_mixtral();
        set_data(s.scenario, 4);
        set_micro_batches(s.scenario, 2);
        s.scenario.layout.zero_stage = stage;
        s.scenario.layout.expert_parallel = 2;
        s.scenario.layout.expert_gradients_by_source = true;
        s.plan = build_plan(s.scenario);
        EXPECT_THAT(s.faults(), testing::IsEmpty()) << stage;
        for (Block& block : s.plan.blocks)
            std::erase_if(block.ops, [](const Op& op) { return op.is<SumSources>(); });
        EXPECT_THAT(s.faults(), Contains(HasSubstr("are kept apart by source, and never summed")))
            << stage;
    }
}

TEST(ShardingFaults, ReportGroupsThatDoNotFit) {
    Sharded s(3);
    s.plan.mesh.shard = 3;
    EXPECT_THAT(s.faults(),
                Contains("3 ranks that share out states do not divide 4 data-parallel ranks"));
    s.plan.mesh.shard = 0;
    EXPECT_THAT(s.faults(), Contains(HasSubstr("communicates over a part of the data-parallel")));
    s = Sharded(3);
    s.replace_group("gather.bucket", GroupKind::shard, GroupKind::data);
    EXPECT_THAT(s.faults(), Contains(HasSubstr("communicates over all data-parallel ranks")));
    EXPECT_THAT(s.faults(), Contains(HasSubstr("elements of shards of")));
    s = Sharded(2);
    s.replace_group("reduce.bucket", GroupKind::shard, GroupKind::replica);
    EXPECT_THAT(s.faults(), Contains(HasSubstr("nothing over shard")));
    s = Sharded(2);
    for (Block& b : s.plan.blocks)
        if (b.name == "reduce.bucket")
            plan::set_sizes(b.ops.front().spec, {b.ops.front().size(0) + 1});
    EXPECT_THAT(s.faults(), Contains(HasSubstr("elements do not divide over 2 ranks")));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
