// Devices that come to no end of a kernel while no call is under way: the run ends, and says with
// which op.
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "runtime/launch/thread_planes.hpp"
#include "runtime/streams/group_communicator.hpp"
#include "runtime/streams/issued_ops.hpp"
#include "tests/runtime/streams/fake_world.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using namespace std::chrono_literals;
using plan::GroupKind;
using plan::Rank;

plan::Op named(const char* label) {
    plan::Op op;
    op.spec = plan::spec_of(plan::OpKind::gemm);
    op.label = label;
    return op;
}

// A rank whose time is a number that a test moves on. Its streams pass as many marks as it says.
class StillDevice : public testing::Test {
  protected:
    StillDevice() {
        streams.passed_marks = 0;
        issued.use(&streams);
        timeouts.usual = 300s;
    }

    void issue(const plan::Op& op, Stream into, bool marked) {
        BoundOp bound;
        bound.op = &op;
        issued.begin(bound, 3);
        Event mark;
        if (marked) streams.record(mark = streams.create_event(false), into);
        issued.issued(into, mark);
    }
    std::optional<std::string> after(std::chrono::seconds elapsed, bool excused = false) {
        time += elapsed;
        return issued.stands_still(time, timeouts.usual, excused);
    }

    FakeStreams streams;
    FlightRecorder recorder{mesh_of(2, 1, 1), 1};
    IssuedOps issued{recorder};
    CallTimeouts timeouts;
    Instant time{};
    const plan::Op fc1 = named("fc1"), fc2 = named("fc2"), head = named("head");
    const Stream compute = streams.create_stream(StreamUse::compute),
                 other = streams.create_stream(StreamUse::communication);
};

// The first of all that were issued, whichever stream it is in: what others wait for.
TEST_F(StillDevice, IsToldWithTheOpThatWasIssuedFirst) {
    issue(fc1, compute, true);
    issue(fc2, other, true);
    EXPECT_EQ(after(0s), std::nullopt);
    EXPECT_EQ(after(300s), std::nullopt) << "not longer than it may";
    EXPECT_EQ(after(1s), "gemm of fc1 on rank 1 in step 3");
}

TEST_F(StillDevice, IsToldWithHowManyOpsAMarkStandsFor) {
    for (const plan::Op* op : {&fc1, &fc2, &head})
        issue(*op, compute, op == &head);
    after(0s);
    EXPECT_EQ(after(301s), "gemm of fc1 on rank 1 in step 3 or one of the 2 ops behind it");
}

TEST_F(StillDevice, MovesWhereItPassesMarksOrIsGivenMore) {
    issue(fc1, compute, true);
    issue(fc2, compute, true);
    after(0s);
    EXPECT_EQ(after(299s), std::nullopt);
    streams.passed_marks = 1;
    EXPECT_EQ(after(2s), std::nullopt) << "it has passed a mark";
    EXPECT_EQ(after(299s), std::nullopt);
    issue(head, compute, true);
    EXPECT_EQ(after(2s), std::nullopt) << "the host goes on";
    EXPECT_EQ(after(301s), "gemm of fc2 on rank 1 in step 3");
}

TEST_F(StillDevice, MayWaitForACallAndHaveNothingToDo) {
    issue(fc1, compute, true);
    after(0s);
    EXPECT_EQ(after(301s, true), std::nullopt);
    EXPECT_EQ(after(299s), std::nullopt) << "from when the call has ended";
    streams.passed_marks = 1;
    EXPECT_EQ(after(1h), std::nullopt);
    EXPECT_EQ(after(24h), std::nullopt) << "it has ended all";
}

// Both ranks: the one whose thread that issues waits, and the one whose thread is away.
TEST(StillDevices, EndTheRunOnAllRanks) {
    for (const bool away : {false, true}) {
        const plan::Mesh mesh = mesh_of(2, 1, 1);
        const auto planes = thread_planes(2);
        const plan::Op op = named("fc1");
        std::string thrown[2];
        int aborted = 0;
        const auto live = [&](Rank rank) {
            ControlPlane& plane = *planes[static_cast<std::size_t>(rank)];
            FakeRank fakes(rank);
            FlightRecorder recorder(mesh, rank);
            IssuedOps issued(recorder);
            issued.use(&fakes.streams);
            CallTimeouts timeouts;
            timeouts.usual = 300ms;
            WatchOptions watching;
            watching.away = 10ms;
            watching.held = 300ms;
            try {
                GroupCommunicator communicator(mesh, rank, fakes.collectives, fakes.streams, plane,
                                               timeouts, std::chrono::steady_clock::now, watching,
                                               {}, &issued);
                communicator.connect(all_communicators(mesh));
                const Stream stream = fakes.streams.create_stream(StreamUse::compute);
                if (rank == 1) {
                    fakes.streams.passed_marks = 0;
                    BoundOp bound;
                    bound.op = &op;
                    issued.begin(bound, 3);
                    const Event mark = fakes.streams.create_event(false);
                    fakes.streams.record(mark, stream);
                    issued.issued(stream, mark);
                    while (away && fakes.collectives.aborts == 0)
                        std::this_thread::sleep_for(1ms);
                }
                for (;;)
                    communicator.check();
            } catch (const CommunicationError& error) {
                thrown[rank] = error.what();
                if (rank == 1) aborted = fakes.collectives.aborts;
            }
        };
        std::thread other([&] { live(1); });
        live(0);
        other.join();
        for (const std::string& message : thrown)
            EXPECT_EQ(message,
                      "rank 1 ended the run: gemm of fc1 on rank 1 in step 3: the device has not "
                      "come past it for 0.3 s");
        EXPECT_GT(aborted, 0);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
