// Context parallelism over c ranks, of a layer whose keys and values are 2·s·b·k elements:
//  ring        K and V travel (c−1)/c of the sequence forward; again, plus dK and dV, backward
//              (Liu 2023)
//  all-gather  the same as gathers, and a reduce-scatter of the gradients (Llama team 2024)
//  all-to-all  a share (c−1)/c of a rank's q, k, v and context, each way (Jacobs 2023)
#include <set>

#include "plan/checks/validate_plan.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::Block;
using plan::GroupKind;
using plan::Op;
using plan::OpKind;

constexpr std::int64_t kSamples = 2;
constexpr std::int64_t kSequence = 32;
constexpr std::int64_t kKeys = 4 * 64;  // columns of k: heads of keys × head size
constexpr std::int64_t kQueries = 8 * 64;

Sets sets_of(const char* algorithm, std::int64_t ranks, const Sets& more = {}) {
    Sets sets = {set("layout.context_parallel", ranks), set("layout.micro_batch_size", kSamples),
                 std::string("layout.context_algorithm=") + algorithm};
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
}

plan::Plan of(const char* algorithm, std::int64_t ranks, const Sets& more = {}) {
    return plan_of(sets_of(algorithm, ranks, more), kLlama);
}

// Elements that a rank sends over its context group.
double sent(const Block& block, std::int64_t ranks) {
    double elements = 0;
    for (const Op& op : block.ops)
        if (is_communication(op.kind()) && op.group == GroupKind::context) {
            EXPECT_EQ(op.stream, plan::Stream::context_comm);
            EXPECT_EQ(op.dtype, plan::DType::bf16);
            elements += plan::bytes_sent_per_rank(op.kind(), static_cast<double>(op.size(0)),
                                                  static_cast<int>(ranks));
        }
    return elements;
}

double keys_and_values(std::int64_t tokens) {
    return static_cast<double>(2 * kSamples * tokens * kKeys);
}

class OfRanks : public testing::TestWithParam<std::int64_t> {
  protected:
    std::int64_t c() const { return GetParam(); }
    double others() const { return static_cast<double>(c() - 1) / static_cast<double>(c()); }
};

TEST_P(OfRanks, KeysTravelRoundTheRing) {
    const plan::Plan plan = of("ring", c());
    const double away = others() * keys_and_values(kSequence);
    EXPECT_DOUBLE_EQ(sent(block_named(plan, "layer.forward"), c()), away);
    EXPECT_DOUBLE_EQ(sent(block_named(plan, "layer.backward"), c()), 2 * away);
    EXPECT_EQ(count(block_named(plan, "layer.forward"), OpKind::shift, GroupKind::context),
              c() - 1);
}

TEST_P(OfRanks, RecomputationSendsThemOnceMore) {
    const double away = others() * keys_and_values(kSequence);
    for (const char* algorithm : {"ring", "all_gather"}) {
        const plan::Plan plan = of(algorithm, c(), {"layout.recompute=full"});
        const double again = sent(block_named(plan, "layer.backward"), c());
        EXPECT_DOUBLE_EQ(again, 3 * away) << algorithm;
    }
}

TEST_P(OfRanks, GatheredKeysSendWhatTheRingSends) {
    const plan::Plan plan = of("all_gather", c());
    const double away = others() * keys_and_values(kSequence);
    EXPECT_DOUBLE_EQ(sent(block_named(plan, "layer.forward"), c()), away);
    EXPECT_DOUBLE_EQ(sent(block_named(plan, "layer.backward"), c()), 2 * away);
}

TEST_P(OfRanks, HeadsAreExchangedForTokensAndBack) {
    if (c() > 4) return;  // as many heads of keys
    const plan::Plan plan = of("all_to_all", c());
    const std::int64_t columns = (kQueries + 2 * kKeys) + kQueries;
    const double away = others() * static_cast<double>(kSamples * kSequence / c() * columns);
    EXPECT_DOUBLE_EQ(sent(block_named(plan, "layer.forward"), c()), away);
    EXPECT_DOUBLE_EQ(sent(block_named(plan, "layer.backward"), c()), away);
}

