// Ops that leave a node at the same time: shares by hand, and times of hand-made worlds.
#include "sim/engine/network_flows.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "tests/sim/engine/engine_world.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using plan::GroupKind;
using plan::Stream;
using plan::Wait;

std::vector<std::int64_t> shares_of(std::int64_t capacity, const std::vector<NetworkUse>& uses) {
    std::vector<std::int64_t> shares(uses.size());
    fair_shares(capacity, uses.data(), uses.size(), shares.data());
    return shares;
}

TEST(FairShares, AreWholeWhereAllFits) {
    EXPECT_EQ(shares_of(100, {{100, 1}}), (std::vector<std::int64_t>{1000}));
    EXPECT_EQ(shares_of(100, {{10, 8}, {20, 1}}), (std::vector<std::int64_t>{1000, 1000}));
}

// Sixteen flows of a node's eight adapters.
TEST(FairShares, AreEqualAmongThoseThatNeedMore) {
    EXPECT_EQ(shares_of(800, {{100, 8}, {100, 8}}), (std::vector<std::int64_t>{500, 500}));
    EXPECT_EQ(shares_of(800, {{800, 1}, {100, 8}}), (std::vector<std::int64_t>{110, 880}));
}

// One needs 20 of its 33 and leaves 80 to two: 40 each, of 100 and of 50.
TEST(FairShares, PassOnWhatIsNotNeeded) {
    EXPECT_EQ(shares_of(100, {{100, 1}, {20, 1}, {50, 1}}),
              (std::vector<std::int64_t>{400, 1000, 800}));
}

RC_GTEST_PROP(FairShares, AreMaxMin, ()) {
    const std::int64_t capacity = *rc::gen::inRange<std::int64_t>(1'000'000, 400'000'000);
    std::vector<NetworkUse> uses;
    const int count = *rc::gen::inRange(1, 6);
    for (int i = 0; i < count; ++i) {
        const std::int32_t flows = *rc::gen::inRange(1, 16);
        uses.push_back({*rc::gen::inRange<std::int64_t>(1, capacity / flows + 1), flows});
    }
    const std::vector<std::int64_t> shares = shares_of(capacity, uses);
    std::int64_t used = 0, widest = 0;
    for (std::size_t i = 0; i < uses.size(); ++i) {
        RC_ASSERT(shares[i] >= 1 && shares[i] <= 1000);
        const std::int64_t rate = uses[i].kBps * shares[i] / 1000;
        if (shares[i] > 1) used += rate * uses[i].flows;
        widest = std::max(widest, rate);
    }
    RC_ASSERT(used <= capacity);
    // Whoever has less than it needs has as much as anybody, but for the thousandths it is told in.
    for (std::size_t i = 0; i < uses.size(); ++i)
        if (shares[i] < 1000) RC_ASSERT(uses[i].kBps * (shares[i] + 1) / 1000 + 1 >= widest);
    // The order does not count.
    std::vector<NetworkUse> turned(uses.rbegin(), uses.rend());
    std::vector<std::int64_t> again = shares_of(capacity, turned);
    std::reverse(again.begin(), again.end());
    RC_ASSERT(again == shares);
}

// One rank that reduces on one stream and on another; each needs the whole network.
struct Overlap {
    EngineWorld world{1};
    std::vector<NetworkUse> uses;

    std::uint32_t reduction(Picoseconds duration, Stream stream, std::int64_t kBps) {
        uses.push_back({kBps, 1});
        return world.collective(GroupKind::data, duration, stream);
    }
    std::uint32_t compute(Picoseconds duration) {
        uses.push_back({});
        return world.compute(duration);
    }
    EngineResult run() {
        world.input().node_network_kBps = 100;
        return world.run(0, &uses);
    }
};

