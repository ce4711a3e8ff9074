// norm, residual_norm and norm_backward: a block per row; gradients of weight and bias by columns.
#include "runtime/cuda/at_once.cuh"
#include "runtime/cuda/column_sums.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/cuda/reduce.cuh"
#include "runtime/cuda/residual_row.cuh"

namespace orrery::runtime::cuda {
namespace {

struct Statistics {
    float mean, inverse_deviation;
};

// Σ over the row's elements of f(x), by all threads of the block.
template <int kAtOnce, typename F>
__device__ float sum_over_row(const Norm& op, std::int64_t row, const F& f) {
    float sum = 0;
    for (std::int64_t i = threadIdx.x * kAtOnce; i < op.width; i += blockDim.x * kAtOnce) {
        const Elements<kAtOnce> x = load_at_once<kAtOnce>(op.x, row * op.width + i);
        ORRERY_UNROLLED
        for (int j = 0; j < kAtOnce; ++j)
            sum += f(x.of[j]);
    }
    return sum_over_block(sum);
}

template <int kAtOnce>
__device__ Statistics statistics_of(const Norm& op, std::int64_t row) {
    const auto n = static_cast<float>(op.width);
    float mean = 0;
    if (op.centred) mean = sum_over_row<kAtOnce>(op, row, [](float x) { return x; }) / n;
    const float squares =
        sum_over_row<kAtOnce>(op, row, [&](float x) { return (x - mean) * (x - mean); });
    return {mean, 1 / std::sqrt(squares / n + static_cast<float>(op.epsilon))};
}

template <int kAtOnce>
__device__ void norm_row(const Norm& op, std::int64_t row) {
    auto* const stats = static_cast<float*>(op.stats.data);
    const auto offset = static_cast<float>(op.weight_offset);
    const Statistics found = statistics_of<kAtOnce>(op, row);
    for (std::int64_t i = threadIdx.x * kAtOnce; i < op.width; i += blockDim.x * kAtOnce) {
        const std::int64_t at = row * op.width + i;
        Elements<kAtOnce> y = load_at_once<kAtOnce>(op.x, at), bias{};
        const Elements<kAtOnce> weight = load_at_once<kAtOnce>(op.weight, i);
        if (op.bias) bias = load_at_once<kAtOnce>(op.bias, i);
        ORRERY_UNROLLED
        for (int j = 0; j < kAtOnce; ++j) {
            y.of[j] = (y.of[j] - found.mean) * found.inverse_deviation * (weight.of[j] + offset);
            if (op.bias) y.of[j] += bias.of[j];
        }
        store_at_once<kAtOnce>(op.y, at, y);
    }
    if (threadIdx.x > 0) return;
    if (op.centred) stats[2 * row] = found.mean;
    stats[op.centred ? 2 * row + 1 : row] = found.inverse_deviation;
}

template <int kAtOnce>
__global__ void norm_kernel(Norm op) {
    for (std::int64_t row = blockIdx.x; row < op.rows; row += gridDim.x)
        norm_row<kAtOnce>(op, row);
}

// A thread norms the columns that it has summed, which are at hand.
template <int kAtOnce>
__global__ void residual_norm_kernel(ResidualNorm op) {
    for (std::int64_t row = blockIdx.x; row < op.sum.rows; row += gridDim.x) {
        add_residual_row<kAtOnce>(op.sum, row);
        norm_row<kAtOnce>(op.norm, row);
    }
}

__device__ Statistics stored_statistics(const NormBackward& op, std::int64_t row) {
    const auto* const stats = static_cast<const float*>(op.stats.data);
    return {op.centred ? stats[2 * row] : 0, stats[op.centred ? 2 * row + 1 : row]};
}

// With x̂ = (x − mean)/σ and g = dy·weight: dx = (g − mean of g − x̂·mean of g·x̂)/σ, where RMSNorm
// has no mean of g.
template <int kAtOnce>
__global__ void norm_backward_kernel(NormBackward op) {
    const auto n = static_cast<float>(op.width);
    const auto offset = static_cast<float>(op.weight_offset);
    for (std::int64_t row = blockIdx.x; row < op.rows; row += gridDim.x) {
        const Statistics stats = stored_statistics(op, row);
        struct Pair {
            Elements<kAtOnce> normed, g;
        };
        const auto pair_at = [&](std::int64_t i) {
            Pair at{load_at_once<kAtOnce>(op.x, row * op.width + i),
                    load_at_once<kAtOnce>(op.dy, row * op.width + i)};
            const Elements<kAtOnce> weight = load_at_once<kAtOnce>(op.weight, i);
            ORRERY_UNROLLED
            for (int j = 0; j < kAtOnce; ++j) {
                at.normed.of[j] = (at.normed.of[j] - stats.mean) * stats.inverse_deviation;
                at.g.of[j] *= weight.of[j] + offset;
            }
            return at;
        };
        float along = 0, across = 0;
        for (std::int64_t i = threadIdx.x * kAtOnce; i < op.width; i += blockDim.x * kAtOnce) {
            const Pair at = pair_at(i);
            ORRERY_UNROLLED
            for (int j = 0; j < kAtOnce; ++j) {
                along += at.g.of[j] * at.normed.of[j];
                across += at.g.of[j];
            }
        }
        along = sum_over_block(along) / n;
        across = sum_over_block(across) / n;
        if (!op.centred) across = 0;
        for (std::int64_t i = threadIdx.x * kAtOnce; i < op.width; i += blockDim.x * kAtOnce) {
            const Pair at = pair_at(i);
            Elements<kAtOnce> dx{};
            if (op.residual) dx = load_at_once<kAtOnce>(op.residual, row * op.width + i);
            ORRERY_UNROLLED
            for (int j = 0; j < kAtOnce; ++j)
                dx.of[j] +=
                    stats.inverse_deviation * (at.g.of[j] - across - at.normed.of[j] * along);
            store_at_once<kAtOnce>(op.dx, row * op.width + i, dx);
        }
    }
}

__global__ void __launch_bounds__(kSumThreads)
    norm_weight_gradient_kernel(NormBackward op, RowParts parts) {
    sum_columns(
        op.rows, op.width, op.dweight, op.accumulate,
        [&](std::int64_t row, std::int64_t column) {
            const Statistics stats = stored_statistics(op, row);
            const std::int64_t at = row * op.width + column;
            const float normed = (load(op.x, at) - stats.mean) * stats.inverse_deviation;
            return load(op.dy, at) * normed;
        },
        parts);
}

}  // namespace

void norm(const Norm& op, cudaStream_t stream) {
    check_types({op.x, op.weight, op.bias, op.y, op.stats});
    with_at_once(op.width, {op.x, op.weight, op.bias, op.y}, [&](auto at_once) {
        constexpr int kAtOnce = decltype(at_once)::value;
        launch("norm", norm_kernel<kAtOnce>, rows_grid<kAtOnce>(op.rows, op.width), stream, op);
    });
}

void residual_norm(const ResidualNorm& op, cudaStream_t stream) {
    check_types({op.sum.branch, op.sum.x, op.sum.positions, op.sum.biases[0], op.sum.biases[1]});
    check_types({op.norm.x, op.norm.weight, op.norm.bias, op.norm.y, op.norm.stats});
    const ResidualAdd& sum = op.sum;
    with_at_once(sum.width,
                 {sum.branch, sum.x, sum.biases[0], sum.biases[1], sum.y, op.norm.weight,
                  op.norm.bias, op.norm.y},
                 [&](auto at_once) {
                     constexpr int kAtOnce = decltype(at_once)::value;
                     launch("residual_norm", residual_norm_kernel<kAtOnce>,
                            rows_grid<kAtOnce>(sum.rows, sum.width), stream, op);
                 });
}

// Gradients of weights first: dx may be written over dy.
void norm_backward(const NormBackward& op, ScratchMemory& scratch, cudaStream_t stream) {
    check_types({op.dy, op.x, op.weight, op.stats, op.residual, op.dx, op.dweight, op.dbias});
    if (op.dweight) {
        const RowParts parts = row_parts(op.rows, op.width, scratch);
        launch("norm_backward of weights", norm_weight_gradient_kernel,
               column_grid(op.width, parts), stream, op, parts);
        add_parts(parts, op.width, op.dweight, op.accumulate, stream);
    }
    if (op.dbias)
        bias_gradient({op.rows, op.width, op.dy, op.dbias, op.accumulate}, scratch, stream);
    with_at_once(op.width, {op.dy, op.x, op.weight, op.residual, op.dx}, [&](auto at_once) {
        constexpr int kAtOnce = decltype(at_once)::value;
        launch("norm_backward", norm_backward_kernel<kAtOnce>,
               rows_grid<kAtOnce>(op.rows, op.width), stream, op);
    });
}

}  // namespace orrery::runtime::cuda
