// residual_add: a block per row.
#include "runtime/cuda/launch.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/kernels/dropout_rules.hpp"
#include "runtime/kernels/elements.hpp"

namespace orrery::runtime::cuda {
namespace {

// Of the sum of branch, biases and position, what dropout leaves.
__device__ float dropped(const ResidualAdd& op, std::int64_t at, float sum) {
    if (!op.key) return sum;
    const float factor = dropout_factor(op.key, global_index(op.index, at));
    if (op.mask) static_cast<std::uint8_t*>(op.mask.data)[at] = factor != 0 ? 1 : 0;
    return sum * factor;
}

__global__ void residual_add_kernel(ResidualAdd op) {
    for (std::int64_t row = blockIdx.x; row < op.rows; row += gridDim.x) {
        const std::int64_t position = op.positions ? op.position_rows.of(row) : 0;
        for (std::int64_t column = threadIdx.x; column < op.width; column += blockDim.x) {
            const std::int64_t at = row * op.width + column;
            float sum = load(op.branch, at);
            for (int bias = 0; bias < 2; ++bias)
                if (op.biases[bias]) sum += load(op.biases[bias], column);
            if (op.positions) sum += load(op.positions, position * op.width + column);
            sum = dropped(op, at, sum);
            if (op.x) sum += load(op.x, at);
            store(op.y, at, sum);
        }
    }
}

}  // namespace

void residual_add(const ResidualAdd& op, cudaStream_t stream) {
    launch("residual_add", residual_add_kernel, {blocks_for(op.rows)}, stream, op);
}

}  // namespace orrery::runtime::cuda
