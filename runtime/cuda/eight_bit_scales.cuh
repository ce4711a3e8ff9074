// Reading eight-bit numbers' scales in kernels.
#pragma once

#include <cstdint>

#include "runtime/kernels/eight_bit.hpp"
#include "runtime/kernels/requests.hpp"

namespace orrery::runtime::cuda {

__device__ inline std::uint8_t* bytes_of(const Buffer& buffer) {
    return static_cast<std::uint8_t*>(buffer.data);
}

__device__ inline float scale_at(const Buffer& scales, std::int64_t i) {
    return scales.dtype == plan::DType::u8 ? value_of(bytes_of(scales)[i])
                                           : static_cast<const float*>(scales.data)[i];
}

}  // namespace orrery::runtime::cuda
