// Recomputation in groups of k layers (Chen et al. 2016, arXiv 1604.06174): a stage keeps one input
// per group, 2sbh bytes (÷ t under sequence parallelism); backward holds what one group's layers
// keep, makes one more forward pass, and both are least, O(√L), where groups and their layers are
// as many.
#include <algorithm>
#include <cmath>

#include "plan/memory/arena.hpp"
#include "plan/text/text.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::Block;
using plan::Phase;
using plan::Plan;
using plan::Program;
using plan::Role;
using plan::StagePart;
using plan::Tensor;

constexpr std::int64_t s = 32, b = 1, h = 512;
constexpr std::int64_t kInput = 2 * s * b * h;

Sets every(const std::string& k, std::int64_t layers, const Sets& more = {}) {
    Sets sets = {"layout.recompute=every_k", "layout.recompute_every=" + k,
                 set("model.n_layer", layers)};
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
}

const Block& block_of(const Plan& plan, std::int32_t id) {
    return plan.blocks[static_cast<std::size_t>(id)];
}

// What the layers of a stage keep from forward to backward.
std::int64_t kept_by_layers(const Plan& plan, const plan::Stage& stage) {
    std::int64_t bytes = 0;
    for (const StagePart& part : stage.parts)
        if (part.layer >= 0)
            for (const Tensor& tensor : block_of(plan, part.forward).tensors)
                if (tensor.role == Role::stash) bytes += tensor.bytes();
    return bytes;
}

std::int64_t recomputed_bytes(const Program& program) {
    return program.recomputed < 0
               ? 0
               : program.residents[static_cast<std::size_t>(program.recomputed)].bytes;
}

TEST(RecomputeEvery, OneLayerIsFullRecomputation) {
    for (const char* text : {kGpt, kLlama}) {
        const Sets world = {"layout.tensor_parallel=2", "layout.pipeline_parallel=2",
                            "layout.data_parallel=2"};
        Sets one = world;
        one.push_back("layout.recompute=every_k");
        one.push_back("layout.recompute_every=1");
        Sets full = world;
        full.push_back("layout.recompute=full");
        const Plan by_one = plan_of(one, text);
        const Plan whole = plan_of(full, text);
        EXPECT_EQ(plan::to_text(by_one), plan::to_text(whole));
        EXPECT_TRUE(by_one == whole);
    }
}

TEST(RecomputeEvery, KeepsTheInputOfEachGroup) {
    for (std::int64_t layers : {4, 7, 12})
        for (std::int64_t k = 1; k <= layers; ++k) {
            const Plan plan = plan_of(every(std::to_string(k), layers));
            const std::int64_t groups = (layers + k - 1) / k;
            EXPECT_EQ(kept_by_layers(plan, plan.programs[0].stages[0]), groups * kInput)
                << layers << " by " << k;
        }
    const Plan sharded =
        plan_of(every("3", 7, {"layout.tensor_parallel=4", "layout.sequence_parallel=true"}));
    EXPECT_EQ(kept_by_layers(sharded, sharded.programs[0].stages[0]), 3 * kInput / 4);
}

// All but the last layer of a group keep what a layer without recomputation keeps, the first one's
// input apart; the last one its input.
TEST(RecomputeEvery, HoldsOneGroupDuringBackward) {
    const plan::Plan none = plan_of();
    const plan::Block& layer = block_named(none, "layer.forward");
    std::int64_t whole = 0;  // each tensor on its own allocation, as in the stash
    for (const Tensor& tensor : layer.tensors)
        if (tensor.role == Role::stash) whole += (tensor.bytes() + 255) / 256 * 256;
    for (std::int64_t k = 2; k <= 8; ++k) {
        const Plan plan = plan_of(every(std::to_string(k), 8));
        const Program& program = plan.programs[0];
        EXPECT_EQ(recomputed_bytes(program), (k - 1) * whole);
        // At the end of forward it is not alive, in backward it is.
        const auto live = plan::live_bytes_by_step(plan, program);
        std::int64_t forward = 0, backward = 0;
        for (std::size_t i = 0; i < program.steps.size(); ++i) {
            const plan::ActionKind kind = program.steps[i].action.kind;
            if (kind == plan::ActionKind::forward) forward = std::max(forward, live[i]);
            if (kind == plan::ActionKind::backward) backward = std::max(backward, live[i]);
        }
        EXPECT_GE(backward, forward + recomputed_bytes(program) - kInput);
    }
}

