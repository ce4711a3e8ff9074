// What the kernels of this backend take: each says it of its request before it is put into the
// stream. runtime/kernels/cuda_capability.hpp refuses everything else before a run begins.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "plan/check.hpp"
#include "runtime/kernels/requests.hpp"

namespace orrery::runtime::cuda {

inline void check_types(std::initializer_list<Buffer> buffers) {
    for (const Buffer& buffer : buffers)
        ORRERY_CHECK(!buffer || buffer.dtype == plan::DType::fp32 ||
                         buffer.dtype == plan::DType::bf16 || buffer.dtype == plan::DType::fp16,
                     "CUDA kernels compute with fp32, bf16 and fp16");
}

// Statistics of gradients, which are summed, and copied, as they are.
inline bool all_wide(std::initializer_list<Buffer> buffers) {
    return std::all_of(buffers.begin(), buffers.end(),
                       [](const Buffer& buffer) { return buffer.dtype == plan::DType::fp64; });
}

}  // namespace orrery::runtime::cuda
