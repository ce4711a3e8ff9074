// Walks over skeletons against the timeline that lowering itself goes by, where F, I and W take one
// unit, B two, and transfers none.
#include "sim/search/schedule_skeleton.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

using Times = std::vector<std::array<PassTimes, 4>>;

Times unit_times(std::size_t stages) {
    std::array<PassTimes, 4> passes;
    for (PassTimes& pass : passes)
        pass.busy = 1;
    passes[1].busy = 2;
    return Times(stages, passes);
}

PipelinePace pace_of(std::int64_t micro_batches, const Times& times, double hop, bool blocks) {
    PipelinePace pace{micro_batches, hop, blocks, {}};
    for (const auto& stage : times)
        pace.add(stage);
    return pace;
}

std::int64_t timeline_end(const plan::Schedule& schedule) {
    std::int64_t end = 0;
    for (const auto& row : plan::unit_timeline(schedule))
        for (const plan::TimedAction& action : row)
            end = std::max(end, action.end);
    return end;
}

// Micro-batches that the kind takes, some of them beyond what is walked.
std::vector<std::int32_t> micro_batches_for(const plan::ScheduleKind& kind, std::int32_t p) {
    std::vector<std::int32_t> all;
    for (const std::int32_t m : {2 * p, 3 * p, 4 * p, 7 * p, 20 * p})
        all.push_back(m);
    if (kind.micro_batches == plan::MicroBatches::any) {
        all.push_back(2 * p + 1);
        all.push_back(6 * p + 1);
    }
    return all;
}

std::vector<std::int32_t> chunks_of(const plan::ScheduleKind& kind) {
    if (kind.chunks == plan::Chunks::one) return {1};
    if (kind.chunks == plan::Chunks::two) return {2};
    return {2, 3};
}

TEST(ScheduleSkeleton, TakesAsLongAsTheTimelineOfUnits) {
    for (const plan::ScheduleKind& kind : plan::schedule_kinds())
        for (const std::int32_t p : {2, 3, 4, 6})
            for (const std::int32_t v : chunks_of(kind))
                for (const std::int32_t m : micro_batches_for(kind, p)) {
                    SCOPED_TRACE(std::string(kind.name) + " p " + std::to_string(p) + " v " +
                                 std::to_string(v) + " m " + std::to_string(m));
                    const plan::ScheduleShape shape{p, v, m};
                    const auto walked = static_cast<std::int32_t>(ScheduleSkeleton::walked(m, p));
                    const ScheduleSkeleton skeleton(kind, {p, v, walked});
                    const PipelineTimes times = skeleton.run(
                        pace_of(m, unit_times(static_cast<std::size_t>(p * v)), 0, false));
                    const auto end = static_cast<double>(timeline_end(kind.schedule(shape)));
                    // A round of v-half is no whole number of groups of p: it comes out a unit or
                    // two early or late.
                    if (kind.name == "v-half" && walked < m)
                        EXPECT_NEAR(times.end, end, 2);
                    else
                        EXPECT_EQ(times.end, end);
                }
}

