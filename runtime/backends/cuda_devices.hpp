// CUDA's part of the registry: runtime/cuda/ has it, or without_cuda.cpp, by what CMake was asked.
#pragma once

#include "runtime/backends/cuda_settings.hpp"
#include "runtime/streams/stream_backend.hpp"

namespace orrery::runtime {

bool built_with_cuda();

// Throws DeviceError where there is none, or no driver. In a program with CUDA.
DriverSource cuda_devices_of_process(const CudaSettings& settings = {});

}  // namespace orrery::runtime
