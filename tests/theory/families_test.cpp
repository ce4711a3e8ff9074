// What the features of the model families cost: collectives of parallel blocks (one reduction in
// place of two: Wang 2021, GPT-J; Chowdhery 2022 §2), what each keeps for its backward, derived
// here from what its derivatives read, and the gradients of vectors that every tensor rank holds.
#include <map>

#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::Block;
using plan::GroupKind;
using plan::Op;
using plan::OpKind;
using plan::Role;
using plan::Tensor;

constexpr std::int64_t s = 32, b = 2, h = 512, a = 8, kv = 4, d = h / a, f = 4 * h;
constexpr std::int64_t kLse = 4 * b * a * s;

std::string world(const std::string& model) {
    return R"({"model": {)" + model + R"(, "vocab_size": 128},
        "cluster": {"nodes": 8, "devices_per_node": 8, "device": "a100-80gb-sxm",
                    "profile": "profiles/a100-80gb-sxm.json",
                    "intra_node": {"kind": "nvswitch", "bandwidth_GBps": 300, "latency_us": 2},
                    "inter_node": {"kind": "infiniband", "nics_per_node": 8,
                                   "bandwidth_Gbps": 200, "latency_us": 5}},
        "layout": {"data_parallel": 1, "global_batch_size": 8, "micro_batch_size": 2},
        "training": {"sequence_length": 32, "framework": "orrery", "vocabulary_multiple": 1,
                     "dropout": 0}})";
}

const std::string kSizes =
    R"("num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8)";
// Grouped queries, parallel branches: one norm for both, or one each.
const std::string kShared = world(R"("model_type": "falcon", "num_kv_heads": 4,
    "new_decoder_architecture": true, "num_ln_in_parallel_attn": 1, )" +
                                  kSizes);
const std::string kSplit = world(R"("model_type": "falcon", "num_kv_heads": 4,
    "new_decoder_architecture": true, )" +
                                 kSizes);
const std::string kBloom =
    world(R"("model_type": "bloom", "n_layer": 4, "hidden_size": 512, "n_head": 8)");
const std::string kOpt =
    world(R"("model_type": "opt", "ffn_dim": 2048, "max_position_embeddings": 64, )" + kSizes);
const std::string kQwen = world(
    R"("model_type": "qwen2", "num_key_value_heads": 4, "intermediate_size": 2048, )" + kSizes);
const std::string kGemma = world(
    R"("model_type": "gemma", "num_key_value_heads": 1, "intermediate_size": 2048, )" + kSizes);

const Sets kTensor = {"layout.tensor_parallel=2"};
const Sets kSequence = {"layout.tensor_parallel=2", "layout.sequence_parallel=true"};

struct Collectives {
    std::int64_t all_reduces = 0, all_gathers = 0, reduce_scatters = 0;
    bool operator==(const Collectives&) const = default;
};

void PrintTo(const Collectives& c, std::ostream* out) {
    *out << c.all_reduces << " all-reduces, " << c.all_gathers << " all-gathers, "
         << c.reduce_scatters << " reduce-scatters";
}

Collectives of_layer(const std::string& text, const Sets& sets, const char* block) {
    const plan::Plan plan = plan_of(sets, text.c_str());
    const Block& layer = block_named(plan, block);
    const Collectives found = {count(layer, OpKind::all_reduce, GroupKind::tensor),
                               count(layer, OpKind::all_gather, GroupKind::tensor),
                               count(layer, OpKind::reduce_scatter, GroupKind::tensor)};
    for (const Op& op : layer.ops) {
        if (op.group != GroupKind::tensor) continue;
        EXPECT_EQ(op.size(0), s * b * h) << op.label;  // the whole hidden state
    }
    return found;
}

TEST(ParallelBlock, WithOneNormReducesOnceEachWay) {
    EXPECT_EQ(of_layer(kShared, kTensor, "layer.forward"), (Collectives{1, 0, 0}));
    EXPECT_EQ(of_layer(kShared, kTensor, "layer.backward"), (Collectives{1, 0, 0}));
    // In the older stack attention and MLP follow each other: twice each way (Shoeybi 2019).
    EXPECT_EQ(of_layer(kBloom, kTensor, "layer.forward"), (Collectives{2, 0, 0}));
    EXPECT_EQ(of_layer(kBloom, kTensor, "layer.backward"), (Collectives{2, 0, 0}));
}

