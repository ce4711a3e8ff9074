#include "trace/timeline_boxes.hpp"

#include <gtest/gtest.h>

#include "tests/trace/pipeline_trace.hpp"
#include "trace/accounts.hpp"

namespace orrery::trace {
namespace ORRERY_TEST_FILE {

std::size_t count_of(const TimelineBoxes& boxes) {
    std::size_t count = 0;
    for (const TimelineRow& row : boxes.rows)
        count += row.boxes.size();
    return count;
}

void expect_to_fill_the_window(const Trace& trace, const TimelineBoxes& boxes) {
    ASSERT_EQ(boxes.rows.size(), trace.programs.size());
    for (const TimelineRow& row : boxes.rows) {
        Picoseconds at = trace.step_start;
        for (const TimelineBox& box : row.boxes) {
            EXPECT_EQ(box.from, at);
            Picoseconds sum = 0;
            for (const Picoseconds time : box.time)
                sum += time;
            EXPECT_EQ(sum, box.to - box.from);
            at = box.to;
        }
        EXPECT_EQ(at, trace.step_end);
    }
}

// Waiting is what the accounts say, however coarse the boxes are.
TEST(TimelineBoxes, FillTheStepAndKeepTheAccounts) {
    const Trace trace = PipelineTrace({4, 8, 2}).run();
    for (const std::size_t most : {1'000'000U, 200U, 1U}) {
        const TimelineBoxes boxes = timeline_boxes(trace, most);
        expect_to_fill_the_window(trace, boxes);
        for (const TimelineRow& row : boxes.rows) {
            Picoseconds bubble = 0;
            for (const TimelineBox& box : row.boxes)
                bubble += box.time[static_cast<std::size_t>(Paint::bubble)];
            EXPECT_EQ(bubble,
                      accounts_of(trace, *row.track)[static_cast<std::size_t>(Account::bubble)]);
        }
    }
}

TEST(TimelineBoxes, AreOfOneKindWhereThereIsRoom) {
    const Trace trace = PipelineTrace({4, 8, 2}).run();
    const TimelineBoxes boxes = timeline_boxes(trace, 1'000'000);
    EXPECT_EQ(boxes.resolution, 0);
    for (const TimelineRow& row : boxes.rows)
        for (const TimelineBox& box : row.boxes)
            EXPECT_EQ(std::count_if(box.time.begin(), box.time.end(),
                                    [](Picoseconds time) { return time > 0; }),
                      1);
}

// Each rank has a forward and a backward per micro-batch, and these are never put together.
TEST(TimelineBoxes, KeepActionsApart) {
    constexpr std::size_t kRanks = 4, kMicroBatches = 8;
    const Trace trace = PipelineTrace({kRanks, kMicroBatches, 2}).run();
    const TimelineBoxes fine = timeline_boxes(trace, 1'000'000), some = timeline_boxes(trace, 200);
    EXPECT_LE(count_of(some), 200U);
    EXPECT_GT(some.resolution, 0);
    EXPECT_GT(count_of(fine), count_of(some));
    const TimelineBoxes coarse = timeline_boxes(trace, 1);
    EXPECT_GE(count_of(coarse), kRanks * 2 * kMicroBatches);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::trace