// A pass begins with the last of what it waits for, each told by what is known of its rank's passes
// before and of the exchanges that lowering makes.
TEST(ScheduleSkeleton, BeginsAPassWithTheLastThatItWaitsFor) {
    for (const plan::ScheduleKind& kind : plan::schedule_kinds())
        for (const std::int32_t p : {2, 4})
            for (const std::int32_t v : chunks_of(kind)) {
                SCOPED_TRACE(std::string(kind.name) + " p " + std::to_string(p));
                const plan::ScheduleShape shape{p, v, 2 * p};
                const plan::Schedule schedule = kind.schedule(shape);
                Times times = unit_times(static_cast<std::size_t>(p * v));
                for (auto& stage : times) {
                    for (PassTimes& pass : stage)
                        pass.tail = 0.125;
                    stage[0].lead = 0.25;
                    stage[1].lead = stage[2].lead = -0.5;
                    stage[0].gathers = 0.375;
                    stage[0].gathers_on = -0.25;
                    stage[1].gathers_on = stage[2].gathers_on = 0.75;
                }
                // What is sent in one exchange with what a pass receives.
                std::map<plan::Action, plan::Action> with;
                for (const auto& row : plan::add_transfers(schedule.grid, schedule.placement))
                    for (const plan::LoweredStep& step : row) {
                        if (!step.with) continue;
                        const bool first = plan::is_send(step.action.kind);
                        with[first ? *step.with : step.action] = first ? step.action : *step.with;
                    }
                constexpr double kHop = 0.0625;
                const auto ranks =
                    ScheduleSkeleton(kind, shape)
                        .timed(schedule, pace_of(shape.micro_batches, times, kHop, false));
                std::map<plan::Action, TimedPass> all;
                for (const auto& passes : ranks)
                    for (const TimedPass& pass : passes)
                        all[pass.action] = pass;
                // The pass whose output a transfer carries away from a stage.
                const auto output = [&](std::int32_t stage, bool onward, std::int32_t micro_batch) {
                    using Kind = plan::ActionKind;
                    const plan::Action whole{stage, onward ? Kind::forward : Kind::backward,
                                             micro_batch};
                    const auto found = all.find(whole);
                    return found != all.end() ? found->second
                                              : all.at({stage, Kind::backward_input, micro_batch});
                };
                std::size_t exchanged = 0;
                for (const auto& passes : ranks)
                    for (std::size_t i = 0; i < passes.size(); ++i) {
                        const TimedPass& pass = passes[i];
                        const PassTimes& of = times[static_cast<std::size_t>(pass.action.stage)]
                                                   [static_cast<std::size_t>(pass.action.kind)];
                        const PassTimes* before =
                            i == 0 ? nullptr
                                   : &times[static_cast<std::size_t>(passes[i - 1].action.stage)]
                                           [static_cast<std::size_t>(passes[i - 1].action.kind)];
                        const double free = i == 0 ? 0 : passes[i - 1].end;
                        double begins = free;
                        if (of.gathers > 0)
                            begins = std::max(
                                begins, (before ? free + before->gathers_on : 0) + of.gathers);
                        const bool onward = pass.action.kind == plan::ActionKind::forward;
                        const bool back = plan::makes_input_gradient(pass.action.kind);
                        if (pass.from >= 0) {
                            double sent = output(pass.action.stage + (onward ? -1 : 1), onward,
                                                 pass.action.micro_batch)
                                              .end +
                                          0.125;
                            const auto own = with.find(
                                {pass.action.stage,
                                 onward ? plan::ActionKind::recv_f : plan::ActionKind::recv_b,
                                 pass.action.micro_batch});
                            if (own != with.end()) {
                                ++exchanged;
                                sent = std::max(sent, output(own->second.stage,
                                                             plan::goes_onward(own->second.kind),
                                                             own->second.micro_batch)
                                                              .end +
                                                          0.125);
                            }
                            double asked = sent + kHop;
                            if (of.lead > 0 && before) asked = std::max(asked, free + before->tail);
                            begins = std::max(begins, asked + of.lead);
                            EXPECT_NEAR(pass.start, begins, 1e-12);
                        } else if (!onward && !back) {
                            EXPECT_NEAR(pass.start, begins, 1e-12);  // asks nobody
                        }
                    }
                if (kind.name == "1f1b") {
                    EXPECT_GT(exchanged, 0U);
                }
            }
}

