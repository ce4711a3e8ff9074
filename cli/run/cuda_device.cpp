#include "cli/run/cuda_device.hpp"

#ifdef ORRERY_CUDA
#include "runtime/cuda/cuda_backend.hpp"
#endif

namespace orrery::cli {

measure::MakeDriver cuda_device() {
#ifdef ORRERY_CUDA
    return [] { return runtime::make_cuda_driver(0); };
#else
    return nullptr;
#endif
}

}  // namespace orrery::cli
