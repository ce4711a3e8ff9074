// Which communicators a plan asks for, group by group and pair by pair.
#include <gtest/gtest.h>

#include <vector>

#include "plan/assemble/build_plan.hpp"
#include "plan/ir/communicators.hpp"
#include "tests/plan/small_scenarios.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

GroupSet groups(const std::vector<GroupKind>& kinds) {
    GroupSet set;
    for (const GroupKind kind : kinds)
        set.set(static_cast<std::size_t>(kind));
    return set;
}

Scenario laid_out(Scenario scenario, std::int64_t tensor, std::int64_t data,
                  std::int64_t pipeline) {
    Layout& layout = scenario.layout;
    layout.tensor_parallel = tensor;
    layout.data_parallel = data;
    layout.pipeline_parallel = pipeline;
    layout.global_batch_size = 4 * data;
    layout.layers_per_stage.assign(static_cast<std::size_t>(pipeline),
                                   scenario.model.layers / pipeline);
    scenario.training.optimizer.clip_norm = 0;
    return scenario;
}

std::vector<Communicators> asked(const Scenario& scenario) {
    return communicators_of(build_plan(scenario));
}

// Activations go down a chain of four ranks and gradients up it: the ends have no neighbours there.
// Nothing else is between stages whose embeddings are not tied.
TEST(Communicators, OfTensorAndDataRanksAndOfNeighboursInAChain) {
    const auto all = asked(laid_out(small_llama(), 2, 2, 4));
    ASSERT_EQ(all.size(), 4U);
    for (std::size_t p = 0; p < 4; ++p) {
        EXPECT_EQ(all[p].groups, groups({GroupKind::tensor, GroupKind::data})) << p;
        EXPECT_EQ(all[p].after, p < 3) << p;
        EXPECT_EQ(all[p].before, p > 0) << p;
    }
    EXPECT_EQ(all[0].count(), 3);
    EXPECT_EQ(all[1].count(), 4);
}

// The last rank's chunk of one round is followed by the first rank's of the next.
TEST(Communicators, OfInterleavedStagesAreARing) {
    Scenario scenario = laid_out(small_llama(), 1, 1, 3);
    scenario.model.layers = 6;
    scenario.layout.virtual_pipeline = 2;
    scenario.layout.schedule = "interleaved";
    scenario.layout.global_batch_size = 6;
    scenario.layout.layers_per_stage.assign(6, 1);
    for (const Communicators& of : asked(scenario)) {
        EXPECT_TRUE(of.after && of.before);
        EXPECT_TRUE(of.groups.none());
    }
}

// A pair of two ranks is their pipeline's group.
TEST(Communicators, OfTwoStagesAreTheirGroup) {
    const auto all = asked(laid_out(small_llama(), 1, 1, 2));
    for (const Communicators& of : all)
        EXPECT_EQ(of, (Communicators{groups({GroupKind::pipeline}), false, false}));
}

TEST(Communicators, OfTiedEmbeddingsAreOnTheEndsAlone) {
    const auto all = asked(laid_out(small_gpt2(), 1, 1, 4));
    for (std::size_t p = 0; p < 4; ++p)
        EXPECT_EQ(all[p].groups, p == 0 || p == 3 ? groups({GroupKind::embedding}) : GroupSet())
            << p;
}

// The norm is of one copy of the model, which shared states make the norm of all ranks' shares.
TEST(Communicators, OfTheGradientNormAreOfOneCopyOrOfAll) {
    Scenario scenario = laid_out(small_llama(), 2, 2, 4);
    scenario.training.optimizer.clip_norm = 1;
    for (const auto& [zero, kind] :
         {std::pair(0, GroupKind::model), std::pair(1, GroupKind::world)}) {
        scenario.layout.zero_stage = zero;
        for (const Communicators& of : asked(scenario))
            EXPECT_EQ(of.groups, groups({GroupKind::tensor, GroupKind::data, kind})) << zero;
    }
}

TEST(Communicators, OfOneRankAreNone) {
    EXPECT_EQ(asked(laid_out(small_gpt2(), 1, 1, 1)), std::vector<Communicators>(1));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
