// The CUDA backend as the rest of the program sees it: without a CUDA header. Built with preset
// `cuda` alone.
#pragma once

#include <memory>
#include <string>

#include "runtime/streams/stream_driver.hpp"

namespace orrery::runtime {

// How many CUDA devices this process sees. Throws DeviceError where there is none, or no driver.
int cuda_devices();

// A driver of the device of this number; throws DeviceError. `product_choices`: the file of the
// algorithms that products were fastest with (run.product_choices), which throws StorageError and
// DataError; empty: cuBLASLt's heuristics choose.
std::unique_ptr<StreamDriver> make_cuda_driver(int device, const std::string& product_choices = {});

}  // namespace orrery::runtime
