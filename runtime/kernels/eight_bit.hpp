// Eight-bit floating-point numbers and their scales, as products take them and stashes keep them
// (OCP 8-bit floating point specification v1.0, 2023): E4M3 (bias 7, largest 448, no infinity) and
// E5M2 (bias 15, largest 57344). A scale is the smallest power of two with which the largest
// magnitude among its numbers does not saturate, so that a number is rounded alike whatever it
// shares its scale with, but for the subnormal ones: Transformer Engine's
// NVTE_FP8_CURRENT_SCALING_POWER_2_SCALES, torchao's round_scales_to_power_of_2. OCP's MXFP8
// (Microscaling Formats v1.0, 2023) stores it as its exponent + 127, E8M0, for 32 numbers in a row
// (NVIDIA, "Recipes for pre-training LLMs with MXFP8", arXiv 2506.08027, where rounding it down
// saturates). NaN (in E8M0 255) is the scale of numbers of which one is no number, or infinite.
// Functions are inlined by force, as in runtime/number.hpp.
#pragma once

#include <bit>
#include <cstdint>

#include "runtime/host_device.hpp"

namespace orrery::runtime {

inline constexpr std::int64_t kScaledBlock = 32;  // of MXFP8
inline constexpr float kLargestE4M3 = 448;
inline constexpr float kLargestE5M2 = 57344;
inline constexpr std::uint8_t kNoScale = 255;

// Of so many bits of exponent and fraction, from fp32: to the nearest, ties to even; what is
// larger than the largest becomes that, infinity too. NaN stays NaN: all bits but the sign are set.
template <int kExponent, int kFraction>
struct EightBitNumber {
    static constexpr int kBias = (1 << (kExponent - 1)) - 1;
    static constexpr int kDropped = 23 - kFraction;
    static constexpr float kLargest = kExponent == 4 ? kLargestE4M3 : kLargestE5M2;

    [[gnu::always_inline]] ORRERY_HOST_DEVICE static std::uint8_t from(float value) {
        constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kBias) << 23;
        // Its last place is that of subnormal numbers.
        constexpr std::uint32_t kPlace = static_cast<std::uint32_t>(151 - kBias - kFraction) << 23;
        const auto bits = std::bit_cast<std::uint32_t>(value);
        const std::uint32_t most = std::bit_cast<std::uint32_t>(kLargest);
        const std::uint32_t magnitude = bits & 0x7fffffffU;
        const std::uint32_t rest = magnitude < most ? magnitude : most;
        const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) +
                                                                 std::bit_cast<float>(kPlace)) -
                                    kPlace;
        const std::uint32_t half = (1U << (kDropped - 1)) - 1;
        const std::uint32_t normal =
            (rest - kRebias + half + ((rest >> kDropped) & 1U)) >> kDropped;
        const std::uint32_t rounded = rest < kRebias + (1U << 23) ? small : normal;
        const std::uint32_t known = magnitude > 0x7f800000U ? 0x7fU : rounded;
        return static_cast<std::uint8_t>(((bits >> 24) & 0x80U) | known);
    }

    [[gnu::always_inline]] ORRERY_HOST_DEVICE static float value(std::uint8_t number) {
        const std::uint32_t sign = static_cast<std::uint32_t>(number & 0x80U) << 24;
        const std::uint32_t rest = static_cast<std::uint32_t>(number & 0x7fU) << kDropped;
        constexpr float kRebias = kExponent == 4 ? 0x1p120F : 0x1p112F;  // 2^(127 − bias)
        const float known = std::bit_cast<float>(sign | rest) * kRebias;
        return (number & 0x7fU) == 0x7fU ? std::bit_cast<float>(0x7fc00000U) : known;
    }
};

using E4M3 = EightBitNumber<4, 3>;
using E5M2 = EightBitNumber<5, 2>;

// The larger of magnitudes as bits of fp32, which are in the order of the numbers: infinity and NaN
// above all.
[[gnu::always_inline]] ORRERY_HOST_DEVICE inline std::uint32_t magnitude_bits(float value) {
    return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}

namespace detail {

// The exponent of the smallest power of two s with which largest ≤ s·most, which has a fraction of
// .75; of a largest magnitude above 0 that is a number.
[[gnu::always_inline]] ORRERY_HOST_DEVICE inline int scale_exponent(float largest, float most) {
    // Of a subnormal number that of the smallest normal one.
    const auto bits = std::bit_cast<std::uint32_t>(largest);
    const auto most_bits = std::bit_cast<std::uint32_t>(most);
    const int exponent = static_cast<int>(bits >> 23) - static_cast<int>(most_bits >> 23);
    return exponent + ((bits & 0x7fffffU) > (most_bits & 0x7fffffU) ? 1 : 0);
}

}  // namespace detail

// What numbers are multiplied by, from the largest magnitude among them: at least 2^-126; of zeros
// alone 1.
[[gnu::always_inline]] ORRERY_HOST_DEVICE inline float scale_for(float largest, float most) {
    if (magnitude_bits(largest) >= 0x7f800000U) return std::bit_cast<float>(0x7fc00000U);
    if (largest == 0) return 1;
    const int exponent = detail::scale_exponent(largest, most);
    return std::bit_cast<float>(static_cast<std::uint32_t>(exponent < -126 ? 1 : exponent + 127)
                                << 23);
}

// The same of MXFP8's blocks: of zeros alone 2^-127.
[[gnu::always_inline]] ORRERY_HOST_DEVICE inline std::uint8_t block_scale_for(float largest,
                                                                              float most) {
    if (magnitude_bits(largest) >= 0x7f800000U) return kNoScale;
    if (largest == 0) return 0;
    const int stored = detail::scale_exponent(largest, most) + 127;
    return static_cast<std::uint8_t>(stored < 0 ? 0 : stored);
}

[[gnu::always_inline]] ORRERY_HOST_DEVICE inline float value_of(std::uint8_t scale) {
    if (scale == kNoScale) return std::bit_cast<float>(0x7fc00000U);
    return scale == 0 ? 0x1p-127F : std::bit_cast<float>(static_cast<std::uint32_t>(scale) << 23);
}

}  // namespace orrery::runtime
