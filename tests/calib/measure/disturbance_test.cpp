#include "calib/measure/disturbance.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <thread>

#include <gtest/gtest.h>

namespace orrery::measure {
namespace ORRERY_TEST_FILE {

void compute_for(double seconds) {
    const auto limit = static_cast<std::clock_t>(seconds * CLOCKS_PER_SEC) + std::clock();
    while (std::clock() < limit) {
    }
}

// Of the processor's time, not of the wall's: however long it waits for a core, it has had 0.3 s.
TEST(Disturbance, IsTheTimeOfOtherProcesses) {
    const OtherWork others;
    const pid_t child = fork();
    if (child == 0) {
        compute_for(0.3);
        _exit(0);
    }
    ASSERT_GT(child, 0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
    EXPECT_GE(others.seconds(), 0.3 - 2 * tick * std::thread::hardware_concurrency());
}

TEST(Disturbance, CountsPreemptionsOfThisProcessUpwards) {
    const std::int64_t before = preemptions();
    compute_for(0.01);
    EXPECT_GE(preemptions(), before);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::measure
