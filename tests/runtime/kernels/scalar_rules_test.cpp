// What is decided by a few numbers at the end of a step.
#include "runtime/kernels/scalar_rules.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(ClipFactor, ShortensWhatIsLongerThanTheNorm) {
    const double bins[5] = {16, 0, 0, 0, 0};
    EXPECT_DOUBLE_EQ(clip_factor(bins, 1), 1 / (4 + 1e-6));
    EXPECT_EQ(clip_factor(bins, 5), 1);
    EXPECT_EQ(clip_factor(nullptr, 1), 1);
    const double infinite[5] = {kInfinity, kNaN, kNaN, kNaN, kNaN};
    EXPECT_EQ(clip_factor(infinite, 1), 0);
}

// Hysteresis 2: the first overflow since the scale last grew is forgiven.
TEST(UpdateLossScale, HalvesAtOverflowsAndDoublesAfterAnIntervalWithoutOne) {
    const LossScaleRule rule{3, 2, 1};
    float scale = 8;
    std::int32_t counters[2] = {0, 0};
    const std::vector<std::pair<bool, float>> steps = {
        {false, 8}, {false, 8}, {false, 16}, {true, 16}, {true, 8},  {true, 4}, {true, 2},
        {true, 1},  {true, 1},  {false, 1},  {false, 1}, {false, 2}, {true, 2}};
    for (std::size_t i = 0; i < steps.size(); ++i) {
        update_loss_scale(rule, steps[i].first, scale, counters);
        EXPECT_EQ(scale, steps[i].second) << "step " << i;
    }
}

TEST(JudgeLoss, ComparesWithTheMeanOfTheLatestThatCount) {
    const LossSpikeRule rule{2, 3};
    std::array<double, 2> accepted{};
    std::int32_t count = 0;
    auto spiked = [&](double loss, bool overflow = false) {
        return judge_loss(rule, loss, overflow, accepted.data(), count);
    };
    EXPECT_FALSE(spiked(100));  // too few to compare with
    EXPECT_FALSE(spiked(2));
    EXPECT_FALSE(spiked(153));        // 3 · (100 + 2) / 2
    EXPECT_FALSE(spiked(1));          // (153 + 2) / 2
    EXPECT_TRUE(spiked(231.1));       // 3 · (153 + 1) / 2 = 231
    EXPECT_FALSE(spiked(999, true));  // an overflow's loss says nothing, and does not count
    EXPECT_FALSE(spiked(231));
    EXPECT_TRUE(spiked(kNaN));
    EXPECT_TRUE(spiked(kInfinity));
    EXPECT_EQ(count, 5);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
