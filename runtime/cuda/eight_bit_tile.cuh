// Tiles of a product of eight-bit numbers: how its sides come into shared memory, in rows of what
// is summed, and what a warp makes of them.
#pragma once

#include "runtime/cuda/eight_bit_scales.cuh"
#include "runtime/cuda/launch.cuh"
#include "runtime/cuda/tensor_core_ptx.cuh"

namespace orrery::runtime::cuda {

// A block's tile of the result, of 4 × 2 warps, and how much of k it takes at once: as much as
// shares a scale in the recipe of DeepSeek-V3 (arXiv 2412.19437, section 3.3.2). Sums of tensor
// cores, of which some keep 14 bits alone, go no further; scaled, they are added in fp32.
struct EightBitTile {
    static constexpr int kRows = 128, kColumns = 64, kDepth = 128;
    static constexpr int kWarpRows = 32, kWarpColumns = 32;
    static constexpr int kStep = 32;  // of k, in an instruction
    static constexpr int kSteps = kDepth / kStep;
    static constexpr int kStride = kDepth + 16;  // bytes: eight rows are in all banks
    static constexpr int kBytes = (kRows + kColumns) * kStride;
    static constexpr int kScales = (kRows + kColumns) * kSteps;
    static constexpr int kStageBytes = kBytes + kScales * static_cast<int>(sizeof(float));
    static_assert(kRows / kWarpRows * (kColumns / kWarpColumns) == kWarps);
};

// a or b of a Gemm.
struct EightBitSide {
    const std::uint8_t* numbers;
    std::int64_t rows;    // of the result, or columns
    std::int64_t stride;  // from row to row as they lie
    bool along;           // what is summed lies in a row
    bool aligned;         // rows begin at 16 bytes
    Scales scales;

    __device__ float scale(std::int64_t row, std::int64_t k) const {
        return scale_at(scales.values, along ? scales.index(row, k) : scales.index(k, row));
    }
};

// Where a tile of a side begins.
struct EightBitPlace {
    std::int64_t row, begin, k;
};

// 16 numbers of a row at a time, one by one where they do not lie in whole 16 bytes. What is
// beyond the matrix is 0.
template <int kRows>
__device__ void fetch_along(const EightBitSide& side, const EightBitPlace& at, std::uint8_t* to) {
    constexpr int kOnce = 16, kAcross = EightBitTile::kDepth / kOnce;
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kAcross; i += kThreads) {
        const std::int64_t row = at.row + i / kAcross;
        const std::int64_t k = at.begin + i % kAcross * kOnce;
        const std::int64_t left = row < side.rows ? at.k - k : 0;
        std::uint8_t* const here = to + i / kAcross * EightBitTile::kStride + i % kAcross * kOnce;
        const std::uint8_t* const from = side.numbers + (left > 0 ? row * side.stride + k : 0);
        if (side.aligned && (left >= kOnce || left <= 0)) {
            copy_16_bytes(here, from, left > 0);
            continue;
        }
        for (int b = 0; b < kOnce; ++b)
            here[b] = b < left ? from[b] : std::uint8_t{0};
    }
}

// Of columns: four of k at a time, neighbouring threads from one row.
template <int kRows>
__device__ void fetch_across(const EightBitSide& side, const EightBitPlace& at, std::uint8_t* to) {
    constexpr int kOnce = 4;
    for (int i = static_cast<int>(threadIdx.x); i < kRows * EightBitTile::kDepth / kOnce;
         i += kThreads) {
        const std::int64_t row = at.row + i % kRows;
        const int depth = i / kRows * kOnce;
        std::uint32_t numbers = 0;
        ORRERY_UNROLLED
        for (int b = 0; b < kOnce; ++b) {
            const std::int64_t k = at.begin + depth + b;
            if (row < side.rows && k < at.k)
                numbers |= std::uint32_t{side.numbers[k * side.stride + row]} << (8 * b);
        }
        *reinterpret_cast<std::uint32_t*>(to + i % kRows * EightBitTile::kStride + depth) = numbers;
    }
}

