// What is kept of a run's steps, against the same figures from all of them.
#include "cli/run/step_summary.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

runtime::StepReport step_of(std::int64_t number, std::int64_t samples, double time_s) {
    runtime::StepReport step;
    step.step = number;
    step.samples = samples;
    step.loss = 10.0 / static_cast<double>(number);
    step.time_s = time_s;
    step.data_wait_s = time_s / 4;
    return step;
}

// From all of the steps, as the header says.
std::vector<double> counting(const std::vector<runtime::StepReport>& steps) {
    std::vector<double> times;
    for (const runtime::StepReport& step : steps)
        if (step.samples == steps.back().samples) times.push_back(step.time_s);
    times.erase(times.begin(), times.begin() + std::min<std::ptrdiff_t>(3, std::ssize(times) - 1));
    if (times.size() > 1000) times.erase(times.begin(), times.end() - 1000);
    return times;
}

TEST(StepSummary, HasTheFiguresOfAllSteps) {
    StepSummary summary;
    EXPECT_TRUE(summary.empty());
    std::vector<runtime::StepReport> steps;
    for (std::int64_t number = 1; number <= 2500; ++number) {
        const std::int64_t samples = number <= 2 ? 4 : number <= 40 ? 8 : 16;  // the batch grows
        steps.push_back(step_of(number, samples, 1 + static_cast<double>(number * 7919 % 97)));
        summary.add(steps.back());
        ASSERT_EQ(summary.times_s(), counting(steps)) << number;
    }
    std::vector<double> sorted = counting(steps);
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(summary.time_s(), (sorted[499] + sorted[500]) / 2);
    EXPECT_EQ(summary.first_loss(), 10.0);
    EXPECT_EQ(summary.last().step, 2500);
    EXPECT_DOUBLE_EQ(summary.data_wait_share(), 0.25);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
