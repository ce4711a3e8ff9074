// What ZeRO-3 gathers, and where it puts it. Dropped after each use, a part's parameters are
// gathered for forward and for backward: 3mΦ with the reduction, in a ring of prefetch + 1 slots of
// the largest part (Rajbhandari et al. 2020; PyTorch's FSDP2). Kept until backward they are
// gathered once: 2mΦ, and the whole stage lies in memory.
#include <algorithm>
#include <tuple>

#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::GroupKind;
using plan::Op;
using plan::OpKind;

const Sets kSharded = {"layout.data_parallel=2", "layout.zero_stage=3",
                       "layout.micro_batch_size=1"};

Sets with(Sets sets, const Sets& more) {
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
}

std::int64_t gathered(const plan::Plan& plan, std::size_t rank = 0) {
    std::int64_t elements = 0;
    for (const Op* op : executed_ops(plan, rank))
        if (op->kind() == OpKind::all_gather && op->group == GroupKind::data)
            elements += op->size(0);
    return elements;
}

std::int64_t parameters_of(const plan::Program& program) {
    std::int64_t elements = 0;
    for (const plan::Bucket& bucket : program.buckets)
        elements += bucket.elements;
    return elements;
}

std::int64_t ring_bytes(const plan::Program& program) {
    std::int64_t bytes = 0;
    for (std::int32_t slot : program.parameter_ring)
        bytes += program.residents[static_cast<std::size_t>(slot)].bytes;
    return bytes;
}

TEST(ZeroRing, HoldsPrefetchAndOneOfTheLargestPart) {
    const plan::Scenario asked = scenario(kSharded);
    const std::int64_t h = asked.model.hidden;
    const std::int64_t layer = 12 * h * h + 13 * h;
    ASSERT_GT(layer, asked.model.vocabulary * h);
    const std::int64_t parts = asked.model.layers + 4;  // embedding, positions, norm, head
    for (std::int64_t prefetch = 0; prefetch <= 10; ++prefetch) {
        const plan::Plan plan = plan_of(with(kSharded, {set("training.zero_prefetch", prefetch)}));
        EXPECT_EQ(ring_bytes(plan.programs.front()), std::min(prefetch + 1, parts) * 2 * layer)
            << prefetch;
    }
}

// A part and the gathers before it: as many parts ahead as asked for.
TEST(ZeroRing, IsFilledPrefetchPartsAhead) {
    for (const std::int64_t prefetch : {0, 1, 2, 5}) {
        const plan::Plan plan = plan_of(with(kSharded, {set("training.zero_prefetch", prefetch)}));
        const plan::Program& program = plan.programs.front();
        for (const plan::Procedure& procedure : program.procedures) {
            std::int64_t ahead = 0;
            std::int64_t parts = 0;
            std::int64_t part = 0;
            for (const plan::BlockUse& use : procedure.uses)
                parts += use.position >= 0 ? 1 : 0;
            for (const plan::BlockUse& use : procedure.uses) {
                const plan::Block& block = plan.blocks[static_cast<std::size_t>(use.block)];
                if (block.name == "gather.bucket") ++ahead;
                if (use.position < 0) continue;
                EXPECT_EQ(ahead, std::min(prefetch + 1, parts - part)) << procedure.name;
                --ahead;
                ++part;
            }
        }
    }
}

TEST(ZeroVolume, IsTheSameWhateverThePrefetch) {
    for (const char* prefetch : {"0", "1", "7"}) {
        const plan::Plan plan =
            plan_of(with(kSharded, {"layout.global_batch_size=6",
                                    std::string("training.zero_prefetch=") + prefetch}));
        EXPECT_EQ(gathered(plan), 2 * 3 * plan.conserved.parameters);
    }
}

TEST(ZeroKept, GathersOncePerMicroBatchAndHoldsTheModel) {
    for (const std::int64_t m : {1, 2, 5}) {
        const plan::Plan plan = plan_of(with(kSharded, {"layout.reshard_after_forward=false",
                                                        set("layout.global_batch_size", 2 * m)}));
        EXPECT_EQ(gathered(plan), m * plan.conserved.parameters);
        EXPECT_EQ(ring_bytes(plan.programs.front()), 2 * plan.conserved.parameters);
    }
}

// A tied embedding is one parameter: gathered once, for both its uses.
TEST(ZeroKept, GathersATiedEmbeddingOnce) {
    const plan::Plan plan =
        plan_of(with(kSharded, {"layout.reshard_after_forward=false",
                                "model.tie_word_embeddings=true", "layout.global_batch_size=2"}));
    EXPECT_EQ(gathered(plan), plan.conserved.parameters);
}

