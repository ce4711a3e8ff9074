// Ranks whose driver holds the thread that issues: the run ends on all of them nevertheless, and
// says in which op.
#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/launch/thread_planes.hpp"
#include "runtime/streams/group_communicator.hpp"
#include "tests/runtime/streams/fake_world.hpp"
#include "tests/runtime/streams/plane_around.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using namespace std::chrono_literals;
using plan::DType;
using plan::GroupKind;
using plan::Rank;

// Takes a while to tell the others, in which a rank could go on.
class SlowToTell final : public PlaneAround {
  public:
    using PlaneAround::PlaneAround;
    void abort(std::string_view reason) override {
        std::this_thread::sleep_for(20ms);
        PlaneAround::abort(reason);
    }
};

// Two ranks in one tensor group, each on a thread.
class Watched : public testing::Test {
  protected:
    struct Seat {
        explicit Seat(Rank rank) : collectives(rank) {}
        FakeCollectives collectives;
        FakeStreams streams;
        std::string thrown;   // by what the rank did
        std::string overdue;  // what the end of its process would have been told
    };

    Watched() { timeouts.usual = 300ms; }

    std::array<Seat, 2> seats{Seat(0), Seat(1)};
    CallTimeouts timeouts;

    // The end of a process lets go whatever holds it.
    WatchOptions watching(Seat& seat) {
        WatchOptions options;
        options.away = 10ms;
        options.until_back = 50ms;
        options.overdue = [&seat](const std::string& reason) {
            seat.overdue = reason;
            seat.collectives.released = true;
        };
        return options;
    }

    void run(const std::function<void(Rank, GroupCommunicator&)>& body) {
        plan::Mesh mesh;
        mesh.tensor = 2;
        const auto planes = thread_planes(2);
        std::array<std::thread, 2> threads;
        for (const Rank rank : {0, 1})
            threads[static_cast<std::size_t>(rank)] = std::thread([&, rank] {
                Seat& seat = seats[static_cast<std::size_t>(rank)];
                SlowToTell plane(*planes[static_cast<std::size_t>(rank)]);
                try {
                    GroupCommunicator communicator(mesh, rank, seat.collectives, seat.streams,
                                                   plane, timeouts, std::chrono::steady_clock::now,
                                                   watching(seat));
                    communicator.connect(all_communicators(mesh));
                    communicator.issue_on(seat.streams.create_stream(StreamUse::compute));
                    body(rank, communicator);
                } catch (const CommunicationError& error) {
                    seat.thrown = error.what();
                }
            });
        for (std::thread& thread : threads)
            thread.join();
    }
};

// As a launch of a kernel does where the queue is full of work behind a call that never ends: it
// returns once the call has been aborted, and not before.
TEST_F(Watched, ALaunchBehindACallThatNeverEndsIsLetGo) {
    seats[0].streams.passed_marks = 1;  // the call has begun
    seats[1].streams.passed_marks = 0;  // and not here
    run([&](Rank rank, GroupCommunicator& communicator) {
        communicator.set_label("layer.forward all_reduce 7");
        communicator.barrier(GroupKind::tensor);
        while (seats[static_cast<std::size_t>(rank)].collectives.aborts == 0)
            std::this_thread::sleep_for(1ms);
        communicator.check();
    });
    for (const Seat& seat : seats) {
        EXPECT_EQ(seat.thrown,
                  "rank 0 ended the run: barrier of layer.forward all_reduce 7 in its tensor group "
                  "(ranks 0 1), its call 1 there has not ended after 0.3 s");
        for (const FakeCommunicator& each : seat.collectives.communicators)
            EXPECT_TRUE(each.aborted && !each.ended) << each.id;
    }
}

// Once the calls have been aborted they are over: what was waited for is asked for later.
TEST_F(Watched, SaysInWhichCallARankWaitedWhenTheRunEnded) {
    seats[0].streams.passed_marks = 1;  // the call has begun
    seats[1].streams.passed_marks = 0;  // and not here
    std::array<std::optional<Waiting>, 2> waited;
    run([&](Rank rank, GroupCommunicator& communicator) {
        communicator.set_label("fc2");
        communicator.barrier(GroupKind::tensor);
        EXPECT_FALSE(communicator.waiting()) << "nobody has looked yet";
        try {
            for (;;)
                communicator.check();
        } catch (const CommunicationError&) {
            waited[static_cast<std::size_t>(rank)] = communicator.waiting();
            throw;
        }
    });
    ASSERT_TRUE(waited[0]);
    EXPECT_EQ(waited[0]->call, "barrier of fc2 in its tensor group (ranks 0 1), its call 1 there");
    EXPECT_EQ(waited[0]->ranks, std::vector<Rank>{1});
    EXPECT_GT(waited[0]->seconds, 0);
    EXPECT_FALSE(waited[1]);
}