// Where transfers block: when each pass of each rank begins, found by going over what lowering
// issues again and again until nothing comes later any more.
std::vector<std::vector<double>> starts_where_transfers_block(const plan::Schedule& schedule,
                                                              const Times& times, double hop) {
    const auto rows = plan::add_transfers(schedule.grid, schedule.placement);
    std::map<plan::Action, double> ended;    // of passes, and of what sends, as of what receives
    std::map<plan::Action, double> started;  // likewise
    const auto sent_by = [](plan::Action transfer) {
        if (plan::is_send(transfer.kind)) return transfer;
        transfer.stage += plan::hop_to_peer(transfer.kind);
        transfer.kind = transfer.kind == plan::ActionKind::recv_f ? plan::ActionKind::send_f
                                                                  : plan::ActionKind::send_b;
        return transfer;
    };
    const auto later = [](std::map<plan::Action, double>& of, const plan::Action& action,
                          double time) {
        const bool is_later = !of.contains(action) || of[action] < time;
        if (is_later) of[action] = time;
        return is_later;
    };
    for (bool moved = true; moved;) {
        moved = false;
        for (const auto& row : rows) {
            double computed = 0, transferred = 0;
            std::map<plan::Action, double> made;  // by what sends it
            for (const plan::LoweredStep& step : row) {
                if (!plan::is_transfer(step.action.kind)) {
                    const double start = std::max(computed, transferred);
                    moved = later(started, step.action, start) || moved;
                    computed = start + times[static_cast<std::size_t>(step.action.stage)]
                                            [static_cast<std::size_t>(step.action.kind)]
                                                .busy;
                    const bool onward = step.action.kind == plan::ActionKind::forward;
                    made[{step.action.stage,
                          onward ? plan::ActionKind::send_f : plan::ActionKind::send_b,
                          step.action.micro_batch}] = computed;
                    continue;
                }
                std::vector<plan::Action> all = {sent_by(step.action)};
                if (step.with) all.push_back(sent_by(*step.with));
                double start = transferred;
                for (const plan::Action& sent : all) {
                    if (made.contains(sent)) start = std::max(start, made[sent]);
                    if (started.contains(sent)) start = std::max(start, started[sent]);
                }
                for (const plan::Action& sent : all)
                    moved = later(started, sent, start) || moved;
                transferred = start + hop;
            }
        }
    }
    std::vector<std::vector<double>> starts;
    for (const auto& row : schedule.grid) {
        starts.emplace_back();
        for (const plan::Action& action : row)
            starts.back().push_back(started.at(action));
    }
    return starts;
}

TEST(ScheduleSkeleton, WaitsForAllTransfersThatAreIssuedWhereTheyBlock) {
    std::size_t late = 0;
    for (const plan::ScheduleKind& kind : plan::schedule_kinds())
        for (const std::int32_t p : {2, 3, 4, 6})
            for (const std::int32_t v : chunks_of(kind)) {
                SCOPED_TRACE(std::string(kind.name) + " p " + std::to_string(p));
                const plan::ScheduleShape shape{p, v, 4 * p};
                const plan::Schedule schedule = kind.schedule(shape);
                constexpr double kHop = 0.25;
                Times times = unit_times(static_cast<std::size_t>(p * v));
                times.back()[0].busy = 1.5;
                const PipelinePace pace = pace_of(shape.micro_batches, times, kHop, true);
                const ScheduleSkeleton skeleton(kind, shape);
                const auto ranks = skeleton.timed(schedule, pace);
                const auto expected = starts_where_transfers_block(schedule, times, kHop);
                double end = 0;
                for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
                    double done = 0;
                    for (std::size_t i = 0; i < ranks[rank].size(); ++i) {
                        const TimedPass& pass = ranks[rank][i];
                        EXPECT_EQ(pass.start, expected[rank][i]);
                        EXPECT_LE(done, pass.free);
                        EXPECT_LE(std::max(pass.free, pass.received), pass.start);
                        if (pass.freed > pass.end + kHop) ++late;
                        done = pass.freed;
                        end = std::max(end, pass.end);
                    }
                }
                EXPECT_EQ(skeleton.run(pace).end, end);
            }
    EXPECT_GT(late, 0U);  // passes that other ranks' transfers have kept their rank from
}

