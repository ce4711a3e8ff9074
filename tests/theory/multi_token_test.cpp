// Multi-token prediction against its closed forms (DeepSeek-AI 2024, arXiv 2412.19437,
// section 2.2): what it computes, holds, keeps, sends, and counts for.
#include <algorithm>

#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::Plan;

constexpr std::int64_t kTokens = 32, kHidden = 512, kHeads = 8, kFfn = 1024, kLayers = 4,
                       kVocabulary = 128;

// A Llama as Megatron-LM's arguments spell it.
constexpr const char* kModel =
    R"(model={"model_type": "megatron", "num_layers": 4, "hidden_size": 512,
              "num_attention_heads": 8, "ffn_hidden_size": 1024, "swiglu": true,
              "position_embedding_type": "rope", "normalization": "RMSNorm",
              "add_bias_linear": false, "hidden_dropout": 0, "attention_dropout": 0,
              "untie_embeddings_and_output_weights": true, "vocab_size": 128,
              "mtp_num_layers": )";

Plan plan_with(std::int64_t mtp, const Sets& more = {}) {
    Sets sets = {kModel + std::to_string(mtp) + "}"};
    sets.insert(sets.end(), more.begin(), more.end());
    return plan_of(sets, kLlama);
}

// A layer, three norms, a projection of two states to one.
constexpr std::int64_t kLayer = 4 * kHidden * kHidden + 3 * kHidden * kFfn + 2 * kHidden;
constexpr std::int64_t kFurther = kLayer + 3 * kHidden + 2 * kHidden * kHidden;

TEST(MultiToken, AddsALayerThreeNormsAndAProjection) {
    const Plan without = plan_with(0), with = plan_with(1);
    EXPECT_EQ(with.conserved.parameters - without.conserved.parameters, kFurther);
    // Of a token, forward: two FLOPs a weight, those of the head again, and its attention,
    // unmasked.
    const std::int64_t weights =
        kLayer - 2 * kHidden + 2 * kHidden * kHidden + kVocabulary * kHidden;
    const std::int64_t attention = 4 * kTokens * kHidden;
    EXPECT_EQ(with.conserved.model_flops_per_step - without.conserved.model_flops_per_step,
              3.0 * static_cast<double>(8 * kTokens * (2 * weights + attention)));
}

// As the figures of its authors' release add up: 671,026,404,352 without.
TEST(MultiToken, OfDeepSeekV3HasElevenBillionParameters) {
    const plan::ReadResult read =
        plan::read_scenario(library() + "/runs/deepseek-v3-h800x2048.json", {}, library());
    ASSERT_TRUE(read.scenario.has_value());
    plan::Scenario scenario = *read.scenario;
    ASSERT_EQ(scenario.model.mtp_layers, 1);
    EXPECT_EQ(plan::build_plan(scenario).conserved.parameters, 671'026'404'352 + 11'610'067'968);
}

// Where the ends of a pipeline are apart, the last stage has a table of its own, and the two ends
// sum its gradient; where one rank has both, it holds the table once and two sums of gradients.
TEST(MultiToken, SharesTheEmbedding) {
    const auto sums = [](const plan::Program& program) {
        std::int64_t elements = 0;
        for (const plan::Step& step : program.steps)
            elements += step.action.kind == plan::ActionKind::reduce_tied ? 1 : 0;
        return elements;
    };
    const auto held = [](const plan::Program& program) {
        std::int64_t elements = 0;
        for (const plan::Bucket& bucket : program.buckets)
            elements += bucket.elements;
        return elements;
    };
    const Plan apart = plan_with(1, {"layout.pipeline_parallel=2"});
    const std::int64_t table = kVocabulary * kHidden;
    EXPECT_EQ(held(apart.programs[0]), 2 * kLayer + table);
    EXPECT_EQ(held(apart.programs[1]), 2 * kLayer + kHidden + kFurther + 2 * table);
    for (const plan::Program& program : apart.programs)
        EXPECT_EQ(sums(program), 1);
    for (const Sets& sets : {Sets{}, Sets{"layout.pipeline_parallel=2", "layout.virtual_pipeline=2",
                                          "layout.schedule=zb-v"}}) {
        const Plan together = plan_with(1, sets);
        std::int64_t all = 0, second_sums = 0;
        for (const plan::Program& program : together.programs) {
            all += held(program);
            EXPECT_EQ(sums(program), 0);
            for (const plan::Bucket& bucket : program.buckets)
                second_sums += bucket.tied_elements;
        }
        EXPECT_EQ(all, kLayers * kLayer + kHidden + kFurther + 2 * table);
        EXPECT_EQ(second_sums, table);
    }
}

// Of the further loss a row counts by the factor, and for the mean over the s − 1 tokens of a
// sequence that have a target so far ahead.
TEST(MultiToken, CountsByItsFactorOverValidTokens) {
    const Plan plan = plan_with(1, {"training.mtp_loss_scaling_factor=0.3"});
    std::vector<double> weights, means;
    for (const plan::Op& op : block_named(plan, "head.backward").ops)
        if (op.is<plan::CrossEntropyBackward>())
            weights.push_back(op.as<plan::CrossEntropyBackward>().weight);
    for (const plan::Op& op : block_named(plan, "head.forward").ops)
        if (op.is<plan::CrossEntropy>()) means.push_back(op.as<plan::CrossEntropy>().weight);
    const double valid = static_cast<double>(kTokens) / static_cast<double>(kTokens - 1);
    EXPECT_EQ(weights, (std::vector<double>{0.3 * valid, 1}));  // the last first
    EXPECT_EQ(means, (std::vector<double>{1, valid}));
}

// Two-byte activations beside those of the layer: the state and the embedding that its norms read,
// what the projection reads, what the last norm reads; 1/σ of three norms.
TEST(MultiToken, KeepsWhatItsNormsAndProjectionRead) {
    for (const std::int64_t tensor : {1, 2}) {
        Sets sets;
        if (tensor > 1)
            sets = {set("layout.tensor_parallel", tensor), "layout.sequence_parallel=true"};
        const Plan plan = plan_with(1, sets);
        std::int64_t bytes = 0;
        for (const plan::Tensor& tensor_of : block_named(plan, "mtp_layer.forward").tensors)
            if (tensor_of.role == plan::Role::stash) bytes += tensor_of.bytes();
        const std::int64_t rows = kTokens / tensor;
        EXPECT_EQ(bytes - kept_of(plan), 2 * rows * 5 * kHidden + 3 * 4 * rows);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