TEST(NetworkFlows, ShareWhileTheyOverlap) {
    Overlap overlap;
    overlap.world.add(0, overlap.reduction(10, Stream::data_comm, 100));
    overlap.world.add(0, overlap.compute(4));
    overlap.world.add(0, overlap.reduction(10, Stream::tensor_comm, 100),
                      {Wait{1, Stream::compute}});
    const EngineResult result = overlap.run();
    // Until 4 the first is alone; its other 6 take 12. By then the second has done 6, and does 4.
    EXPECT_EQ(result.events[0][0].end, 16);
    EXPECT_EQ(result.events[0][2].start, 4);
    EXPECT_EQ(result.events[0][2].end, 20);
}

TEST(NetworkFlows, DoNotSlowWhatLeavesThemRoom) {
    Overlap overlap;
    overlap.world.add(0, overlap.reduction(10, Stream::data_comm, 60));
    overlap.world.add(0, overlap.reduction(30, Stream::tensor_comm, 40));
    const EngineResult result = overlap.run();
    EXPECT_EQ(result.events[0][0].end, 10);
    EXPECT_EQ(result.events[0][1].end, 30);
}

// A needs little and keeps it; B has the other 80 of the 100 it needs, until A ends.
TEST(NetworkFlows, TakeTurnsAtTheRest) {
    Overlap overlap;
    overlap.world.add(0, overlap.reduction(50, Stream::data_comm, 20));
    overlap.world.add(0, overlap.reduction(100, Stream::tensor_comm, 100));
    const EngineResult result = overlap.run();
    EXPECT_EQ(result.events[0][0].end, 50);
    EXPECT_EQ(result.events[0][1].end, 50 + (100 - 40));
}

// A rank that reduces while its neighbour sends to it; and while it sends itself, which is another
// direction than what it receives.
TEST(NetworkFlows, HaveTwoDirections) {
    EngineWorld world(2);
    const auto exchange = world.exchange();
    for (std::size_t t = 0; t < 2; ++t) {
        const auto other = static_cast<std::int32_t>(1 - t);
        world.add(t, exchange, {},
                  {EngineWorld::send(other, static_cast<std::int32_t>(t), 0),
                   EngineWorld::receive(other, other + 1, 0)});
    }
    const std::vector<NetworkUse> uses(1);
    world.input().node_network_kBps = 100;
    const EngineResult result = world.run(40, &uses, {100, 1});
    ASSERT_TRUE(result.stuck.empty());
    EXPECT_EQ(result.events[0][0].end, 40);
}

// A group waits for its slowest member: rank 1 is receiving while both reduce.
TEST(NetworkFlows, OfAGroupMoveAsItsSlowestMember) {
    EngineWorld world(3);
    const auto exchange = world.exchange();
    const auto reduce = world.collective(GroupKind::data, 30);
    for (std::size_t t = 0; t < 3; ++t)
        world.add(t, reduce);
    world.add(1, exchange, {}, {EngineWorld::receive(2, 3, 0)});
    world.add(2, exchange, {}, {EngineWorld::send(1, 2, 0)});
    world.meet(GroupKind::data);
    const std::vector<NetworkUse> uses{{}, {100, 1}};
    world.input().node_network_kBps = 100;
    const EngineResult result = world.run(10, &uses, {100, 1});
    ASSERT_TRUE(result.stuck.empty());
    // Half of its rate for 20: the transfer has done its 10; the other 20 alone.
    EXPECT_EQ(result.events[1][1].end, 20);
    for (std::size_t t = 0; t < 3; ++t)
        EXPECT_EQ(result.events[t][0].end, 40) << t;
}

// Several begin and end at one instant: rates are settled once.
TEST(NetworkFlows, LeaveNoTraceOfWhatChangesAndChangesBack) {
    Overlap overlap;
    overlap.world.add(0, overlap.reduction(100, Stream::data_comm, 100));
    overlap.world.add(0, overlap.compute(50));
    overlap.world.add(0, overlap.reduction(0, Stream::tensor_comm, 100),
                      {Wait{1, Stream::compute}});
    const EngineResult result = overlap.run();
    EXPECT_EQ(result.events[0][2].end, 50);
    EXPECT_EQ(result.events[0][0].end, 100);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
