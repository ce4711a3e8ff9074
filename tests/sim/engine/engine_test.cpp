// The event loop by hand-made worlds: rendezvous, meeting, host, streams, slow-down, deadlock.
#include "sim/engine/engine.hpp"

#include <gtest/gtest.h>

#include "sim/cost/profile.hpp"
#include "tests/sim/engine/engine_world.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using plan::GroupKind;
using plan::OpKind;
using plan::Stream;
using plan::Wait;
using trace::Event;

Event event(Picoseconds ready, Picoseconds start, Picoseconds end, std::int32_t blocker,
            std::int32_t late_track = -1) {
    return {ready, start, end, blocker, late_track};
}

TEST(Engine, ALateReceiverDelaysTheSender) {
    EngineWorld world(2);
    const auto exchange = world.exchange();
    world.add(0, world.compute(100));
    world.add(0, exchange, {Wait{1, Stream::compute}}, {EngineWorld::send(1, 0, 0)});
    world.add(1, world.compute(300));
    world.add(1, exchange, {Wait{1, Stream::compute}}, {EngineWorld::receive(0, 1, 0)});
    const EngineResult result = world.run(50);
    ASSERT_TRUE(result.stuck.empty());
    EXPECT_EQ(result.events[0][1], event(100, 300, 350, 0, 1));  // the sender waited for track 1
    EXPECT_EQ(result.events[1][1], event(300, 300, 350, 0));
    EXPECT_EQ(result.processed, 4U);
}

TEST(Engine, ALateSenderDelaysTheReceiver) {
    EngineWorld world(2);
    const auto exchange = world.exchange();
    world.add(0, world.compute(300));
    world.add(0, exchange, {Wait{1, Stream::compute}}, {EngineWorld::send(1, 0, 0)});
    world.add(1, exchange, {}, {EngineWorld::receive(0, 1, 0)});
    world.add(1, world.compute(10), {Wait{1, Stream::pipeline_comm}});
    const EngineResult result = world.run(50);
    EXPECT_EQ(result.events[1][0], event(0, 300, 350, trace::kNothing, 0));
    EXPECT_EQ(result.events[1][1], event(350, 350, 360, 0));
}

// Both directions at once take the time of one, and end together.
TEST(Engine, AnExchangeEndsWithItsLastTransfer) {
    EngineWorld world(3);
    const auto exchange = world.exchange();
    world.add(0, world.compute(100));
    world.add(0, exchange, {Wait{1, Stream::compute}}, {EngineWorld::send(1, 0, 0)});
    world.add(1, exchange, {}, {EngineWorld::receive(0, 1, 0), EngineWorld::send(2, 1, 7)});
    world.add(1, world.compute(10), {Wait{1, Stream::pipeline_comm}});
    world.add(2, world.compute(400));
    world.add(2, exchange, {Wait{1, Stream::compute}}, {EngineWorld::receive(1, 2, 7)});
    const EngineResult result = world.run(50);
    EXPECT_EQ(result.events[0][1].end, 150);
    EXPECT_EQ(result.events[1][0].end, 450);
    EXPECT_EQ(result.events[1][1].start, 450);
}

TEST(Engine, ACollectiveWaitsForItsLastMemberAndNamesIt) {
    EngineWorld world(3);
    const auto reduce = world.collective(GroupKind::data, 40);
    const Picoseconds busy[] = {100, 250, 30};
    for (std::size_t t = 0; t < 3; ++t) {
        world.add(t, world.compute(busy[t]));
        world.add(t, reduce, {Wait{1, Stream::compute}});
    }
    world.meet(GroupKind::data);
    const EngineResult result = world.run();
    EXPECT_EQ(result.events[0][1], event(100, 250, 290, 0, 1));
    EXPECT_EQ(result.events[1][1], event(250, 250, 290, 0));
    EXPECT_EQ(result.events[2][1], event(30, 250, 290, 0, 1));
}

TEST(Engine, ACollectiveOfOneClassMeetsNobody) {
    EngineWorld world(1);
    world.add(0, world.collective(GroupKind::data, 40));
    EXPECT_EQ(world.run().events[0][0], event(0, 0, 40, trace::kNothing));
}

