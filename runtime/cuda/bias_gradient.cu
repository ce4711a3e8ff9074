#include "runtime/cuda/column_sums.cuh"
#include "runtime/cuda/launches.hpp"

namespace orrery::runtime::cuda {
namespace {

__global__ void __launch_bounds__(kSumThreads) bias_gradient_kernel(BiasGradient op) {
    sum_columns(op.rows, op.width, op.dbias, op.accumulate,
                [&](std::int64_t row, std::int64_t c) { return load(op.dy, row * op.width + c); });
}

}  // namespace

void bias_gradient(const BiasGradient& op, cudaStream_t stream) {
    launch("bias_gradient", bias_gradient_kernel, column_grid(op.width), stream, op);
}

}  // namespace orrery::runtime::cuda
