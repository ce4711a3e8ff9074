// Sums over the rows of an activation, for gradients of biases and of norms, in one order. A block
// takes the columns of 32 lanes, of kAtOnce each, of a part of the rows; its k-th row of threads
// adds up every so many rows, whose sums are then added in turn. Sums of parts, where there are
// several, are kept in memory and added in turn by a kernel of its own.
#pragma once

#include "runtime/cuda/at_once.cuh"
#include "runtime/cuda/scratch_memory.hpp"

namespace orrery::runtime::cuda {

inline constexpr int kLanesOfSums = 32;
template <int kAtOnce>
inline constexpr int kRowsOfSums = kAtOnce == 1 ? 32 : kAtOnce;  // threads of a column
template <int kAtOnce>
inline constexpr int kSumThreads = kLanesOfSums* kRowsOfSums<kAtOnce>;

struct RowParts {
    std::int64_t count = 1;
    float* sums = nullptr;  // [count, width]; null: there is one part
};

// Blocks that a part of the rows takes.
template <int kAtOnce>
ORRERY_HOST_DEVICE std::int64_t column_groups(std::int64_t width) {
    constexpr std::int64_t kColumns = std::int64_t{kLanesOfSums} * kAtOnce;
    return (width + kColumns - 1) / kColumns;
}
template <int kAtOnce>
Grid column_grid(std::int64_t width, const RowParts& parts = {}) {
    return {blocks_for(column_groups<kAtOnce>(width) * parts.count), kSumThreads<kAtOnce>};
}

// Where the sum of a column goes.
struct ToColumn {
    Buffer to;
    bool accumulate = false;

    __device__ void operator()(std::int64_t column, float sum) const {
        store(to, column, accumulate ? load(to, column) + sum : sum);
    }
};

// The rows [from, to) of one group of columns, by all threads of the block: keep(c, Σ over rows of
// column c), where term(row, first) is of the kAtOnce columns from `first` on: Elements<kAtOnce>.
template <int kAtOnce, typename Term, typename Keep>
__device__ void sum_group(std::int64_t from, std::int64_t to, std::int64_t group,
                          std::int64_t width, const Term& term, const Keep& keep) {
    constexpr int kRows = kRowsOfSums<kAtOnce>;
    __shared__ float sums[kRows][kAtOnce][kLanesOfSums];
    const int lane = static_cast<int>(threadIdx.x) % kLanesOfSums;
    const int first = static_cast<int>(threadIdx.x) / kLanesOfSums;
    const std::int64_t column = (group * kLanesOfSums + lane) * kAtOnce;
    Elements<kAtOnce> sum{};
    for (std::int64_t row = from + first; column < width && row < to; row += kRows) {
        const Elements<kAtOnce> more = term(row, column);
        ORRERY_UNROLLED
        for (int j = 0; j < kAtOnce; ++j)
            sum.of[j] += more.of[j];
    }
    ORRERY_UNROLLED
    for (int j = 0; j < kAtOnce; ++j)
        sums[first][j][lane] = sum.of[j];
    __syncthreads();
    if (first < kAtOnce && column < width) {  // each row of threads has a column of each lane
        float all = sums[0][first][lane];
        for (int k = 1; k < kRows; ++k)
            all += sums[k][first][lane];
        keep(column + first, all);
    }
    __syncthreads();
}

// keep(c, Σ over rows of column c), or the sums of parts to parts.sums.
template <int kAtOnce, typename Term, typename Keep>
__device__ void sum_columns(std::int64_t rows, std::int64_t width, const RowParts& parts,
                            const Term& term, const Keep& keep) {
    const std::int64_t groups = column_groups<kAtOnce>(width);
    for (std::int64_t piece = blockIdx.x; piece < groups * parts.count; piece += gridDim.x) {
        const std::int64_t part = piece / groups;
        sum_group<kAtOnce>(rows * part / parts.count, rows * (part + 1) / parts.count,
                           piece % groups, width, term, [&](std::int64_t column, float sum) {
                               if (parts.sums != nullptr)
                                   parts.sums[part * width + column] = sum;
                               else
                                   keep(column, sum);
                           });
    }
}

// As many parts as keep a device busy, each of rows for all threads of a block several times over.
inline RowParts row_parts(std::int64_t rows, std::int64_t width, ScratchMemory& scratch) {
    constexpr std::int64_t kBlocks = 1024, kLeastRows = 64;
    const std::int64_t wanted = kBlocks / column_groups<kMostAtOnce>(width);
    const std::int64_t most = rows / kLeastRows, count = wanted < most ? wanted : most;
    if (count <= 1) return {};
    return {count, scratch.numbers<float>(count * width)};
}

// The sums of parts, if there are several, to where they belong: parts.sums is [count, width], or
// [count, 2·width] where the second half of the columns goes to a second place.
void add_parts(const RowParts& parts, std::int64_t width, const ToColumn& to,
               const ToColumn& second, cudaStream_t stream);

}  // namespace orrery::runtime::cuda
