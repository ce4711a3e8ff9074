// The CUDA device that calibrate times, where this program was built with CUDA.
#pragma once

#include "calib/measure/device_steps.hpp"

namespace orrery::cli {

// Makes drivers of the first visible device; null: built without CUDA.
measure::MakeDriver cuda_device();

}  // namespace orrery::cli
