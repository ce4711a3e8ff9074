// Which SMs the communicators of each group may take: its own bounds, those of all, the
// environment's.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "runtime/backends/nccl_groups.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using plan::GroupKind;

CommunicatorOptions options(const plan::NcclSettings& nccl,
                            const std::map<std::string, std::string>& environment = {}) {
    return communicator_options(nccl, [&](const std::string& name) -> std::optional<std::string> {
        const auto found = environment.find(name);
        if (found == environment.end()) return std::nullopt;
        return found->second;
    });
}

BlockBounds of(const CommunicatorOptions& options, GroupKind kind) {
    return options.blocks[static_cast<std::size_t>(kind)];
}

// Variables say it then.
TEST(NcclGroups, WithoutBoundsOfTheirOwnHaveNone) {
    plan::NcclSettings nccl;
    nccl.max_ctas = 8;
    for (const BlockBounds& blocks : options(nccl, {{"NCCL_MIN_CTAS", "2"}}).blocks)
        EXPECT_EQ(blocks, BlockBounds{});
}

TEST(NcclGroups, HaveTheirOwnBoundsElseThoseOfAll) {
    plan::NcclSettings nccl;
    nccl.min_ctas = 2;
    nccl.max_ctas = 32;
    nccl.groups.tensor = {4, 16};
    nccl.groups.context = {0, 6};
    nccl.groups.expert = {0, 24};
    nccl.groups.data = {0, 8};
    nccl.groups.pipeline = {1, 0};
    const CommunicatorOptions made = options(nccl);
    EXPECT_EQ(of(made, GroupKind::tensor), (BlockBounds{4, 16}));
    EXPECT_EQ(of(made, GroupKind::context), (BlockBounds{2, 6}));
    EXPECT_EQ(of(made, GroupKind::expert), (BlockBounds{2, 24}));
    for (const GroupKind kind :
         {GroupKind::data, GroupKind::shard, GroupKind::replica, GroupKind::expert_data,
          GroupKind::expert_shard, GroupKind::expert_replica})
        EXPECT_EQ(of(made, kind), (BlockBounds{2, 8}));
    for (const GroupKind kind : {GroupKind::pipeline, GroupKind::embedding})
        EXPECT_EQ(of(made, kind), (BlockBounds{1, 32}));
    for (const GroupKind kind : {GroupKind::model, GroupKind::world})
        EXPECT_EQ(of(made, kind), (BlockBounds{2, 32}));
}

// NCCL would take the variables for all communicators: what they say is kept for those that have
// no bounds of their own.
TEST(NcclGroups, KeepWhatTheEnvironmentSaysOfTheOthers) {
    plan::NcclSettings nccl;
    nccl.max_ctas = 32;
    nccl.groups.data = {0, 8};
    const CommunicatorOptions made =
        options(nccl, {{"NCCL_MIN_CTAS", "2"}, {"NCCL_MAX_CTAS", "16"}});
    EXPECT_EQ(of(made, GroupKind::data), (BlockBounds{2, 8}));
    EXPECT_EQ(of(made, GroupKind::tensor), (BlockBounds{2, 32}));
    EXPECT_EQ(of(options(nccl, {{"NCCL_MIN_CTAS", "few"}}), GroupKind::tensor),
              (BlockBounds{0, 32}));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
