// Devices that are not alike: what is drawn, what it does to a step, and that the others' waiting
// for a slow one is imbalance.
#include "sim/engine/uneven.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/sim/random_layouts.hpp"
#include "tests/sim/soundness.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

plan::Cluster jittered(plan::JitterDistribution distribution, double relative_sd,
                       std::int64_t seed = 1) {
    plan::Cluster cluster;
    cluster.jitter = {distribution, plan::JitterPer::kernel, relative_sd, seed};
    return cluster;
}

const Profile& profile() {
    static const Profile loaded = load_profile(theory::library() + "/profiles/a100-80gb-sxm.json");
    return loaded;
}

TEST(Exponential, IsThatOfTheLibraryToTwelveDigits) {
    for (double x = -64; x <= 64; x += 0.37)
        EXPECT_NEAR(exp_of(x) / std::exp(x), 1, 1e-12) << x;
    EXPECT_EQ(exp_of(0), 1);
}

// Of n draws the mean is off by 1/√n, the variance by √(2/n): five times that is never met by luck.
TEST(NormalDraw, HasMeanZeroAndDeviationOne) {
    constexpr int kDraws = 100'000;
    double sum = 0, squares = 0;
    int beyond_two = 0;
    for (std::uint64_t i = 0; i < kDraws; ++i) {
        const double z = normal_draw(7, 3, i);
        sum += z;
        squares += z * z;
        beyond_two += std::abs(z) > 2 ? 1 : 0;
    }
    EXPECT_NEAR(sum / kDraws, 0, 5 / std::sqrt(kDraws));
    EXPECT_NEAR(squares / kDraws, 1, 5 * std::sqrt(2.0 / kDraws));
    EXPECT_NEAR(beyond_two / double{kDraws}, std::erfc(std::sqrt(2.0)),
                5 * std::sqrt(0.0455 / kDraws));
}

TEST(NormalDraw, IsAnotherForEachSeedRankAndOp) {
    EXPECT_EQ(normal_draw(1, 2, 3), normal_draw(1, 2, 3));
    EXPECT_NE(normal_draw(1, 2, 3), normal_draw(2, 2, 3));
    EXPECT_NE(normal_draw(1, 2, 3), normal_draw(1, 3, 3));
    EXPECT_NE(normal_draw(1, 2, 3), normal_draw(1, 2, 4));
}

TEST(Uneven, FactorsHaveMeanOneAndTheDeviationAskedFor) {
    constexpr int kDraws = 100'000;
    constexpr Picoseconds kPriced = 1'000'000'000;
    for (const auto distribution :
         {plan::JitterDistribution::normal, plan::JitterDistribution::lognormal}) {
        const Uneven uneven(jittered(distribution, 0.2), 5);
        double sum = 0, squares = 0;
        for (std::uint32_t op = 0; op < kDraws; ++op) {
            const double factor = static_cast<double>(uneven.of(op, kPriced)) / kPriced;
            EXPECT_GE(factor, 0);
            sum += factor;
            squares += factor * factor;
        }
        const double mean = sum / kDraws;
        EXPECT_NEAR(mean, 1, 5 * 0.2 / std::sqrt(kDraws));
        EXPECT_NEAR(std::sqrt(squares / kDraws - mean * mean), 0.2, 0.005);
    }
}

TEST(Uneven, ASlowDeviceTakesItsFactor) {
    plan::Cluster cluster;
    cluster.slow_devices = {{4, 1.5}};
    EXPECT_FALSE(Uneven(cluster, 3).changes());
    EXPECT_EQ(Uneven(cluster, 4).of(0, 1000), 1500);
}

TEST(Uneven, ADeviceDrawsOneFactorForAllItsKernels) {
    plan::Cluster cluster = jittered(plan::JitterDistribution::lognormal, 0.1);
    cluster.jitter.per = plan::JitterPer::device;
    const Uneven uneven(cluster, 0), other(cluster, 1);
    constexpr Picoseconds kPriced = 1'000'000'000;
    EXPECT_EQ(uneven.of(0, kPriced), uneven.of(9, kPriced));
    EXPECT_NE(uneven.of(0, kPriced), other.of(0, kPriced));
}

// Tensor 4 without a pipeline: the other three wait for device 1 at every collective.
TEST(SlowDevice, PartsItsRankAndMakesTheOthersWait) {
    const Sets even = joined(world(8, 8), {"layout.tensor_parallel=4", "layout.data_parallel=2",
                                           "layout.global_batch_size=2"});
    const plan::Scenario asked =
        theory::scenario(joined(even, {R"(cluster.slow_devices=[{"device": 1, "factor": 2}])"}));
    const Prediction slow = simulate(asked, profile(), {}, "");
    const Prediction fast = simulate(theory::scenario(even), profile(), {}, "");
    EXPECT_EQ(fast.trace.tracks.size(), 1U);
    EXPECT_GT(slow.trace.tracks.size(), 1U);
    EXPECT_GT(slow.step.time_s, fast.step.time_s);
    const auto imbalance = static_cast<std::size_t>(trace::Account::imbalance);
    EXPECT_EQ(fast.step.breakdown_s[imbalance], 0);
    EXPECT_GT(slow.step.breakdown_s[imbalance], 0);
    EXPECT_EQ(folding_fault(asked, profile()), "");
}

TEST(Jitter, SimulatesEveryRankAndSaysTheSameForASeed) {
    const Sets even = joined(world(8, 8), {"layout.tensor_parallel=2", "layout.data_parallel=4",
                                           "layout.global_batch_size=4"});
    const auto step = [&](const std::string& jitter) {
        const Prediction prediction = simulate(
            theory::scenario(joined(even, {"cluster.jitter=" + jitter})), profile(), {}, "");
        EXPECT_EQ(prediction.trace.tracks.size(), 8U);
        return prediction.step.time_s;
    };
    const std::string one = R"({"distribution": "normal", "relative_sd": 0.05, "seed": 1})";
    EXPECT_EQ(step(one), step(one));
    EXPECT_NE(step(one), step(R"({"distribution": "normal", "relative_sd": 0.05, "seed": 2})"));
    EXPECT_GT(step(one), simulate(theory::scenario(even), profile(), {}, "").step.time_s);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