// Parameters stay while a micro-batch in flight needs them. 1F1B holds min(m, p − i) in flight: the
// last rank drains after each, the others at the end of the step only; GPipe drains once.
TEST(ZeroKept, StaysWhileAnyMicroBatchIsInFlight) {
    const std::int64_t m = 6;
    const std::int64_t p = 3;
    for (const char* schedule : {"1f1b", "gpipe"}) {
        const plan::Plan plan = plan_of(with(
            kSharded, {"layout.reshard_after_forward=false", set("layout.pipeline_parallel", p),
                       "model.n_layer=6", set("layout.global_batch_size", 2 * m),
                       std::string("layout.schedule=") + schedule}));
        for (std::int64_t i = 0; i < p; ++i) {
            const auto rank = static_cast<std::size_t>(i);
            const bool drains = std::string(schedule) == "1f1b" && i == p - 1;
            EXPECT_EQ(gathered(plan, rank), (drains ? m : 1) * parameters_of(plan.programs[rank]))
                << schedule << ' ' << i;
            EXPECT_EQ(ring_bytes(plan.programs[rank]), 2 * parameters_of(plan.programs[rank]));
        }
    }
}

// Volumes in elements sent per rank, exactly, with the ring's (g − 1) ÷ g of the shard group and
// (R − 1) ÷ R of the R = N ÷ g replicas: each copy reduces and gathers as ZeRO over g ranks does;
// replicas all-reduce their shards of Φ ÷ g once per step (the 2-hop synchronisation of MiCS, Zhang
// et al. 2022).
class HybridVolume
    : public testing::TestWithParam<std::tuple<int, bool, std::int64_t, std::int64_t>> {};

TEST_P(HybridVolume, IsThatOfTheGroupAndOneAllReduceOfAShard) {
    const auto [zero, reshard, group, m] = GetParam();
    if (!reshard && zero < 3) return;
    const std::int64_t data = 8;
    for (const char* overlap : {"true", "false"}) {
        const plan::Plan plan = plan_of(
            {set("layout.zero_stage", zero), set("layout.data_parallel", data),
             set("layout.zero_group_size", group), set("layout.global_batch_size", data * m),
             std::string("layout.reshard_after_forward=") + (reshard ? "true" : "false"),
             std::string("training.overlap_gradient_reduce=") + overlap,
             "training.optimizer.clip_norm=0"});
        const std::int64_t phi = plan.conserved.parameters;  // every part divides by 8
        const std::int64_t replicas = data / group;
        std::int64_t shard = 0;
        std::int64_t replica = 0;
        for (const Op* op : executed_ops(plan)) {
            if (!is_communication(op->kind())) continue;
            const bool in_shard = op->group == GroupKind::shard || op->group == GroupKind::data;
            ASSERT_TRUE(in_shard || op->group == GroupKind::replica) << name(op->group);
            const std::int64_t ranks = in_shard ? group : replicas;
            ASSERT_EQ(ring_elements(*op) % ranks, 0);
            (in_shard ? shard : replica) += ring_elements(*op) / ranks * (ranks - 1);
        }
        const std::int64_t passes[] = {2, m + 1, (reshard ? 3 : 2) * m};
        EXPECT_EQ(shard, passes[zero - 1] * phi / group * (group - 1)) << overlap;
        EXPECT_EQ(replica, 2 * (phi / group) / replicas * (replicas - 1)) << overlap;
    }
}

INSTANTIATE_TEST_SUITE_P(Grid, HybridVolume,
                         testing::Combine(testing::Values(1, 2, 3), testing::Bool(),
                                          testing::Values(2, 4, 8), testing::Values(1, 3)));

// The norm: each distinct shard once. The sum over the shards of one copy, then over one copy's
// tensor and pipeline ranks.
TEST(HybridNorm, SumsTheShardsOfOneCopy) {
    const plan::Plan plan =
        plan_of({"layout.zero_stage=2", "layout.data_parallel=4", "layout.zero_group_size=2",
                 "layout.tensor_parallel=2", "layout.pipeline_parallel=2"});
    std::vector<GroupKind> groups;
    for (const Op* op : executed_ops(plan))
        if (op->label == "gradient norm" && is_communication(op->kind()))
            groups.push_back(op->group);
    EXPECT_EQ(groups, (std::vector<GroupKind>{GroupKind::shard, GroupKind::model}));
    const std::int64_t summed =
        plan.mesh.group_size(GroupKind::shard) * plan.mesh.group_size(GroupKind::model);
    EXPECT_EQ(summed * plan.mesh.group_size(GroupKind::replica), plan.mesh.ranks());
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