// A chain of kernels that take no time takes n launches.
TEST(Engine, EmptyKernelsAreBoundByTheHost) {
    EngineWorld world(1);
    const auto kernel = world.compute(0);
    for (int i = 0; i < 20; ++i)
        world.add(0, kernel);
    world.input().launch = 7;
    const EngineResult result = world.run();
    for (int i = 0; i < 20; ++i) {
        const Picoseconds issued = 7 * (i + 1);
        EXPECT_EQ(result.events[0][static_cast<std::size_t>(i)],
                  event(issued, issued, issued, trace::kHost));
    }
}

// Forward, recomputation and optimizer take one time to issue, backward another, whatever they take
// to run.
TEST(Engine, TheHostTakesItsTimeByPhase) {
    EngineWorld world(1);
    const auto kernel = [&](plan::Phase phase) {
        const auto op = world.compute(0);
        world.op(op).phase = phase;
        return op;
    };
    for (const plan::Phase phase : {plan::Phase::forward, plan::Phase::recompute,
                                    plan::Phase::backward, plan::Phase::optimizer})
        world.add(0, kernel(phase));
    world.input().launch.forward = 7;
    world.input().launch.backward = 2;
    const EngineResult result = world.run();
    EXPECT_EQ(result.events[0].back().end, 7 + 7 + 2 + 7);
}

TEST(Engine, TheHostTakesItsTimeForATransfer) {
    EngineWorld world(2);
    const auto exchange = world.exchange();
    world.add(0, exchange, {}, {EngineWorld::send(1, 0, 0)});
    world.add(1, exchange, {}, {EngineWorld::receive(0, 1, 0)});
    world.input().launch.forward = 7;
    world.input().launch.transfer = 40;
    const EngineResult result = world.run(50);
    ASSERT_TRUE(result.stuck.empty());
    EXPECT_EQ(result.events[0][0], event(40, 40, 90, trace::kHost));
}

// The host is at most `launch_queue` ops ahead: with a queue of one it starts to issue an op when
// the one before has ended.
TEST(Engine, TheHostRunsNoFurtherAheadThanItsQueue) {
    const int n = 5;
    auto last_end = [&](std::int64_t queue) {
        EngineWorld world(1);
        const auto kernel = world.compute(100);
        for (int i = 0; i < n; ++i)
            world.add(0, kernel);
        world.input().launch = 10;
        world.input().launch_queue = queue;
        return world.run().events[0].back().end;
    };
    EXPECT_EQ(last_end(1), n * (10 + 100));
    EXPECT_EQ(last_end(2), 10 + n * 100);
    EXPECT_EQ(last_end(1000), 10 + n * 100);
}

// A trace's clock ends at 2^61 ps, whether ops or the host get there.
TEST(Engine, RefusesAStepBeyondTheClock) {
    constexpr Picoseconds kEighth = Picoseconds{1} << 58;
    const auto run = [](int ops, Picoseconds duration, Picoseconds launch) {
        EngineWorld world(1);
        const auto kernel = world.compute(duration);
        for (int i = 0; i < ops; ++i)
            world.add(0, kernel);
        world.input().launch = launch;
        return world.run().events[0].back().end;
    };
    EXPECT_EQ(run(8, kEighth, 0), Picoseconds{1} << 61);
    EXPECT_THROW(run(9, kEighth, 0), ProfileError);
    EXPECT_EQ(run(8, 0, kEighth), Picoseconds{1} << 61);
    EXPECT_THROW(run(9, 0, kEighth), ProfileError);
}

// The queue holds ops of all streams: behind a long transfer two kernels fit, the third waits.
TEST(Engine, AFullQueueHoldsBackOtherStreams) {
    EngineWorld world(1);
    world.add(0, world.op(OpKind::all_reduce, Stream::data_comm, 1000, GroupKind::data));
    const auto kernel = world.compute(10);
    for (int i = 0; i < 3; ++i)
        world.add(0, kernel,
                  i == 1 ? std::vector<Wait>{{1, Stream::data_comm}} : std::vector<Wait>{});
    world.input().launch_queue = 2;
    const EngineResult result = world.run();
    EXPECT_EQ(result.events[0][1].end, 10);
    EXPECT_EQ(result.events[0][2].start, 1000);
    EXPECT_EQ(result.events[0][3].start, 1010);
}

