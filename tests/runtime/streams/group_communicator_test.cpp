// What a library of collectives is told, over fakes of it: whole plans, in the order in which
// ranks issue them, and faults.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "plan/assemble/build_plan.hpp"
#include "plan/scenario/reader.hpp"
#include "runtime/executor/bound_program.hpp"
#include "runtime/launch/thread_planes.hpp"
#include "runtime/streams/group_communicator.hpp"
#include "tests/parity/layouts.hpp"
#include "tests/runtime/streams/fake_world.hpp"
#include "tests/runtime/streams/plane_around.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using namespace std::chrono_literals;
using plan::DType;
using plan::GroupKind;
using plan::Rank;

struct Planned {
    plan::Scenario scenario;
    plan::Plan plan;
};

Planned planned(const parity::NamedLayout& layout) {
    auto read = plan::read_scenario_text(parity::kGpt, "a.json", "", layout.sets,
                                         std::string(ORRERY_SOURCE_DIR) + "/scenarios");
    EXPECT_TRUE(read.scenario) << plan::format_text(read.errors);
    plan::Plan plan = plan::build_plan(*read.scenario);
    return {std::move(*read.scenario), std::move(plan)};
}

// An op of the plan, with a place that the fake never looks at for every tensor.
void issue(const BoundOp& bound, Communicator& communicator) {
    const plan::Op& op = *bound.op;
    const std::int64_t elements = op.size(0);
    const DType dtype = bound.writes.empty() ? DType::u8 : bound.writes[0].dtype;
    std::byte nowhere{}, elsewhere{};
    communicator.set_label(op.label);
    if (op.kind() == plan::OpKind::exchange) {
        std::vector<Transfer> transfers;
        for (const BoundTransfer& each : bound.transfers)
            transfers.push_back({each.peer, each.sends ? Direction::send : Direction::receive,
                                 &nowhere, each.bytes, each.tag});
        communicator.exchange(transfers, op.group);
    } else if (communicator.members(op.group).size() == 1) {
        return;
    } else if (op.kind() == plan::OpKind::shift) {
        const auto members = communicator.members(op.group);
        const std::size_t own = static_cast<std::size_t>(communicator.index_in(op.group)),
                          count = members.size();
        const Transfer both[] = {
            {members[(own + 1) % count], Direction::send, &nowhere, elements, 0},
            {members[(own + count - 1) % count], Direction::receive, &elsewhere, elements, 0}};
        communicator.exchange(both, op.group);
    } else if (op.kind() == plan::OpKind::all_reduce) {
        communicator.all_reduce(op.group, dtype, &nowhere, elements);
    } else if (op.kind() == plan::OpKind::all_gather) {
        communicator.all_gather(op.group, dtype, &nowhere, &elsewhere, elements);
    } else {
        communicator.reduce_scatter(op.group, dtype, &nowhere, &elsewhere, elements);
    }
}

TEST(GroupCommunicator, MembersOfEveryGroupMakeThePlansCallsInOneOrder) {
    std::int64_t calls = 0, transfers = 0;
    for (const parity::NamedLayout& layout : parity::all_layouts()) {
        SCOPED_TRACE(layout.name);
        const Planned of = planned(layout);
        FakeWorld world(of.plan.mesh);
        world.asked = plan::communicators_of(of.plan);
        world.expect_well([&](Rank rank, GroupCommunicator& communicator) {
            const BoundProgram program = bind_program(of.plan, of.plan.program_of(rank), rank);
            for (const BoundOp& bound : program.ops)
                if (plan::is_communication(bound.op->kind())) issue(bound, communicator);
            communicator.check();
        });
        expect_members_agree(world);
        for (Rank rank = 0; rank < of.plan.mesh.ranks(); ++rank) {
            const auto stage = static_cast<std::size_t>(of.plan.mesh.coordinates(rank).pipeline);
            const auto& made =
                world.fakes[static_cast<std::size_t>(rank)]->collectives.communicators;
            EXPECT_EQ(static_cast<std::int64_t>(made.size()), world.asked[stage].count());
            for (const FakeCommunicator& communicator : made) {
                EXPECT_FALSE(communicator.calls.empty() && communicator.transfers.empty())
                    << communicator.id << " is made for nothing";
                calls += static_cast<std::int64_t>(communicator.calls.size());
                transfers += static_cast<std::int64_t>(communicator.transfers.size());
            }
        }
    }
    EXPECT_GT(calls, 1000);
    EXPECT_GT(transfers, 1000);
}