// Keys of as many hops lie in two buffers: what is attended, and what arrives.
TEST_P(OfRanks, TwoBuffersOfKeysAreEnough) {
    const plan::Plan plan = of("ring", c());
    for (const char* name : {"layer.forward", "layer.backward"}) {
        const Block& block = block_named(plan, name);
        std::set<std::int64_t> places;
        for (std::size_t t = 0; t < block.tensors.size(); ++t)
            if (block.tensors[t].name.starts_with("kv")) places.insert(block.scratch_offsets[t]);
        EXPECT_EQ(places.size(), 2U) << name;
        EXPECT_EQ(places.count(-1), 0U);
    }
}

// While keys are on their way those at hand are attended to: neither waits for the other.
TEST_P(OfRanks, AHopIsHiddenBehindTheOneBefore) {
    const plan::Plan plan = of("ring", c());
    const Block& block = block_named(plan, "layer.forward");
    std::int64_t shifts = 0;
    for (std::size_t i = 0; i + 1 < block.ops.size(); ++i) {
        const Op &shift = block.ops[i], &attention = block.ops[i + 1];
        if (!shift.is<plan::Shift>()) continue;
        ++shifts;
        ASSERT_EQ(attention.kind(), OpKind::attention_block);
        EXPECT_EQ(attention.reads[1], shift.reads[0]);
        EXPECT_NE(attention.reads[1], shift.writes[0]);
    }
    EXPECT_EQ(shifts, c() - 1);
}

// What a rank keeps of a layer is its share of what one rank alone keeps; where heads are exchanged
// for tokens, the context twice: before it goes back and after.
TEST_P(OfRanks, TheStashIsSharedOut) {
    const auto stash = [](const plan::Plan& plan) {
        std::int64_t bytes = 0;
        for (const plan::Tensor& tensor : block_named(plan, "layer.forward").tensors)
            if (tensor.role == plan::Role::stash) bytes += tensor.bytes();
        return bytes;
    };
    const std::int64_t alone = stash(of("ring", 1));
    EXPECT_EQ(stash(of("ring", c())) * c(), alone);
    EXPECT_EQ(stash(of("all_gather", c())) * c(), alone);
    if (c() > 4) return;
    EXPECT_EQ(stash(of("all_to_all", c())) * c(), alone + kSamples * kSequence * kQueries * 2);
}

// Every rank does the same work, and all together that of one alone.
TEST_P(OfRanks, TheWorkIsSharedOut) {
    const double alone = plan::executed_flops(of("ring", 1));
    for (const char* algorithm : {"ring", "all_gather", "all_to_all"})
        if (c() <= 4 || std::string(algorithm) != "all_to_all") {
            EXPECT_DOUBLE_EQ(plan::executed_flops(of(algorithm, c())), alone) << algorithm;
        }
}

// All gradients are summed over data × context.
TEST_P(OfRanks, GradientsAreSummedOverThoseWhoShareASequence) {
    const plan::Plan plan = of("ring", c());
    EXPECT_EQ(plan.mesh.group_size(GroupKind::data), c());
    std::int64_t reduced = 0;
    for (const Op* op : executed_ops(plan))
        if (op->kind() == OpKind::all_reduce && op->group == GroupKind::data)
            reduced += op->size(0);
    EXPECT_GE(reduced, plan.conserved.parameters);
}

// What a block of keys leaves waits for the attention that reads it, however many parts the
// products before it are in.
TEST(ContextParallel, AShiftWaitsForAttentionWhereProductsAreInParts) {
    for (const char* schedule : {"1f1b", "zb-h1"}) {
        const plan::Plan plan =
            of("ring", 4,
               {"layout.tensor_parallel=2", "layout.pipeline_parallel=2",
                "layout.sequence_parallel=true", "layout.recompute=full",
                "training.tensor_overlap_parts=2", "training.overlap_tensor_backward=true",
                std::string("layout.schedule=") + schedule});
        std::size_t shifts = 0;
        for (const Block& block : plan.blocks)
            for (const Op& op : block.ops)
                for (const std::int32_t earlier : op.after) {
                    ASSERT_EQ(op.stream, plan::Stream::context_comm) << block.name << op.label;
                    const std::string& label = block.ops[static_cast<std::size_t>(earlier)].label;
                    EXPECT_EQ(label.rfind("attention ", 0), 0U) << op.label << " after " << label;
                    ++shifts;
                }
        EXPECT_GT(shifts, 0U) << schedule;
    }
}

INSTANTIATE_TEST_SUITE_P(Context, OfRanks, testing::Values(2, 4, 8));

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
