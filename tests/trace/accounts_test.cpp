#include "trace/accounts.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace orrery::trace {
namespace ORRERY_TEST_FILE {

using plan::GroupKind;
using plan::Phase;
using plan::Stream;

// A rank's events, written down one by one; times are of no unit.
class Rank {
  public:
    explicit Rank(Trace& trace, std::int32_t pipeline_rank = 0) : trace_(trace) {
        program_ = static_cast<std::int32_t>(trace.programs.size());
        track_ = trace.tracks.size();
        trace.programs.emplace_back().pipeline_rank = pipeline_rank;
        trace.programs.back().actions = {*parse_actions("0F0")};
        trace.programs.back().live_bytes = {0};
        trace.tracks.emplace_back().program = program_;
    }

    Rank& compute(Phase phase, Picoseconds start, Picoseconds end,
                  std::int32_t blocker = kNothing) {
        OpName op;
        op.phase = phase;
        return add(op, {start, start, end, blocker, -1});
    }

    Rank& transfer(GroupKind group, Event event, double sent_bytes = 0) {
        OpName op;
        op.kind = plan::OpKind::all_reduce;
        op.group = group;
        op.stream = group == GroupKind::tensor ? Stream::tensor_comm : Stream::data_comm;
        if (group == GroupKind::pipeline) op.stream = Stream::pipeline_comm;
        op.sent_bytes = sent_bytes;
        return add(op, event);
    }

    // A kernel that runs on a stream of communication.
    Rank& kernel_on(Stream stream, Event event) {
        OpName op;
        op.kind = plan::OpKind::add;
        op.stream = stream;
        return add(op, event);
    }

    Rank& represents(std::int64_t ranks) {
        trace_.tracks[track_].alike = {{trace_.tracks[track_].rank + 1, ranks - 1}};
        return *this;
    }

  private:
    Rank& add(const OpName& op, const Event& event) {
        ProgramOps& program = trace_.programs[static_cast<std::size_t>(program_)];
        program.op.push_back(static_cast<std::uint32_t>(trace_.ops.size()));
        program.step.push_back(0);
        program.layer.push_back(-1);
        trace_.ops.push_back(op);
        std::vector<Event> events = trace_.tracks[track_].events.unpacked();
        events.push_back(event);
        trace_.tracks[track_].events = events;
        return *this;
    }

