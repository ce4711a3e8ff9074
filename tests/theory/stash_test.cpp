// What a layer keeps for its backward, by Korthikanti et al. 2022, table 2 (16-bit, dropout,
// unfused attention, norm statistics aside):
//   no parallelism  sbh(34 + 5as/h)          tensor     sbh(10 + 24/t + 5as/(ht))
//   with sequence   sbh/t(34 + 5as/h)        selective  34sbh/t           full  2sbh, or 2sbh/t
#include <algorithm>

#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

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

struct Sizes {
    std::int64_t s, b, h, a;
    std::int64_t sbh() const { return s * b * h; }
    std::int64_t maps() const { return 5 * a * s * s * b; }  // 5as/h · sbh
};

const Sizes kSizes[] = {{32, 2, 512, 8}, {64, 1, 768, 24}, {128, 3, 256, 16}};

std::int64_t unfused(const Sizes& q, std::int64_t t, bool sequence_parallel,
                     const char* recompute) {
    return stash(block_named(
        plan_of({"training.attention_kernel=unfused", "training.dropout=0.1",
                 "training.dropout_masks=stored", "training.precision=fp16",
                 set("training.sequence_length", q.s), set("model.n_positions", q.s),
                 set("model.n_embd", q.h), set("model.n_head", q.a),
                 set("layout.micro_batch_size", q.b), set("layout.global_batch_size", q.b),
                 set("layout.tensor_parallel", t),
                 std::string("layout.sequence_parallel=") + (sequence_parallel ? "true" : "false"),
                 std::string("layout.recompute=") + recompute}),
        "layer.forward"));
}

TEST(Stash, OfOneRankIsThirtyFourAndTheMaps) {
    for (const Sizes& q : kSizes) {
        EXPECT_EQ(unfused(q, 1, false, "none"), 34 * q.sbh() + q.maps());
        EXPECT_EQ(unfused(q, 1, false, "selective"), 34 * q.sbh());
        EXPECT_EQ(unfused(q, 1, false, "full"), 2 * q.sbh());
    }
}

TEST(Stash, UnderTensorParallelismKeepsTenPartsWhole) {
    for (const Sizes& q : kSizes)
        for (std::int64_t t : {2, 4, 8}) {
            const std::int64_t layer = 10 * q.sbh() + 24 * q.sbh() / t;
            EXPECT_EQ(unfused(q, t, false, "none"), layer + q.maps() / t);
            EXPECT_EQ(unfused(q, t, false, "selective"), layer);
            EXPECT_EQ(unfused(q, t, false, "full"), 2 * q.sbh());
        }
}

TEST(Stash, UnderSequenceParallelismIsDividedWhole) {
    for (const Sizes& q : kSizes)
        for (std::int64_t t : {2, 4, 8}) {
            EXPECT_EQ(unfused(q, t, true, "none"), 34 * q.sbh() / t + q.maps() / t);
            EXPECT_EQ(unfused(q, t, true, "selective"), 34 * q.sbh() / t);
            EXPECT_EQ(unfused(q, t, true, "full"), 2 * q.sbh() / t);
        }
}

// Without masks: two of sbh bytes, and one of the attention maps' five parts, are not kept.
TEST(Stash, WithRecomputedMasksLacksTheirBytes) {
    const Sets unfused_dropout = {"training.attention_kernel=unfused", "training.dropout=0.1"};
    EXPECT_EQ(layer_stash(unfused_dropout), 32 * sbh + kMaps / 5 * 4);
    Sets selective = unfused_dropout;
    selective.push_back("layout.recompute=selective");
    EXPECT_EQ(layer_stash(selective), 32 * sbh);
}

// The loss keeps its logits, a maximum and two sums per token and the targets; an fp32 copy of the
// logits takes the place of those of 16 bits.
TEST(Stash, OfTheHeadIsItsLogits) {
    const std::int64_t v = 128;
    const std::int64_t small = b * s * (4 + 8 + 4);
    const Sets sets = {set("layout.micro_batch_size", b)};
    const std::int64_t x = 2 * sbh;
    EXPECT_EQ(stash(block_named(plan_of(sets), "head.forward")), x + small + 2 * b * s * v);
    for (std::int64_t t : {1, 2, 4}) {
        Sets wide = sets;
        wide.push_back("training.loss_logits=in_place");
        wide.push_back("training.logits_dtype=fp32");
        wide.push_back(set("layout.tensor_parallel", t));
        const plan::Plan plan = plan_of(wide);
        EXPECT_EQ(stash(block_named(plan, "head.forward")), x + small + 4 * b * s * v / t);
        // The 16-bit gradient that the products read is made beside it: 6 bytes at the peak.
        EXPECT_GE(block_named(plan, "head.backward").scratch_bytes, 2 * b * s * v / t);
    }
}

