// Skipping of steps whose loss spikes, as predication on a device scalar: one sum of eight bytes
// over all ranks, one judgement on each, which every update reads.
#include <algorithm>

#include "plan/memory/arena.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::OpKind;

const Sets kLayout = {"layout.tensor_parallel=2", "layout.pipeline_parallel=2",
                      "layout.data_parallel=2"};

Sets skipping(Sets sets) {
    sets.push_back("training.loss_spike.skip_above=2");
    sets.push_back("training.loss_spike.window=100");
    return sets;
}

bool reads_spike(const plan::Block& block, const plan::Op& op) {
    return std::any_of(op.reads.begin(), op.reads.end(), [&](plan::TensorId id) {
        const plan::Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
        return tensor.name == "loss spike" && tensor.role == plan::Role::scalar;
    });
}

TEST(LossSpike, EveryRankSumsTheLossOnceAndJudgesItBeforeAnyUpdate) {
    for (int zero = 0; zero <= 3; ++zero) {
        Sets sets = skipping(kLayout);
        sets.push_back(set("layout.zero_stage", zero));
        const plan::Plan plan = plan_of(sets);
        for (std::size_t rank : {0U, 1U}) {
            std::vector<OpKind> kinds;
            for (const plan::Op* op : executed_ops(plan, rank)) {
                const bool sum = op->kind() == OpKind::all_reduce && op->label == "loss";
                if (sum) {
                    EXPECT_EQ(op->group, plan::GroupKind::world);
                    EXPECT_EQ(plan::message_bytes(*op), 8);
                }
                if (sum || op->kind() == OpKind::loss_share || op->kind() == OpKind::judge_loss ||
                    (op->kind() == OpKind::adamw && kinds.back() != OpKind::adamw))
                    kinds.push_back(op->kind());
            }
            EXPECT_EQ(kinds, (std::vector{OpKind::loss_share, OpKind::all_reduce,
                                          OpKind::judge_loss, OpKind::adamw}))
                << "ZeRO " << zero << ", pipeline rank " << rank;
        }
        for (const plan::Block& block : plan.blocks)
            for (const plan::Op& op : block.ops)
                EXPECT_EQ(reads_spike(block, op), op.kind() == OpKind::adamw) << block.name;
    }
}

// The last stage has the loss; the others add nothing.
TEST(LossSpike, TheLossComesFromTheLastStage) {
    const plan::Plan plan = plan_of(skipping(kLayout));
    for (std::size_t rank : {0U, 1U})
        for (const plan::Op* op : executed_ops(plan, rank))
            if (op->kind() == OpKind::loss_share) {
                EXPECT_EQ(op->reads.size(), rank);
            }
}

// Beside the norm's 5 doubles, and the loss where it is: the window's losses in fp64, the batch's
// loss, the number of losses and the judgement; each from a multiple of 16 bytes on.
TEST(LossSpike, CostsTheWindowInMemory) {
    const plan::Plan with = plan_of(skipping(kLayout));
    const plan::Plan without = plan_of(kLayout);
    for (std::size_t rank : {0U, 1U}) {
        const std::int64_t usual = 48 + (rank == 1 ? 16 : 0);
        const std::int64_t more = 100 * 8 + 3 * 16;
        EXPECT_EQ(with.programs[rank].arena_bytes - without.programs[rank].arena_bytes,
                  plan::aligned(usual + more) - plan::aligned(usual));
    }
}

TEST(LossSpike, OneRankAloneHasNobodyToAsk) {
    const plan::Plan plan = plan_of(skipping({}));
    for (const plan::Op* op : executed_ops(plan))
        EXPECT_FALSE(op->kind() == OpKind::all_reduce && op->label == "loss");
}

TEST(LossSpike, IsNotInThePlanUnlessAskedFor) {
    const plan::Plan plan = plan_of(kLayout);
    for (const plan::Op* op : executed_ops(plan))
        EXPECT_FALSE(op->kind() == OpKind::loss_share || op->kind() == OpKind::judge_loss);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
