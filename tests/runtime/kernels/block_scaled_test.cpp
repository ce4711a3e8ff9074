// E4M3 with a scale per block, against the definition: all 256 numbers, and the nearest of them.
#include "runtime/kernels/block_scaled.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/random.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

// OCP 8-bit Floating Point Specification: S.1111.111 is no number; 448 is the largest.
double defined(int bits) {
    const int exponent = bits / 8 % 16, last = bits % 8;
    const double magnitude = exponent == 0 ? last / 8.0 * std::pow(2.0, -6)
                                           : (1 + last / 8.0) * std::pow(2.0, exponent - 7);
    return bits >= 128 ? -magnitude : magnitude;
}

TEST(E4M3, HasItsNumbers) {
    for (int bits = 0; bits < 256; ++bits) {
        if (bits % 128 == 127) continue;
        const auto code = static_cast<std::uint8_t>(bits);
        EXPECT_EQ(from_e4m3(code), static_cast<float>(defined(bits)));
        EXPECT_EQ(to_e4m3(from_e4m3(code)), code);
    }
    EXPECT_EQ(from_e4m3(126), 448);
}

TEST(E4M3, RoundsToTheNearest) {
    const RandomKey key{7, 0, 0};
    for (std::uint64_t i = 0; i < 2000; ++i) {
        const auto value = static_cast<float>(448 * (2 * uniform(key, 2 * i) - 1) *
                                              std::pow(2.0, -12 * uniform(key, 2 * i + 1)));
        double nearest = std::numeric_limits<double>::infinity();
        for (int bits = 0; bits < 256; ++bits)
            if (bits % 128 != 127) nearest = std::min(nearest, std::abs(defined(bits) - value));
        EXPECT_EQ(std::abs(from_e4m3(to_e4m3(value)) - static_cast<double>(value)), nearest)
            << value;
    }
    // Half way: the even one. 17/16 lies between 1 and 9/8.
    EXPECT_EQ(from_e4m3(to_e4m3(17.0F / 16)), 1);
    EXPECT_EQ(from_e4m3(to_e4m3(19.0F / 16)), 10.0F / 8);
}

TEST(BlockScale, LeavesTheLargestNumberBelow448) {
    for (const float largest : {1e-30F, 0.1F, 1.0F, 447.0F, 448.0F, 449.0F, 500.0F, 1e30F}) {
        const float scale = value_of(scale_of(largest));
        EXPECT_LE(largest / scale, kLargestE4M3) << largest;
        EXPECT_GT(largest / scale * 2, kLargestE4M3) << largest << ": half would do";
    }
    EXPECT_EQ(value_of(scale_of(0)), std::ldexp(1.0F, -127));
    EXPECT_TRUE(std::isnan(value_of(scale_of(std::numeric_limits<float>::infinity()))));
    EXPECT_TRUE(std::isnan(value_of(scale_of(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