TEST(Engine, StreamsOverlapAndWaitOnlyWhereTheyAreTold) {
    EngineWorld world(1);
    world.add(0, world.compute(100));
    world.add(0, world.collective(GroupKind::data, 80));
    world.add(0, world.compute(5));
    world.add(0, world.compute(20), {Wait{1, Stream::data_comm}});
    world.add(0, world.op(OpKind::gemm, Stream::copy, 500));
    world.add(0, world.compute(1), {Wait{1, Stream::copy}});
    const EngineResult result = world.run();
    EXPECT_EQ(result.events[0][1], event(0, 0, 80, trace::kNothing));
    EXPECT_EQ(result.events[0][2], event(100, 100, 105, 0));
    EXPECT_EQ(result.events[0][3], event(105, 105, 125, 2));
    EXPECT_EQ(result.events[0][5], event(500, 500, 501, 4));
}

// Compute runs at 1000/1200 of its rate while the rank communicates: [0, 300) does 250 of 1000, the
// other 750 follow at full rate.
TEST(Engine, ComputeIsSlowerWhileTheRankCommunicates) {
    EngineWorld world(1);
    world.add(0, world.compute(1000));
    world.add(0, world.collective(GroupKind::data, 300));
    world.input().compute_slowdown_permille = 200;
    EXPECT_EQ(world.run().events[0][0].end, 1050);
}

TEST(Engine, ComputeUnderALongTransferIsStretchedWhole) {
    EngineWorld world(1);
    world.add(0, world.compute(1000));
    world.add(0, world.collective(GroupKind::data, 5000));
    world.add(0, world.compute(500));
    world.input().compute_slowdown_permille = 200;
    const EngineResult result = world.run();
    EXPECT_EQ(result.events[0][0].end, 1200);
    EXPECT_EQ(result.events[0][2], event(1200, 1200, 1800, 0));
    EXPECT_EQ(result.events[0][1].end, 5000) << "communication keeps its pace";
}

// A transfer within: [0, 400) does 400, [400, 1000) does 500 of the 600 left, the last 100 at full
// rate. Two transfers at once slow no more than one.
TEST(Engine, ComputeChangesItsPaceWithEachTransfer) {
    for (const bool twice : {false, true}) {
        EngineWorld world(1);
        world.add(0, world.compute(1000));
        world.add(0, world.op(OpKind::gemm, Stream::copy, 400));
        world.add(0, world.collective(GroupKind::data, 600), {Wait{1, Stream::copy}});
        if (twice)
            world.add(0, world.collective(GroupKind::tensor, 600, Stream::tensor_comm),
                      {Wait{1, Stream::copy}});
        world.input().compute_slowdown_permille = 200;
        EXPECT_EQ(world.run().events[0][0].end, 1100) << twice;
    }
}

// One transfer that follows another at once leaves no gap in which compute changes its pace, and no
// rounding: 333 + 267 slow as much as 600.
TEST(Engine, ComputeDoesNotNoticeATransferFollowingAnother) {
    EngineWorld world(1);
    world.add(0, world.compute(1000));
    world.add(0, world.collective(GroupKind::data, 333));
    world.add(0, world.collective(GroupKind::tensor, 267, Stream::tensor_comm),
              {Wait{1, Stream::data_comm}});
    world.input().compute_slowdown_permille = 200;
    EXPECT_EQ(world.run().events[0][0].end, 1100);
}

// Waiting for a peer is not communicating: only [250, 290) slows the early member's compute.
TEST(Engine, WaitingForAPeerSlowsNothing) {
    EngineWorld world(2);
    const auto reduce = world.collective(GroupKind::data, 40);
    world.add(0, reduce);
    world.add(0, world.compute(1000));
    world.add(1, world.compute(250));
    world.add(1, reduce, {Wait{1, Stream::compute}});
    world.meet(GroupKind::data);
    world.input().compute_slowdown_permille = 1000;  // half the rate: 40 does 20
    const EngineResult result = world.run();
    EXPECT_EQ(result.events[0][0].start, 250);
    EXPECT_EQ(result.events[0][1].end, 1020);
}

TEST(Engine, TransfersSlowBothSides) {
    EngineWorld world(2);
    const auto exchange = world.exchange();
    world.add(0, exchange, {}, {EngineWorld::send(1, 0, 0)});
    world.add(0, world.compute(100));
    world.add(1, exchange, {}, {EngineWorld::receive(0, 1, 0)});
    world.add(1, world.compute(100));
    world.input().compute_slowdown_permille = 1000;
    const EngineResult result = world.run(60);  // 60 at half rate does 30; 70 follow
    EXPECT_EQ(result.events[0][1].end, 130);
    EXPECT_EQ(result.events[1][1].end, 130);
}