// A scale of each row for each `steps` steps of k.
template <int kRows>
__device__ void fetch_scales(const EightBitSide& side, const EightBitPlace& at, int steps,
                             float* to) {
    for (int i = static_cast<int>(threadIdx.x); i < kRows * EightBitTile::kSteps / steps;
         i += kThreads) {
        const std::int64_t row = at.row + i % kRows;
        const std::int64_t k = at.begin + i / kRows * steps * EightBitTile::kStep;
        to[i] = row < side.rows && k < at.k ? side.scale(row, k) : 0;
    }
}

template <int kRows>
__device__ void fetch_side(const EightBitSide& side, const EightBitPlace& at, int steps,
                           std::uint8_t* numbers, float* scales) {
    if (side.along)
        fetch_along<kRows>(side, at, numbers);
    else
        fetch_across<kRows>(side, at, numbers);
    fetch_scales<kRows>(side, at, steps, scales);
}

// A warp's part of the result: of 16 rows and 8 columns each, as multiply_add has them.
using EightBitSums = float[2][4][4];

// Two of the four numbers in a register as bf16, which holds all of either format.
template <typename Number>
__device__ std::uint32_t widened(std::uint32_t numbers, int first) {
    const auto value = [&](int i) {
        return Number::value(static_cast<std::uint8_t>(numbers >> (8 * i)));
    };
    return packed<BFloat16>(value(first), value(first + 1));
}

// As multiply_add_eight_bits. Which ones of k meet in which instruction is another order, of a's
// and b's alike.
template <typename A>
__device__ void multiply_add_widened(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                     std::uint32_t b1) {
    ORRERY_UNROLLED
    for (int half = 0; half < 2; ++half) {
        const std::uint32_t wide[4] = {widened<A>(a[2 * half], 0), widened<A>(a[2 * half + 1], 0),
                                       widened<A>(a[2 * half], 2), widened<A>(a[2 * half + 1], 2)};
        const std::uint32_t b = half == 0 ? b0 : b1;
        multiply_add<BFloat16>(c, wide, widened<E4M3>(b, 0), widened<E4M3>(b, 2));
    }
}

// sums += a · b of one step of k, from where the warp's rows of either begin.
template <typename A>
__device__ void multiply_step(EightBitSums& sums, const std::uint8_t* a, const std::uint8_t* b) {
    const int lane = static_cast<int>(threadIdx.x % kWarp);
    std::uint32_t of_a[2][4], of_b[2][4];
    ORRERY_UNROLLED
    for (int i = 0; i < 2; ++i) {
        load_matrices(of_a[i], a + (16 * i + lane % 16) * EightBitTile::kStride + lane / 16 * 16);
        load_matrices(of_b[i], b + (16 * i + lane % 8 + lane / 16 * 8) * EightBitTile::kStride +
                                   lane / 8 % 2 * 16);
    }
    ORRERY_UNROLLED
    for (int i = 0; i < 2; ++i)
        ORRERY_UNROLLED
    for (int j = 0; j < 4; ++j) {
        const std::uint32_t b0 = of_b[j / 2][j % 2 * 2], b1 = of_b[j / 2][j % 2 * 2 + 1];
        if (multiplies_eight_bits())
            multiply_add_eight_bits<A>(sums[i][j], of_a[i], b0, b1);
        else
            multiply_add_widened<A>(sums[i][j], of_a[i], b0, b1);
    }
}

// Of each sum those of its row and of its column.
__device__ inline void add_scaled(EightBitSums& sums, const EightBitSums& part, const float* a,
                                  const float* b) {
    const int g = static_cast<int>(threadIdx.x % kWarp) / 4;
    const int t = static_cast<int>(threadIdx.x) % 4;
    ORRERY_UNROLLED
    for (int i = 0; i < 2; ++i)
        ORRERY_UNROLLED
    for (int j = 0; j < 4; ++j)
        ORRERY_UNROLLED
    for (int e = 0; e < 4; ++e)
        sums[i][j][e] += part[i][j][e] * (a[16 * i + g + e / 2 * 8] * b[8 * j + 2 * t + e % 2]);
}

}  // namespace orrery::runtime::cuda