// The wire carries no tags: the n-th message of one rank to another must be the n-th that this one
// waits for.
TEST(GroupCommunicator, MessagesOfTwoRanksHaveOneOrderOnBothSides) {
    using Tags = std::map<std::pair<Rank, Rank>, std::vector<std::int64_t>>;  // by sender, receiver
    for (const parity::NamedLayout& layout : parity::all_layouts()) {
        SCOPED_TRACE(layout.name);
        const Planned of = planned(layout);
        Tags sent, received;
        for (Rank rank = 0; rank < of.plan.mesh.ranks(); ++rank) {
            const BoundProgram program = bind_program(of.plan, of.plan.program_of(rank), rank);
            for (const BoundOp& bound : program.ops)
                for (const BoundTransfer& each : bound.transfers)
                    if (each.sends)
                        sent[{rank, each.peer}].push_back(each.tag);
                    else
                        received[{each.peer, rank}].push_back(each.tag);
        }
        EXPECT_EQ(sent, received);
    }
}

using Places = std::vector<std::pair<std::int64_t, std::int64_t>>;  // place, of so many

Places places_in(const std::list<FakeCommunicator>& communicators) {
    Places places;
    for (const FakeCommunicator& each : communicators)
        places.emplace_back(each.member, each.members);
    return places;
}

// Tensor 2, data 2, pipeline 2 on 8 ranks: tensor, data, pipeline, embedding, model, world and
// shard have members; context, expert and replica are each rank alone.
TEST(GroupCommunicator, GroupsAreSplitOneKindAfterAnotherFromTheOneOfAllRanks) {
    const plan::Mesh mesh = mesh_of(2, 2, 2);
    FakeWorld world(mesh);
    world.expect_well([](Rank, GroupCommunicator&) {});
    for (Rank rank = 0; rank < 8; ++rank) {
        Places expected;
        std::vector<std::string> ids;
        for (std::size_t kind = 0; kind < plan::kGroupKinds; ++kind) {
            const auto ranks = mesh.group(static_cast<GroupKind>(kind), rank);
            if (ranks.size() < 2) continue;
            ids.push_back("r0.0/" + std::to_string(ids.size()) + "/" +
                          std::to_string(ranks.front()));
            expected.emplace_back(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin(),
                                  ranks.size());
        }
        EXPECT_EQ(expected.size(), 7U);
        const FakeCollectives& fake = world.fakes[static_cast<std::size_t>(rank)]->collectives;
        EXPECT_EQ(places_in(fake.communicators), expected);
        std::vector<std::string> made;
        for (const FakeCommunicator& each : fake.communicators)
            made.push_back(each.id);
        EXPECT_EQ(made, ids);
        EXPECT_EQ(places_in(fake.worlds), (Places{{rank, 8}}));
    }
    expect_members_agree(world);
}

// After those of groups: a rank is the first of the pair that it has with the next one round the
// ring, and the second of the other.
TEST(GroupCommunicator, OneCommunicatorForEachPairOfNeighboursInAPipeline) {
    for (const std::int64_t ranks : {3, 4, 5}) {
        FakeWorld world(mesh_of(1, 1, ranks));
        world.expect_well([](Rank, GroupCommunicator&) {});
        expect_members_agree(world);
        for (Rank rank = 0; rank < ranks; ++rank) {
            std::set<std::pair<Rank, std::int64_t>> pairs;  // the first one, and place in it
            const auto& made =
                world.fakes[static_cast<std::size_t>(rank)]->collectives.communicators;
            for (auto each = std::prev(made.end(), 2); each != made.end(); ++each) {
                EXPECT_EQ(each->members, 2);
                pairs.emplace(std::stoll(each->id.substr(each->id.rfind('/') + 1)), each->member);
            }
            const std::set<std::pair<Rank, std::int64_t>> expected = {
                {rank, 0}, {(rank + ranks - 1) % ranks, 1}};
            EXPECT_EQ(pairs, expected) << rank << " of " << ranks;
        }
    }
}

