// Memory of the device that NCCL can make known to its communicators whole (runtime/streams/
// collective_driver.hpp): other devices, NVSwitches and adapters can be given what is in it.
#pragma once

#include <cstdint>

namespace orrery::runtime::cuda {

// Not zeroed. Throws DeviceError.
void* allocate_for_nccl(std::int64_t bytes);
void free_of_nccl(void* memory);

}  // namespace orrery::runtime::cuda
