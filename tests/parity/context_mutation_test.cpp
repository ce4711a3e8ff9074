// Faults of context parallelism that the parity of layouts must find: each is planted in a plan
// that is performed, and what layouts agree on must then be another.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "plan/assemble/build_plan.hpp"
#include "plan/checks/operand_faults.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

using plan::Op;
using plan::OpKind;

const Sets kRing = {"layout.context_parallel=4", "training.precision=fp64"};

const Trained& sound() {
    static const Trained run = [] {
        RunOptions options;
        options.steps = 3;
        return train(scenario(kLlama, kRing), options);
    }();
    return run;
}

// Whether a run whose ops are changed so is told apart from the sound one; `change` says whether it
// changed the op.
bool is_found(const std::function<bool(Op&)>& change) {
    int changed = 0;
    const auto plant = [&](plan::Plan& plan) {
        for (plan::Block& block : plan.blocks)
            for (Op& op : block.ops)
                changed += change(op) ? 1 : 0;
    };
    plan::Plan planned = plan::build_plan(scenario(kLlama, kRing));
    plant(planned);
    EXPECT_GT(changed, 0) << "no fault was planted";
    if (!plan::operand_faults(planned.blocks, planned.mesh).empty())
        return true;  // it is not performed
    RunOptions faulty;
    faulty.steps = 3;
    faulty.change_plan = plant;
    const Trained found = train(scenario(kLlama, kRing), faulty);
    if (!found.disagreement.empty()) return true;
    for (std::size_t i = 0; i < sound().losses.size(); ++i)
        if (!(std::abs(found.losses[i] / sound().losses[i] - 1) <= 1e-13)) return true;
    return !(difference(found.gradients, sound().gradients).relative <= 1e-12);
}

TEST(ContextMutation, AnUnchangedPlanIsSound) {
    EXPECT_FALSE(is_found([](Op& op) { return op.kind() == OpKind::attention_block; }));
}

// Keys of another rank than those that came: wrong positions, and the wrong half is masked.
TEST(ContextMutation, KeysAtTheWrongPositionsAreFound) {
    for (const OpKind kind : {OpKind::attention_block, OpKind::attention_block_backward})
        EXPECT_TRUE(is_found([&](Op& op) {
            if (op.kind() != kind || op.size(6) != 2) return false;
            if (kind == OpKind::attention_block)
                op.as<plan::AttentionBlock>().hop = 1;
            else
                op.as<plan::AttentionBlockBackward>().hop = 1;
            return true;
        })) << name(kind);
}

TEST(ContextMutation, AForgottenMergeIsFound) {
    EXPECT_TRUE(is_found([](Op& op) {
        if (op.kind() != OpKind::attention_block || op.size(6) != 2) return false;
        op.reads.resize(2);
        return true;
    }));
}

TEST(ContextMutation, QueriesWhoseGradientsAreNotSummedUpAreFound) {
    EXPECT_TRUE(is_found([](Op& op) {
        if (op.kind() != OpKind::attention_block_backward || op.size(6) != 2) return false;
        op.reads.resize(5);
        return true;
    }));
}

// What the other ranks found of a rank's keys is left where it is.
TEST(ContextMutation, GradientsOfKeysThatDoNotComeHomeAreFound) {
    EXPECT_TRUE(is_found([](Op& op) {
        if (op.kind() != OpKind::shift || op.label != "dkv home") return false;
        op.reads.clear();
        op.writes.clear();
        return true;
    }));
}

TEST(ContextMutation, KeysThatStayAreFound) {
    EXPECT_TRUE(is_found([](Op& op) {
        if (op.kind() != OpKind::shift || op.label != "kv 2") return false;
        op.reads.clear();
        op.writes.clear();
        return true;
    }));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