// Two ranks that issue two collectives on one stream in opposite orders: both wait for ever.
TEST(Engine, CrossedCollectivesAreReportedAsStuck) {
    EngineWorld world(2);
    const auto over_data = world.collective(GroupKind::data, 10);
    const auto over_world = world.collective(GroupKind::world, 10);
    world.add(0, over_data);
    world.add(0, over_world);
    world.add(1, over_world);
    world.add(1, over_data);
    world.add(1, world.compute(5), {Wait{2, Stream::data_comm}});
    world.meet(GroupKind::data);
    world.meet(GroupKind::world);
    const EngineResult result = world.run();
    ASSERT_EQ(result.stuck.size(), 3U);
    EXPECT_EQ(result.stuck[0].track, 0);
    EXPECT_EQ(result.stuck[0].op, 0U);
    EXPECT_EQ(result.stuck[0].waits_for, "its peers");
    // Streams of a track in their order: compute waits for the op that will never end.
    EXPECT_EQ(result.stuck[1].track, 1);
    EXPECT_EQ(result.stuck[1].op, 2U);
    EXPECT_EQ(result.stuck[1].waits_for, "op 1 on data_comm");
    EXPECT_EQ(result.stuck[2].track, 1);
    EXPECT_EQ(result.stuck[2].op, 0U);
    EXPECT_EQ(result.stuck[2].waits_for, "its peers");
}

TEST(Engine, CrossedTransfersAreStuckAndOneExchangeFreesThem) {
    auto trade = [](bool together) {
        EngineWorld world(2);
        const auto exchange = world.exchange();
        const plan::Transfer send_f = EngineWorld::send(1, 0, 1);
        const plan::Transfer receive_f = EngineWorld::receive(0, 1, 1);
        const plan::Transfer send_b{{1, plan::ActionKind::send_b, 0}, 0, 1, -1};
        const plan::Transfer receive_b{{0, plan::ActionKind::recv_b, 0}, 1, 1, -1};
        if (together) {
            world.add(0, exchange, {}, {send_f, receive_b});
            world.add(1, exchange, {}, {send_b, receive_f});
        } else {
            world.add(0, exchange, {}, {send_f});
            world.add(0, exchange, {}, {receive_b});
            world.add(1, exchange, {}, {send_b});
            world.add(1, exchange, {}, {receive_f});
        }
        return world.run(10);
    };
    EXPECT_EQ(trade(false).stuck.size(), 2U);
    const EngineResult freed = trade(true);
    EXPECT_TRUE(freed.stuck.empty());
    EXPECT_EQ(freed.events[0][0].end, 10);
}

// With a queue that is full of ops that cannot run, the host is what the others wait for.
TEST(Engine, AStuckReportNamesTheHost) {
    EngineWorld world(2);
    world.add(0, world.exchange(), {}, {EngineWorld::send(1, 0, 0)});  // nobody receives
    world.add(0, world.compute(1));
    world.input().launch_queue = 1;
    const EngineResult result = world.run();
    ASSERT_EQ(result.stuck.size(), 2U);
    EXPECT_EQ(result.stuck[0].waits_for, "the host");
    EXPECT_EQ(result.stuck[1].waits_for, "its peers");
}

TEST(EngineDeath, MembersThatDisagreeOnTheirCollectiveAreABug) {
    EngineWorld world(2);
    world.add(0, world.collective(GroupKind::data, 10));
    world.add(1, world.op(OpKind::all_gather, Stream::data_comm, 10, GroupKind::data));
    world.meet(GroupKind::data);
    EXPECT_DEATH(world.run(), "members of a group disagree");
}

// Nobody wants the answer any more: the run ends soon after that is said, and not with a result.
TEST(Engine, ARunThatNobodyWantsIsStopped) {
    EngineWorld world(1);
    constexpr std::uint32_t kOps = 100'000;
    const auto compute = world.compute(10);
    for (std::uint32_t i = 0; i < kOps; ++i)
        world.add(0, compute);
    class Stopping : public EngineListener {
      public:
        void ended(TrackId, std::uint32_t, std::uint32_t, const Event&) override {
            ++count;
            stop = true;
        }
        std::atomic<bool> stop{false};
        std::uint32_t count = 0;
    };
    Stopping listener;
    world.input().stop = &listener.stop;
    EXPECT_THROW(world.run(listener), Stopped);
    EXPECT_LT(listener.count, kOps / 2);
    EXPECT_GT(listener.count, 0U);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
