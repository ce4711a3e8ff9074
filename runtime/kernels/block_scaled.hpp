// Numbers of eight bits that share a scale with their neighbours: OCP's MXFP8 (Microscaling Formats
// v1.0, 2023). 32 numbers in a row are E4M3 (bias 7, largest 448, no infinity) times one power of
// two, stored as its exponent + 127 (E8M0; 255: the block holds something that is no number). The
// scale is the smallest with which the block's largest number is not above 448 (NVIDIA, "Recipes
// for pre-training LLMs with MXFP8", arXiv 2506.08027, where rounding it down saturates).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace orrery::runtime {

inline constexpr std::int64_t kScaledBlock = 32;
inline constexpr float kLargestE4M3 = 448;
inline constexpr std::uint8_t kNoScale = 255;

// Of a number of at most 448 in magnitude, to the nearest, ties to even.
inline std::uint8_t to_e4m3(float value) {
    constexpr int kLeast = -6;  // exponent of the smallest normal number
    const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
    const float magnitude = std::fabs(value);
    if (magnitude == 0) return sign;
    int exponent = std::ilogb(magnitude);
    if (exponent < kLeast) exponent = kLeast;
    // In units of the last of three bits, from 8 to 16 where the number is normal.
    const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));
    return static_cast<std::uint8_t>(sign + (exponent - kLeast) * 8 + units);
}

inline float from_e4m3(std::uint8_t bits) {
    const int field = bits >> 3 & 15, last = bits & 7;
    const float magnitude = field == 0 ? std::ldexp(static_cast<float>(last), -9)
                                       : std::ldexp(static_cast<float>(8 + last), field - 10);
    return bits >> 7 != 0 ? -magnitude : magnitude;
}

// Of a block by its largest magnitude.
inline std::uint8_t scale_of(float largest) {
    if (!(largest <= std::numeric_limits<float>::max())) return kNoScale;
    if (largest == 0) return 0;
    int exponent = std::ilogb(largest) - 8;
    if (largest > std::ldexp(kLargestE4M3, exponent)) ++exponent;
    const int stored = exponent + 127;
    return static_cast<std::uint8_t>(stored < 0 ? 0 : stored);
}

inline float value_of(std::uint8_t scale) {
    return scale == kNoScale ? std::numeric_limits<float>::quiet_NaN()
                             : std::ldexp(1.0F, scale - 127);
}

}  // namespace orrery::runtime