// Of three stages the last alone sums over tensor ranks, and nobody sends round the ring's end:
// the other ranks are there when these are split off, and have none of them.
TEST(GroupCommunicator, NoOthersThanTheyAreAskedForAreMade) {
    FakeWorld world(mesh_of(2, 1, 3));
    std::vector<plan::Communicators> asked(3);
    asked[2].groups.set(static_cast<std::size_t>(GroupKind::tensor));
    asked[0].after = asked[1].before = asked[1].after = asked[2].before = true;
    world.asked = asked;
    world.expect_well([](Rank, GroupCommunicator&) {});
    expect_members_agree(world);
    for (Rank rank = 0; rank < 6; ++rank) {
        const auto stage = static_cast<std::size_t>(rank / 2);
        const FakeCollectives& fake = world.fakes[static_cast<std::size_t>(rank)]->collectives;
        EXPECT_EQ(static_cast<std::int64_t>(fake.communicators.size()), asked[stage].count());
        const std::string own = std::to_string(rank % 2);
        const std::vector<std::vector<std::string>> made = {
            {"split none", "split 0 of 2", "split none"},
            {"split none", "split 1 of 2", "split 0 of 2"},
            {"split " + own + " of 2", "split none", "split 1 of 2"}};
        std::vector<std::string> expected = {"begin " + std::to_string(rank) + " of 6"};
        expected.insert(expected.end(), made[stage].begin(), made[stage].end());
        EXPECT_EQ(fake.made, expected);
    }
}

// Of another plan of the same ranks: what is there already is not made again.
TEST(GroupCommunicator, WhatALaterPlanAsksForBesidesIsMadeThen) {
    FakeWorld world(mesh_of(2, 1, 1));
    world.asked = std::vector<plan::Communicators>(1);
    world.asked[0].groups.set(static_cast<std::size_t>(GroupKind::tensor));
    world.expect_well([&](Rank, GroupCommunicator& communicator) {
        communicator.connect(world.asked);
        std::vector<plan::Communicators> more = world.asked;
        more[0].groups.set(static_cast<std::size_t>(GroupKind::world));
        communicator.connect(more);
        communicator.connect(world.asked);
        communicator.barrier(GroupKind::tensor);
        communicator.barrier(GroupKind::world);
    });
    expect_members_agree(world);
    EXPECT_EQ(
        world.fakes[1]->collectives.made,
        (std::vector<std::string>{"begin 1 of 2", "split 1 of 2", "begin 1 of 2", "split 1 of 2"}));
}

// Of 7 ranks in parts of at most 2 there are 4, one of which has one: 0 1, 2 3, 4 5 and 6.
TEST(GroupCommunicator, ManyRanksAreNamedByTheFirstOfEachPartOfThem) {
    FakeWorld world(mesh_of(1, 7, 1));
    for (const auto& fake : world.fakes)
        fake->collectives.ranks_of_namer = 2;
    world.expect_well([](Rank, GroupCommunicator&) {});
    for (const auto& fake : world.fakes)
        EXPECT_EQ(fake->collectives.worlds.front().id, "r0.0r2.0r4.0r6.0");
}

