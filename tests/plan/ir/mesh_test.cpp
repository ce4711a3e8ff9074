// The groups of a mesh: who is in them, and that groups of one kind part the ranks between them.
#include "plan/ir/mesh.hpp"

#include <gtest/gtest.h>

#include <set>

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

using Ranks = std::vector<Rank>;

TEST(Mesh, PartsADataGroupIntoShardsAndReplicas) {
    const Mesh mesh{2, 1, 6, 1, 3};  // tensor, context, data, pipeline, shard
    EXPECT_EQ(mesh.group(GroupKind::data, 3), (Ranks{1, 3, 5, 7, 9, 11}));
    EXPECT_EQ(mesh.group(GroupKind::shard, 3), (Ranks{1, 3, 5}));
    EXPECT_EQ(mesh.group(GroupKind::shard, 7), (Ranks{7, 9, 11}));
    EXPECT_EQ(mesh.group(GroupKind::replica, 3), (Ranks{3, 9}));
}

// Context and data ranks hold the same parameters: shard groups run over both.
TEST(Mesh, CountsContextRanksAmongThoseThatShareOut) {
    const Mesh mesh{1, 2, 4, 1, 4};
    EXPECT_EQ(mesh.group(GroupKind::shard, 5), (Ranks{4, 5, 6, 7}));
    EXPECT_EQ(mesh.group(GroupKind::replica, 5), (Ranks{1, 5}));
}

TEST(Mesh, WithoutPartsHasOneShardGroupAndNoReplicas) {
    const Mesh mesh{2, 1, 4, 2};
    EXPECT_EQ(mesh.group(GroupKind::shard, 9), mesh.group(GroupKind::data, 9));
    EXPECT_EQ(mesh.group(GroupKind::replica, 9), (Ranks{9}));
}

// Experts over four ranks in a row: each half of the stage has all of them twice.
TEST(Mesh, PartsRanksOfTheSameExpertsAsItPartsDataRanks) {
    const Mesh mesh{2, 1, 8, 1, 4, 4};  // tensor, context, data, pipeline, shard, expert
    EXPECT_EQ(mesh.group(GroupKind::expert_data, 5), (Ranks{1, 5, 9, 13}));
    EXPECT_EQ(mesh.group(GroupKind::expert_shard, 5), (Ranks{1, 5}));
    EXPECT_EQ(mesh.group(GroupKind::expert_replica, 5), (Ranks{5, 13}));
    const Mesh whole{2, 1, 8, 1, 0, 4};
    EXPECT_EQ(whole.group(GroupKind::expert_shard, 5), whole.group(GroupKind::expert_data, 5));
    EXPECT_EQ(whole.group(GroupKind::expert_replica, 5), (Ranks{5}));
}

TEST(Mesh, GroupsOfAKindPartTheRanks) {
    for (const Mesh& mesh : {Mesh{2, 1, 4, 2, 2}, Mesh{1, 2, 6, 1, 3}, Mesh{2, 2, 2, 2, 2},
                             Mesh{2, 1, 4, 2, 2, 4}, Mesh{1, 2, 6, 1, 6, 2}})
        for (std::size_t k = 0; k < kGroupKinds; ++k) {
            const auto kind = static_cast<GroupKind>(k);
            for (Rank rank = 0; rank < mesh.ranks(); ++rank) {
                const Ranks group = mesh.group(kind, rank);
                EXPECT_EQ(std::set<Rank>(group.begin(), group.end()).count(rank), 1U);
                for (Rank member : group)
                    EXPECT_EQ(mesh.group(kind, member), group) << name(kind);
                if (kind == GroupKind::embedding) continue;
                EXPECT_EQ(static_cast<std::int64_t>(group.size()), mesh.group_size(kind));
            }
        }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
