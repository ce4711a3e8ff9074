// What a layer keeps for its backward, by Korthikanti et al. 2022, table 2 (16-bit, dropout,
// unfused attention, norm statistics aside):
//   no parallelism  sbh(34 + 5as/h)          tensor     sbh(10 + 24/t + 5as/(ht))
//   with sequence   sbh/t(34 + 5as/h)        selective  34sbh/t           full  2sbh, or 2sbh/t
#include <algorithm>

#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace {

using plan::Block;
using plan::Role;
using plan::Tensor;

constexpr std::int64_t s = 32, b = 2, h = 512, a = 8;
constexpr std::int64_t sbh = s * b * h;
constexpr std::int64_t kMaps = 5 * a * s * s * b;  // 5as/h · sbh

std::int64_t stash(const Block& block) {
    std::int64_t bytes = 0;
    for (const Tensor& tensor : block.tensors) {
        const bool statistics =
            tensor.name.size() > 6 && tensor.name.substr(tensor.name.size() - 6) == "_stats";
        if (tensor.role == Role::stash && !statistics) bytes += tensor.bytes();
    }
    return bytes;
}

std::int64_t layer_stash(Sets sets, const char* text = kGpt) {
    sets.push_back(set("layout.micro_batch_size", b));
    return stash(block_named(plan_of(sets, text), "layer.forward"));
}

const Sets kUnfused = {"training.attention_kernel=unfused", "training.dropout=0.1"};

std::int64_t unfused(std::int64_t t, bool sequence_parallel, const char* recompute) {
    Sets sets = kUnfused;
    sets.push_back(set("layout.tensor_parallel", t));
    if (sequence_parallel) sets.push_back("layout.sequence_parallel=true");
    sets.push_back(std::string("layout.recompute=") + recompute);
    return layer_stash(sets);
}

TEST(Stash, OfOneRankIsThirtyFourAndTheMaps) {
    EXPECT_EQ(unfused(1, false, "none"), 34 * sbh + kMaps);
    EXPECT_EQ(unfused(1, false, "selective"), 34 * sbh);
    EXPECT_EQ(unfused(1, false, "full"), 2 * sbh);
}

TEST(Stash, UnderTensorParallelismKeepsTenPartsWhole) {
    for (std::int64_t t : {2, 4, 8}) {
        EXPECT_EQ(unfused(t, false, "none"), 10 * sbh + 24 * sbh / t + kMaps / t);
        EXPECT_EQ(unfused(t, false, "selective"), 10 * sbh + 24 * sbh / t);
        EXPECT_EQ(unfused(t, false, "full"), 2 * sbh);
    }
}

TEST(Stash, UnderSequenceParallelismIsDividedWhole) {
    for (std::int64_t t : {2, 4, 8}) {
        EXPECT_EQ(unfused(t, true, "none"), 34 * sbh / t + kMaps / t);
        EXPECT_EQ(unfused(t, true, "selective"), 34 * sbh / t);
        EXPECT_EQ(unfused(t, true, "full"), 2 * sbh / t);
    }
}

// Flash attention without dropout, from what backward reads: x, its norm, qkv, the context, the
// middle, its norm (2 bytes each; qkv three), fc1's and gelu's outputs (4h each), and the
// log-sum-exp of each row of each head.
TEST(Stash, WithFlashAttentionKeepsTheLogSumExpInPlaceOfTheMaps) {
    const std::int64_t lse = 4 * b * a * s;
    const std::int64_t whole = 2 * (1 + 1 + 1 + 1);  // x, norm, middle, norm
    const std::int64_t sharded = 2 * (3 + 1 + 4 + 4);
    EXPECT_EQ(layer_stash({}), (whole + sharded) * sbh + lse);
    EXPECT_EQ(layer_stash({"layout.recompute=selective"}), (whole + sharded) * sbh + lse)
        << "a fused kernel leaves nothing to selective recomputation";
    for (std::int64_t t : {2, 4}) {
        EXPECT_EQ(layer_stash({set("layout.tensor_parallel", t)}),
                  whole * sbh + sharded * sbh / t + lse / t);
        EXPECT_EQ(layer_stash({set("layout.tensor_parallel", t), "layout.sequence_parallel=true"}),
                  (whole + sharded) * sbh / t + lse / t);
    }
}

// Grouped queries make K and V narrower (here half of Q each), the gated MLP keeps gate and up.
TEST(Stash, OfALlamaFollowsItsWidths) {
    const std::int64_t ffn = 1024;
    const std::int64_t bytes = 2 * s * b * (4 * h + (h + h / 2 + h / 2) + h + 2 * ffn + ffn);
    EXPECT_EQ(layer_stash({}, kLlama), bytes + 4 * b * a * s);
}

// Scenario sizes are those of the formulas.
TEST(Stash, IsAskedOfTheSizesAbove) {
    const plan::Scenario asked = scenario();
    EXPECT_EQ(asked.model.hidden, h);
    EXPECT_EQ(asked.model.heads, a);
    EXPECT_EQ(asked.training.sequence_length, s);
}

// A stage keeps its layers' stashes side by side, each tensor on its own allocation.
TEST(Stash, OfAStageIsTheSumOfItsParts) {
    const plan::Plan plan = plan_of({"layout.pipeline_parallel=2"});
    for (const plan::Program& program : plan.programs) {
        const plan::Stage& stage = program.stages.front();
        std::int64_t bytes = 0;
        for (const plan::StagePart& part : stage.parts) {
            EXPECT_EQ(part.stash_offset, bytes);
            for (const Tensor& tensor : plan.blocks[static_cast<std::size_t>(part.forward)].tensors)
                if (tensor.role == Role::stash) bytes += (tensor.bytes() + 255) / 256 * 256;
            // What a later stage receives, s·b·h of 16 bits, lies in memory of its own.
            if (stage.index > 0 && &part == &stage.parts.front()) bytes -= 2 * sbh / b;
        }
        EXPECT_EQ(stage.stash_bytes, bytes);
    }
}

}  // namespace
}  // namespace orrery::theory