TEST(RecomputeEvery, ExecutesOneMoreForward) {
    for (const char* k : {"1", "2", "3", "sqrt"})
        for (const Sets& more :
             {Sets{}, Sets{"layout.tensor_parallel=2", "layout.sequence_parallel=true",
                           "layout.pipeline_parallel=2"}}) {
            const Sets with = every(k, 6, more);
            Sets none = more;
            none.push_back("model.n_layer=6");
            Sets full = none;
            full.push_back("layout.recompute=full");
            const plan::Conserved got = plan_of(with).conserved;
            EXPECT_EQ(got.hardware_flops_per_step, plan_of(full).conserved.hardware_flops_per_step);
            EXPECT_GT(got.hardware_flops_per_step, plan_of(none).conserved.hardware_flops_per_step);
        }
}

// Narayanan et al. 2021: 96·B·s·L·h²(1 + s/(6h) + V/(16Lh)).
TEST(RecomputeEvery, FlopsFollowNarayanan) {
    const plan::Conserved got =
        plan_of(every("3", 6, {"training.attention_kernel=unfused"})).conserved;
    const double batch = 8, layers = 6, width = h, vocabulary = 128;
    const double expected = 96 * batch * s * layers * width * width *
                            (1 + s / (6 * width) + vocabulary / (16 * layers * width));
    EXPECT_NEAR(got.hardware_flops_per_step / expected, 1.0, 1e-12);
}

// The recomputed forward pass has its tensor-parallel collectives too, each layer's once.
TEST(RecomputeEvery, RunsEachLayersForwardOnceMore) {
    const Plan plan =
        plan_of(every("3", 8, {"layout.tensor_parallel=2", "layout.global_batch_size=1"}));
    std::int64_t forward = 0, recompute = 0, collectives = 0;
    for (const plan::Op* op : executed_ops(plan)) {
        if (op->kind() == plan::OpKind::attention)
            (op->phase == Phase::recompute ? recompute : forward) += 1;
        collectives += op->kind() == plan::OpKind::all_reduce && op->phase == Phase::recompute;
    }
    EXPECT_EQ(forward, 8);
    EXPECT_EQ(recompute, 8);
    EXPECT_EQ(collectives, 2 * 8);
}

// With groups of k, L/k inputs and k layers' activations are held: the sum of both counts is least
// at k = √L, and there grows with √L. In bytes a layer keeps far more than its input, so that
// smaller groups are leaner still: x·L/k + S·(k − 1) is least at √(L·x/S).
TEST(RecomputeEvery, HoldsInTheOrderOfTheRoot) {
    for (std::int64_t layers : {16, 36, 64}) {
        const auto root = static_cast<std::int64_t>(std::lround(std::sqrt(layers)));
        plan::Layout layout;
        layout.recompute = plan::Recompute::every_k;
        EXPECT_EQ(plan::layers_per_group(layout, layers), root);
        for (std::int64_t k = 1; k <= layers; ++k)
            EXPECT_GE((layers + k - 1) / k + k, layers / root + root);
        const Plan plan = plan_of(every("sqrt", layers));
        const plan::Plan unit = plan_of(every("2", layers));
        const std::int64_t one_layer = recomputed_bytes(unit.programs[0]);
        EXPECT_EQ(kept_by_layers(plan, plan.programs[0].stages[0]), layers / root * kInput);
        EXPECT_EQ(recomputed_bytes(plan.programs[0]), (root - 1) * one_layer);
    }
}

TEST(RecomputeEvery, TheRootIsRounded) {
    plan::Layout layout;
    layout.recompute = plan::Recompute::every_k;
    for (std::int64_t layers = 0; layers <= 400; ++layers)
        EXPECT_EQ(plan::layers_per_group(layout, layers),
                  std::max<std::int64_t>(1, std::lround(std::sqrt(static_cast<double>(layers)))))
            << layers;
}

// ZeRO-3 gathers layer by layer: once in forward, and for backward once more, twice for the layers
// that a group runs again before its backward.
TEST(RecomputeEvery, GathersLayerByLayer) {
    const Sets world = {"layout.data_parallel=4", "layout.zero_stage=3",
                        "layout.global_batch_size=4"};
    const auto gathers = [&](const Plan& plan) {
        std::int64_t count = 0;
        for (const plan::Op* op : executed_ops(plan))
            count += op->kind() == plan::OpKind::all_gather && op->group == plan::GroupKind::data;
        return count;
    };
    const auto ring_bytes = [](const Plan& plan) {
        std::int64_t bytes = 0;
        const Program& program = plan.programs[0];
        for (std::int32_t slot : program.parameter_ring)
            bytes += program.residents[static_cast<std::size_t>(slot)].bytes;
        return bytes;
    };
    const Plan alone = plan_of(every("1", 8, world));
    const Plan grouped = plan_of(every("4", 8, world));
    EXPECT_EQ(gathers(grouped), gathers(alone) + 8 - 2);
    EXPECT_GT(ring_bytes(alone), 0);
    EXPECT_EQ(ring_bytes(grouped), ring_bytes(alone));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
