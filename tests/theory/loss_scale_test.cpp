// fp16 with loss scaling (Micikevicius et al. 2018, arXiv 1710.03740, section 3.2), as predication
// on device scalars: backward starts from the scaled loss, gradients are unscaled and searched once
// between their reduction and their use, and adamw reads what was found.
#include <algorithm>

#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::Block;
using plan::Op;
using plan::OpKind;

bool touches(const Block& block, const std::vector<plan::TensorId>& ids, const char* scalar) {
    return std::any_of(ids.begin(), ids.end(), [&](plan::TensorId id) {
        const plan::Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
        return tensor.name == scalar && tensor.role == plan::Role::scalar;
    });
}

std::int64_t executed(const plan::Plan& plan, OpKind kind) {
    const auto ops = executed_ops(plan);
    return std::count_if(ops.begin(), ops.end(), [&](const Op* op) { return op->kind() == kind; });
}

TEST(LossScale, IsAMatterOfFp16Alone) {
    for (const char* precision : {"fp32", "bf16"}) {
        const plan::Plan plan = plan_of({std::string("training.precision=") + precision});
        EXPECT_EQ(executed(plan, OpKind::unscale), 0);
        EXPECT_EQ(executed(plan, OpKind::update_loss_scale), 0);
    }
}

// Each rank's gradients once per step, whatever the micro-batches; of a sharded optimizer its
// shard.
TEST(LossScale, IsTakenOffEveryGradientOnce) {
    for (int zero : {0, 1, 2, 3})
        for (const char* clip : {"0", "1"}) {
            const plan::Plan plan = plan_of({"training.precision=fp16", "layout.data_parallel=4",
                                             set("layout.zero_stage", zero),
                                             std::string("training.optimizer.clip_norm=") + clip});
            std::int64_t elements = 0, held = 0;
            for (const Op* op : executed_ops(plan))
                if (op->kind() == OpKind::unscale) elements += op->size(0);
            for (const plan::Bucket& bucket : plan.programs[0].buckets)
                held += zero >= 1 ? bucket.padded() / 4 : bucket.elements;
            EXPECT_EQ(elements, held);
            EXPECT_EQ(executed(plan, OpKind::update_loss_scale), 1);
        }
}

TEST(LossScale, IsReadWhereBackwardStartsAndItsOverflowWhereTheStepEnds) {
    const plan::Plan plan = plan_of({"training.precision=fp16"});
    bool unscaled = false, normed = false, updated = false;
    for (const Block& block : plan.blocks)
        for (const Op& op : block.ops) {
            if (op.kind() == OpKind::cross_entropy_backward || op.kind() == OpKind::unscale) {
                EXPECT_TRUE(touches(block, op.reads, "loss scale"));
            }
            if (op.kind() == OpKind::unscale) {
                EXPECT_TRUE(touches(block, op.writes, "overflow"));
            }
            if (op.kind() == OpKind::update_loss_scale) {
                EXPECT_TRUE(touches(block, op.reads, "overflow"));
                EXPECT_TRUE(touches(block, op.writes, "loss scale"));
            }
            if (op.kind() == OpKind::adamw) {
                EXPECT_TRUE(touches(block, op.reads, "overflow"));
            }
        }
    for (const Op* op : executed_ops(plan)) {
        if (op->kind() == OpKind::unscale) {
            EXPECT_FALSE(normed) << "gradients are unscaled before their norm";
            unscaled = true;
        }
        normed = normed || op->kind() == OpKind::gradient_norm;
        updated = updated || op->kind() == OpKind::update_loss_scale;
        if (op->kind() == OpKind::adamw) {
            EXPECT_TRUE(unscaled && normed && updated);
        }
    }
}

TEST(LossScale, ThatIsStaticIsNeverUpdated) {
    const plan::Plan plan = plan_of({"training.precision=fp16", "training.loss_scale=4096"});
    EXPECT_GT(executed(plan, OpKind::unscale), 0);
    EXPECT_EQ(executed(plan, OpKind::update_loss_scale), 0);
}

// Overflow is known to whoever holds other parameters or shards: the group of the gradient norm.
TEST(LossScale, FindsOverflowOnEveryRankThatHoldsSomethingElse) {
    const Sets sets = {"training.precision=fp16", "layout.tensor_parallel=2",
                       "layout.pipeline_parallel=2", "layout.data_parallel=2"};
    for (int zero : {0, 1}) {
        Sets with = sets;
        with.push_back(set("layout.zero_stage", zero));
        const plan::Plan plan = plan_of(with);
        const auto group = zero == 0 ? plan::GroupKind::model : plan::GroupKind::world;
        for (std::size_t rank : {0U, 1U}) {
            const auto ops = executed_ops(plan, rank);
            EXPECT_EQ(std::count_if(ops.begin(), ops.end(),
                                    [&](const Op* op) {
                                        return op->label == "overflow" && op->group == group;
                                    }),
                      1);
        }
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
