// Collectives of tensor parallelism (Shoeybi et al. 2019): two all-reduces of s·b·h per layer in
// forward and two in backward, two more when the layer is computed again. With sequence parallelism
// (Korthikanti et al. 2022, §4.2) each becomes an all-gather and a reduce-scatter of the same
// volume, and backward gathers the inputs of two weight gradients again, overlapped.
#include "plan/ir/order.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::Block;
using plan::GroupKind;
using plan::Op;
using plan::OpKind;
using plan::Stream;

struct Collectives {
    std::int64_t all_reduce = 0;
    std::int64_t all_gather = 0;
    std::int64_t reduce_scatter = 0;
    bool operator==(const Collectives&) const = default;
};

Collectives over_tensor(const Block& block) {
    return {count(block, OpKind::all_reduce, GroupKind::tensor),
            count(block, OpKind::all_gather, GroupKind::tensor),
            count(block, OpKind::reduce_scatter, GroupKind::tensor)};
}

std::int64_t volume(const Block& block) {
    std::int64_t elements = 0;
    for (const Op& op : block.ops)
        if (is_communication(op.kind())) elements += ring_elements(op);
    return elements;
}

Sets with(const Sets& a, const Sets& b) {
    Sets sets = a;
    sets.insert(sets.end(), b.begin(), b.end());
    return sets;
}

const Sets kTensor = {"layout.tensor_parallel=4", "layout.micro_batch_size=2"};
const Sets kSequence = with(kTensor, {"layout.sequence_parallel=true"});
constexpr std::int64_t kTokens = 32 * 2;           // s·b
constexpr std::int64_t kBoundary = kTokens * 512;  // s·b·h

class OfBothFamilies : public testing::TestWithParam<const char*> {
  protected:
    plan::Plan plan(const Sets& sets) const { return plan_of(sets, GetParam()); }
};

TEST_P(OfBothFamilies, ALayerAllReducesTwiceEachWay) {
    const plan::Plan built = plan(kTensor);
    EXPECT_EQ(over_tensor(block_named(built, "layer.forward")), (Collectives{2, 0, 0}));
    EXPECT_EQ(over_tensor(block_named(built, "layer.backward")), (Collectives{2, 0, 0}));
    for (const char* name : {"layer.forward", "layer.backward"})
        for (const Op& op : block_named(built, name).ops) {
            if (!is_communication(op.kind())) continue;
            EXPECT_EQ(op.size(0), kBoundary);
            EXPECT_EQ(op.dtype, plan::DType::bf16);
            EXPECT_EQ(op.stream, Stream::tensor_comm);
        }
}

TEST_P(OfBothFamilies, FullRecomputationAllReducesTwiceMore) {
    const plan::Plan built = plan(with(kTensor, {"layout.recompute=full"}));
    EXPECT_EQ(over_tensor(block_named(built, "layer.forward")), (Collectives{2, 0, 0}));
    EXPECT_EQ(over_tensor(block_named(built, "layer.backward")), (Collectives{4, 0, 0}));
}

TEST_P(OfBothFamilies, ASequenceParallelLayerGathersAndScatters) {
    const plan::Plan built = plan(kSequence);
    EXPECT_EQ(over_tensor(block_named(built, "layer.forward")), (Collectives{0, 2, 2}));
    EXPECT_EQ(over_tensor(block_named(built, "layer.backward")), (Collectives{0, 2 + 2, 2}));
}

TEST_P(OfBothFamilies, SequenceParallelismSendsWhatTheAllReducesSend) {
    const plan::Plan reduced = plan(kTensor);
    const plan::Plan scattered = plan(kSequence);
    EXPECT_EQ(volume(block_named(reduced, "layer.forward")), 4 * kBoundary);
    EXPECT_EQ(volume(block_named(scattered, "layer.forward")), 4 * kBoundary);
    EXPECT_EQ(volume(block_named(reduced, "layer.backward")), 4 * kBoundary);
    // The two re-gathered inputs come on top.
    EXPECT_EQ(volume(block_named(scattered, "layer.backward")), (4 + 2) * kBoundary);
}

