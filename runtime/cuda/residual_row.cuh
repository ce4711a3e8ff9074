// A row of residual_add, which a norm of the sum begins with too: by the threads of a block, each
// of which reads and writes the columns that it has of any row.
#pragma once

#include "runtime/cuda/at_once.cuh"
#include "runtime/kernels/dropout_rules.hpp"
#include "runtime/kernels/requests.hpp"

namespace orrery::runtime::cuda {

// Of the sums of branch, biases and position, what dropout leaves.
template <int kAtOnce>
__device__ void drop(const ResidualAdd& op, std::int64_t at, Elements<kAtOnce>& sum) {
    if (!op.key) return;
    DropoutFactors factors(op.key);
    ORRERY_UNROLLED
    for (int j = 0; j < kAtOnce; ++j) {
        const float factor = factors.at(global_index(op.index, at + j));
        if (op.mask) static_cast<std::uint8_t*>(op.mask.data)[at + j] = factor != 0 ? 1 : 0;
        sum.of[j] *= factor;
    }
}

template <int kAtOnce>
__device__ void add_residual_row(const ResidualAdd& op, std::int64_t row) {
    const std::int64_t position = op.positions ? op.position_rows.of(row) : 0;
    for (std::int64_t column = threadIdx.x * kAtOnce; column < op.width;
         column += blockDim.x * kAtOnce) {
        const std::int64_t at = row * op.width + column;
        Elements<kAtOnce> sum = load_at_once<kAtOnce>(op.branch, at);
        ORRERY_UNROLLED
        for (int bias = 0; bias < 2; ++bias)
            if (op.biases[bias]) add_to<kAtOnce>(sum, op.biases[bias], column);
        if (op.positions) add_to<kAtOnce>(sum, op.positions, position * op.width + column);
        drop<kAtOnce>(op, at, sum);
        if (op.x) add_to<kAtOnce>(sum, op.x, at);
        store_at_once<kAtOnce>(op.y, at, sum);
    }
}

}  // namespace orrery::runtime::cuda
