// Numbers as a device stores them. bf16 and fp16 are storage alone: kernels compute in fp32 and
// round once, to nearest, ties to even; NaN stays NaN, and what is too large becomes infinite.
// Functions are inlined by force: this header is compiled for several instruction sets, and a copy
// out of line for one of them must never be linked in for all.
#pragma once

#include <bit>
#include <cstdint>

#include "plan/ir/kinds.hpp"
#include "runtime/host_device.hpp"

namespace orrery::runtime {

struct BFloat16 {
    std::uint16_t bits = 0;
};
struct Half {
    std::uint16_t bits = 0;
};

// Elements in memory; who owns them and how many there are, the user knows. Null: not there.
struct Buffer {
    void* data = nullptr;
    plan::DType dtype = plan::DType::fp32;

    [[gnu::always_inline]] ORRERY_HOST_DEVICE explicit operator bool() const {
        return data != nullptr;
    }
};

[[gnu::always_inline]] ORRERY_HOST_DEVICE inline float to_float(BFloat16 x) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

[[gnu::always_inline]] ORRERY_HOST_DEVICE inline BFloat16 to_bfloat16(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    // Half of the last place kept, less one where that place is even.
    const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    const std::uint32_t quiet = (bits >> 16) | 0x40U;
    const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
    return {static_cast<std::uint16_t>(nan ? quiet : rounded)};
}

[[gnu::always_inline]] ORRERY_HOST_DEVICE inline float to_float(Half x) {
    const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000U) << 16;
    const std::uint32_t rest = x.bits & 0x7fffU;
    // Below the smallest normal number, 2^-14, a half is a whole multiple of 2^-24.
    if (rest < 0x400U)
        return std::bit_cast<float>(
            sign | std::bit_cast<std::uint32_t>(static_cast<float>(rest) * 0x1p-24F));
    const std::uint32_t special = rest >= 0x7c00U ? 0x38000000U : 0U;  // exponent 255, not 143
    return std::bit_cast<float>(sign | ((rest << 13) + 0x38000000U + special));
}

[[gnu::always_inline]] ORRERY_HOST_DEVICE inline Half to_half(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = (bits >> 16) & 0x8000U;
    const std::uint32_t rest = bits & 0x7fffffffU;
    std::uint32_t rounded = 0;
    if (rest > 0x7f800000U)
        rounded = 0x7e00U | ((rest >> 13) & 0x1ffU);
    else if (rest >= 0x47800000U)  // 2^16 and above
        rounded = 0x7c00U;
    else if (rest < 0x38800000U)  // below 2^-14: 2^-24 is the last place of 0.5 in fp32
        rounded = std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) + 0.5F) - 0x3f000000U;
    else  // exponent 127 becomes 15; a carry out of the fraction enters the exponent, up to
          // infinity
        rounded = (rest - 0x38000000U + 0xfffU + ((rest >> 13) & 1U)) >> 13;
    return {static_cast<std::uint16_t>(sign | rounded)};
}

}  // namespace orrery::runtime