// The branches' gradients pass norms of their own before they meet.
TEST(ParallelBlock, WithANormEachReducesOnceForwardAndTwiceBackward) {
    EXPECT_EQ(of_layer(kSplit, kTensor, "layer.forward"), (Collectives{1, 0, 0}));
    EXPECT_EQ(of_layer(kSplit, kTensor, "layer.backward"), (Collectives{2, 0, 0}));
}

// One gather and one scatter forward; backward the same in reverse, and the input once again for
// both weight gradients. A norm each: its input is gathered per branch.
TEST(ParallelBlock, UnderSequenceParallelismGathersOncePerNorm) {
    EXPECT_EQ(of_layer(kShared, kSequence, "layer.forward"), (Collectives{0, 1, 1}));
    EXPECT_EQ(of_layer(kShared, kSequence, "layer.backward"), (Collectives{0, 2, 1}));
    EXPECT_EQ(of_layer(kSplit, kSequence, "layer.forward"), (Collectives{0, 2, 1}));
    EXPECT_EQ(of_layer(kSplit, kSequence, "layer.backward"), (Collectives{0, 3, 2}));
}

TEST(ParallelBlock, ExecutesTheProductsOfTheLayerInSequence) {
    const double parallel = plan_of({}, kSplit.c_str()).conserved.hardware_flops_per_step;
    const double sequential =
        plan_of({}, world(R"("model_type": "falcon", "num_kv_heads": 4, "multi_query": false,
            "parallel_attn": false, )" +
                          kSizes)
                        .c_str())
            .conserved.hardware_flops_per_step;
    EXPECT_EQ(parallel, sequential);
}

std::int64_t stash_of(const std::string& text, const Sets& sets = {}) {
    const plan::Plan plan = plan_of(sets, text.c_str());
    std::int64_t bytes = 0;
    for (const Tensor& tensor : block_named(plan, "layer.forward").tensors) {
        const bool statistics = tensor.name.find("_stats") != std::string::npos;
        if (tensor.role == Role::stash && !statistics) bytes += tensor.bytes();
    }
    return bytes;
}

// Elements per token, two bytes each: the inputs of norms and products, and what attention and
// activation read again. A parallel block has no middle.
TEST(FamilyStash, OfParallelBlocks) {
    const std::int64_t qkv = h + 2 * kv * d;
    const std::int64_t branches = qkv + h + f + f;  // qkv, context, fc1, activated
    EXPECT_EQ(stash_of(kShared), 2 * s * b * (h + h + branches) + kLse);
    EXPECT_EQ(stash_of(kSplit), 2 * s * b * (h + 2 * h + branches) + kLse);
    EXPECT_EQ(stash_of(kShared, kTensor), 2 * s * b * (h + h + branches / 2) + kLse / 2);
    EXPECT_EQ(stash_of(kSplit, kSequence), 2 * s * b * (3 * h + branches) / 2 + kLse / 2);
}

// The slope of a ReLU is read off its output, which fc2's weight gradient keeps: fc1's output goes.
TEST(FamilyStash, OfAReluLacksTheInputOfItsActivation) {
    const std::int64_t whole = 4 * h + 3 * h + h;  // x, norm, middle, norm; qkv; context
    EXPECT_EQ(stash_of(kBloom), 2 * s * b * (whole + 2 * f) + kLse);
    EXPECT_EQ(stash_of(kOpt), 2 * s * b * (whole + f) + kLse);
}

TEST(FamilyStash, OfGatedFamiliesKeepsGateAndUp) {
    EXPECT_EQ(stash_of(kQwen), 2 * s * b * (4 * h + (h + 2 * kv * d) + h + 3 * f) + kLse);
    const std::int64_t wide = 8 * 256;  // heads of 256, one of keys and values
    EXPECT_EQ(stash_of(kGemma), 2 * s * b * (4 * h + (wide + 2 * 256) + wide + 3 * f) + kLse);
}

// ALiBi is arithmetic within the attention: neither kernel reads or keeps more than without it.
TEST(FamilyStash, OfAlibiHasNoBias) {
    const Sets unfused = {"training.attention_kernel=unfused"};
    const std::int64_t map = 2 * b * a * s * s;
    EXPECT_EQ(stash_of(kBloom, unfused), 2 * s * b * (8 * h + 2 * f) + map);
}