// What a fused loss moves: the logits are read once for their maximum and sum, and once more when
// their gradient is written over them; with a pass of its own for the maximum once more.
TEST(Stash, AFusedLossReadsItsLogitsOnceLess) {
    const std::int64_t v = 128, logits = 2 * b * s * v;
    const auto moved = [&](const Sets& sets) {
        Sets all = {set("layout.micro_batch_size", b)};
        all.insert(all.end(), sets.begin(), sets.end());
        const plan::Plan plan = plan_of(all);
        double bytes = 0;
        for (const char* name : {"head.forward", "head.backward"}) {
            const Block& block = block_named(plan, name);
            for (const plan::Op& op : block.ops)
                if (op.is<plan::CrossEntropyMax>() || op.is<plan::CrossEntropySum>() ||
                    op.is<plan::CrossEntropyBackward>())
                    bytes += plan::bytes_moved(block, op);
        }
        return bytes;
    };
    const Sets fused = {"training.loss_logits=fused"}, apart = {"training.loss_logits=in_place"};
    // The maximum is written and read again by the sum, 4 bytes a token each.
    EXPECT_EQ(moved(apart) - moved(fused), static_cast<double>(logits + 4 * b * s));
    EXPECT_EQ(moved({}), moved(fused));  // as is Orrery's default
    // Ranks that share out the words agree on the maximum before they sum.
    const std::string tp2 = "layout.tensor_parallel=2";
    EXPECT_EQ(moved({fused[0], tp2}), moved({apart[0], tp2}));
    // It reads 16 bits, whatever other losses of the stack do.
    EXPECT_EQ(moved({"training.loss_logits=fused", "training.logits_dtype=fp32"}), moved(fused));
}

// In n chunks: forward keeps the head's input and the targets, backward has the logits of one chunk
// at a time; and no product is made twice.
TEST(Stash, OfALossInChunksIsItsInput) {
    const std::int64_t v = 128, chunks = 4, tokens = b * s;
    for (const std::int64_t t : {1, 2, 4})
        for (const bool sequence : {false, true}) {
            if (sequence && t == 1) continue;
            const Sets whole = {
                set("layout.micro_batch_size", b), set("layout.tensor_parallel", t),
                std::string("layout.sequence_parallel=") + (sequence ? "true" : "false")};
            Sets in_chunks = whole;
            in_chunks.push_back(set("training.loss_chunks", chunks));
            const plan::Plan plan = plan_of(in_chunks), plain = plan_of(whole);
            EXPECT_TRUE(block_named(plan, "head.forward").ops.empty());
            EXPECT_EQ(stash(block_named(plan, "head.forward")),
                      2 * sbh / (sequence ? t : 1) + 4 * tokens);
            const std::int64_t logits = 2 * tokens * v / t / chunks;
            std::int64_t widest = 0;
            for (const Tensor& tensor : block_named(plan, "head.backward").tensors)
                if (tensor.role == Role::scratch && tensor.dims.back() == v / t)
                    widest = std::max(widest, tensor.bytes());
            EXPECT_EQ(widest, logits);
            // Beside them the gradient of the input, whole, the input gathered, and per token of a
            // chunk a maximum and two sums.
            const std::int64_t beside = (sequence ? 2 : 1) * 2 * sbh + 12 * tokens;
            EXPECT_LE(block_named(plan, "head.backward").scratch_bytes, logits + beside + 8 * 256);
            EXPECT_EQ(plan.conserved.hardware_flops_per_step,
                      plain.conserved.hardware_flops_per_step);
        }
}

// PyTorch's loss: 16-bit logits, their fp32 copy and log-probabilities side by side forward (10
// bytes); backward keeps the log-probabilities, beside their gradient and that of the logits (12).
// Of logits that are gathered every tensor rank has all.
TEST(Stash, OfALossThatCopiesItsLogitsIsTwelveBytesAWord) {
    const std::int64_t words = b * s * 128;
    for (std::int64_t t : {1, 2, 4})
        for (const bool gathered : {false, true}) {
            const plan::Plan plan = plan_of(
                {set("layout.micro_batch_size", b), set("layout.tensor_parallel", t),
                 "training.logits_dtype=fp32",
                 std::string("training.loss_logits=") + (gathered ? "gathered" : "copied")});
            const std::int64_t held = gathered ? words : words / t;
            const Block& backward = block_named(plan, "head.backward");
            const std::int64_t small = b * s * (4 + 8 + 4);
            EXPECT_EQ(stash(block_named(plan, "head.forward")), 2 * sbh + small + 4 * held);
            EXPECT_GE(block_named(plan, "head.forward").scratch_bytes, (2 + 4) * held);
            EXPECT_GE(backward.scratch_bytes, (4 + 4) * held);
            EXPECT_LE(backward.scratch_bytes, (4 + 4 + 2) * held + 4 * sbh);
        }
}

