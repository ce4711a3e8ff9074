// Sums over the rows of an activation, for gradients of biases and of norms, in one order: a block
// takes 32 columns of a part of the rows, its k-th row of threads adds up rows k, k + 32, …, whose
// sums are then added in turn. Sums of parts, where there are several, are kept in memory and added
// in turn by a kernel of its own.
#pragma once

#include "runtime/cuda/launch.cuh"
#include "runtime/cuda/scratch_memory.hpp"
#include "runtime/kernels/elements.hpp"

namespace orrery::runtime::cuda {

inline constexpr int kColumns = 32;     // of a block
inline constexpr int kRowsAtOnce = 32;  // threads of a column
inline constexpr int kSumThreads = kColumns * kRowsAtOnce;

struct RowParts {
    std::int64_t count = 1;
    float* sums = nullptr;  // [count, width]; null: there is one part
};

inline std::int64_t column_groups(std::int64_t width) {
    return (width + kColumns - 1) / kColumns;
}
inline Grid column_grid(std::int64_t width, const RowParts& parts = {}) {
    return {blocks_for(column_groups(width) * parts.count), kSumThreads};
}

// to[c] (+)= Σ over rows of term(row, c).
template <typename Term>
__device__ void sum_columns(std::int64_t rows, std::int64_t width, const Buffer& to,
                            bool accumulate, Term term, const RowParts& parts = {}) {
    __shared__ float sums[kRowsAtOnce][kColumns];
    const int lane = static_cast<int>(threadIdx.x) % kColumns;
    const int first = static_cast<int>(threadIdx.x) / kColumns;
    const std::int64_t groups = (width + kColumns - 1) / kColumns;
    for (std::int64_t piece = blockIdx.x; piece < groups * parts.count; piece += gridDim.x) {
        const std::int64_t column = piece % groups * kColumns + lane, part = piece / groups;
        const std::int64_t end = rows * (part + 1) / parts.count;
        float sum = 0;
        if (column < width)
            for (std::int64_t row = rows * part / parts.count + first; row < end;
                 row += kRowsAtOnce)
                sum += term(row, column);
        sums[first][lane] = sum;
        __syncthreads();
        if (first == 0 && column < width) {
            for (int k = 1; k < kRowsAtOnce; ++k)
                sum += sums[k][lane];
            if (parts.sums != nullptr)
                parts.sums[part * width + column] = sum;
            else
                store(to, column, accumulate ? load(to, column) + sum : sum);
        }
        __syncthreads();
    }
}

// As many parts as keep a device busy, each of rows for all threads of a block several times over.
inline RowParts row_parts(std::int64_t rows, std::int64_t width, ScratchMemory& scratch) {
    constexpr std::int64_t kBlocks = 512, kLeastRows = 8 * kRowsAtOnce;
    const std::int64_t wanted = kBlocks / column_groups(width), most = rows / kLeastRows;
    const std::int64_t count = wanted < most ? wanted : most;
    if (count <= 1) return {};
    return {count, scratch.numbers<float>(count * width)};
}

// to[c] (+)= the sums of parts, if there are several.
void add_parts(const RowParts& parts, std::int64_t width, const Buffer& to, bool accumulate,
               cudaStream_t stream);

}  // namespace orrery::runtime::cuda
