// From a trace to rows: what they cover, what a selection adds up to, where boxes lie.
#include "gui/timeline/timeline.hpp"

#include <numeric>

#include <gtest/gtest.h>
#include <malloc.h>

#include "gui/timeline/details.hpp"
#include "gui/timeline/find.hpp"
#include "gui/timeline/rows.hpp"
#include "gui/timeline/selection.hpp"
#include "tests/trace/native_container.hpp"
#include "tests/trace/pipeline_trace.hpp"
#include "trace/accounts.hpp"
#include "trace/formats/native.hpp"

namespace orrery::gui {
namespace ORRERY_TEST_FILE {

std::shared_ptr<const trace::Trace> pipeline(const trace::PipelineShape& shape) {
    return std::make_shared<const trace::Trace>(trace::pipeline_trace(shape));
}

trace::Accounts by_account(const Aggregate& aggregate) {
    trace::Accounts accounts{};
    for (const KindTime& kind : aggregate.kinds)
        accounts[static_cast<std::size_t>(account_of(kind.kind))] += kind.time;
    return accounts;
}

TEST(Timeline, ARankOfTheWholeStepHasTheAccountsOfTheReport) {
    const auto trace = pipeline({4, 8, 3});
    const Timeline timeline(trace);
    ASSERT_EQ(timeline.ranks().size(), 4U);
    for (std::size_t rank = 0; rank < 4; ++rank) {
        const Aggregate all = aggregate_of(timeline, {timeline.limits(), {rank}});
        EXPECT_EQ(by_account(all), trace::accounts_of(*trace, timeline.track_of(rank)));
    }
}

// Of a file in which each rank has a program of its own: its events, what they are of, the rows.
TEST(Timeline, TakesLessThanFortyBytesOfMemoryAnEvent) {
    const trace::TestFolder folder;
    const std::string path = folder.file("t.orrery");
    const trace::PipelineShape shape{8, 64, 41};
    trace::write_native(trace::pipeline_trace(shape), path);
    const auto allocated = [] {
        const struct mallinfo2 info = mallinfo2();
        return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
    };
    const double before = allocated();
    const Timeline timeline(std::make_shared<const trace::Trace>(trace::read_native(path)));
    const auto events = static_cast<double>(trace::events_of(timeline.trace()));
    EXPECT_EQ(events, 8 * 2 * 64 * 41 * 4 + 7 * 2 * 64);  // ops of layers, transfers
    EXPECT_LT((allocated() - before) / events, 40);
}

// Whatever is selected, its kinds sum to the selected time.
TEST(Timeline, ASelectionSumsToTheSelectedTime) {
    const Timeline timeline(pipeline({4, 8, 3}));
    const Picoseconds length = timeline.window().length();
    for (const Picoseconds from : {Picoseconds{0}, length / 7, length / 2 + 12345}) {
        const Area area{{from, from + length / 3}, {0, 2, 3}};
        const Aggregate aggregate = aggregate_of(timeline, area);
        Picoseconds sum = 0;
        for (const KindTime& kind : aggregate.kinds)
            sum += kind.time;
        EXPECT_EQ(sum, 3 * (length / 3));
        EXPECT_EQ(aggregate.selected, sum);
    }
}

TEST(Timeline, ASelectionBeyondTheStepIsCutToIt) {
    const Timeline timeline(pipeline({2, 2, 1}));
    const Stretch window = timeline.window();
    const Aggregate aggregate =
        aggregate_of(timeline, {{window.from - 1000, window.to + 1000}, {0}});
    EXPECT_EQ(aggregate.stretch, window);
    EXPECT_EQ(aggregate.selected, window.length());
}

// 1F1B of one stage: forward and backward of each micro-batch in turn.
TEST(Timeline, TheOutlineHasABoxForEachAction) {
    constexpr int kMicroBatches = 6;
    const Timeline timeline(pipeline({1, kMicroBatches, 2}));
    const Lane& outline = timeline.ranks()[0].outline;
    std::vector<std::string> actions;
    for (const Span& span : outline.spans())
        if (span.index >= 0)
            actions.push_back(trace::to_text(
                timeline.program_of(0).actions[static_cast<std::size_t>(span.index)]));
    std::vector<std::string> expected;
    for (int m = 0; m < kMicroBatches; ++m) {
        expected.push_back("0F" + std::to_string(m));
        expected.push_back("0B" + std::to_string(m));
    }
    EXPECT_EQ(actions, expected);
}

TEST(Timeline, StreamsHoldEveryEventOnce) {
    const auto trace = pipeline({3, 4, 2});
    const Timeline timeline(trace);
    for (std::size_t rank = 0; rank < 3; ++rank) {
        std::vector<int> seen(timeline.track_of(rank).events.size());
        for (const Lane& lane : timeline.streams(rank))
            for (const Span& span : lane.spans()) {
                ++seen[static_cast<std::size_t>(span.index)];
                const trace::Event event =
                    timeline.track_of(rank).events[static_cast<std::size_t>(span.index)];
                EXPECT_EQ(span.from, event.start);
                EXPECT_EQ(span.to, event.end);
            }
        EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), std::size_t{0}), seen.size());
        EXPECT_EQ(*std::max_element(seen.begin(), seen.end()), 1);
    }
}

