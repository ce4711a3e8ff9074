// Conversions against their definition: the nearest of all 2^16 values, ties to an even pattern.
#include "runtime/number.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

// Value of a pattern by its fields: sign, exponent (of this many bits, biased), fraction.
double by_fields(std::uint32_t bits, int exponent_bits, int fraction_bits) {
    const std::uint32_t fraction = bits & ((1U << fraction_bits) - 1);
    const std::uint32_t exponent = (bits >> fraction_bits) & ((1U << exponent_bits) - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const double sign = (bits >> (exponent_bits + fraction_bits)) != 0 ? -1 : 1;
    if (exponent == (1U << exponent_bits) - 1)
        return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
    const double one = exponent == 0 ? 0 : 1;
    const int power = (exponent == 0 ? 1 : static_cast<int>(exponent)) - bias;
    return sign * std::ldexp(one + std::ldexp(fraction, -fraction_bits), power);
}

template <typename Number>
struct Format;
template <>
struct Format<BFloat16> {
    static constexpr int exponent_bits = 8, fraction_bits = 7;
    static BFloat16 round(float x) { return to_bfloat16(x); }
};
template <>
struct Format<Half> {
    static constexpr int exponent_bits = 5, fraction_bits = 10;
    static Half round(float x) { return to_half(x); }
};

template <typename Number>
class NumberTest : public ::testing::Test {
  protected:
    static Number number(std::uint32_t bits) { return {static_cast<std::uint16_t>(bits)}; }
    static double value(std::uint32_t bits) {
        return by_fields(bits, Format<Number>::exponent_bits, Format<Number>::fraction_bits);
    }
};
using Numbers = ::testing::Types<BFloat16, Half>;
TYPED_TEST_SUITE(NumberTest, Numbers);

TYPED_TEST(NumberTest, EveryPatternHasItsValueAndComesBack) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        const double expected = this->value(bits);
        const float found = to_float(this->number(bits));
        const auto back = Format<TypeParam>::round(found);
        if (std::isnan(expected)) {
            EXPECT_TRUE(std::isnan(found));
            EXPECT_TRUE(std::isnan(to_float(back)));
        } else {
            EXPECT_EQ(found, expected);
            EXPECT_EQ(back.bits, bits);
        }
    }
}

// Between two neighbours: below the middle the lower one, above it the upper one, in the middle
// the one whose pattern is even. The neighbour of the largest is infinity, 2^(largest exponent + 1)
// away for this purpose.
TYPED_TEST(NumberTest, RoundsToTheNearestTiesToEven) {
    const std::uint32_t infinity = ((1U << Format<TypeParam>::exponent_bits) - 1)
                                   << Format<TypeParam>::fraction_bits;
    for (std::uint32_t bits = 0; bits < infinity; ++bits) {
        const double lower = this->value(bits);
        const double upper =
            bits + 1 == infinity ? 2 * lower - this->value(bits - 1) : this->value(bits + 1);
        const auto middle = static_cast<float>((lower + upper) / 2);
        if (!std::isfinite(middle)) continue;
        ASSERT_EQ(middle, (lower + upper) / 2);
        const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
        const float above = std::nextafter(middle, std::numeric_limits<float>::infinity());
        EXPECT_EQ(Format<TypeParam>::round(middle).bits, even);
        EXPECT_EQ(Format<TypeParam>::round(std::nextafter(middle, 0.0F)).bits, bits);
        EXPECT_EQ(Format<TypeParam>::round(above).bits, bits + 1);
        EXPECT_EQ(Format<TypeParam>::round(-middle).bits, even | 0x8000U);
    }
    EXPECT_EQ(Format<TypeParam>::round(std::numeric_limits<float>::max()).bits, infinity);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
