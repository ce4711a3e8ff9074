// Instead of runtime/cuda/, in a program without it.
#include "plan/check.hpp"
#include "runtime/backends/cuda_devices.hpp"

namespace orrery::runtime {

bool built_with_cuda() {
    return false;
}

DriverSource cuda_devices_of_process(const CudaSettings& /*settings*/) {
    ORRERY_CHECK(built_with_cuda(), "a program without CUDA asks for no device of it");
    return {};
}

}  // namespace orrery::runtime
