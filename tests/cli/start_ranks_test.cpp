// When `orrery train` starts a process for each rank.
#include <gtest/gtest.h>

#include "cli/run/train_backend.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

plan::Scenario with_ranks(std::int64_t ranks) {
    plan::Scenario scenario;
    scenario.layout.tensor_parallel = ranks;
    return scenario;
}

TEST(StartRanks, SeveralRanksOnDevicesAreProcessesUnlessAskedOtherwise) {
    BackendOptions options;
    options.backend = "cuda";
    EXPECT_TRUE(starts_ranks(options, with_ranks(2)));
    EXPECT_FALSE(starts_ranks(options, with_ranks(1)));
    options.launcher = "none";
    EXPECT_FALSE(starts_ranks(options, with_ranks(2)));
    options.ranks_per_gpu = 1;
    EXPECT_TRUE(starts_ranks(options, with_ranks(2))) << "asked to";
}

TEST(StartRanks, RanksOnTheCpuAreThreadsHere) {
    const BackendOptions options;
    ASSERT_EQ(options.backend, "cpu");
    EXPECT_FALSE(starts_ranks(options, with_ranks(2)));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
