#include "runtime/cpu/cpu_kernels.hpp"

namespace orrery::runtime {

void CpuKernels::loss_share(const LossShare& op) {
    if (!op.loss)
        *op.share = 0;
    else if (op.loss.dtype == plan::DType::fp64)
        *op.share = *static_cast<const double*>(op.loss.data);
    else
        *op.share = static_cast<double>(*static_cast<const float*>(op.loss.data));
}

}  // namespace orrery::runtime
