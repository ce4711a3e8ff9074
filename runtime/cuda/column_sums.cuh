// Sums over the rows of an activation, for gradients of biases and of norms, in one order: a block
// takes 32 columns, its k-th row of threads adds up rows k, k + 32, …, whose sums are then added in
// turn. No memory is needed for them.
#pragma once

#include "runtime/cuda/launch.cuh"
#include "runtime/kernels/elements.hpp"

namespace orrery::runtime::cuda {

inline constexpr int kColumns = 32;     // of a block
inline constexpr int kRowsAtOnce = 32;  // threads of a column
inline constexpr int kSumThreads = kColumns * kRowsAtOnce;

inline Grid column_grid(std::int64_t width) {
    return {blocks_for((width + kColumns - 1) / kColumns), kSumThreads};
}

// to[c] (+)= Σ over rows of term(row, c).
template <typename Term>
__device__ void sum_columns(std::int64_t rows, std::int64_t width, const Buffer& to,
                            bool accumulate, Term term) {
    __shared__ float sums[kRowsAtOnce][kColumns];
    const int lane = static_cast<int>(threadIdx.x) % kColumns;
    const int first = static_cast<int>(threadIdx.x) / kColumns;
    for (std::int64_t corner = std::int64_t{blockIdx.x} * kColumns; corner < width;
         corner += std::int64_t{gridDim.x} * kColumns) {
        const std::int64_t column = corner + lane;
        float sum = 0;
        if (column < width)
            for (std::int64_t row = first; row < rows; row += kRowsAtOnce)
                sum += term(row, column);
        sums[first][lane] = sum;
        __syncthreads();
        if (first == 0 && column < width) {
            for (int k = 1; k < kRowsAtOnce; ++k)
                sum += sums[k][lane];
            store(to, column, accumulate ? load(to, column) + sum : sum);
        }
        __syncthreads();
    }
}

}  // namespace orrery::runtime::cuda
