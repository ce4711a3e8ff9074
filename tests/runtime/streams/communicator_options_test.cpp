// What communicators are made with, and which memory they know: over fakes of a library of
// collectives.
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/runtime/streams/fake_world.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using plan::DType;
using plan::GroupKind;
using plan::Rank;

// Of three stages and two ranks each: neighbours have the pipeline's, whatever group has none has
// the bounds of all.
TEST(CommunicatorOptions, CommunicatorsAreMadeWithTheBlocksOfTheirGroup) {
    const plan::Mesh mesh = mesh_of(2, 1, 3);
    FakeWorld world(mesh);
    world.options.blocks.fill({1, 32});
    const auto blocks_of = [&](GroupKind kind) -> BlockBounds& {
        return world.options.blocks[static_cast<std::size_t>(kind)];
    };
    blocks_of(GroupKind::tensor) = {4, 16};
    blocks_of(GroupKind::pipeline) = {0, 2};
    world.expect_well([](Rank, GroupCommunicator&) {});
    for (const auto& fake : world.fakes) {
        std::map<std::pair<std::int64_t, std::int64_t>, int> made;  // by most blocks, members
        for (const FakeCommunicator& communicator : fake->collectives.communicators)
            ++made[{communicator.blocks.max, communicator.members}];
        EXPECT_EQ((made[{16, 2}]), 1);
        EXPECT_EQ((made[{2, 3}]), 1);
        EXPECT_EQ((made[{2, 2}]), 2);   // the neighbours
        EXPECT_EQ((made[{32, 6}]), 2);  // model and world
    }
}

std::vector<std::string> all_calls(const FakeRank& fakes) {
    std::vector<std::string> calls;
    for (const FakeCommunicator& communicator : fakes.collectives.communicators)
        calls.insert(calls.end(), communicator.calls.begin(), communicator.calls.end());
    return calls;
}

// Memory comes before calls and goes before the communicator; it lies alike where all members are
// of one stage. Another plan's is another registration.
TEST(CommunicatorOptions, EveryCommunicatorKnowsTheMemoryWhileItIsUsed) {
    const plan::Mesh mesh = mesh_of(2, 2, 3);
    FakeWorld world(mesh);
    world.options.registers_memory = true;
    std::byte memory{};
    world.expect_well([&](Rank, GroupCommunicator& communicator) {
        communicator.register_memory(&memory, 64);
        communicator.all_reduce(GroupKind::tensor, DType::fp32, &memory, 8);
        communicator.forget_memory();
        communicator.register_memory(&memory, 128);
    });
    expect_members_agree(world);
    std::int64_t symmetric = 0;
    for (const auto& fake : world.fakes)
        for (const FakeCommunicator& communicator : fake->collectives.communicators) {
            const bool alike = communicator.members == 2 && communicator.calls[0] != "register 64";
            const std::string end = alike ? " symmetric" : "";
            std::vector<std::string> expected = {"register 64" + end, "deregister",
                                                 "register 128" + end, "deregister"};
            if (communicator.calls.size() == 5)
                expected.insert(expected.begin() + 1, "all_reduce fp32 8 sum");
            EXPECT_EQ(communicator.calls, expected);
            symmetric += alike ? 1 : 0;
        }
    std::int64_t within_stages = 0;  // of each rank's groups
    for (const GroupKind kind :
         {GroupKind::tensor, GroupKind::context, GroupKind::expert, GroupKind::data,
          GroupKind::shard, GroupKind::replica, GroupKind::expert_data, GroupKind::expert_shard,
          GroupKind::expert_replica})
        within_stages += mesh.group_size(kind) > 1 ? 1 : 0;
    EXPECT_GE(within_stages, 2);
    EXPECT_EQ(symmetric, within_stages * mesh.ranks());
}

TEST(CommunicatorOptions, MemoryThatCannotLieAlikeIsKnownToEachMember) {
    FakeWorld world(mesh_of(2, 1, 1));
    world.options.registers_memory = true;
    for (const auto& fake : world.fakes)
        fake->collectives.has_windows = false;
    std::byte memory{};
    world.expect_well(
        [&](Rank, GroupCommunicator& communicator) { communicator.register_memory(&memory, 64); });
    for (const auto& fake : world.fakes)
        for (const FakeCommunicator& communicator : fake->collectives.communicators)
            EXPECT_EQ(communicator.calls,
                      (std::vector<std::string>{"register 64 symmetric", "deregister",
                                                "register 64", "deregister"}));
}

TEST(CommunicatorOptions, NoMemoryIsKnownUnlessItIsAskedFor) {
    FakeWorld world(mesh_of(2, 1, 1));
    std::byte memory{};
    world.expect_well([&](Rank, GroupCommunicator& communicator) {
        communicator.register_memory(&memory, 64);
        communicator.forget_memory();
    });
    for (const auto& fake : world.fakes)
        EXPECT_TRUE(all_calls(*fake).empty());
}

// A communicator that is aborted forgets by itself: to deregister could wait for calls that never
// end.
TEST(CommunicatorOptions, AnAbortedRunDeregistersNothing) {
    FakeWorld world(mesh_of(2, 1, 1));
    world.options.registers_memory = true;
    std::byte memory{};
    const std::vector<std::string> messages = world.run([&](Rank, GroupCommunicator& communicator) {
        communicator.register_memory(&memory, 64);
        communicator.abort("the disk is full");
        communicator.forget_memory();
    });
    for (const std::string& message : messages)
        EXPECT_NE(message.find("the disk is full"), message.npos) << message;
    for (const auto& fake : world.fakes)
        for (const std::string& call : all_calls(*fake))
            EXPECT_EQ(call, "register 64 symmetric");
}

// A library that will not ends the run on all ranks, with what it was asked for.
TEST(CommunicatorOptions, MemoryThatIsRefusedEndsTheRun) {
    FakeWorld world(mesh_of(2, 1, 1));
    world.options.registers_memory = true;
    world.fakes[1]->collectives.refuses = true;
    std::byte memory{};
    const std::vector<std::string> messages = world.run([&](Rank, GroupCommunicator& communicator) {
        communicator.register_memory(&memory, 64);
        for (;;)
            communicator.check();
    });
    for (const std::string& message : messages)
        EXPECT_NE(message.find("no such call"), message.npos) << message;
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