struct HeldCall {
    const char* driver;  // the call of the driver that does not return
    const char* told;    // what it is of
    std::function<void(GroupCommunicator&)> make;
};

std::vector<HeldCall> held_calls() {
    static std::array<std::byte, 64> memory;
    static std::byte* const from = memory.data();
    static std::byte* const into = from + 32;
    return {{"all_reduce", "all_reduce",
             [](auto& to) { to.all_reduce(GroupKind::tensor, DType::fp32, from, 4); }},
            {"all_gather", "all_gather",
             [](auto& to) { to.all_gather(GroupKind::tensor, DType::fp32, from, into, 4); }},
            {"reduce_scatter", "reduce_scatter",
             [](auto& to) { to.reduce_scatter(GroupKind::tensor, DType::fp32, from, into, 4); }},
            {"broadcast", "broadcast",
             [](auto& to) { to.broadcast(GroupKind::tensor, DType::fp32, from, 4, 0); }},
            {"send", "all_to_all",
             [](auto& to) { to.all_to_all(GroupKind::tensor, DType::fp32, from, into, 4); }},
            {"receive", "all_to_all",
             [](auto& to) { to.all_to_all(GroupKind::tensor, DType::fp32, from, into, 4); }},
            {"all_reduce", "barrier", [](auto& to) { to.barrier(GroupKind::tensor); }}};
}

class HeldIn : public Watched, public testing::WithParamInterface<std::size_t> {};

TEST_P(HeldIn, ACallOfTheDriverEndsTheProcessAndNamesItsOp) {
    const HeldCall call = held_calls()[GetParam()];
    seats[1].collectives.blocks_on = call.driver;
    run([&](Rank, GroupCommunicator& communicator) {
        communicator.set_label("layer.op");
        call.make(communicator);
        for (;;)
            communicator.check();
    });
    const std::string expected =
        std::string(call.told) +
        " of layer.op in its tensor group (ranks 0 1), its call 1 there: the driver has held it "
        "for 0.3 s";
    EXPECT_TRUE(seats[1].collectives.held);
    EXPECT_EQ(seats[1].overdue, expected);
    EXPECT_EQ(seats[0].thrown, "rank 1 ended the run: " + expected);
}

INSTANTIATE_TEST_SUITE_P(Calls, HeldIn, testing::Range<std::size_t>(0, held_calls().size()));

TEST_F(Watched, ADriverThatDoesNotComeBackFromMakingACommunicator) {
    for (const auto& [call, doing] :
         {std::pair("begin", "meeting the other 1 ranks"),
          std::pair("split", "making a communicator in its tensor group (ranks 0 1)")}) {
        seats[1].collectives.released = false;
        seats[1].collectives.blocks_on = call;
        run([](Rank, GroupCommunicator& communicator) {
            for (;;)
                communicator.check();
        });
        EXPECT_EQ(seats[1].overdue, std::string(doing) + ": the driver has held it for 0.3 s");
        EXPECT_EQ(seats[0].thrown, "rank 1 ended the run: " + seats[1].overdue);
    }
}

// Where nothing is late and nobody has ended the run, being away is no fault.
TEST_F(Watched, AThreadThatIsBusyElsewhereIsLeftAlone) {
    run([&](Rank, GroupCommunicator& communicator) {
        communicator.barrier(GroupKind::tensor);
        std::this_thread::sleep_for(100ms);
        communicator.barrier(GroupKind::tensor);
        communicator.barrier(GroupKind::tensor);
    });
    for (const Seat& seat : seats) {
        EXPECT_EQ(seat.overdue, "");
        EXPECT_EQ(seat.collectives.aborts, 0);
        EXPECT_EQ(seat.thrown, "");
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
