// Base-2 logarithm of our own: libm's differs between processors and C libraries in the last bit,
// and prices must be equal everywhere. Only + − × ÷ on doubles.
#pragma once

#include <bit>
#include <cstdint>

#include "plan/check.hpp"

namespace orrery::sim {

// log2 of a positive, normal, finite x; absolute error below 1e-14 + 2^-52·|result|.
// x = m·2^e with m in [√½, √2); ln m = 2·atanh(s), s = (m−1)/(m+1), |s| < 0.172, whose series
// s + s³/3 + s⁵/5 + … is cut after s²⁵ (the rest is below 1e-21).
inline double log2_of(double x) {
    constexpr double kSqrtTwo = 1.4142135623730951;
    constexpr double kTwoOverLnTwo = 2.8853900817779268;
    const auto bits = std::bit_cast<std::uint64_t>(x);
    const auto biased = static_cast<int>((bits >> 52) & 0x7ff);
    ORRERY_CHECK((bits >> 63) == 0 && biased != 0 && biased != 0x7ff, "log2 of what is not > 0");
    int exponent = biased - 1023;
    double mantissa = std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
    if (mantissa >= kSqrtTwo) {
        mantissa *= 0.5;
        ++exponent;
    }
    const double s = (mantissa - 1.0) / (mantissa + 1.0);
    const double s2 = s * s;
    double series = 0;
    for (int n = 25; n >= 1; n -= 2)
        series = series * s2 + 1.0 / n;
    return static_cast<double>(exponent) + kTwoOverLnTwo * s * series;
}

}  // namespace orrery::sim