TEST(GroupCommunicator, EveryCallReachesTheDriverInItsType) {
    FakeWorld world(mesh_of(2, 1, 1));
    world.expect_well([](Rank rank, GroupCommunicator& communicator) {
        std::byte memory[64] = {};
        const GroupKind group = GroupKind::tensor;
        for (const DType dtype :
             {DType::u8, DType::i32, DType::bf16, DType::fp16, DType::fp32, DType::fp64})
            communicator.all_reduce(group, dtype, memory, 4);
        communicator.all_reduce(group, DType::fp32, memory, 4, Reduction::max);
        communicator.all_gather(group, DType::bf16, memory, memory, 6);
        communicator.reduce_scatter(group, DType::fp32, memory, memory, 8);
        communicator.broadcast(group, DType::i32, memory, 5, 1);
        communicator.barrier(group);
        communicator.all_to_all(group, DType::fp32, memory, memory + 32, 6);
        communicator.all_gather(GroupKind::data, DType::fp32, memory, memory + 16, 4);
        communicator.all_gather(GroupKind::data, DType::fp32, memory, memory, 4);
        const Transfer both[] = {{1 - rank, Direction::send, memory, 12, 7},
                                 {1 - rank, Direction::receive, memory + 32, 12, 7}};
        communicator.exchange(both);
    });
    const FakeCollectives& fake = world.fakes[1]->collectives;
    const FakeCommunicator& tensor = fake.communicators.front();
    EXPECT_EQ(tensor.calls,
              (std::vector<std::string>{
                  "all_reduce u8 4 sum", "all_reduce i32 4 sum", "all_reduce bf16 4 sum",
                  "all_reduce fp16 4 sum", "all_reduce fp32 4 sum", "all_reduce fp64 4 sum",
                  "all_reduce fp32 4 max", "all_gather bf16 3", "reduce_scatter fp32 4",
                  "broadcast i32 5 from 1", "all_reduce i32 1 sum"}));
    EXPECT_EQ(tensor.transfers, (std::vector<std::string>{"send 12 to 0", "receive 12 from 0",
                                                          "send 12 to 1", "receive 12 from 1"}));
    EXPECT_EQ(fake.copies, std::vector<std::string>{"16 bytes"}) << "alone, and not in place";
    EXPECT_EQ(fake.groups, 2);
    // Of no other group: transfers travel in the world.
    const FakeCommunicator& all =
        *std::next(fake.communicators.begin(), 2);  // tensor, model, world
    EXPECT_EQ(all.transfers, (std::vector<std::string>{"send 12 to 0", "receive 12 from 0"}));
    expect_members_agree(world);
}

TEST(GroupCommunicator, WaitsUntilTheDriverHasTakenACall) {
    FakeWorld world(mesh_of(2, 1, 1));
    for (const auto& fake : world.fakes)
        fake->collectives.busy = 3;  // while the first communicator is made
    world.expect_well([&](Rank rank, GroupCommunicator& communicator) {
        FakeCollectives& fake = world.fakes[static_cast<std::size_t>(rank)]->collectives;
        EXPECT_EQ(fake.busy, 0);
        fake.busy = 3;
        float value = 0;
        communicator.all_reduce(GroupKind::tensor, DType::fp32, &value, 1);
        EXPECT_EQ(fake.busy, 0);
    });
}

void expect_all_aborted(const FakeWorld& world) {
    for (const auto& fake : world.fakes) {
        EXPECT_EQ(fake->collectives.depth, 0);
        for (const FakeCommunicator& communicator : fake->collectives.communicators)
            EXPECT_TRUE(communicator.aborted && !communicator.ended) << communicator.id;
    }
}

// All ranks call; the others then wait as a device does that has put all into its streams.
void call_and_wait(Rank, GroupCommunicator& communicator) {
    float value = 0;
    communicator.set_label("layer.forward all_reduce 7");
    communicator.all_reduce(GroupKind::tensor, DType::fp32, &value, 1);
    communicator.all_reduce(GroupKind::tensor, DType::fp32, &value, 9);
    for (;;)
        communicator.check();
}

TEST(GroupCommunicator, AFailedCommunicatorEndsTheRunWithinTheCall) {
    FakeWorld world(mesh_of(2, 1, 2));
    world.fakes[3]->collectives.breaks_on = "all_reduce fp32 9 sum";
    const auto messages = world.run(call_and_wait);
    EXPECT_EQ(messages,
              std::vector<std::string>(
                  4,
                  "rank 3 ended the run: all_reduce of layer.forward all_reduce 7 in its tensor "
                  "group (ranks 2 3), its call 2 there: the network has gone"));
    expect_all_aborted(world);
}

