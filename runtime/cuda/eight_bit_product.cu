// Products of eight-bit numbers on tensor cores, for what cuBLASLt does not multiply: scales of
// blocks where it has none, matrices that do not lie as it reads them, experts' rows of any number.
#include "plan/check.hpp"
#include "runtime/cuda/eight_bit_tile.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/kernels/elements.hpp"

namespace orrery::runtime::cuda {
namespace {

struct EightBitProductSize {
    std::int64_t m, n, k;
    int steps;  // of k, that share their scales

    __host__ __device__ std::int64_t across() const {
        return (n + EightBitTile::kColumns - 1) / EightBitTile::kColumns;
    }
    __host__ __device__ std::int64_t tiles() const {
        return (m + EightBitTile::kRows - 1) / EightBitTile::kRows * across();
    }
};

// What happens to sums.
struct EightBitResult {
    Buffer c, bias;
    float factor;
    bool accumulate;
};

// What of k comes into shared memory at once, of which there are two: while one is multiplied, the
// next one comes.
struct EightBitStage {
    std::uint8_t *a, *b;
    float *a_scales, *b_scales;

    __device__ explicit EightBitStage(int number) {
        a = reinterpret_cast<std::uint8_t*>(shared_memory) + number * EightBitTile::kStageBytes;
        b = a + EightBitTile::kRows * EightBitTile::kStride;
        a_scales = reinterpret_cast<float*>(b + EightBitTile::kColumns * EightBitTile::kStride);
        b_scales = a_scales + EightBitTile::kRows * EightBitTile::kSteps;
    }
};

// A warp's place in the tile.
struct EightBitWarp {
    int row, column;
};
__device__ EightBitWarp eight_bit_warp() {
    constexpr int kAcross = EightBitTile::kColumns / EightBitTile::kWarpColumns;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    return {warp / kAcross * EightBitTile::kWarpRows, warp % kAcross * EightBitTile::kWarpColumns};
}

template <typename A>
__device__ void multiply_stage(const EightBitStage& stage, int steps, EightBitSums& sums) {
    const EightBitWarp warp = eight_bit_warp();
    for (int first = 0; first < EightBitTile::kSteps; first += steps) {
        EightBitSums part = {};
        for (int step = first; step < first + steps; ++step)
            multiply_step<A>(
                part, stage.a + warp.row * EightBitTile::kStride + step * EightBitTile::kStep,
                stage.b + warp.column * EightBitTile::kStride + step * EightBitTile::kStep);
        const int scale = first / steps;
        add_scaled(sums, part, stage.a_scales + scale * EightBitTile::kRows + warp.row,
                   stage.b_scales + scale * EightBitTile::kColumns + warp.column);
    }
}

__device__ void put_sums(const EightBitProductSize& size, const EightBitResult& result,
                         std::int64_t first_row, std::int64_t first_column,
                         const EightBitSums& sums) {
    const EightBitWarp warp = eight_bit_warp();
    const int g = static_cast<int>(threadIdx.x % kWarp) / 4;
    const int t = static_cast<int>(threadIdx.x) % 4;
    ORRERY_UNROLLED
    for (int i = 0; i < 2; ++i)
        ORRERY_UNROLLED
    for (int j = 0; j < 4; ++j)
        ORRERY_UNROLLED
    for (int e = 0; e < 4; ++e) {
        const std::int64_t row = first_row + warp.row + 16 * i + g + e / 2 * 8;
        const std::int64_t column = first_column + warp.column + 8 * j + 2 * t + e % 2;
        if (row >= size.m || column >= size.n) continue;
        float value = result.factor * sums[i][j][e];
        if (result.accumulate) value += load(result.c, row * size.n + column);
        if (result.bias.data != nullptr) value += load(result.bias, column);
        store(result.c, row * size.n + column, value);
    }
}

template <typename A>
__global__ void __launch_bounds__(kThreads)
    eight_bit_product_kernel(EightBitProductSize size, EightBitSide a, EightBitSide b,
                             EightBitResult result) {
    for (std::int64_t tile = blockIdx.x; tile < size.tiles(); tile += gridDim.x) {
        const std::int64_t row = tile / size.across() * EightBitTile::kRows;
        const std::int64_t column = tile % size.across() * EightBitTile::kColumns;
        const std::int64_t parts = (size.k + EightBitTile::kDepth - 1) / EightBitTile::kDepth;
        EightBitSums sums = {};
        for (std::int64_t part = 0; part <= parts; ++part) {
            const EightBitStage next(static_cast<int>(part % 2));
            const std::int64_t begin = part * EightBitTile::kDepth;
            if (part < parts) {
                fetch_side<EightBitTile::kRows>(a, {row, begin, size.k}, size.steps, next.a,
                                                next.a_scales);
                fetch_side<EightBitTile::kColumns>(b, {column, begin, size.k}, size.steps, next.b,
                                                   next.b_scales);
            }
            end_group_of_copies();
            if (part == 0) continue;
            wait_for_copies<1>();
            __syncthreads();
            multiply_stage<A>(EightBitStage(static_cast<int>((part - 1) % 2)), size.steps, sums);
            __syncthreads();  // before the one after the next comes there
        }
        put_sums(size, result, row, column, sums);
    }
}

EightBitSide side_of(const Buffer& numbers, const Scales& scales, std::int64_t stride,
                     std::int64_t rows, std::int64_t k, bool along) {
    EightBitSide side{
        static_cast<const std::uint8_t*>(numbers.data), rows, stride, along, false, scales};
    if (stride == 0) side.stride = along ? k : rows;
    const auto address = reinterpret_cast<std::uintptr_t>(numbers.data);
    side.aligned = address % 16 == 0 && side.stride % 16 == 0;
    return side;
}

// How many steps of k have the same scales, of either side.
int steps_of_scales(const EightBitSide& a, const EightBitSide& b, std::int64_t k) {
    int steps = EightBitTile::kSteps;
    for (const EightBitSide& side : {a, b}) {
        const std::int64_t reach = side.along ? side.scales.columns : side.scales.rows;
        ORRERY_CHECK(side.along || side.scales.first_row % reach == 0, "whole blocks of scales");
        if (reach >= k || reach % EightBitTile::kDepth == 0) continue;
        ORRERY_CHECK(reach % EightBitTile::kStep == 0,
                     "scales of 32 numbers or more along what is summed");
        steps = 1;
    }
    return steps;
}

}  // namespace

void multiply_eight_bits(const Gemm& op, cudaStream_t stream) {
    const bool sums_rows = op.form == GemmForm::weight_gradient;
    const EightBitSide a = side_of(op.a, op.a_scales, op.a_stride, op.m, op.k, !sums_rows);
    const EightBitSide b =
        side_of(op.b, op.b_scales, op.b_stride, op.n, op.k, op.form == GemmForm::forward);
    const EightBitProductSize size{op.m, op.n, op.k, steps_of_scales(a, b, op.k)};
    const EightBitResult result{op.c, op.bias, static_cast<float>(op.factor), op.accumulate};
    ORRERY_CHECK(op.b.dtype == plan::DType::fp8_e4m3, "weights and inputs are E4M3");
    const Grid grid{blocks_for(size.tiles()), kThreads, std::size_t{2} * EightBitTile::kStageBytes};
    if (op.a.dtype == plan::DType::fp8_e5m2)
        launch("product of eight bits", eight_bit_product_kernel<E5M2>, grid, stream, size, a, b,
               result);
    else
        launch("product of eight bits", eight_bit_product_kernel<E4M3>, grid, stream, size, a, b,
               result);
}

}  // namespace orrery::runtime::cuda
