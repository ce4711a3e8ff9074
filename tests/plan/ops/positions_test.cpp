// Frequencies and slopes against values worked out by hand.
#include "plan/ops/positions.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "plan/scenario/scenario.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

Model rotary(std::int64_t dim, double theta) {
    Model model;
    model.learned_positions = false;
    model.attention().head_dim = model.attention().rotary_dim = dim;
    model.attention().rope_theta = theta;
    return model;
}

std::vector<double> inverse_frequencies(const Model& model) {
    return inverse_frequencies(model.attention().rotary_dim, model.attention().rope_theta,
                               model.attention().rope_scaling);
}

TEST(Frequencies, FallByEqualFactorsFromOne) {
    // 10^8 to the powers 0, −2/8, −4/8, −6/8.
    const std::vector<double> all = inverse_frequencies(rotary(8, 1e8));
    ASSERT_EQ(all.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i)
        EXPECT_NEAR(all[i] / std::pow(0.01, static_cast<double>(i)), 1, 1e-14);
}

TEST(Frequencies, OfAPartOfAHeadCountThatPartAlone) {
    Model model = rotary(8, 1e8);
    model.attention().head_dim = 32;  // GPT-NeoX: rotary_pct 0.25
    EXPECT_EQ(inverse_frequencies(model), inverse_frequencies(rotary(8, 1e8)));
}

TEST(Frequencies, LinearScalingDividesThemAll) {
    Model model = rotary(8, 1e8);
    model.attention().rope_scaling.kind = RopeScaling::Kind::linear;
    model.attention().rope_scaling.factor = 4;
    const std::vector<double> all = inverse_frequencies(model);
    EXPECT_EQ(all[0], 0.25);
    EXPECT_NEAR(all[2] / 0.000025, 1, 1e-14);
}

// Llama 3.1: heads of 128, θ = 500,000, factor 8, bands at 1 and 4 turns of 8,192 positions. Pair i
// makes 8192·θ^(−i/64)/2π turns: more than 4 up to i = 64·ln(8192/8π)/ln θ = 28.2, fewer than 1
// from 64·ln(8192/2π)/ln θ = 35.0 (34.98) on.
TEST(Frequencies, OfLlama31) {
    Model model = rotary(128, 500000);
    const std::vector<double> before = inverse_frequencies(model);
    model.attention().rope_scaling = {RopeScaling::Kind::llama3, 8, 1, 4, 8192};
    const std::vector<double> after = inverse_frequencies(model);
    ASSERT_EQ(after.size(), 64u);
    for (std::size_t i = 0; i < 64; ++i) {
        SCOPED_TRACE(i);
        if (i <= 28) {
            EXPECT_EQ(after[i], before[i]);
        }
        if (i >= 35) {
            EXPECT_EQ(after[i], before[i] / 8);
        }
        if (i > 28 && i < 35) {
            EXPECT_LT(after[i], before[i]);
            EXPECT_GT(after[i], before[i] / 8);
        }
    }
    // Pair 32: θ^(−1/2) = √2/1000, wavelength 4442.88 positions, 8192/4442.88 = 1.84385 turns, of
    // which (1.84385 − 1)/3 = 0.281283 is kept: √2/1000 × (0.718717/8 + 0.281283).
    const double frequency = std::numbers::sqrt2 / 1000;
    const double wavelength = 2 * std::numbers::pi / frequency;
    const double kept = (8192 / wavelength - 1) / 3;
    EXPECT_NEAR(kept, 0.281283, 1e-6);
    EXPECT_NEAR(after[32], frequency * ((1 - kept) / 8 + kept), 1e-17);
    EXPECT_NEAR(after[32], 5.24847e-4, 1e-9);
}

// Qwen2.5 beyond 32,768 positions: heads of 128, θ = 10^6, factor 4, 1 to 32 turns. The pair of t
// turns is 64·ln(32768/2πt)/ln 10^6: 39.65 for one, from which 40 on all are divided, and 23.60 for
// 32, up to which 23 they stay.
TEST(Frequencies, OfYarn) {
    Model model = rotary(128, 1e6);
    const std::vector<double> before = inverse_frequencies(model);
    model.attention().rope_scaling.kind = RopeScaling::Kind::yarn;
    model.attention().rope_scaling.factor = 4;
    model.attention().rope_scaling.original_max_positions = 32768;
    const std::vector<double> after = inverse_frequencies(model);
    const auto pair_of = [](double turns) {
        return 64 * std::log(32768 / (2 * std::numbers::pi * turns)) / std::log(1e6);
    };
    EXPECT_EQ(std::ceil(pair_of(1)), 40);
    EXPECT_EQ(std::floor(pair_of(32)), 23);
    for (std::size_t i = 0; i < 64; ++i) {
        SCOPED_TRACE(i);
        if (i <= 23) {
            EXPECT_EQ(after[i], before[i]);
        } else if (i >= 40) {
            EXPECT_EQ(after[i], before[i] / 4);
        } else {
            const double divided = (static_cast<double>(i) - 23) / 17;
            EXPECT_NEAR(after[i] / before[i], divided / 4 + 1 - divided, 1e-15);
        }
    }
    model.attention().rope_scaling.truncate = false;
    const double divided = (30 - pair_of(32)) / (pair_of(1) - pair_of(32));
    EXPECT_NEAR(inverse_frequencies(model)[30] / before[30], divided / 4 + 1 - divided, 1e-15);
}

TEST(Alibi, PowersOfTwoAreThePapers) {
    for (int head = 0; head < 8; ++head)
        EXPECT_EQ(alibi_slope(8, head), std::pow(0.5, head + 1));
    EXPECT_EQ(alibi_slope(1, 0), std::pow(0.5, 8));
    EXPECT_NEAR(alibi_slope(16, 0), std::numbers::sqrt2 / 2, 1e-15);  // 2^(−8/16)
}

// 12 heads: the 8 of 8, then the 1st, 3rd, 5th and 7th of 16: 2^(−1/2), 2^(−3/2), …
TEST(Alibi, OtherNumbersOfHeadsInterleaveTheNextPower) {
    for (int head = 0; head < 8; ++head)
        EXPECT_EQ(alibi_slope(12, head), alibi_slope(8, head));
    for (int extra = 0; extra < 4; ++extra) {
        EXPECT_EQ(alibi_slope(12, 8 + extra), alibi_slope(16, 2 * extra));
        EXPECT_NEAR(alibi_slope(12, 8 + extra), std::numbers::sqrt2 / 2 * std::pow(0.5, extra),
                    1e-15);
    }
    // BLOOM has 112: 64, and 48 of 128.
    EXPECT_NEAR(alibi_slope(112, 63), 1.0 / 256, 1e-17);
    EXPECT_NEAR(alibi_slope(112, 111), std::exp2(-95.0 / 16), 1e-16);  // 95 = 2·47 + 1
}

TEST(Alibi, IsScaledWithTheScoresWhereTheModelSaysSo) {
    Model model;
    model.attention().heads = 8;
    model.attention().head_dim = 64;
    EXPECT_EQ(model.attention().alibi_factor(), 0);
    model.learned_positions = false;
    model.attention().alibi = true;
    EXPECT_EQ(model.attention().alibi_factor(), 1);
    model.attention().scaled_alibi = true;
    EXPECT_EQ(model.attention().alibi_factor(), 1.0 / 8);  // 1 ÷ √64
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