TEST(Rows, OpenRanksHaveARowForEachStream) {
    const Timeline timeline(pipeline({3, 4, 2}));
    Rows rows(timeline);
    ASSERT_EQ(rows.all().size(), 3U);
    constexpr int kPitch = Rows::kRankHeight + Rows::kGap;
    EXPECT_EQ(rows.all()[2].top, Rows::kGap + 2 * kPitch);
    rows.open(1, true);
    const std::size_t streams = timeline.streams(1).size();
    ASSERT_EQ(rows.all().size(), 3 + streams);
    EXPECT_EQ(rows.all()[2].stream, 0U);
    EXPECT_EQ(rows.row_of(2), 2 + streams);
    EXPECT_EQ(rows.at(Rows::kGap + kPitch), 1U);
    EXPECT_EQ(rows.at(0), std::nullopt);
    EXPECT_EQ(rows.height(), Rows::kGap + 3 * kPitch +
                                 static_cast<int>(streams) * (Rows::kStreamHeight + Rows::kGap));
    for (std::int32_t event = 0; event < 10; ++event)
        EXPECT_TRUE(rows.row_of_event(1, event));
    rows.open(1, false);
    EXPECT_EQ(rows.all().size(), 3U);
}

TEST(Details, SayWhatAnOpWaitedForAndWhereThatIs) {
    const auto trace = pipeline({2, 2, 1});
    const Timeline timeline(trace);
    const std::vector<trace::Event> events = timeline.track_of(1).events.unpacked();
    const auto waiting = std::find_if(events.begin(), events.end(),
                                      [](const trace::Event& event) { return event.blocker >= 0; });
    ASSERT_NE(waiting, events.end());
    const auto number = static_cast<std::int32_t>(waiting - events.begin());
    const Details details = op_details(timeline, {1, number});
    EXPECT_EQ(details.blocker, (OpPlace{1, waiting->blocker}));
}

// From hit to hit through all of them, in order of time, and round again.
TEST(Find, GoesThroughAllAndRoundAgain) {
    const Timeline timeline(pipeline({2, 3, 1}));
    std::size_t expected = 0;  // ops of the action on both ranks
    for (std::size_t rank = 0; rank < 2; ++rank) {
        const trace::ProgramOps& program = timeline.program_of(rank);
        for (const std::uint32_t step : program.step)
            expected += trace::to_text(program.actions[step]) == "1F2" ? 1 : 0;
    }
    ASSERT_GT(expected, 1U);
    const std::optional<OpPlace> first = find_op(timeline, "1f2", std::nullopt, Direction::forward);
    ASSERT_TRUE(first);
    std::size_t hits = 1;
    Picoseconds last = 0;
    for (std::optional<OpPlace> at = find_op(timeline, "1f2", first, Direction::forward);
         at != first; at = find_op(timeline, "1f2", at, Direction::forward)) {
        const Picoseconds start =
            timeline.track_of(at->rank).events[static_cast<std::size_t>(at->event)].start;
        EXPECT_GE(start, last);
        last = start;
        ASSERT_LE(++hits, expected);
    }
    EXPECT_EQ(hits, expected);
    const auto second = find_op(timeline, "1f2", first, Direction::forward);
    EXPECT_EQ(find_op(timeline, "1f2", second, Direction::backward), first);
    EXPECT_EQ(find_op(timeline, "no such op", std::nullopt, Direction::forward), std::nullopt);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::gui
