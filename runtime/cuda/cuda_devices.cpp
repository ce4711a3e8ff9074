// What the registry of backends asks for, in a program with CUDA.
#include "runtime/backends/cuda_devices.hpp"
#include "runtime/cuda/cuda_backend.hpp"
#include "runtime/cuda/nccl_driver.hpp"

namespace orrery::runtime {

bool built_with_cuda() {
    return true;
}

DriverSource cuda_devices_of_process(const CudaSettings& settings) {
    return {cuda_devices(), [=](int device) { return make_cuda_driver(device, settings); },
            make_nccl_driver};
}

}  // namespace orrery::runtime
