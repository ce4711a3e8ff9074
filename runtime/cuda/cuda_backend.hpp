// The CUDA backend as the rest of the program sees it: without a CUDA header. Built with preset
// `cuda` alone.
#pragma once

#include <memory>

#include "runtime/backends/cuda_settings.hpp"
#include "runtime/streams/stream_driver.hpp"

namespace orrery::runtime {

// How many CUDA devices this process sees. Throws DeviceError where there is none, or no driver.
int cuda_devices();

// A driver of the device of this number; throws DeviceError, and what the settings say.
std::unique_ptr<StreamDriver> make_cuda_driver(int device, const CudaSettings& settings = {});

}  // namespace orrery::runtime
