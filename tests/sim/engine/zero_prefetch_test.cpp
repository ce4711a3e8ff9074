// When ZeRO-3 gathers, by closed form: n parts forward and n backward, each of which takes C to
// compute and G to gather; everything else takes no time, and so does backward of the two parts
// that only look up, embedding and positions. One micro-batch, no pipeline.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/engine/plan_world.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using theory::set;
using theory::Sets;

constexpr Picoseconds kCompute = 100;
constexpr Picoseconds kParts = 8;  // embedding, positions, 4 layers, norm, head

plan::Plan sharded(std::int64_t prefetch, const Sets& more = {}) {
    Sets sets = {"layout.data_parallel=2", "layout.zero_stage=3", "layout.global_batch_size=2",
                 set("training.zero_prefetch", prefetch)};
    sets.insert(sets.end(), more.begin(), more.end());
    return theory::plan_of(sets);
}

// The op of a block that stands for its time: the first that reads parameters; −1: none does.
std::int32_t reader_of(const plan::Block& block) {
    for (std::size_t i = 0; i < block.ops.size(); ++i)
        for (const plan::TensorId id : block.ops[i].reads)
            if (block.tensors[static_cast<std::size_t>(id)].role == plan::Role::parameter)
                return static_cast<std::int32_t>(i);
    return -1;
}

Picoseconds time_of(const plan::Plan& plan, Picoseconds gather) {
    PlanWorld world(plan);
    const auto first = plan.first_ops();
    for (std::size_t b = 0; b < plan.blocks.size(); ++b) {
        const plan::Block& block = plan.blocks[b];
        const std::int32_t reader = reader_of(block);
        if (reader >= 0)
            world.durations[0][first[b] + static_cast<std::uint32_t>(reader)] = kCompute;
        if (block.name == "gather.bucket") world.durations[0][first[b]] = gather;
    }
    const EngineResult result = run_engine(world.input);
    EXPECT_TRUE(result.stuck.empty());
    Picoseconds end = 0;
    for (const trace::Event& event : result.events[0])
        end = std::max(end, event.end);
    return end;
}

TEST(ZeroPrefetch, OfNothingOverlapsNothing) {
    for (const Picoseconds gather : {1, 40, 100, 250})
        EXPECT_EQ(time_of(sharded(0), gather), 2 * kParts * gather + (2 * kParts - 2) * kCompute);
}

// The first gather is waited for, and the last, into the slot of layer 0, by nobody but the end.
// The first one of backward goes into the slot of the last part but one of forward, as n is even.
TEST(ZeroPrefetch, OfOneHidesGathersThatAreShorterThanParts) {
    for (const Picoseconds gather : {1, 40, 100})
        EXPECT_EQ(time_of(sharded(1), gather), 2 * gather + (2 * kParts - 2) * kCompute);
}

TEST(ZeroPrefetch, IsBoundByGathersThatAreLongerThanParts) {
    for (const std::int64_t prefetch : {1, 2, 3})
        EXPECT_EQ(time_of(sharded(prefetch), 250), 2 * kParts * 250) << prefetch;
}

// Kept parameters need no gather in backward.
TEST(ZeroPrefetch, OfKeptParametersGathersInForwardAlone) {
    const Sets kept = {"layout.reshard_after_forward=false"};
    EXPECT_EQ(time_of(sharded(1, kept), 40), 40 + (2 * kParts - 2) * kCompute);
    EXPECT_EQ(time_of(sharded(1, kept), 250), kParts * 250 + (kParts - 1) * kCompute);
    EXPECT_EQ(time_of(sharded(0, kept), 250), kParts * 250 + (2 * kParts - 2) * kCompute);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
