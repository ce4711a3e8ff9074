// Recomputation of a part of a layer, or of some layers, as torchtitan's selective activation
// checkpointing does it (pytorch/torchtitan, apply_ac): by operation it keeps what attention and
// every second product gave, and what was scattered of sums; by layer one layer in k is made again
// whole, the others not at all.
#include "plan/memory/arena.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace {

using plan::Plan;
using plan::Role;
using plan::StagePart;
using plan::Tensor;

// A step of kLlama and kGpt.
constexpr std::int64_t kTokens = 32, kHidden = 512, kHeads = 8, kLayers = 4, kMicroBatches = 8;
constexpr std::int64_t kKeys = 256, kGated = 1024, kWide = 2048;

const Sets kByOp = {"layout.recompute=selective_op"};
const Sets kSequence = {"layout.tensor_parallel=2", "layout.sequence_parallel=true"};

Sets with(Sets sets, const Sets& more) {
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
}

std::int64_t kept_of(const Plan& plan) {
    std::int64_t bytes = 0;
    for (const Tensor& tensor : block_named(plan, "layer.forward").tensors)
        if (tensor.role == Role::stash) bytes += tensor.bytes();
    return bytes;
}

TEST(RecomputeSelected, KeepsEverySecondProductAndAttention) {
    const std::int64_t statistics = 4 * kHeads * kTokens;
    // Input, queries with keys and values, context, gate.
    EXPECT_EQ(kept_of(plan_of(kByOp, kLlama)),
              2 * kTokens * (kHidden + (kHidden + 2 * kKeys) + kHidden + kGated) + statistics);
    // Without a gate the first product of the MLP is kept whole.
    EXPECT_EQ(kept_of(plan_of(kByOp, kGpt)),
              2 * kTokens * (kHidden + 3 * kHidden + kHidden + kWide) + statistics);
    // Of sharded tokens a share of the input, and the sum that was scattered to shares of it.
    EXPECT_EQ(
        kept_of(plan_of(with(kByOp, kSequence), kLlama)),
        2 * kTokens * (2 * kHidden / 2 + (kHidden + 2 * kKeys) / 2 + kHidden / 2 + kGated / 2) +
            statistics / 2);
}

double made_again(const Sets& sets, const char* text) {
    Sets none = sets;
    none.push_back("layout.recompute=none");
    return plan_of(sets, text).conserved.hardware_flops_per_step -
           plan_of(none, text).conserved.hardware_flops_per_step;
}

TEST(RecomputeSelected, MakesProjectionAndUpAgain) {
    const double per_weight = 2.0 * kTokens * kMicroBatches * kLayers;
    EXPECT_EQ(made_again(kByOp, kLlama), per_weight * kHidden * (kHidden + kGated));
    EXPECT_EQ(made_again(kByOp, kGpt), per_weight * kHidden * kHidden);
    // What was scattered need not be summed again, nor made.
    EXPECT_EQ(made_again(with(kByOp, kSequence), kLlama), per_weight * kHidden * kGated);
    // In eight bits as in sixteen.
    EXPECT_EQ(
        made_again(with(kByOp, {"training.precision=fp8", "training.fp8_recipe=rowwise"}), kLlama),
        per_weight * kHidden * (kHidden + kGated));
}

TEST(RecomputeSelected, OneLayerInSoManyIsMadeAgainWhole) {
    const auto recomputed = [](const Plan& plan) {
        std::vector<std::int32_t> layers;
        for (const plan::Program& program : plan.programs)
            for (const plan::Stage& stage : program.stages)
                for (const StagePart& part : stage.parts) {
                    const plan::Block& block = plan.blocks[static_cast<std::size_t>(part.backward)];
                    if (part.layer >= 0 && block.ops.front().phase == plan::Phase::recompute)
                        layers.push_back(part.layer);
                }
        return layers;
    };
    const Sets second = {"layout.recompute=selective_layer"};
    EXPECT_EQ(recomputed(plan_of(second)), (std::vector{1, 3}));
    EXPECT_EQ(recomputed(plan_of(with(second, {"layout.recompute_every=3"}))), std::vector{2});
    // Over the layers of the model, whatever stage they are in.
    EXPECT_EQ(recomputed(plan_of(
                  with(second, {"layout.pipeline_parallel=2", "layout.layers_per_stage=[1,3]"}))),
              (std::vector{1, 3}));
    EXPECT_EQ(made_again(second, kLlama), made_again({"layout.recompute=full"}, kLlama) / 2);
}

}  // namespace
}  // namespace orrery::theory
