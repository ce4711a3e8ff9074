// FLOPs of a GPT step (Narayanan et al. 2021, §5.1 and appendix): the model's
// 72·B·s·L·h²(1 + s/(6h) + V/(12Lh)), executed with full recomputation
// 96·B·s·L·h²(1 + s/(6h) + V/(16Lh)); logits are not computed again.
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::Block;
using plan::Op;
using plan::Phase;

struct Shape {
    Sets sets;
    double batch, sequence, layers, hidden, vocabulary;
};

const Shape kShapes[] = {
    {{}, 8, 32, 4, 512, 128},
    {{"layout.tensor_parallel=4", "layout.pipeline_parallel=2", "layout.data_parallel=2"},
     8,
     32,
     4,
     512,
     128},
    {{"model.n_layer=6", "model.n_embd=96", "model.n_head=6", "model.vocab_size=384",
      "model.n_positions=64", "training.sequence_length=64", "layout.tensor_parallel=2",
      "layout.sequence_parallel=true", "layout.pipeline_parallel=3", "layout.global_batch_size=12"},
     12,
     64,
     6,
     96,
     384},
};

void expect_relative(double actual, double expected) {
    EXPECT_NEAR(actual / expected, 1.0, 1e-12);
}

double closed_form(const Shape& q, double factor, double logits) {
    return factor * q.batch * q.sequence * q.layers * q.hidden * q.hidden *
           (1 + q.sequence / (6 * q.hidden) + q.vocabulary / (logits * q.layers * q.hidden));
}

// Unfused attention: backward has twice the products of forward, as the formula counts.
plan::Plan unfused(const Shape& shape, const char* recompute) {
    Sets sets = shape.sets;
    sets.push_back("training.attention_kernel=unfused");
    sets.push_back(std::string("layout.recompute=") + recompute);
    return plan_of(sets);
}

TEST(Flops, OfTheModelFollowNarayanan) {
    for (const Shape& shape : kShapes) {
        const plan::Plan plan = unfused(shape, "none");
        expect_relative(plan.conserved.model_flops_per_step, closed_form(shape, 72, 12));
        expect_relative(plan.conserved.hardware_flops_per_step, closed_form(shape, 72, 12));
    }
}

TEST(Flops, OfFullRecomputationFollowNarayanan) {
    for (const Shape& shape : kShapes) {
        const plan::Plan plan = unfused(shape, "full");
        expect_relative(plan.conserved.model_flops_per_step, closed_form(shape, 72, 12));
        expect_relative(plan.conserved.hardware_flops_per_step, closed_form(shape, 96, 16));
    }
}

// Backward reads no result behind the activation but a dropout's mask: without dropout the product
// down, 2·B·s·4h·h, is not repeated where recomputation stops early.
TEST(Flops, OfRecomputationThatStopsEarlyLackTheProductDown) {
    for (const Shape& shape : kShapes) {
        Shape early = shape;
        early.sets.emplace_back("training.dropout=0");
        const double whole = unfused(early, "full").conserved.hardware_flops_per_step;
        early.sets.emplace_back("training.recompute_stops_early=true");
        const double stopped = unfused(early, "full").conserved.hardware_flops_per_step;
        expect_relative(whole - stopped, 8 * shape.batch * shape.sequence * shape.hidden *
                                             shape.hidden * shape.layers);
        early.sets.back() = "training.dropout=0.1";
        early.sets.emplace_back("training.dropout_masks=stored");
        early.sets.emplace_back("training.recompute_stops_early=true");
        expect_relative(unfused(early, "full").conserved.hardware_flops_per_step, whole);
    }
}

// Korthikanti et al. 2022, §5: the attention core again, 4·B·s²·h per layer.
TEST(Flops, OfSelectiveRecomputationAddTheAttentionCore) {
    for (const Shape& shape : kShapes) {
        const double none = unfused(shape, "none").conserved.hardware_flops_per_step;
        const double selective = unfused(shape, "selective").conserved.hardware_flops_per_step;
        // Q·Kᵀ and P·V: 2·B·s²·h each.
        expect_relative(selective - none, 4 * shape.batch * shape.sequence * shape.sequence *
                                              shape.hidden * shape.layers);
    }
}

double block_flops(const Block& block, Phase phase) {
    double sum = 0;
    for (const Op& op : block.ops)
        if (op.phase == phase) sum += plan::flops(op);
    return sum;
}

TEST(Flops, OfFullRecomputationAreExactlyOneForward) {
    for (const char* text : {kGpt, kLlama}) {
        const plan::Plan none = plan_of({}, text);
        const plan::Plan full = plan_of({"layout.recompute=full"}, text);
        const double forward = block_flops(block_named(none, "layer.forward"), Phase::forward);
        EXPECT_GT(forward, 0);
        EXPECT_EQ(block_flops(block_named(full, "layer.forward"), Phase::forward), forward);
        EXPECT_EQ(block_flops(block_named(full, "layer.backward"), Phase::recompute), forward);
        EXPECT_EQ(block_flops(block_named(full, "layer.backward"), Phase::backward),
                  block_flops(block_named(none, "layer.backward"), Phase::backward));
        EXPECT_EQ(block_flops(block_named(none, "layer.backward"), Phase::recompute), 0);
    }
}

// Dao et al. 2022: the fused backward computes the scores again, 5 products for forward's 2.
TEST(Flops, OfFusedAttentionBackwardAreFiveProducts) {
    const plan::Plan plan = plan_of();
    double forward = 0;
    double backward = 0;
    for (const Op& op : block_named(plan, "layer.forward").ops)
        if (op.kind() == plan::OpKind::attention) forward += plan::flops(op);
    for (const Op& op : block_named(plan, "layer.backward").ops)
        if (op.kind() == plan::OpKind::attention_backward) backward += plan::flops(op);
    EXPECT_EQ(forward, 4.0 * 32 * 32 * 512);  // b = 1: 4·s²·h
    EXPECT_EQ(backward, 2.5 * forward);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