// The embedding's norm keeps what it was given, and is the first thing after the look-up.
TEST(EmbeddingNorm, StandsBetweenTheEmbeddingAndTheFirstLayer) {
    const plan::Plan plan = plan_of({"layout.pipeline_parallel=2"}, kBloom.c_str());
    const auto& parts = plan.programs.front().stages.front().parts;
    const auto name = [&](std::size_t i) {
        return plan.blocks[static_cast<std::size_t>(parts[i].forward)].name;
    };
    EXPECT_EQ(name(0), "embedding.forward");
    EXPECT_EQ(name(1), "embedding_norm.forward");
    EXPECT_EQ(name(2), "layer.forward");
    for (const plan::StagePart& part : plan.programs.back().stages.front().parts)
        EXPECT_NE(plan.blocks[static_cast<std::size_t>(part.forward)].name,
                  "embedding_norm.forward");
}

// Elements of "replicated gradients" that one rank all-reduces over its tensor group in a step.
std::int64_t replicated_reduced(const std::string& text) {
    std::int64_t elements = 0;
    const plan::Plan plan = plan_of(kSequence, text.c_str());
    for (const Op* op : executed_ops(plan))
        if (op->group == GroupKind::tensor && op->label == "replicated gradients")
            elements += op->size(0);
    return elements;
}

TEST(ReplicatedGradientsOfFamilies, AreThoseOfNormsPositionsAndRowBiases) {
    EXPECT_EQ(replicated_reduced(kShared), (4 * 2 + 2) * h);
    EXPECT_EQ(replicated_reduced(kSplit), (4 * 4 + 2) * h);
    EXPECT_EQ(replicated_reduced(kBloom), (4 * 6 + 2 + 2) * h);  // with the embedding's norm
    EXPECT_EQ(replicated_reduced(kOpt), (4 * 6 + 2 + 64 + 2) * h);
    EXPECT_EQ(replicated_reduced(kQwen), (4 * 2 + 1) * h);  // biases of qkv are sharded
}

const std::string kQwen3 = world(
    R"("model_type": "qwen3", "num_key_value_heads": 4, "intermediate_size": 2048, "head_dim": 64, )" +
    kSizes);
const std::string kOlmo2 = world(
    R"("model_type": "olmo2", "num_key_value_heads": 4, "intermediate_size": 2048, )" + kSizes);

// Elements that a plan all-reduces over the tensor group once per step.
std::int64_t reduced_at_the_end(const std::string& text, const Sets& sets) {
    const plan::Plan plan = plan_of(sets, text.c_str());
    std::int64_t elements = 0;
    for (const plan::Procedure& procedure : plan.programs[0].procedures)
        for (const plan::BlockUse& use : procedure.uses)
            for (const Op& op : plan.blocks[static_cast<std::size_t>(use.block)].ops)
                if (use.position < 0 && op.is<plan::AllReduce>() && op.group == GroupKind::tensor)
                    elements += op.size(0);
    return elements;
}

// A weight of all heads is the rank's heads' on each tensor rank, so that its gradient is summed;
// other norms are alike on all ranks unless these share out tokens.
TEST(FamilyTheory, NormsOfHeadsHavePartsOfTheirGradientsOnTensorRanks) {
    EXPECT_EQ(reduced_at_the_end(kQwen3, kTensor), 4 * 2 * d);
    EXPECT_EQ(reduced_at_the_end(kQwen3, kSequence), 4 * (2 * d + 2 * h) + h);
    EXPECT_EQ(reduced_at_the_end(kOlmo2, kTensor), 0);
}

// Beside what a Llama sums over the tensor group, OLMo 2's norms of whole rows sum two numbers a
// row forward and two backward.
TEST(FamilyTheory, NormsOfRowsSumTwoNumbersOverTensorRanks) {
    const plan::Plan plan = plan_of(kTensor, kOlmo2.c_str());
    std::map<std::string, std::vector<std::int64_t>> sums;
    for (const Block& block : plan.blocks)
        for (const Op& op : block.ops)
            if (op.is<plan::AllReduce>() && op.dtype == plan::DType::fp32 &&
                block.name.starts_with("layer."))
                sums[block.name].push_back(op.size(0));
    EXPECT_EQ(sums["layer.forward"], (std::vector<std::int64_t>{2 * b * s}));
    EXPECT_EQ(sums["layer.backward"], (std::vector<std::int64_t>{2 * b * s}));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
