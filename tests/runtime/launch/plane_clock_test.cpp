// Clocks of machines that differ, joined over the control plane.
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/launch/plane_clock.hpp"
#include "runtime/launch/thread_planes.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

// Time goes on by one whenever anybody looks, and each machine began to count elsewhere.
TEST(PlaneClock, HasTheClockOfRankZeroWithinHalfOfARound) {
    constexpr std::size_t kRanks = 3;
    constexpr std::array<std::int64_t, kRanks> kBegun{0, 0, 1'000'000'000};
    std::atomic<std::int64_t> looks{0};
    std::array<std::int64_t, kRanks> offsets{};
    const auto planes = thread_planes(kRanks);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < kRanks; ++rank)
        threads.emplace_back([&, rank] {
            offsets[rank] = clock_offset(*planes[rank], kBegun[rank] == kBegun[0],
                                         [&] { return ++looks + kBegun[rank]; });
            planes[rank]->finish();
        });
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(offsets[0], 0);
    EXPECT_EQ(offsets[1], 0);
    // A round has no more looks than all have.
    EXPECT_LE(std::abs(offsets[2] + kBegun[2]), looks / 2);
    EXPECT_LT(looks, 100);
}

TEST(PlaneClock, IsRankZerosWhereAllAreOfOneMachine) {
    const auto planes = thread_planes(1);
    EXPECT_EQ(host_clock_offset(*planes[0]), 0);
    planes[0]->finish();
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