TEST(GroupCommunicator, ACallThatTheDriverRefuses) {
    FakeWorld world(mesh_of(2, 1, 1));
    const auto messages = world.run([&](Rank rank, GroupCommunicator& communicator) {
        world.fakes[static_cast<std::size_t>(rank)]->collectives.refuses = rank == 0;
        float values[4] = {};
        communicator.set_label("dispatch");
        communicator.all_to_all(GroupKind::tensor, DType::fp32, values, values + 2, 2);
        for (;;)
            communicator.check();
    });
    EXPECT_EQ(messages, std::vector<std::string>(
                            2,
                            "rank 0 ended the run: all_to_all of dispatch in its tensor group "
                            "(ranks 0 1), its call 1 there: no such call"));
    expect_all_aborted(world);
}

TEST(GroupCommunicator, ACommunicatorThatFailsLaterIsToldWithTheOldestCallOnIt) {
    FakeWorld world(mesh_of(2, 1, 1));
    const auto messages = world.run([&](Rank rank, GroupCommunicator& communicator) {
        FakeCollectives& fake = world.fakes[static_cast<std::size_t>(rank)]->collectives;
        if (rank == 1) world.fakes[1]->streams.passed_marks = 3;  // the first call has ended
        float value = 0;
        for (const char* label : {"first", "second", "third"}) {
            communicator.set_label(label);
            communicator.all_reduce(GroupKind::tensor, DType::fp32, &value, 1);
        }
        communicator.check();
        if (rank == 1) fake.broken = fake.communicators.front().id;
        for (;;)
            communicator.check();
    });
    EXPECT_EQ(messages[1],
              "rank 1 ended the run: all_reduce of second in its tensor group (ranks 0 1), its "
              "call 2 there: the network has gone");
    EXPECT_EQ(messages[0], messages[1]);
    expect_all_aborted(world);
}

TEST(GroupCommunicator, ARankThatEndsTheRunAbortsItsOwnCallsFirst) {
    FakeWorld world(mesh_of(2, 1, 1));
    const auto messages = world.run([&](Rank rank, GroupCommunicator& communicator) {
        if (rank == 1) return call_and_wait(rank, communicator);
        communicator.barrier(GroupKind::tensor);
        communicator.abort("no memory");
        for (const FakeCommunicator& each : world.fakes[0]->collectives.communicators)
            EXPECT_TRUE(each.aborted) << "before its memory is freed: " << each.id;
        EXPECT_THROW(communicator.barrier(GroupKind::tensor), CommunicationError);
    });
    EXPECT_EQ(messages, std::vector<std::string>(2, "rank 0 ended the run: no memory"));
    expect_all_aborted(world);
}

// Says nothing of an end: one whose launcher ends the others, later.
class SilentPlane final : public PlaneAround {
  public:
    using PlaneAround::PlaneAround;
    void check() override {}
    void abort(std::string_view) override {}
};

TEST(GroupCommunicator, StaysEndedWhateverThePlaneSays) {
    const plan::Mesh mesh = mesh_of(2, 1, 1);
    const auto planes = thread_planes(2);
    const auto live = [&](Rank rank) {
        ControlPlane& plane = *planes[static_cast<std::size_t>(rank)];
        SilentPlane silent(plane);
        FakeRank fakes(rank);
        fakes.collectives.breaks_on = "all_reduce i32 1 sum";
        {
            GroupCommunicator communicator(mesh, rank, fakes.collectives, fakes.streams, silent);
            communicator.connect(all_communicators(mesh));
            EXPECT_THROW(communicator.barrier(GroupKind::tensor), CommunicationError);
            EXPECT_THROW(communicator.barrier(GroupKind::world), CommunicationError);
            EXPECT_THROW(communicator.check(), CommunicationError);
        }
        for (const FakeCommunicator& each : fakes.collectives.communicators)
            EXPECT_TRUE(each.aborted && !each.ended);
        plane.finish();
    };
    std::thread other([&] { live(1); });
    live(0);
    other.join();
}

