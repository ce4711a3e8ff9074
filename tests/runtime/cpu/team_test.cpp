#include "runtime/cpu/team.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

TEST(Team, VisitsEachElementOnceInPartsOfTheGrain) {
    for (int threads : {1, 2, 3, 5}) {
        Team team(threads);
        for (std::int64_t n : {0, 1, 6, 7, 8, 1000}) {
            std::vector<std::atomic<int>> visits(static_cast<std::size_t>(n));
            std::atomic<int> ill_formed = 0;
            team.parallel_for(n, 7, [&](std::int64_t begin, std::int64_t end, int worker) {
                if (begin % 7 != 0 || (end - begin != 7 && end != n)) ++ill_formed;
                if (worker < 0 || worker >= threads) ++ill_formed;
                for (std::int64_t i = begin; i < end; ++i)
                    ++visits[static_cast<std::size_t>(i)];
            });
            EXPECT_EQ(ill_formed, 0);
            for (const auto& visit : visits)
                EXPECT_EQ(visit, 1);
        }
    }
}

// A worker that wakes up for a job that is over must not touch the next one's.
TEST(Team, ManyShortJobsInARow) {
    Team team(3);
    std::int64_t expected = 0;
    std::atomic<std::int64_t> sum = 0;
    for (std::int64_t job = 0; job < 20'000; ++job) {
        team.parallel_for(4, 1, [&, job](std::int64_t begin, std::int64_t) { sum += job + begin; });
        expected += 4 * job + 6;
        ASSERT_EQ(sum, expected);
    }
}

TEST(Team, ScratchIsAlignedApartAndKept) {
    Team team(2);
    team.reserve(100, 5000);
    void* const before = team.scratch(1);
    team.reserve(0, 4000);
    EXPECT_EQ(team.scratch(1), before);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(team.scratch(0)) % 64, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(team.shared_scratch()) % 64, 0U);
    std::memset(team.shared_scratch(), 1, 100);
    std::memset(team.scratch(0), 2, 5000);
    std::memset(team.scratch(1), 3, 5000);
    EXPECT_EQ(static_cast<char*>(team.shared_scratch())[99], 1);
    EXPECT_EQ(static_cast<char*>(team.scratch(0))[4999], 2);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