// Times of a kind that layouts have: the first and the last stage differ, the others are of two
// kinds at most, and some passes run beside messages or gather parameters.
PipelinePace drawn_pace(std::mt19937_64& draw, std::int32_t p, std::int32_t v, std::int32_t m) {
    const auto share = [&] { return static_cast<double>(draw() % 1024) / 1024; };
    const bool slowed = draw() % 2 == 0, gathers = draw() % 2 == 0;
    const auto stage = [&] {
        std::array<PassTimes, 4> passes;
        for (PassTimes& pass : passes) {
            pass.busy = share();
            pass.lead = draw() % 3 == 0 ? share() / 4 : -pass.busy * share();
            pass.tail = draw() % 2 == 0 ? share() / 8 : 0;
            pass.slowed = slowed ? share() : 0;
            pass.gathers = gathers && draw() % 2 == 0 ? share() : 0;
            pass.gathers_on = gathers ? share() - 0.5 : 0;
        }
        return passes;
    };
    Times times(static_cast<std::size_t>(p * v), stage());
    const auto other = stage();
    std::fill(times.begin() + static_cast<std::ptrdiff_t>(draw() % times.size()), times.end(),
              other);
    times.front() = stage();
    times.back() = stage();
    return pace_of(m, times, draw() % 3 == 0 ? 0 : share() / 2, draw() % 3 == 0);
}

// visit(kind, shape, skeleton) for each kind, with few micro-batches and with more than are walked.
template <typename Visit>
void for_each_skeleton(Visit visit) {
    for (const plan::ScheduleKind& kind : plan::schedule_kinds())
        for (const std::int32_t p : {1, 2, 3, 4, 6})
            for (const std::int32_t v : chunks_of(kind))
                for (const std::int32_t m : micro_batches_for(kind, p)) {
                    SCOPED_TRACE(std::string(kind.name) + " p " + std::to_string(p) + " v " +
                                 std::to_string(v) + " m " + std::to_string(m));
                    const auto walked = static_cast<std::int32_t>(ScheduleSkeleton::walked(m, p));
                    visit(plan::ScheduleShape{p, v, m}, ScheduleSkeleton(kind, {p, v, walked}));
                }
}

// To the last bit: several are told apart by nothing but how many there are at once.
TEST(ScheduleSkeleton, WalksSeveralStepsEachAsItIsAlone) {
    std::mt19937_64 draw(3);
    for_each_skeleton([&](const plan::ScheduleShape& shape, const ScheduleSkeleton& skeleton) {
        std::vector<PipelinePace> paces;
        for (std::size_t i = 0; i < 7; ++i)
            paces.push_back(
                drawn_pace(draw, shape.pipeline, shape.virtual_stages, shape.micro_batches));
        for (const std::size_t count : {2, 4, 7}) {
            std::vector<const PipelinePace*> some;
            for (std::size_t i = 0; i < count; ++i)
                some.push_back(&paces[i]);
            const std::vector<PipelineTimes> together = skeleton.run(some);
            ASSERT_EQ(together.size(), count);
            for (std::size_t i = 0; i < count; ++i) {
                const PipelineTimes alone = skeleton.run(paces[i]);
                EXPECT_EQ(together[i].end, alone.end);
                EXPECT_EQ(together[i].rank_ends, alone.rank_ends);
            }
        }
    });
}

TEST(ScheduleSkeleton, EndsNoSoonerThanTheLeast) {
    std::mt19937_64 draw(5);
    for_each_skeleton([&](const plan::ScheduleShape& shape, const ScheduleSkeleton& skeleton) {
        const PipelinePace pace =
            drawn_pace(draw, shape.pipeline, shape.virtual_stages, shape.micro_batches);
        const std::vector<double> ends = skeleton.run(pace).rank_ends;
        const std::vector<double> least = skeleton.least_rank_ends(pace);
        ASSERT_EQ(least.size(), ends.size());
        for (std::size_t rank = 0; rank < ends.size(); ++rank)
            EXPECT_LE(least[rank], ends[rank] * (1 + 1e-9)) << "rank " << rank;
    });
}

