// CUDA's part of the registry: runtime/cuda/ has it, or without_cuda.cpp, by what CMake was asked.
#pragma once

#include <string>

#include "runtime/streams/stream_backend.hpp"

namespace orrery::runtime {

bool built_with_cuda();

// Throws DeviceError where there is none, or no driver. In a program with CUDA. `product_choices`:
// as make_cuda_driver has it.
DriverSource cuda_devices_of_process(const std::string& product_choices = {});

}  // namespace orrery::runtime
