// What of a state each rank has, by ZeRO stage (Rajbhandari 2020, figure 1), and which states AdamW
// keeps.
#include <gtest/gtest.h>

#include "plan/memory/arena.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

using plan::Bucket;
using plan::BucketState;
using plan::Extent;
using plan::StateKind;

constexpr std::int64_t kRanks = 4;

plan::Plan plan_of_stage(std::int64_t stage, const char* precision) {
    return plan_of({set("layout.data_parallel", kRanks), set("layout.zero_stage", stage),
                    std::string("training.precision=") + precision});
}

TEST(BucketStates, AreSharedOutAsTheStageSays) {
    for (const std::int64_t stage : {0, 1, 2, 3}) {
        const plan::Plan plan = plan_of_stage(stage, "bf16");
        for (const Bucket& bucket : plan.programs[0].buckets) {
            EXPECT_EQ(bucket.shares.size(), stage == 0 ? 0U : 1U);
            if (stage > 0) {
                EXPECT_EQ(bucket.shares[0].group, plan::GroupKind::data);
                EXPECT_EQ(bucket.shares[0].elements % kRanks, 0);
                EXPECT_GE(bucket.shares[0].elements, bucket.elements);
                EXPECT_LT(bucket.shares[0].elements, bucket.elements + kRanks);
            }
            for (const BucketState& state : bucket.states) {
                const std::int64_t sharded_from = state.kind == StateKind::parameters  ? 3
                                                  : state.kind == StateKind::gradients ? 2
                                                                                       : 1;
                Extent expected = stage >= sharded_from ? Extent::shard : Extent::whole;
                // ZeRO-1 scatters gradients within the memory that they were summed in.
                if (state.kind == StateKind::gradients && stage == 1) expected = Extent::in_place;
                EXPECT_EQ(state.extent, expected) << name(state.kind) << " ZeRO-" << stage;
            }
        }
    }
}

// 12 bytes for each parameter of 16 bits, 8 where parameters are their own masters.
TEST(BucketStates, FillTheirMemory) {
    for (const std::int64_t stage : {0, 1, 2, 3})
        for (const char* precision : {"bf16", "fp32"}) {
            const plan::Plan plan = plan_of_stage(stage, precision);
            const plan::Program& program = plan.programs[0];
            const bool wide = std::string(precision) == "fp32";
            for (const Bucket& bucket : program.buckets) {
                EXPECT_EQ(bucket.state(StateKind::masters) != nullptr, !wide);
                const std::int64_t stepped =
                    stage == 0 ? bucket.elements : bucket.shares[0].elements / kRanks;
                EXPECT_EQ(bucket.stepped(plan.mesh), stepped);
                std::map<std::int32_t, std::int64_t> ends;  // by resident
                for (const BucketState& state : bucket.states) {
                    std::int64_t& end = ends[bucket.resident(state.kind)];
                    EXPECT_EQ(state.offset, end) << name(state.kind);
                    end += bucket.room(state.kind, plan.mesh) * size_bytes(state.dtype);
                }
                EXPECT_EQ(ends.size(), 3U);
                EXPECT_EQ(ends[bucket.optimizer], (wide ? 8 : 12) * stepped);
                for (const auto& [resident, end] : ends)
                    EXPECT_EQ(program.residents[static_cast<std::size_t>(resident)].bytes,
                              plan::aligned(end));
            }
        }
}

// Where the next step's forward pass gathers parameters, a rank has its own share until then.
TEST(BucketStates, ParametersGatheredAheadAreInPlace) {
    const plan::Plan plan =
        plan_of({set("layout.data_parallel", kRanks), "layout.zero_stage=1",
                 "training.precision=bf16", "training.overlap_parameter_gather=true"});
    for (const Bucket& bucket : plan.programs[0].buckets)
        EXPECT_EQ(bucket.state(StateKind::parameters)->extent, Extent::in_place);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
