// Where jobs are put: by hand on small fabrics.
#include "sim/jobs/placement.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

plan::Cluster fabric(std::int64_t nodes, const std::vector<std::int64_t>& levels) {
    plan::Cluster cluster;
    cluster.nodes = nodes;
    cluster.devices_per_node = 8;
    cluster.inter_node.fabric.kind = plan::FabricKind::fat_tree;
    for (const std::int64_t level : levels)
        cluster.inter_node.fabric.levels.push_back({level, 2});
    return cluster;
}

NodeList range(std::int64_t first, std::int64_t count) {
    NodeList nodes;
    for (std::int64_t i = 0; i < count; ++i)
        nodes.push_back(first + i);
    return nodes;
}

TEST(Placement, CompactFillsTheLeafThatItFillsMost) {
    FreeNodes free(fabric(12, {4}));
    free.take({4, 8, 9});  // 4, 3 and 2 are free
    EXPECT_EQ(free.place(PlacementPolicy::compact, 2, 0, 0), (NodeList{10, 11}));
    EXPECT_EQ(free.place(PlacementPolicy::compact, 3, 0, 0), (NodeList{5, 6, 7}));
}

// Five of leaves with 4, 3 and 2 free: the whole first, and one of the smallest rest.
TEST(Placement, CompactUsesFewLeaves) {
    FreeNodes free(fabric(12, {4}));
    free.take({4, 8, 9});
    EXPECT_EQ(free.place(PlacementPolicy::compact, 5, 0, 0), (NodeList{0, 1, 2, 3, 10}));
}

// Six fit below either switch of the second level: the one with less room keeps the other whole.
TEST(Placement, CompactStaysBelowTheLowestSwitchWithRoom) {
    FreeNodes free(fabric(16, {4, 8}));
    free.take({8, 9});
    EXPECT_EQ(free.place(PlacementPolicy::compact, 6, 0, 0), range(10, 6));
    EXPECT_EQ(free.place(PlacementPolicy::compact, 8, 0, 0), range(0, 8));
}

TEST(Placement, ScatteredTakesOneOfEachLeafInTurn) {
    FreeNodes free(fabric(12, {4}));
    EXPECT_EQ(free.place(PlacementPolicy::scattered, 5, 0, 0), (NodeList{0, 1, 4, 5, 8}));
}

// Stages of three nodes below leaves of four: one a leaf, where compact would cut two of them.
TEST(Placement, RailAlignedKeepsStagesWhole) {
    FreeNodes free(fabric(12, {4}));
    EXPECT_EQ(free.place(PlacementPolicy::rail_aligned, 9, 3, 0),
              (NodeList{0, 1, 2, 4, 5, 6, 8, 9, 10}));
    FreeNodes two(fabric(12, {4}));
    EXPECT_EQ(two.place(PlacementPolicy::rail_aligned, 8, 2, 0), range(0, 8));
}

TEST(Placement, RandomIsDrawnBySeed) {
    const auto drawn = [](std::uint64_t seed) {
        FreeNodes free(fabric(64, {8}));
        return *free.place(PlacementPolicy::random, 20, 0, seed);
    };
    EXPECT_EQ(drawn(1), drawn(1));
    EXPECT_NE(drawn(1), drawn(2));
}

TEST(Placement, OfMoreThanIsFreeIsNone) {
    FreeNodes free(fabric(8, {4}));
    free.take({1});
    EXPECT_FALSE(free.place(PlacementPolicy::compact, 8, 0, 0));
    EXPECT_EQ(free.count(), 7);
}

// Whatever is asked for: as many nodes, ascending, each free before and nobody's twice.
RC_GTEST_PROP(Placement, TakesFreeNodesOnce, ()) {
    const std::int64_t leaf = *rc::gen::inRange<std::int64_t>(1, 6);
    const std::int64_t nodes = *rc::gen::inRange<std::int64_t>(2, 40);
    FreeNodes free(fabric(nodes, {leaf, 2 * leaf}));
    std::set<std::int64_t> taken;
    for (int job = 0; job < 4; ++job) {
        const auto policy =
            *rc::gen::element(PlacementPolicy::compact, PlacementPolicy::scattered,
                              PlacementPolicy::random, PlacementPolicy::rail_aligned);
        const std::int64_t wanted = *rc::gen::inRange<std::int64_t>(1, 12);
        const std::int64_t room = free.count();
        const auto placed = free.place(policy, wanted, *rc::gen::inRange<std::int64_t>(0, 4), 7);
        RC_ASSERT(placed.has_value() == (wanted <= room));
        if (!placed) continue;
        RC_ASSERT(static_cast<std::int64_t>(placed->size()) == wanted);
        RC_ASSERT(std::is_sorted(placed->begin(), placed->end()));
        for (const std::int64_t node : *placed) {
            RC_ASSERT(node >= 0 && node < nodes);
            RC_ASSERT(taken.insert(node).second);
        }
        RC_ASSERT(free.count() == room - wanted);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
