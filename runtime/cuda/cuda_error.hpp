// What CUDA answers, as an exception with the call's name in it.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "runtime/streams/stream_driver.hpp"

namespace orrery::runtime::cuda {

inline void check(cudaError_t answer, const std::string& what) {
    if (answer == cudaSuccess) return;
    cudaGetLastError();  // so that the next call is not blamed for it
    throw DeviceError(what + ": " + cudaGetErrorName(answer) + ": " + cudaGetErrorString(answer));
}

}  // namespace orrery::runtime::cuda
