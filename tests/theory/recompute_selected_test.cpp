// Recomputation of a part of a layer, or of some layers, as torchtitan's selective activation
// checkpointing does it (pytorch/torchtitan, apply_ac): by operation it keeps what attention and
// every second product gave, and what was scattered of sums; by layer one layer in k is made again
// whole, the others not at all.
#include <algorithm>

#include "plan/memory/arena.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

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

Sets of_modules(const char* list, const Sets& more = {}) {
    return with({"layout.recompute=selective", std::string("layout.recompute_modules=") + list},
                more);
}

// Korthikanti et al. 2022, table 2, by module, of 16-bit activations without dropout: 2sbh what
// each norm gives, 8sbh either side of the activation, of which a tensor rank has its share.
TEST(RecomputeSelected, ModulesLeaveTheirBytesBehind) {
    for (const std::int64_t t : {1, 2, 4}) {
        const std::int64_t sbh = kTokens * kHidden;
        for (const bool sequence : {false, true}) {
            if (sequence && t == 1) continue;
            const Sets shared = {
                set("layout.tensor_parallel", t),
                std::string("layout.sequence_parallel=") + (sequence ? "true" : "false")};
            const auto left_behind = [&](const char* list) {
                return kept_of(plan_of(shared)) - kept_of(plan_of(of_modules(list, shared)));
            };
            const std::int64_t rows = sequence ? kTokens / t : kTokens;
            // Mean and 1/σ of each row, made again with the result.
            const std::int64_t norms = 2 * (2 * rows * kHidden + 2 * 4 * rows);
            EXPECT_EQ(left_behind(R"(["layernorm"])"), norms);
            EXPECT_EQ(left_behind(R"(["mlp_act"])"), 8 * sbh / t);
            EXPECT_EQ(left_behind(R"(["mlp"])"), 16 * sbh / t);
            EXPECT_EQ(left_behind(R"(["mlp", "layernorm", "core_attn"])"), 16 * sbh / t + norms);
            EXPECT_EQ(left_behind(R"(["core_attn"])"), 0);  // one kernel keeps no scores
        }
    }
}

TEST(RecomputeSelected, ModulesCostTheirProducts) {
    const double per_weight = 2.0 * kTokens * kMicroBatches * kLayers;
    const auto more = [](const char* list, const char* text, const Sets& sets = {}) {
        return plan_of(of_modules(list, sets), text).conserved.hardware_flops_per_step -
               plan_of(sets, text).conserved.hardware_flops_per_step;
    };
    const char* mlp = R"(["mlp"])";
    EXPECT_EQ(more(mlp, kGpt), per_weight * 2 * kHidden * kWide);
    EXPECT_EQ(more(mlp, kLlama), per_weight * 3 * kHidden * kGated);
    EXPECT_EQ(more(mlp, kLlama, kSequence), per_weight * 3 * kHidden * kGated);
    EXPECT_EQ(more(R"(["layernorm", "mlp_act"])", kGpt), 0);
}

// Its input is gathered and its result scattered once more; what is gathered for the weight
// gradient is gathered by itself, as without.
TEST(RecomputeSelected, AnMlpRunsAgainWithItsCollectives) {
    const auto collectives = [](const Plan& plan, plan::OpKind kind, plan::Phase phase) {
        const plan::Block& block = block_named(plan, "layer.backward");
        return std::count_if(block.ops.begin(), block.ops.end(), [&](const plan::Op& op) {
            return op.kind() == kind && op.phase == phase;
        });
    };
    const Plan none = plan_of(kSequence), mlp = plan_of(of_modules(R"(["mlp"])", kSequence));
    for (const auto kind : {plan::OpKind::all_gather, plan::OpKind::reduce_scatter}) {
        EXPECT_EQ(collectives(none, kind, plan::Phase::recompute), 0);
        EXPECT_EQ(collectives(mlp, kind, plan::Phase::recompute), 1);
        EXPECT_EQ(collectives(mlp, kind, plan::Phase::backward),
                  collectives(none, kind, plan::Phase::backward));
    }
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

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