TEST_P(OfBothFamilies, FullRecomputationRepeatsTheForwardCollectives) {
    const plan::Plan built = plan(with(kSequence, {"layout.recompute=full"}));
    // The recomputed forward gathers, and the weight gradients gather their inputs once more, as
    // without recomputation (Korthikanti 2022 §4.2.2).
    const Block& backward = block_named(built, "layer.backward");
    Collectives again, rest;
    for (const Op& op : backward.ops) {
        Collectives& into = op.phase == plan::Phase::recompute ? again : rest;
        into.all_gather += op.kind() == OpKind::all_gather ? 1 : 0;
        into.reduce_scatter += op.kind() == OpKind::reduce_scatter ? 1 : 0;
        into.all_reduce += op.kind() == OpKind::all_reduce ? 1 : 0;
    }
    EXPECT_EQ(again, (Collectives{0, 2, 2}));
    EXPECT_EQ(rest, (Collectives{0, 2 + 2, 2}));
}

// "Overlapped": the data gradient does not wait for the gather that its weight gradient needs, and
// the weight gradient does not wait for the reduction of the data gradient.
TEST_P(OfBothFamilies, BackwardCommunicationRunsBesideTheOtherGradient) {
    const plan::Plan sequence_parallel = plan(kSequence);
    const Block& gathered = block_named(sequence_parallel, "layer.backward");
    const plan::BlockOrder order = order_of(gathered);
    std::uint32_t issued = 0;  // on the communication stream
    std::uint32_t gather = 0;
    int pairs = 0;
    for (std::size_t i = 0; i < gathered.ops.size(); ++i) {
        const Op& op = gathered.ops[i];
        if (op.stream == Stream::tensor_comm) ++issued;
        if (op.label == "qkv input" && op.kind() == OpKind::all_gather) gather = issued;
        if (op.label == "fc1 input" && op.kind() == OpKind::all_gather) gather = issued;
        const std::uint32_t waits = order.waits[i][index_of(Stream::tensor_comm)];
        if (op.label == "qkv dgrad" || op.label == "fc1 dgrad") {
            EXPECT_LT(waits, gather) << op.label;
            EXPECT_GT(gather, 0U) << "the gather is issued before " << op.label;
        }
        if (op.label == "qkv wgrad" || op.label == "fc1 wgrad") {
            EXPECT_EQ(waits, gather) << op.label;
            ++pairs;
        }
    }
    EXPECT_EQ(pairs, 2);

    const plan::Plan tensor_parallel = plan(kTensor);
    const Block& reduced = block_named(tensor_parallel, "layer.backward");
    const plan::BlockOrder reduced_order = order_of(reduced);
    std::size_t dgrad = 0;
    pairs = 0;
    for (std::size_t i = 0; i < reduced.ops.size(); ++i) {
        const Op& op = reduced.ops[i];
        if (op.kind() == OpKind::gemm && (op.label == "qkv dgrad" || op.label == "fc1 dgrad"))
            dgrad = i;
        if (op.kind() != OpKind::all_reduce) continue;
        // It waits for compute up to the data gradient only; reuse of memory adds nothing.
        std::uint32_t compute = 0;
        for (std::size_t k = 0; k <= dgrad; ++k)
            compute += reduced.ops[k].stream == Stream::compute ? 1U : 0U;
        EXPECT_EQ(reduced_order.waits[i][index_of(Stream::compute)], compute) << op.label;
        ++pairs;
    }
    EXPECT_EQ(pairs, 2);
}

INSTANTIATE_TEST_SUITE_P(Models, OfBothFamilies, testing::Values(kGpt, kLlama));

