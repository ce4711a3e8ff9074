// One element of a buffer of any floating-point type as fp32, for backends whose kernels compute in
// fp32 alone. Rounded once, when it is stored.
#pragma once

#include <cstdint>

#include "runtime/kernels/requests.hpp"

namespace orrery::runtime {

ORRERY_HOST_DEVICE inline float load(const Buffer& from, std::int64_t index) {
    switch (from.dtype) {
        case plan::DType::bf16:
            return to_float(static_cast<const BFloat16*>(from.data)[index]);
        case plan::DType::fp16:
            return to_float(static_cast<const Half*>(from.data)[index]);
        default:
            return static_cast<const float*>(from.data)[index];
    }
}

ORRERY_HOST_DEVICE inline void store(const Buffer& to, std::int64_t index, float value) {
    switch (to.dtype) {
        case plan::DType::bf16:
            static_cast<BFloat16*>(to.data)[index] = to_bfloat16(value);
            return;
        case plan::DType::fp16:
            static_cast<Half*>(to.data)[index] = to_half(value);
            return;
        default:
            static_cast<float*>(to.data)[index] = value;
    }
}

}  // namespace orrery::runtime
