// norm, residual_norm and norm_backward: a block per row; gradients of weight and bias by columns.
#include <algorithm>

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
// has no mean of g. A block takes neighbouring rows, and where it has parts.sums to fill, Σ dy·x̂
// and for a bias Σ dy of its rows, so that x and dy are read once: each thread in shared memory
// those of the columns that are its own, where neighbouring threads meet in no bank.
template <int kAtOnce>
__global__ void norm_backward_kernel(NormBackward op, RowParts parts) {
    const auto n = static_cast<float>(op.width);
    const auto offset = static_cast<float>(op.weight_offset);
    const auto width = static_cast<int>(op.width);
    const auto sums_bias = static_cast<bool>(op.dbias);
    const auto weight_sum = [&](int i, int j) -> float& {
        return shared_memory[j * (width / kAtOnce) + i / kAtOnce];
    };
    const auto bias_sum = [&](int i, int j) -> float& {
        return shared_memory[width + j * (width / kAtOnce) + i / kAtOnce];
    };
    const auto of_columns = [&](const auto& f) {
        for (int i = static_cast<int>(threadIdx.x) * kAtOnce; i < width;
             i += static_cast<int>(blockDim.x) * kAtOnce)
            f(i);
    };
    of_columns([&](int i) {
        for (int j = 0; parts.sums != nullptr && j < kAtOnce; ++j) {
            weight_sum(i, j) = 0;
            if (sums_bias) bias_sum(i, j) = 0;
        }
    });
    const std::int64_t end = op.rows * (blockIdx.x + 1) / gridDim.x;
    for (std::int64_t row = op.rows * blockIdx.x / gridDim.x; row < end; ++row) {
        const Statistics stats = stored_statistics(op, row);
        struct Columns {
            Elements<kAtOnce> normed, dy, g;
        };
        const auto columns_at = [&](int i) {
            Columns at{load_at_once<kAtOnce>(op.x, row * op.width + i),
                       load_at_once<kAtOnce>(op.dy, row * op.width + i),
                       load_at_once<kAtOnce>(op.weight, i)};
            ORRERY_UNROLLED
            for (int j = 0; j < kAtOnce; ++j) {
                at.normed.of[j] = (at.normed.of[j] - stats.mean) * stats.inverse_deviation;
                at.g.of[j] = at.dy.of[j] * (at.g.of[j] + offset);
            }
            return at;
        };
        float along = 0, across = 0;
        of_columns([&](int i) {
            const Columns at = columns_at(i);
            ORRERY_UNROLLED
            for (int j = 0; j < kAtOnce; ++j) {
                along += at.g.of[j] * at.normed.of[j];
                across += at.g.of[j];
            }
        });
        along = sum_over_block(along) / n;
        across = op.centred ? sum_over_block(across) / n : 0;
        of_columns([&](int i) {
            const Columns at = columns_at(i);
            Elements<kAtOnce> dx{};
            if (op.residual) dx = load_at_once<kAtOnce>(op.residual, row * op.width + i);
            ORRERY_UNROLLED
            for (int j = 0; j < kAtOnce; ++j)
                dx.of[j] +=
                    stats.inverse_deviation * (at.g.of[j] - across - at.normed.of[j] * along);
            store_at_once<kAtOnce>(op.dx, row * op.width + i, dx);
            if (parts.sums == nullptr) return;
            ORRERY_UNROLLED
            for (int j = 0; j < kAtOnce; ++j) {
                weight_sum(i, j) += at.dy.of[j] * at.normed.of[j];
                if (sums_bias) bias_sum(i, j) += at.dy.of[j];
            }
        });
    }
    if (parts.sums == nullptr) return;
    const Buffer sums{parts.sums, plan::DType::fp32};
    const std::int64_t first = (sums_bias ? 2 : 1) * op.width * blockIdx.x;
    of_columns([&](int i) {
        Elements<kAtOnce> of_weight, of_bias{};
        ORRERY_UNROLLED
        for (int j = 0; j < kAtOnce; ++j) {
            of_weight.of[j] = weight_sum(i, j);
            if (sums_bias) of_bias.of[j] = bias_sum(i, j);
        }
        store_at_once<kAtOnce>(sums, first + i, of_weight);
        if (sums_bias) store_at_once<kAtOnce>(sums, first + width + i, of_bias);
    });
}