// Shoeybi et al. 2019 §3: the loss over a sharded vocabulary needs per token a maximum (4 bytes)
// and the sum of exponentials with the target's logit (8 bytes), not the logits.
TEST(VocabularyParallelLoss, AllReducesFourAndEightBytesPerToken) {
    for (const Sets& sets : {kTensor, kSequence}) {
        const plan::Plan plan = plan_of(sets);
        std::vector<std::int64_t> bytes;
        for (const Op& op : block_named(plan, "head.forward").ops)
            if (op.kind() == OpKind::all_reduce) bytes.push_back(plan::message_bytes(op));
        EXPECT_EQ(bytes, (std::vector<std::int64_t>{4 * kTokens, 8 * kTokens}));
    }
    EXPECT_EQ(over_tensor(block_named(plan_of(), "head.forward")), Collectives{});
}

// The vocabulary-parallel embedding sums partial look-ups, and its backward needs nothing; the head
// sums the gradient of its input (Shoeybi et al. 2019 §3).
TEST(VocabularyParallelEnds, ReduceTheLookUpAndTheGradientOfTheHeadsInput) {
    const plan::Plan reduced = plan_of(kTensor);
    EXPECT_EQ(over_tensor(block_named(reduced, "embedding.forward")), (Collectives{1, 0, 0}));
    EXPECT_EQ(over_tensor(block_named(reduced, "embedding.backward")), (Collectives{}));
    EXPECT_EQ(over_tensor(block_named(reduced, "head.backward")), (Collectives{1, 0, 0}));
    const plan::Plan scattered = plan_of(kSequence);
    EXPECT_EQ(over_tensor(block_named(scattered, "embedding.forward")), (Collectives{0, 0, 1}));
    EXPECT_EQ(over_tensor(block_named(scattered, "embedding.backward")), (Collectives{0, 1, 0}));
    EXPECT_EQ(over_tensor(block_named(scattered, "head.backward")), (Collectives{0, 1, 1}));
}

// Elements of "replicated gradients" that one rank all-reduces over its tensor group in a step.
std::int64_t replicated_reduced(const plan::Plan& plan, std::size_t rank = 0) {
    std::int64_t elements = 0;
    for (const Op* op : executed_ops(plan, rank))
        if (op->group == GroupKind::tensor && op->label == "replicated gradients")
            elements += op->size(0);
    return elements;
}

// Each rank sees its share of the sequence only, so gradients of what all ranks hold whole are
// partial: norms, biases added after a row-parallel linear, positions (Megatron-LM's
// allreduce_sequence_parallel_gradients).
TEST(ReplicatedGradients, AreReducedOverTheTensorGroupUnderSequenceParallelism) {
    const plan::Scenario gpt = scenario(kSequence);
    const plan::Model& m = gpt.model;
    const std::int64_t layer = (2 + 2 + 1 + 1) * m.hidden;  // two LayerNorms, two biases
    const std::int64_t ends = m.max_positions * m.hidden + 2 * m.hidden;
    EXPECT_EQ(replicated_reduced(plan::build_plan(gpt)), m.layers * layer + ends);
    EXPECT_EQ(replicated_reduced(plan_of(kTensor)), 0);

    const plan::Scenario llama = scenario(kSequence, kLlama);  // two RMSNorms, no bias
    EXPECT_EQ(replicated_reduced(plan::build_plan(llama)),
              (llama.model.layers * 2 + 1) * llama.model.hidden);
}

// Before they are scattered: once per step, and from ZeRO-2 on with each micro-batch.
TEST(ReplicatedGradients, AreReducedBeforeTheyAreScattered) {
    const std::int64_t m = 4;
    const Sets both = with(kSequence, {"layout.data_parallel=2", "layout.micro_batch_size=1",
                                       set("layout.global_batch_size", 2 * m)});
    const std::int64_t once = replicated_reduced(plan_of(both));
    for (int zero : {1, 2, 3})
        for (const char* overlap : {"true", "false"})
            EXPECT_EQ(replicated_reduced(plan_of(with(
                          both, {set("layout.zero_stage", zero),
                                 std::string("training.overlap_gradient_reduce=") + overlap}))),
                      zero >= 2 ? m * once : once)
                << zero << ' ' << overlap;
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
