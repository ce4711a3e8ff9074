// The interval between checkpoints, against a minimum that is looked for, and its bounds.
#include "runtime/train/checkpoint_interval.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

// Time per second of work that checkpoints at an interval of w cost, c each, with failures of a
// Poisson process of mean m: Daly 2006, equation 13 without restarts, m · e^(0) · (e^((w+c)/m) −
// 1)/w.
double time_per_work(double w, double c, double m) {
    return m * (std::exp((w + c) / m) - 1) / w;
}

double best_by_search(double c, double m) {
    double best = 1, least = time_per_work(1, c, m);
    for (double w = 1; w < 10 * m; w *= 1.0005)
        if (const double time = time_per_work(w, c, m); time < least) {
            least = time;
            best = w;
        }
    return best;
}

TEST(CheckpointInterval, CostsLeastOfAll) {
    for (const double cost : {0.1, 5.0, 60.0})
        for (const double failure : {3600.0, 86400.0, 3e6}) {
            const auto steps = steps_between_checkpoints({0.01, cost, 0, failure});
            const double seconds = 0.01 * static_cast<double>(steps);
            const double best =
                std::max(best_by_search(cost, failure), cost * (1 / kMostStall - 1));
            EXPECT_NEAR(seconds, best, 0.005 * best) << cost << " s, " << failure << " s";
        }
}

TEST(CheckpointInterval, NeverStallsForMoreThanItsShare) {
    // Failures all the time: what the disk and the stall allow decides. 0.7 s of stall are 3.5 % of
    // 20 s: 19.3 s of steps.
    const auto steps = steps_between_checkpoints({1.0, 0.7, 0, 10});
    EXPECT_EQ(steps, 20);
    EXPECT_LE((IntervalChoice{steps, {1.0, 0.7, 0, 10}}.stall_share()), kMostStall);
    EXPECT_GT((IntervalChoice{steps - 1, {1.0, 0.7, 0, 10}}.stall_share()), kMostStall);
    EXPECT_EQ(steps_between_checkpoints({1.0, 0.0, 30, 1}), 30) << "the next one waits for this";
    EXPECT_EQ(steps_between_checkpoints({100.0, 0.001, 0.5, 10}), 1);
}

// 54 days of 24 hours of 16,384 devices, 419 times.
TEST(CheckpointInterval, OfOneDeviceFailuresAreYearsApart) {
    EXPECT_NEAR(kHoursBetweenFailuresOfADevice, 50677, 1);
}

TEST(CheckpointInterval, BeginsEarlyToMeasureAndThenChangesLittle) {
    CheckpointInterval interval(0, 3600);
    std::int64_t step = 0;
    const auto due_after = [&] {
        std::int64_t steps = 1;
        while (!interval.due(++step))
            ++steps;
        interval.saved();
        return steps;
    };
    for (int i = 0; i < 10; ++i)
        interval.stepped(1.0);
    EXPECT_EQ(due_after(), 4);
    // √(2 · 0.5 · 3600) = 60, less Daly's correction of about half a second.
    IntervalChoice choice = interval.choose(0.5, 2);
    EXPECT_NEAR(static_cast<double>(choice.steps), 60, 1);
    interval.set(choice.steps);
    EXPECT_EQ(due_after(), choice.steps);
    EXPECT_EQ(due_after(), choice.steps);
    EXPECT_EQ(interval.choose(0.6, 2).steps, choice.steps) << "√1.2 is not worth a word";
    EXPECT_EQ(interval.choose(2.0, 2).steps, choice.steps) << "one slow save of three";
    for (int save = 0; save < 2; ++save)
        choice = interval.choose(2.0, 2);
    EXPECT_EQ(choice.steps, steps_between_checkpoints({1, 2.0, 2, 3600})) << "three of five";
}

TEST(CheckpointInterval, ThatIsGivenIsKept) {
    CheckpointInterval interval(3, 0);
    std::vector<std::int64_t> saved;
    for (std::int64_t step = 1; step <= 10; ++step)
        if (interval.due(step)) saved.push_back(step);
    EXPECT_EQ(saved, (std::vector<std::int64_t>{3, 6, 9}));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