template <int kAtOnce>
__global__ void __launch_bounds__(kSumThreads<kAtOnce>, 1)
    norm_weight_gradient_kernel(NormBackward op, RowParts parts) {
    sum_columns<kAtOnce>(
        op.rows, op.width, parts,
        [&](std::int64_t row, std::int64_t first) {
            const Statistics stats = stored_statistics(op, row);
            const std::int64_t at = row * op.width + first;
            Elements<kAtOnce> term = load_at_once<kAtOnce>(op.x, at);
            const Elements<kAtOnce> dy = load_at_once<kAtOnce>(op.dy, at);
            ORRERY_UNROLLED
            for (int j = 0; j < kAtOnce; ++j)
                term.of[j] = dy.of[j] * ((term.of[j] - stats.mean) * stats.inverse_deviation);
            return term;
        },
        ToColumn{op.dweight, op.accumulate});
}

// Gradients of a weight and a bias by kernels of their own: before dx, which may be written over
// dy.
template <int kAtOnce>
void sum_by_columns(const NormBackward& op, ScratchMemory& scratch, cudaStream_t stream) {
    const RowParts parts = row_parts(op.rows, op.width, scratch);
    launch("norm_backward of weights", norm_weight_gradient_kernel<kAtOnce>,
           column_grid<kAtOnce>(op.width, parts), stream, op, parts);
    add_parts(parts, op.width, {op.dweight, op.accumulate}, {}, stream);
    if (op.dbias)
        bias_gradient({op.rows, op.width, op.dy, op.dbias, op.accumulate}, scratch, stream);
}

// Sums of so many rows each that what blocks have of them is little beside x and dy.
RowParts parts_of_blocks(const NormBackward& op, const Grid& grid, ScratchMemory& scratch) {
    constexpr std::int64_t kThreadsAtOnce = std::int64_t{1} << 17, kLeastRows = 8;
    const std::int64_t blocks =
        std::min<std::int64_t>(kThreadsAtOnce / grid.threads, op.rows / kLeastRows);
    const std::int64_t count = std::max<std::int64_t>(blocks, 1);
    return {count, scratch.numbers<float>(count * (op.dbias ? 2 : 1) * op.width)};
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

void norm_backward(const NormBackward& op, ScratchMemory& scratch, cudaStream_t stream) {
    check_types({op.dy, op.x, op.weight, op.stats, op.residual, op.dx, op.dweight, op.dbias});
    const auto sums_bytes = static_cast<std::size_t>((op.dbias ? 2 : 1) * op.width) * sizeof(float);
    with_at_once(op.width, {op.dy, op.x, op.weight, op.residual, op.dx}, [&](auto at_once) {
        constexpr int kAtOnce = decltype(at_once)::value;
        Grid grid = rows_grid<kAtOnce>(op.rows, op.width);
        RowParts parts;
        if (op.dweight && has_shared_memory(sums_bytes)) {
            parts = parts_of_blocks(op, grid, scratch);
            grid = {blocks_for(parts.count), grid.threads, sums_bytes};
        } else if (op.dweight) {
            sum_by_columns<kAtOnce>(op, scratch, stream);
        }
        launch("norm_backward", norm_backward_kernel<kAtOnce>, grid, stream, op, parts);
        add_parts(parts, op.width, {op.dweight, op.accumulate}, {op.dbias, op.accumulate}, stream);
    });
}

}  // namespace orrery::runtime::cuda