// Time is a number that a test moves on.
class Late : public testing::Test {
  protected:
    std::atomic<Instant> time{};
    CallTimeouts timeouts;

    // The message of a rank that calls at time 0 and looks again after `elapsed`, while its stream
    // has passed so many of the call's two marks.
    std::string outcome(const char* label, std::int64_t passed, std::chrono::milliseconds elapsed) {
        FakeWorld world(mesh_of(2, 1, 1));
        world.timeouts = timeouts;
        time = Instant();
        world.now = [this] { return time.load(); };
        return world.run([&](Rank rank, GroupCommunicator& communicator) {
            if (rank != 0) {
                communicator.barrier(GroupKind::tensor);
                try {
                    for (;;)
                        communicator.check();
                } catch (const CommunicationError&) {
                    return;
                }
            }
            FakeStreams& streams = world.fakes[0]->streams;
            streams.passed_marks = passed;
            communicator.set_label(label);
            communicator.barrier(GroupKind::tensor);
            communicator.check();
            time = time.load() + elapsed;
            communicator.check();
            communicator.abort("well");
        })[0];
    }
};

// Of a call that is not late.
const std::string kWell = "rank 0 ended the run: well";

TEST_F(Late, ACallThatDoesNotEndIsToldWithItsOpAndGroup) {
    timeouts.usual = 600s;
    EXPECT_EQ(outcome("grads", 1, 600'001ms),
              "rank 0 ended the run: barrier of grads in its tensor group (ranks 0 1), its call 1 "
              "there has not ended after 600 s");
    EXPECT_EQ(outcome("grads", 1, 600'000ms), kWell) << "not later than it may";
}

TEST_F(Late, ACallThatItsStreamHasNotComeToIsNotLate) {
    EXPECT_EQ(outcome("grads", 0, 24h), kWell);
}

TEST_F(Late, ACallThatHasEndedIsNotLate) {
    EXPECT_EQ(outcome("grads", 2, 24h), kWell);
}

TEST_F(Late, PredictedCallsHaveAMultipleOfTheirDuration) {
    timeouts.expected_s = {{"grads", 4.0}, {"short", 0.001}};
    timeouts.factor = 20;
    timeouts.least = 30s;
    EXPECT_EQ(outcome("grads", 1, 80s), kWell);
    EXPECT_NE(outcome("grads", 1, 81s).find("has not ended after 80 s"), std::string::npos);
    EXPECT_EQ(outcome("short", 1, 30s), kWell);
    EXPECT_NE(outcome("short", 1, 31s).find("has not ended after 30 s"), std::string::npos);
    EXPECT_EQ(outcome("unknown", 1, 599s), kWell);
}

TEST(GroupCommunicator, ACommunicatorThatIsNeverReady) {
    FakeWorld world(mesh_of(2, 1, 1));
    world.fakes[1]->collectives.busy = 1'000'000'000;
    world.timeouts.usual = 20ms;
    const auto messages = world.run([](Rank, GroupCommunicator&) {});
    EXPECT_EQ(messages[1],
              "rank 1 ended the run: meeting the other 1 ranks: the driver has not taken it after "
              "0.02 s");
    EXPECT_TRUE(world.fakes[1]->collectives.worlds.front().aborted);
}

TEST(GroupCommunicator, MarksAreUsedAgain) {
    FakeWorld world(mesh_of(2, 1, 1));
    world.expect_well([&](Rank rank, GroupCommunicator& communicator) {
        for (int step = 0; step < 10; ++step) {
            for (int call = 0; call < 5; ++call)
                communicator.barrier(GroupKind::tensor);
            communicator.check();
        }
        EXPECT_EQ(world.fakes[static_cast<std::size_t>(rank)]->streams.events, 10U);
    });
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
