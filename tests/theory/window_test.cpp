// Attention over a sliding window (Beltagy 2020; Jiang 2023): query i sees the keys i − w + 1 … i.
// Of a sequence s ≥ w these are w(w + 1)/2 + (s − w)·w pairs; the price counts the diagonal of the
// causal triangle by half, as it does without a window: s·w − w²/2.
#include <algorithm>
#include <map>
#include <string>

#include "sim/cost/attention_model.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::OpKind;

const Sets kMistral = {"model.model_type=mistral"};

Sets windowed(std::int64_t window, Sets sets = kMistral) {
    sets.push_back(set("model.sliding_window", window));
    return sets;
}

double priced_pairs(std::int64_t queries, std::int64_t keys, std::int64_t window) {
    sim::AttentionShape shape{1, static_cast<double>(queries), static_cast<double>(keys), 1, 1, 1};
    shape.window = static_cast<double>(window);
    return sim::causal_flops(shape) / 4;
}

TEST(Window, PairsFollowTheClosedForm) {
    for (std::int64_t s : {1, 2, 7, 16, 33})
        for (std::int64_t w = 1; w <= s + 2; ++w) {
            const auto seen = static_cast<double>(std::min(s, w));
            const double all = seen * (seen + 1) / 2 + (static_cast<double>(s) - seen) * seen;
            EXPECT_EQ(priced_pairs(s, s, w), all - seen / 2) << s << ", window " << w;
        }
}

// Counted one by one, also of the last queries alone.
TEST(Window, PairsAreThoseOfTheMask) {
    for (std::int64_t keys : {1, 5, 12})
        for (std::int64_t queries = 1; queries <= keys; ++queries)
            for (std::int64_t w = 0; w <= keys + 1; ++w) {
                double pairs = 0;
                for (std::int64_t i = keys - queries; i < keys; ++i) {
                    for (std::int64_t j = 0; j <= i; ++j)
                        pairs += w == 0 || j > i - w ? 1 : 0;
                    if (w == 0 || i < w) pairs -= 0.5;  // of the triangle's diagonal
                }
                EXPECT_EQ(priced_pairs(queries, keys, w), pairs)
                    << queries << " of " << keys << ", window " << w;
            }
}

TEST(Window, IsInTheShapeOfFusedAttentionAndInItsFlops) {
    const plan::Plan plan = plan_of(windowed(8), kLlama);
    int found = 0;
    for (const plan::Op* op : executed_ops(plan)) {
        if (op->kind() != OpKind::attention && op->kind() != OpKind::attention_backward) continue;
        ++found;
        EXPECT_EQ(op->size(6), 8);
        const double products = op->kind() == OpKind::attention ? 2 : 5;
        EXPECT_EQ(plan::flops(*op), products * 2 * 32 * 8 * 512);
    }
    EXPECT_EQ(found, 8 * 4 * 2) << "micro-batches, layers, directions";
}

// 3·tokens·(2·weights + 4·L·h·w); unfused attention multiplies the whole square.
TEST(Window, ModelFlopsCountItsWidth) {
    const double h = 512, ffn = 1024, layers = 4, vocabulary = 128, tokens = 8 * 32, w = 8, s = 32;
    // Queries and projection; keys and values of half the heads; gate, up and down.
    const double matrices = layers * (2 * h * h + 2 * h * h / 2 + 3 * h * ffn) + vocabulary * h;
    const double model = 3 * tokens * (2 * matrices + 4 * layers * h * w);
    const plan::Plan fused = plan_of(windowed(8), kLlama);
    EXPECT_NEAR(fused.conserved.model_flops_per_step / model, 1, 1e-12);
    EXPECT_NEAR(fused.conserved.hardware_flops_per_step, model + tokens * 2 * layers * h * w,
                1e-12 * model);
    Sets sets = windowed(8);
    sets.push_back("training.attention_kernel=unfused");
    const plan::Plan unfused = plan_of(sets, kLlama);
    EXPECT_EQ(unfused.conserved.model_flops_per_step, fused.conserved.model_flops_per_step);
    EXPECT_NEAR(unfused.conserved.hardware_flops_per_step,
                model + 3 * tokens * 4 * layers * h * (s - w), 1e-12 * model);
}

// Each layer's own: of four layers two see 8 keys.
TEST(Window, ModelFlopsCountThatOfEachLayer) {
    const double h = 512, tokens = 8 * 32, w = 8, s = 32;
    Sets alternating = {"model.model_type=qwen3", "model.head_dim=64",
                        "model.use_sliding_window=true", "model.sliding_window=8",
                        R"(model.layer_types=["sliding_attention", "full_attention",
                                              "full_attention", "sliding_attention"])"};
    const plan::Plan plan = plan_of(alternating, kLlama);
    Sets none = alternating;
    none[2] = "model.use_sliding_window=false";
    none.pop_back();
    const plan::Plan whole = plan_of(none, kLlama);
    EXPECT_NEAR(whole.conserved.model_flops_per_step - plan.conserved.model_flops_per_step,
                3 * tokens * 4 * 2 * h * (s - w), 1e-12 * whole.conserved.model_flops_per_step);
    std::map<std::string, int> parts;
    for (const plan::StagePart& part : plan.programs[0].stages[0].parts)
        ++parts[plan.blocks[static_cast<std::size_t>(part.forward)].name];
    EXPECT_EQ(parts["sliding_layer.forward"], 2);
    EXPECT_EQ(parts["full_layer.forward"], 2);
}

TEST(Window, ThatHoldsTheSequenceIsNone) {
    Sets none = kMistral;
    none.push_back("model.sliding_window=null");
    EXPECT_EQ(plan_of(windowed(32), kLlama), plan_of(none, kLlama));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