    Trace& trace_;
    std::int32_t program_ = 0;
    std::size_t track_ = 0;
};

Trace step(Picoseconds end, Picoseconds start = 0) {
    Trace trace;
    trace.step_start = start;
    trace.step_end = end;
    return trace;
}

// Accounts by name, for tests to say all of what they expect.
using Expected = std::vector<std::pair<Account, Picoseconds>>;

void expect_accounts(const Trace& trace, std::size_t track, const Expected& expected) {
    Accounts all{};
    for (const auto& [account, time] : expected)
        all[static_cast<std::size_t>(account)] = time;
    const Accounts found = accounts_of(trace, trace.tracks[track]);
    for (std::size_t a = 0; a < kAccounts; ++a)
        EXPECT_EQ(found[a], all[a]) << name(static_cast<Account>(a));
    EXPECT_EQ(std::accumulate(found.begin(), found.end(), Picoseconds{0}),
              trace.step_end - trace.step_start);
}

TEST(Accounts, ChargeComputeToItsPhase) {
    Trace trace = step(100);
    Rank(trace)
        .compute(Phase::forward, 0, 10)
        .compute(Phase::recompute, 10, 30, 0)
        .compute(Phase::backward, 30, 75, 1)
        .compute(Phase::optimizer, 75, 100, 2);
    expect_accounts(
        trace, 0,
        {{Account::compute, 10 + 45}, {Account::recompute, 20}, {Account::optimizer, 25}});
}

TEST(Accounts, ExposeATransferThatComputeWaitsFor) {
    Trace trace = step(50);
    // All members are there at 10; compute stands still until 30.
    Rank(trace)
        .compute(Phase::forward, 0, 10)
        .transfer(GroupKind::tensor, {10, 10, 30, 0, -1})
        .compute(Phase::forward, 30, 50, 1);
    expect_accounts(trace, 0, {{Account::compute, 10 + 20}, {Account::exposed_tensor, 20}});
}

TEST(Accounts, ExposeOnlyWhatComputeDoesNotHide) {
    Trace trace = step(60);
    // The transfer runs from 10 to 40, under compute until 25.
    Rank(trace)
        .compute(Phase::forward, 0, 10)
        .transfer(GroupKind::context, {10, 10, 40, 0, -1})
        .compute(Phase::forward, 10, 25, 0)
        .compute(Phase::forward, 40, 60, 1);
    expect_accounts(trace, 0, {{Account::compute, 10 + 15 + 20}, {Account::exposed_context, 15}});
}

TEST(Accounts, ChargeEachGroupToItsAccount) {
    const std::vector<std::pair<GroupKind, Account>> accounts = {
        {GroupKind::tensor, Account::exposed_tensor},
        {GroupKind::context, Account::exposed_context},
        {GroupKind::expert, Account::exposed_expert},
        {GroupKind::data, Account::exposed_data},
        {GroupKind::model, Account::exposed_data},  // the gradient norm
        {GroupKind::world, Account::exposed_data},
        {GroupKind::shard, Account::exposed_data},
        {GroupKind::replica, Account::exposed_data},
        {GroupKind::pipeline, Account::exposed_pipeline},
        {GroupKind::embedding, Account::exposed_pipeline}};  // tied embeddings
    for (const auto& [group, account] : accounts) {
        Trace trace = step(10);
        Rank(trace).transfer(group, {0, 0, 7, kNothing, -1}).compute(Phase::forward, 7, 10, 0);
        expect_accounts(trace, 0, {{account, 7}, {Account::compute, 3}});
    }
}

TEST(Accounts, ChargeAKernelOnACommunicationStreamToThatStream) {
    const std::vector<std::pair<Stream, Account>> accounts = {
        {Stream::tensor_comm, Account::exposed_tensor},
        {Stream::context_comm, Account::exposed_context},
        {Stream::expert_comm, Account::exposed_expert},
        {Stream::data_comm, Account::exposed_data},  // adding a reduced bucket to its shard
        {Stream::pipeline_comm, Account::exposed_pipeline},
        {Stream::copy, Account::other}};
    for (const auto& [stream, account] : accounts) {
        Trace trace = step(10);
        Rank(trace).kernel_on(stream, {0, 0, 7, kNothing, -1}).compute(Phase::forward, 7, 10, 0);
        expect_accounts(trace, 0, {{account, 7}, {Account::compute, 3}});
    }
}

// Rank 0 is ready to receive at 10, rank 1 sends at 40; the transfer takes 5.
Trace waits_for_a_peer(std::int32_t pipeline_rank_of_peer, GroupKind group) {
    Trace trace = step(60);
    Rank(trace)
        .compute(Phase::forward, 0, 10)
        .transfer(group, {10, 40, 45, 0, 1})
        .compute(Phase::forward, 45, 60, 1);
    Rank(trace, pipeline_rank_of_peer)
        .compute(Phase::forward, 0, 40)
        .transfer(group, {40, 40, 45, 0, -1})
        .compute(Phase::forward, 45, 60, 1);
    return trace;
}

TEST(Accounts, CallAnAbsentPipelinePeerABubble) {
    const Trace trace = waits_for_a_peer(1, GroupKind::pipeline);
    expect_accounts(
        trace, 0, {{Account::compute, 25}, {Account::bubble, 30}, {Account::exposed_pipeline, 5}});
    expect_accounts(trace, 1, {{Account::compute, 55}, {Account::exposed_pipeline, 5}});
}

TEST(Accounts, CallAnAbsentPeerOfTheSameProgramImbalance) {
    Trace trace = waits_for_a_peer(0, GroupKind::data);
    trace.programs.pop_back();
    trace.tracks[1].program = 0;
    expect_accounts(trace, 0,
                    {{Account::compute, 25}, {Account::imbalance, 30}, {Account::exposed_data, 5}});
}

TEST(Accounts, CallAnAbsentPeerOfTheSamePipelineRankImbalance) {
    // Ranks of one stage may have programs of their own: halves of a causal ring, say.
    const Trace trace = waits_for_a_peer(0, GroupKind::context);
    expect_accounts(
        trace, 0,
        {{Account::compute, 25}, {Account::imbalance, 30}, {Account::exposed_context, 5}});
}

TEST(Accounts, ChargeTheHostsDelayToLaunch) {
    Trace trace = step(40);
    // The device is free at 10; the host issues the next op at 18, and had issued the first at 3.
    Rank(trace).compute(Phase::forward, 3, 10, kHost).compute(Phase::forward, 18, 40, kHost);
    expect_accounts(trace, 0, {{Account::launch, 3 + 8}, {Account::compute, 7 + 22}});
}

TEST(Accounts, ChargeATransferThatTheHostIssuedLate) {
    Trace trace = step(40);
    // Compute ends at 10, the host issues the transfer at 14, it runs until 24.
    Rank(trace)
        .compute(Phase::forward, 0, 10)
        .transfer(GroupKind::tensor, {14, 14, 24, kHost, -1})
        .compute(Phase::forward, 24, 40, 1);
    expect_accounts(trace, 0,
                    {{Account::compute, 26}, {Account::launch, 4}, {Account::exposed_tensor, 10}});
}

TEST(Accounts, FollowATransferThatQueuedBehindAnother) {
    Trace trace = step(60);
    // Compute waits for the second transfer, which waited on its stream for the first.
    Rank(trace)
        .compute(Phase::backward, 0, 10)
        .transfer(GroupKind::data, {10, 10, 30, 0, -1})
        .transfer(GroupKind::tensor, {30, 30, 36, 1, -1})
        .compute(Phase::backward, 36, 60, 2);
    expect_accounts(
        trace, 0,
        {{Account::compute, 10 + 24}, {Account::exposed_data, 20}, {Account::exposed_tensor, 6}});
}

TEST(Accounts, StopFollowingWhereComputeRan) {
    Trace trace = step(60);
    // As before, but compute hides the first transfer until 22.
    Rank(trace)
        .transfer(GroupKind::data, {0, 0, 30, kNothing, -1})
        .transfer(GroupKind::tensor, {30, 30, 36, 0, -1})
        .compute(Phase::backward, 0, 22)
        .compute(Phase::backward, 36, 60, 1);
    expect_accounts(
        trace, 0,
        {{Account::compute, 22 + 24}, {Account::exposed_data, 8}, {Account::exposed_tensor, 6}});
}

TEST(Accounts, DivideAGapBetweenAbsenceAndTransfer) {
    Trace trace = step(100);
    // Idle from 10 to 70: the second transfer runs 60..70, its peer came at 60; before 35 the first
    // ran, whose peer came at 20.
    Rank(trace)
        .compute(Phase::forward, 0, 10)
        .transfer(GroupKind::pipeline, {10, 20, 35, 0, 1})
        .transfer(GroupKind::pipeline, {35, 60, 70, 1, 1})
        .compute(Phase::forward, 70, 100, 2);
    Rank(trace, 1).compute(Phase::forward, 0, 100);
    expect_accounts(trace, 0,
                    {{Account::compute, 10 + 30},
                     {Account::bubble, 10 + 25},
                     {Account::exposed_pipeline, 15 + 10}});
}

TEST(Accounts, CallADrainedScheduleABubble) {
    Trace trace = step(100);
    Rank(trace).compute(Phase::forward, 0, 60);
    expect_accounts(trace, 0, {{Account::compute, 60}, {Account::bubble, 40}});
}

TEST(Accounts, ExposeAGatherAtTheEnd) {
    Trace trace = step(100);
    // Compute ends at 60, a gather that nothing waits for at 90; the rank has then drained.
    Rank(trace).compute(Phase::optimizer, 0, 60).transfer(GroupKind::data, {60, 65, 90, 0, -1});
    // From 60 to 65 it had not started though all were there: nobody is to blame.
    expect_accounts(trace, 0,
                    {{Account::optimizer, 60},
                     {Account::other, 5},
                     {Account::exposed_data, 25},
                     {Account::bubble, 10}});
}

// A measured kernel is ready when the gather ends at 30; its thread comes to it at 37.
TEST(Accounts, CountALateStartOfAKernelAsLaunch) {
    Trace trace = step(100);
    Rank(trace)
        .compute(Phase::forward, 0, 10)
        .transfer(GroupKind::tensor, {10, 10, 30, 0, -1})
        .compute(Phase::forward, 37, 100, 1);
    trace.tracks[0].events.change([](Event& event, std::size_t i) {
        if (i == 2) event.ready = 30;
    });
    expect_accounts(trace, 0,
                    {{Account::compute, 73}, {Account::exposed_tensor, 20}, {Account::launch, 7}});
}

TEST(Accounts, CountOnlyWhatLiesInTheWindow) {
    Trace trace = step(100, 20);
    Rank(trace)
        .compute(Phase::forward, 0, 10)
        .transfer(GroupKind::tensor, {10, 10, 30, 0, -1})
        .compute(Phase::forward, 30, 100, 1);
    expect_accounts(trace, 0, {{Account::exposed_tensor, 10}, {Account::compute, 70}});
}

TEST(Accounts, CountComputeThatTheWindowsStartCuts) {
    Trace trace = step(100, 20);
    Rank(trace).compute(Phase::optimizer, 0, 50).compute(Phase::forward, 50, 100, 0);
    expect_accounts(trace, 0, {{Account::optimizer, 30}, {Account::compute, 50}});
}

// A stage that is done early begins the next step before the slowest has ended this one.
TEST(Accounts, CountComputeThatTheWindowsEndCuts) {
    Trace trace = step(100);
    Rank(trace).compute(Phase::optimizer, 0, 80).compute(Phase::forward, 80, 130, 0);
    expect_accounts(trace, 0, {{Account::optimizer, 80}, {Account::compute, 20}});
}

TEST(Accounts, ExplainAGapThatTheWindowsEndCuts) {
    Trace trace = step(100);
    // A transfer runs from 90 on, its peer came then; the op of the next step that waits starts at
    // 110. The schedule has not drained: it waits.
    Rank(trace)
        .compute(Phase::optimizer, 0, 80)
        .transfer(GroupKind::pipeline, {80, 90, 110, 0, 1})
        .compute(Phase::forward, 110, 130, 1);
    Rank(trace, 1).compute(Phase::forward, 0, 130);
    expect_accounts(
        trace, 0,
        {{Account::optimizer, 80}, {Account::bubble, 10}, {Account::exposed_pipeline, 10}});
}

TEST(Accounts, ExposeAGatherThatTheWindowsEndCuts) {
    Trace trace = step(100);
    Rank(trace).compute(Phase::optimizer, 0, 60).transfer(GroupKind::data, {60, 60, 120, 0, -1});
    expect_accounts(trace, 0, {{Account::optimizer, 60}, {Account::exposed_data, 40}});
}

// Measured kernels may overlap, or be issued in another order than they end.
TEST(Accounts, SumToTheStepWhenComputeOverlaps) {
    Trace trace = step(30);
    Rank(trace)
        .compute(Phase::forward, 0, 10)
        .compute(Phase::recompute, 2, 4)
        .compute(Phase::backward, 20, 30, 0);
    const Accounts found = accounts_of(trace, trace.tracks[0]);
    EXPECT_EQ(std::accumulate(found.begin(), found.end(), Picoseconds{0}), 30);
}

TEST(MeanAccounts, WeighTracksByTheRanksTheyStandFor) {
    Trace trace = step(1'000'000'000'000);  // 1 s
    Rank(trace).compute(Phase::forward, 0, 1'000'000'000'000).represents(3);
    Rank(trace).compute(Phase::forward, 0, 200'000'000'000);  // then 0.8 s of bubble
    const auto mean = mean_accounts(trace);
    EXPECT_DOUBLE_EQ(mean[static_cast<std::size_t>(Account::compute)], (3 * 1.0 + 0.2) / 4);
    EXPECT_DOUBLE_EQ(mean[static_cast<std::size_t>(Account::bubble)], 0.8 / 4);
    EXPECT_NEAR(std::accumulate(mean.begin(), mean.end(), 0.0), 1.0, 1e-12);
}

TEST(CommunicationSums, AreMeansOverRanksOfWhatBeginsInTheWindow) {
    Trace trace = step(2'000'000'000'000, 1'000'000'000'000);
    constexpr Picoseconds kTenth = 100'000'000'000;
    // One transfer before the window, one of 0.3 s in it, of which compute hides 0.1 s.
    Rank(trace)
        .transfer(GroupKind::data, {0, 0, kTenth, kNothing, -1}, 1000)
        .compute(Phase::forward, 9 * kTenth, 14 * kTenth)
        .transfer(GroupKind::data, {13 * kTenth, 13 * kTenth, 16 * kTenth, kNothing, -1}, 600)
        .compute(Phase::forward, 16 * kTenth, 20 * kTenth, 2)
        .represents(3);
    Rank(trace).compute(Phase::forward, 10 * kTenth, 20 * kTenth);
    const auto sums = communication_sums(trace);
    const CommunicationSums& data = sums[static_cast<std::size_t>(Account::exposed_data)];
    EXPECT_DOUBLE_EQ(data.bytes_per_rank, 3 * 600.0 / 4);
    EXPECT_DOUBLE_EQ(data.busy_s, 3 * 0.3 / 4);
    EXPECT_DOUBLE_EQ(data.exposed_s, 3 * 0.2 / 4);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::trace