// GPipe of 3 ranks and 4 micro-batches whose passes take 1 and 2 units and whose messages take
// half of one: the last rank begins after two passes and two messages, and is then never kept.
// Its last gradient has two messages and two passes to go.
TEST(ScheduleSkeleton, KnowsTheLeastOfAPipelineThatIsNeverKept) {
    const plan::ScheduleKind& kind = *plan::find_schedule("gpipe");
    const ScheduleSkeleton skeleton(kind, {3, 1, 4});
    const PipelinePace pace = pace_of(4, unit_times(3), 0.5, false);
    const std::vector<double> least = skeleton.least_rank_ends(pace);
    EXPECT_EQ(least, (std::vector<double>{15 + 2 * 2.5, 15 + 2.5, 2 * 1.5 + 4 * 3}));
    EXPECT_EQ(skeleton.run(pace).rank_ends, least);
}

// Rank 0 sends each result beside its next pass, and rank 1 receives it beside the one before.
TEST(ScheduleSkeleton, SlowsPassesBesideMessages) {
    Times times = unit_times(2);
    for (auto& stage : times)
        stage[0].slowed = 0.5;
    const plan::ScheduleKind* kind = plan::find_schedule("gpipe");
    const plan::ScheduleShape shape{2, 1, 3};
    const plan::Schedule schedule = kind->schedule(shape);
    const auto ranks =
        ScheduleSkeleton(*kind, shape).timed(schedule, pace_of(3, times, 0.25, false));
    EXPECT_DOUBLE_EQ(ranks[0][0].end, 1);
    EXPECT_DOUBLE_EQ(ranks[0][1].end, 2 + 0.5 * 0.25);
    EXPECT_DOUBLE_EQ(ranks[0][2].end, 3 + 2 * 0.5 * 0.25);
    EXPECT_DOUBLE_EQ(ranks[1][0].start, 1.25);
    // Its input set out at 2.125, beside the pass that ends at 2.25.
    EXPECT_DOUBLE_EQ(ranks[1][1].start, std::max(2.25 + 0.5 * 0.125, 2.125 + 0.25));
}

TEST(ScheduleSkeleton, HasAsManyInFlightAsTheRow) {
    for (const plan::ScheduleKind& kind : plan::schedule_kinds())
        for (const std::int32_t m : micro_batches_for(kind, 4)) {
            const std::int32_t v = chunks_of(kind).back();
            SCOPED_TRACE(std::string(kind.name) + " m " + std::to_string(m));
            const ScheduleSkeleton skeleton(
                kind, {4, v, static_cast<std::int32_t>(ScheduleSkeleton::walked(m, 4))});
            const plan::Schedule schedule = kind.schedule({4, v, m});
            for (std::size_t rank = 0; rank < 4; ++rank) {
                // That forward has begun with and the whole of backward has not ended.
                double most = 0;
                for (const Moment& moment : skeleton.fullest(rank, m)) {
                    double sum = 0;
                    for (const InFlight& chunk : moment)
                        sum += chunk.until_weights;
                    most = std::max(most, sum);
                }
                double alive = 0, expected = 0;
                for (const plan::Action& action : schedule.grid[rank]) {
                    if (action.kind == plan::ActionKind::forward) ++alive;
                    expected = std::max(expected, alive);
                    if (plan::ends_micro_batch(action.kind)) --alive;
                }
                EXPECT_EQ(most, expected) << "rank " << rank;
            }
        }
}

// Of p ranks in a row each message comes a hop later: 1F1B's first micro-batch goes there and back.
TEST(ScheduleSkeleton, PaysEachHopOfTheFirstMicroBatch) {
    const plan::ScheduleKind& kind = *plan::find_schedule("1f1b");
    const ScheduleSkeleton skeleton(kind, {4, 1, 1});
    const PipelineTimes without = skeleton.run(pace_of(1, unit_times(4), 0, false));
    const PipelineTimes with = skeleton.run(pace_of(1, unit_times(4), 0.5, false));
    EXPECT_DOUBLE_EQ(without.end, 4 * 3);
    EXPECT_DOUBLE_EQ(with.end, 4 * 3 + 6 * 0.5);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
