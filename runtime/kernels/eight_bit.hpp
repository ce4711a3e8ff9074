// Eight-bit floating-point numbers and their scales, as products take them (OCP 8-bit floating
// point specification v1.0, 2023): E4M3 (bias 7, largest 448, no infinity) and E5M2 (bias 15,
// largest 57344). A scale is the smallest power of two with which the largest magnitude does not
// saturate, so that a number is rounded alike whatever it shares its scale with, but for the
// subnormal ones: Transformer Engine's NVTE_FP8_CURRENT_SCALING_POWER_2_SCALES, torchao's
// round_scales_to_power_of_2.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "runtime/kernels/block_scaled.hpp"

namespace orrery::runtime {

inline constexpr float kLargestE5M2 = 57344;

// Of a number of at most 57344 in magnitude, to the nearest, ties to even.
inline std::uint8_t to_e5m2(float value) {
    constexpr int kLeast = -14;  // exponent of the smallest normal number
    const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
    const float magnitude = std::fabs(value);
    if (magnitude == 0) return sign;
    int exponent = std::ilogb(magnitude);
    if (exponent < kLeast) exponent = kLeast;
    // In units of the last of two bits, from 4 to 8 where the number is normal.
    const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 2 - exponent)));
    return static_cast<std::uint8_t>(sign + (exponent - kLeast) * 4 + units);
}

inline float from_e5m2(std::uint8_t bits) {
    const int field = bits >> 2 & 31, last = bits & 3;
    const float magnitude = field == 0 ? std::ldexp(static_cast<float>(last), -16)
                                       : std::ldexp(static_cast<float>(4 + last), field - 17);
    return bits >> 7 != 0 ? -magnitude : magnitude;
}

// What eight-bit numbers are multiplied by, from the largest magnitude among them; NaN where that
// is no number.
inline float scale_for(float largest, float most) {
    if (!(largest <= std::numeric_limits<float>::max()))
        return std::numeric_limits<float>::quiet_NaN();
    if (largest == 0) return 1;
    int exponent = std::ilogb(largest) - std::ilogb(most);
    if (largest > std::ldexp(most, exponent)) ++exponent;
    return std::ldexp(1.0F, exponent < -126 ? -126 : exponent);
}

}  // namespace orrery::runtime
