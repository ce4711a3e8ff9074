// Numbers of eight bits and their scales, against the definition: all 256 numbers of either format,
// and the nearest of them.
#include "runtime/kernels/eight_bit.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/random.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

// OCP 8-bit Floating Point Specification. Of E4M3 S.1111.111 is no number; of E5M2 what has an
// exponent of ones.
template <typename Number>
struct Defined;
template <>
struct Defined<E4M3> {
    static constexpr int kFraction = 3, kBias = 7, kNumbers = 127;
    static constexpr double kMost = 448;
};
template <>
struct Defined<E5M2> {
    static constexpr int kFraction = 2, kBias = 15, kNumbers = 124;
    static constexpr double kMost = 57344;
};

template <typename Number>
double defined(int code) {
    using D = Defined<Number>;
    const int whole = 1 << D::kFraction, exponent = code / whole, last = code % whole;
    const double fraction = static_cast<double>(last) / whole;
    return exponent == 0 ? std::ldexp(fraction, 1 - D::kBias)
                         : std::ldexp(1 + fraction, exponent - D::kBias);
}

template <typename Number>
class EightBitNumbers : public testing::Test {};
using Formats = testing::Types<E4M3, E5M2>;
TYPED_TEST_SUITE(EightBitNumbers, Formats);

TYPED_TEST(EightBitNumbers, AreThoseOfTheSpecification) {
    for (int code = 0; code < Defined<TypeParam>::kNumbers; ++code)
        for (const int sign : {0, 128}) {
            const auto bits = static_cast<std::uint8_t>(code + sign);
            const auto value = static_cast<float>(defined<TypeParam>(code) * (sign > 0 ? -1 : 1));
            EXPECT_EQ(TypeParam::value(bits), value);
            EXPECT_EQ(TypeParam::from(value), bits);
        }
    EXPECT_EQ(defined<TypeParam>(Defined<TypeParam>::kNumbers - 1), Defined<TypeParam>::kMost);
    EXPECT_EQ(TypeParam::kLargest, Defined<TypeParam>::kMost);
}

TYPED_TEST(EightBitNumbers, AreTheNearest) {
    const RandomKey key{7, 0, 0};
    const auto far = [](int code, double value) {
        return std::abs(defined<TypeParam>(code) - value);
    };
    for (std::uint64_t i = 0; i < 2000; ++i) {
        const auto value = static_cast<float>(Defined<TypeParam>::kMost * uniform(key, 2 * i) *
                                              std::pow(2.0, -24 * uniform(key, 2 * i + 1)));
        double nearest = std::numeric_limits<double>::infinity();
        for (int code = 0; code < Defined<TypeParam>::kNumbers; ++code)
            nearest = std::min(nearest, far(code, value));
        EXPECT_EQ(far(TypeParam::from(value), value), nearest) << value;
        EXPECT_EQ(TypeParam::from(-value), TypeParam::from(value) | 128);
    }
}

TYPED_TEST(EightBitNumbers, HalfWayIsTheEvenOne) {
    for (int code = 0; code + 1 < Defined<TypeParam>::kNumbers; ++code) {
        const double half = (defined<TypeParam>(code) + defined<TypeParam>(code + 1)) / 2;
        EXPECT_EQ(TypeParam::from(static_cast<float>(half)), code + code % 2) << half;
    }
}

TYPED_TEST(EightBitNumbers, WhatIsTooLargeIsTheLargest) {
    const auto most = static_cast<float>(Defined<TypeParam>::kMost);
    for (const float value :
         {most, most * 1.01F, most * 16, std::numeric_limits<float>::infinity()})
        EXPECT_EQ(TypeParam::value(TypeParam::from(-value)), -most);
}

TYPED_TEST(EightBitNumbers, NaNStaysNaN) {
    for (const float nan :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()}) {
        EXPECT_EQ(TypeParam::from(nan) & 0x7f, 0x7f);
        EXPECT_TRUE(std::isnan(TypeParam::value(TypeParam::from(nan))));
    }
}

TEST(Scale, IsTheSmallestThatDoesNotSaturate) {
    for (const float most : {kLargestE4M3, kLargestE5M2})
        for (const float largest : {1e-30F, 0.1F, 1.0F, 447.0F, 448.0F, 449.0F, 500.0F, 1e30F}) {
            const float scale = scale_for(largest, most);
            int exponent = 0;
            EXPECT_EQ(std::frexp(scale, &exponent), 0.5F);
            EXPECT_LE(largest, scale * most) << largest;
            EXPECT_GT(largest, scale / 2 * most) << largest << ": half would do";
            EXPECT_EQ(value_of(block_scale_for(largest, most)), scale);
        }
    EXPECT_EQ(scale_for(0, kLargestE4M3), 1);
    EXPECT_EQ(scale_for(std::numeric_limits<float>::denorm_min(), kLargestE4M3), 0x1p-126F);
    EXPECT_EQ(value_of(block_scale_for(0, kLargestE4M3)), 0x1p-127F);
    for (const float none :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
        EXPECT_TRUE(std::isnan(scale_for(none, kLargestE4M3)));
        EXPECT_TRUE(std::isnan(value_of(block_scale_for(none, kLargestE4M3))));
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
