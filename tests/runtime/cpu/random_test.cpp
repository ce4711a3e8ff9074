#include "runtime/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

// Known answers published with Philox (Random123, kat_vectors: philox4x32 10 rounds).
TEST(Random, PhiloxGivesItsPublishedAnswers) {
    const auto expect = [](PhiloxWords counter, std::uint64_t key, PhiloxWords expected) {
        const PhiloxWords found = philox4x32(counter, key);
        for (int i = 0; i < 4; ++i)
            EXPECT_EQ(found.word[i], expected.word[i]);
    };
    expect({{0, 0, 0, 0}}, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
    expect({{~0U, ~0U, ~0U, ~0U}}, ~std::uint64_t{0},
           {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
    expect({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822,
           {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

TEST(Random, WordsOfAnIndexAreLanesOfItsBlock) {
    const RandomKey key{7, 3, 5};
    const std::uint64_t index = (std::uint64_t{9} << 34) + 6;
    const PhiloxWords words = philox4x32({{1, 9, 3, 5}}, 7);
    EXPECT_EQ(random_word(key, index), words.word[2]);
}

// Mean and variance of n independent numbers lie within 5 standard errors; for the variance of
// normal ones that is √(2/n), for uniform ones √(1/180n).
TEST(Random, UniformAndNormalHaveTheirMoments) {
    constexpr int kNumbers = 200'000;
    const RandomKey key{1, 2, 3};
    double sums[2] = {}, squares[2] = {}, across = 0, last = 0;
    for (std::uint64_t i = 0; i < kNumbers; ++i) {
        const double u = uniform(key, i), z = normal(key, i);
        EXPECT_GT(u, 0);
        EXPECT_LT(u, 1);
        sums[0] += u - 0.5;
        sums[1] += z;
        squares[0] += (u - 0.5) * (u - 0.5);
        squares[1] += z * z;
        across += z * last;
        last = z;
    }
    const double n = kNumbers;
    EXPECT_LT(std::abs(sums[0] / n), 5 * std::sqrt(1 / (12 * n)));
    EXPECT_LT(std::abs(sums[1] / n), 5 * std::sqrt(1 / n));
    EXPECT_LT(std::abs(squares[0] / n - 1.0 / 12), 5 * std::sqrt(1 / (180 * n)));
    EXPECT_LT(std::abs(squares[1] / n - 1), 5 * std::sqrt(2 / n));
    EXPECT_LT(std::abs(across / n), 5 * std::sqrt(1 / n));  // neighbours are not correlated
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
