// norm and norm_backward: a block per row; gradients of weight and bias by columns.
#include "runtime/cuda/column_sums.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/cuda/reduce.cuh"

namespace orrery::runtime::cuda {
namespace {

struct Statistics {
    float mean, inverse_deviation;
};

__device__ Statistics statistics_of(const Norm& op, std::int64_t row) {
    const auto n = static_cast<float>(op.width);
    float mean = 0;
    if (op.centred) {
        float sum = 0;
        for (std::int64_t i = threadIdx.x; i < op.width; i += blockDim.x)
            sum += load(op.x, row * op.width + i);
        mean = sum_over_block(sum) / n;
    }
    float squares = 0;
    for (std::int64_t i = threadIdx.x; i < op.width; i += blockDim.x) {
        const float off = load(op.x, row * op.width + i) - mean;
        squares += off * off;
    }
    squares = sum_over_block(squares);
    return {mean, 1 / std::sqrt(squares / n + static_cast<float>(op.epsilon))};
}

__global__ void norm_kernel(Norm op) {
    auto* const stats = static_cast<float*>(op.stats.data);
    const auto offset = static_cast<float>(op.weight_offset);
    for (std::int64_t row = blockIdx.x; row < op.rows; row += gridDim.x) {
        const Statistics found = statistics_of(op, row);
        for (std::int64_t i = threadIdx.x; i < op.width; i += blockDim.x) {
            const std::int64_t at = row * op.width + i;
            const float normed = (load(op.x, at) - found.mean) * found.inverse_deviation;
            const float y = normed * (load(op.weight, i) + offset);
            store(op.y, at, op.bias ? y + load(op.bias, i) : y);
        }
        if (threadIdx.x > 0) continue;
        if (op.centred) stats[2 * row] = found.mean;
        stats[op.centred ? 2 * row + 1 : row] = found.inverse_deviation;
    }
}

__device__ Statistics stored_statistics(const NormBackward& op, std::int64_t row) {
    const auto* const stats = static_cast<const float*>(op.stats.data);
    return {op.centred ? stats[2 * row] : 0, stats[op.centred ? 2 * row + 1 : row]};
}

// With x̂ = (x − mean)/σ and g = dy·weight: dx = (g − mean of g − x̂·mean of g·x̂)/σ, where RMSNorm
// has no mean of g.
__global__ void norm_backward_kernel(NormBackward op) {
    const auto n = static_cast<float>(op.width);
    const auto offset = static_cast<float>(op.weight_offset);
    for (std::int64_t row = blockIdx.x; row < op.rows; row += gridDim.x) {
        const Statistics stats = stored_statistics(op, row);
        const auto normed_at = [&](std::int64_t i) {
            return (load(op.x, row * op.width + i) - stats.mean) * stats.inverse_deviation;
        };
        const auto g_at = [&](std::int64_t i) {
            return load(op.dy, row * op.width + i) * (load(op.weight, i) + offset);
        };
        float along = 0, across = 0;
        for (std::int64_t i = threadIdx.x; i < op.width; i += blockDim.x) {
            along += g_at(i) * normed_at(i);
            across += g_at(i);
        }
        along = sum_over_block(along) / n;
        across = sum_over_block(across) / n;
        if (!op.centred) across = 0;
        for (std::int64_t i = threadIdx.x; i < op.width; i += blockDim.x) {
            const std::int64_t at = row * op.width + i;
            const float own = stats.inverse_deviation * (g_at(i) - across - normed_at(i) * along);
            store(op.dx, at, op.residual ? load(op.residual, at) + own : own);
        }
    }
}

__global__ void __launch_bounds__(kSumThreads) norm_weight_gradient_kernel(NormBackward op) {
    sum_columns(op.rows, op.width, op.dweight, op.accumulate,
                [&](std::int64_t row, std::int64_t column) {
                    const Statistics stats = stored_statistics(op, row);
                    const std::int64_t at = row * op.width + column;
                    const float normed = (load(op.x, at) - stats.mean) * stats.inverse_deviation;
                    return load(op.dy, at) * normed;
                });
}

}  // namespace

void norm(const Norm& op, cudaStream_t stream) {
    launch("norm", norm_kernel, {blocks_for(op.rows)}, stream, op);
}

// Gradients of weights first: dx may be written over dy.
void norm_backward(const NormBackward& op, cudaStream_t stream) {
    if (op.dweight)
        launch("norm_backward of weights", norm_weight_gradient_kernel, column_grid(op.width),
               stream, op);
    if (op.dbias) bias_gradient({op.rows, op.width, op.dy, op.dbias, op.accumulate}, stream);
    launch("norm_backward", norm_backward_kernel, {blocks_for(op.rows)}, stream, op);
}

}  // namespace orrery::runtime::cuda
