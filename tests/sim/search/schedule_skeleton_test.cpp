// Walks over skeletons against the timeline that lowering itself goes by, where F, I and W take one
// unit, B two, and transfers none.
#include "sim/search/schedule_skeleton.hpp"

#include <gtest/gtest.h>

#include <algorithm>

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
                    const PipelineTimes times =
                        skeleton.run(m, unit_times(static_cast<std::size_t>(p * v)), 0, false);
                    const auto end = static_cast<double>(timeline_end(kind.schedule(shape)));
                    // A round of v-half is no whole number of groups of p: it comes out a unit or
                    // two early or late.
                    if (kind.name == "v-half" && walked < m)
                        EXPECT_NEAR(times.end, end, 2);
                    else
                        EXPECT_EQ(times.end, end);
                }
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
    const PipelineTimes without = skeleton.run(1, unit_times(4), 0, false);
    const PipelineTimes with = skeleton.run(1, unit_times(4), 0.5, false);
    EXPECT_DOUBLE_EQ(without.end, 4 * 3);
    EXPECT_DOUBLE_EQ(with.end, 4 * 3 + 6 * 0.5);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