// Each of a layer's two norms keeps its input in fp32 and its result before the weight, 6 bytes per
// element, and what one rank of a sequence-parallel group has of them.
TEST(Stash, OfComposedNormsIsTwelveBytesMore) {
    for (std::int64_t t : {1, 2, 4}) {
        const Sets sharded = {
            set("layout.tensor_parallel", t),
            std::string("layout.sequence_parallel=") + (t > 1 ? "true" : "false")};
        Sets composed = sharded;
        composed.push_back("training.norm_kernel=composed");
        EXPECT_EQ(layer_stash(composed) - layer_stash(sharded), 12 * sbh / t);
        composed.push_back("layout.recompute=full");
        EXPECT_EQ(layer_stash(composed), 2 * sbh / t);
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

// The norms' outputs, which products read, are kept whole in place of their shares, and backward
// gathers neither again.
TEST(Stash, OfInputsThatStayGathered) {
    const auto gathers = [](const Sets& sets) {
        const plan::Plan plan = plan_of(sets);
        const Block& backward = block_named(plan, "layer.backward");
        return std::count_if(backward.ops.begin(), backward.ops.end(),
                             [](const plan::Op& op) { return op.is<plan::AllGather>(); });
    };
    for (std::int64_t t : {2, 4}) {
        const Sets again = {set("layout.tensor_parallel", t), "layout.sequence_parallel=true"};
        Sets kept = again;
        kept.emplace_back("training.gathered_inputs=kept");
        EXPECT_EQ(layer_stash(kept) - layer_stash(again), 2 * 2 * (sbh - sbh / t));
        EXPECT_EQ(gathers(again) - gathers(kept), 2);
        // Run again, a layer gathers its inputs once instead of twice, and forward keeps its own.
        Sets all_again = again, all_kept = kept;
        for (Sets* sets : {&all_again, &all_kept})
            sets->emplace_back("layout.recompute=full");
        EXPECT_EQ(layer_stash(all_kept), layer_stash(all_again));
        EXPECT_EQ(gathers(all_again) - gathers(all_kept), 2);
    }
    EXPECT_EQ(layer_stash({"training.gathered_inputs=kept"}), layer_stash({}));
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
    EXPECT_EQ(asked.model.attention().heads, a);
    EXPECT_EQ(asked.training.sequence_length, s);
}

// A stage keeps its layers' stashes side by side, each tensor on its own allocation.
TEST(Stash, OfAStageIsTheSumOfItsParts) {
    const plan::Plan plan = plan_of({"layout.pipeline_parallel=2"});
    for (const plan::Program& program : plan.programs) {
        const plan::Stage& stage = program.stages.front();
        const plan::Procedure& forward =
            procedure_named(program, "forward " + std::to_string(stage.index));
        std::int64_t bytes = 0;
        int kept = 0;
        for (const plan::StagePart& part : stage.parts) {
            const auto position = static_cast<std::int32_t>(&part - stage.parts.data());
            std::vector<std::int64_t> offsets;  // of its tensors in the stash
            for (const plan::Slot& slot : forward.uses[static_cast<std::size_t>(position)].slots)
                if (slot.frame == plan::Frame::stash && slot.piece == position)
                    offsets.push_back(slot.offset);
            if (!offsets.empty()) {
                EXPECT_EQ(*std::min_element(offsets.begin(), offsets.end()), bytes);
                ++kept;
            }
            for (const Tensor& tensor : plan.blocks[static_cast<std::size_t>(part.forward)].tensors)
                if (tensor.role == Role::stash) bytes += (tensor.bytes() + 255) / 256 * 256;
            // What a later stage receives, s·b·h of 16 bits, lies in memory of its own.
            if (stage.index > 0 && &part == &stage.parts.front()) bytes -= 2 * sbh / b;
        }
        EXPECT_EQ(stash_bytes(program), bytes);
        EXPECT_GT(kept, 1);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
