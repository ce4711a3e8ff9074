// amax, quantize, transpose; casts to and from blocks of eight bits.
#include "plan/check.hpp"
#include "runtime/cuda/eight_bit_scales.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/cuda/reduce.cuh"
#include "runtime/kernels/elements.hpp"

namespace orrery::runtime::cuda {
namespace {

// A tile is read along its rows and, where it is transposed, written along its columns.
constexpr int kTile = 64;
constexpr int kTileRowsAtOnce = kThreads / kTile;

template <typename T>
constexpr int kTileStride = kTile + 4 / static_cast<int>(sizeof(T));  // no two rows in one bank

__device__ bool is_e5m2(plan::DType numbers) {
    return numbers == plan::DType::fp8_e5m2;
}

__device__ void put_scale(const EightBitCopy& copy, std::int64_t i, float largest) {
    const float most = is_e5m2(copy.data.dtype) ? kLargestE5M2 : kLargestE4M3;
    if (copy.scales.values.dtype == plan::DType::u8)
        bytes_of(copy.scales.values)[i] = block_scale_for(largest, most);
    else
        static_cast<float*>(copy.scales.values.data)[i] = scale_for(largest, most);
}

__device__ std::uint8_t cast_number(plan::DType numbers, float value, float scale) {
    if (!(scale == scale)) return 0;
    const float scaled = value * (1 / scale);
    return is_e5m2(numbers) ? E5M2::from(scaled) : E4M3::from(scaled);
}

__global__ void amax_kernel(Amax op) {
    const std::int64_t each = op.elements / op.matrices;
    auto* const largest = static_cast<std::uint32_t*>(op.largest.data);
    for (std::int64_t i = 0; i < op.matrices; ++i) {
        std::uint32_t here = 0;
        for (std::int64_t e = first_of_thread(); e < each; e += threads_of_grid()) {
            const std::uint32_t bits = magnitude_bits(load(op.x, i * each + e));
            here = bits > here ? bits : here;
        }
        here = largest_over_block(here);
        if (threadIdx.x == 0) atomicMax(largest + i, here);
    }
}

// A block of threads for each matrix: all that it moves is read before any of it is written.
constexpr int kMostSteps = 4 * kThreads;

__global__ void update_scales_kernel(UpdateScales op) {
    auto* const history = static_cast<std::uint32_t*>(op.history.data);
    auto* const noted = static_cast<std::uint32_t*>(op.noted.data);
    for (std::int64_t i = blockIdx.x; i < op.matrices; i += gridDim.x) {
        std::uint32_t moved[kMostSteps / kThreads];
        std::uint32_t largest = 0;
        ORRERY_UNROLLED
        for (int part = 0; part < kMostSteps / kThreads; ++part) {
            const std::int64_t step = std::int64_t{part} * kThreads + threadIdx.x;
            moved[part] = 0;
            if (step < 1 || step >= op.steps) continue;
            const std::uint32_t here = step == 1 ? noted[i] : history[(step - 1) * op.matrices + i];
            moved[part] = here < 0x7f800000U ? here : 0;
            largest = moved[part] > largest ? moved[part] : largest;
        }
        largest = largest_over_block(largest);
        ORRERY_UNROLLED
        for (int part = 0; part < kMostSteps / kThreads; ++part) {
            const std::int64_t step = std::int64_t{part} * kThreads + threadIdx.x;
            if (step >= 1 && step < op.steps) history[step * op.matrices + i] = moved[part];
        }
        if (threadIdx.x == 0) {
            history[i] = largest;
            noted[i] = 0;
        }
    }
}

__global__ void given_scales_kernel(Quantize op) {
    for (std::int64_t i = first_of_thread(); i < op.matrices; i += threads_of_grid())
        for (const EightBitCopy& copy : op.copies)
            if (copy.data) put_scale(copy, i, static_cast<const float*>(op.largest.data)[i]);
}

// Scales of a copy as the copy lies: so many below one another, and beside one another. The last
// ones may be of fewer numbers.
struct ScaleGrid {
    std::int64_t down, across;

    __host__ __device__ ScaleGrid(const Quantize& op, const EightBitCopy& copy) {
        const std::int64_t rows = copy.transposed ? op.width * op.matrices : op.rows;
        const std::int64_t columns = copy.transposed ? op.rows / op.matrices : op.width;
        down = (rows + copy.scales.rows - 1) / copy.scales.rows;
        across = (columns + copy.scales.columns - 1) / copy.scales.columns;
    }
};

// One scale of a copy, by where its numbers lie in x: rows × columns from (row, column) on.
struct ScaledBlock {
    std::int64_t row, column, rows, columns;
};

__device__ ScaledBlock block_of_scale(const Quantize& op, const EightBitCopy& copy,
                                      std::int64_t down, std::int64_t across) {
    const Scales& scales = copy.scales;
    const std::int64_t row = down * scales.rows, column = across * scales.columns;
    ScaledBlock block{row, column, scales.rows, scales.columns};
    const std::int64_t matrix_rows = op.rows / op.matrices;
    if (copy.transposed)
        block = {row / op.width * matrix_rows + column, row % op.width, scales.columns,
                 scales.rows};
    const std::int64_t end = copy.transposed ? (row / op.width + 1) * matrix_rows : op.rows;
    const std::int64_t rows = end - block.row, columns = op.width - block.column;
    block.rows = rows < block.rows ? rows : block.rows;
    block.columns = columns < block.columns ? columns : block.columns;
    return block;
}

// A block of threads for each scale, which goes along rows as far as they reach.
__global__ void block_scales_kernel(Quantize op, int which, ScaleGrid grid) {
    const EightBitCopy& copy = op.copies[static_cast<std::size_t>(which)];
    for (std::int64_t i = blockIdx.x; i < grid.down * grid.across; i += gridDim.x) {
        const std::int64_t down = i / grid.across, across = i % grid.across;
        const ScaledBlock block = block_of_scale(op, copy, down, across);
        std::uint32_t here = 0;
        for (std::int64_t e = threadIdx.x; e < block.rows * block.columns; e += blockDim.x) {
            const std::int64_t row = block.row + e / block.columns;
            const std::int64_t column = block.column + e % block.columns;
            const std::uint32_t bits = magnitude_bits(load(op.x, row * op.width + column));
            here = bits > here ? bits : here;
        }
        here = largest_over_block(here);
        if (threadIdx.x == 0)
            put_scale(copy, down * copy.scales.stride + across, std::bit_cast<float>(here));
    }
}

// Of columns that have scales of their own: a thread for each, so that a warp reads along rows.
__global__ void column_scales_kernel(Quantize op, int which, ScaleGrid grid) {
    const EightBitCopy& copy = op.copies[static_cast<std::size_t>(which)];
    for (std::int64_t i = first_of_thread(); i < grid.down * grid.across; i += threads_of_grid()) {
        // Neighbours in x are neighbours here, whichever way the scales lie.
        std::int64_t down = i / grid.across, across = i % grid.across;
        if (copy.transposed) {
            const std::int64_t of_matrix = op.width * grid.across;
            down = i / of_matrix * op.width + i % op.width;
            across = i % of_matrix / op.width;
        }
        const ScaledBlock block = block_of_scale(op, copy, down, across);
        std::uint32_t here = 0;
        for (std::int64_t row = block.row; row < block.row + block.rows; ++row) {
            const std::uint32_t bits = magnitude_bits(load(op.x, row * op.width + block.column));
            here = bits > here ? bits : here;
        }
        put_scale(copy, down * copy.scales.stride + across, std::bit_cast<float>(here));
    }
}

// Of a matrix of `rows` rows the tile's place; rows of x follow those of the matrices before.
struct TilePlace {
    std::int64_t matrix, row, column;
};

__device__ TilePlace place_of_tile(std::int64_t tile, std::int64_t rows, std::int64_t width) {
    const std::int64_t across = (width + kTile - 1) / kTile, down = (rows + kTile - 1) / kTile;
    return {tile / (across * down), tile / across % down * kTile, tile % across * kTile};
}
__host__ std::int64_t tiles_of(std::int64_t rows, std::int64_t width, std::int64_t matrices) {
    return matrices * ((width + kTile - 1) / kTile) * ((rows + kTile - 1) / kTile);
}

__global__ void quantize_kernel(Quantize op, std::int64_t tiles) {
    __shared__ std::uint8_t turned[kTile * kTileStride<std::uint8_t>];
    const std::int64_t rows = op.rows / op.matrices;
    const int along = static_cast<int>(threadIdx.x) % kTile;
    const int first = static_cast<int>(threadIdx.x) / kTile;
    for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const TilePlace at = place_of_tile(tile, rows, op.width);
        const std::int64_t column = at.column + along;
        for (int r = first; r < kTile && column < op.width && at.row + r < rows;
             r += kTileRowsAtOnce) {
            const std::int64_t row = at.matrix * rows + at.row + r;
            const float x = load(op.x, row * op.width + column);
            for (const EightBitCopy& copy : op.copies) {
                if (!copy.data) continue;
                const std::int64_t scale =
                    copy.transposed ? copy.scales.index(at.matrix * op.width + column, at.row + r)
                                    : copy.scales.index(row, column);
                const std::uint8_t number =
                    cast_number(copy.data.dtype, x, scale_at(copy.scales.values, scale));
                if (copy.transposed)
                    turned[along * kTileStride<std::uint8_t> + r] = number;
                else
                    bytes_of(copy.data)[row * op.width + column] = number;
            }
        }
        __syncthreads();
        for (const EightBitCopy& copy : op.copies) {
            if (!copy.data || !copy.transposed) continue;
            const std::int64_t stride = copy.stride > 0 ? copy.stride : rows;
            for (int c = first; c < kTile && at.column + c < op.width && at.row + along < rows;
                 c += kTileRowsAtOnce) {
                const std::int64_t row = at.matrix * op.width + at.column + c;
                bytes_of(copy.data)[row * stride + at.row + along] =
                    turned[c * kTileStride<std::uint8_t> + along];
            }
        }
        __syncthreads();  // before the next tile is written there
    }
}

template <typename T>
__global__ void transpose_kernel(Transpose op, std::int64_t tiles) {
    __shared__ T turned[kTile * kTileStride<T>];
    const std::int64_t rows = op.rows / op.matrices;
    const int along = static_cast<int>(threadIdx.x) % kTile;
    const int first = static_cast<int>(threadIdx.x) / kTile;
    for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const TilePlace at = place_of_tile(tile, rows, op.width);
        const T* const x = static_cast<const T*>(op.x.data) + at.matrix * rows * op.width;
        T* const y = static_cast<T*>(op.y.data) + at.matrix * rows * op.width;
        for (int r = first; r < kTile && at.column + along < op.width && at.row + r < rows;
             r += kTileRowsAtOnce)
            turned[along * kTileStride<T> + r] = x[(at.row + r) * op.width + at.column + along];
        __syncthreads();
        for (int c = first; c < kTile && at.column + c < op.width && at.row + along < rows;
             c += kTileRowsAtOnce)
            y[(at.column + c) * rows + at.row + along] = turned[c * kTileStride<T> + along];
        __syncthreads();
    }
}

// A warp for each block of numbers that share a scale.
static_assert(kScaledBlock == kWarp);

__global__ void pack_kernel(Cast op, std::int64_t blocks) {
    const auto lane = static_cast<std::int64_t>(threadIdx.x % kWarp);
    const std::int64_t warps = threads_of_grid() / kWarp;
    for (std::int64_t block = first_of_thread() / kWarp; block < blocks; block += warps) {
        const std::int64_t i = block * kWarp + lane;
        const float x = i < op.elements ? load(op.x, i) : 0;
        const std::uint32_t most = over_lanes(magnitude_bits(x), kWarp, Largest{});
        const std::uint8_t scale = block_scale_for(std::bit_cast<float>(most), kLargestE4M3);
        if (lane == 0) bytes_of(op.scales)[block] = scale;
        if (i < op.elements)
            bytes_of(op.y)[i] = cast_number(plan::DType::fp8_e4m3, x, value_of(scale));
    }
}

__global__ void unpack_kernel(Cast op) {
    for (std::int64_t i = first_of_thread(); i < op.elements; i += threads_of_grid())
        store(op.y, i, E4M3::value(bytes_of(op.x)[i]) * value_of(bytes_of(op.scales)[i / kWarp]));
}

void make_scales(const Quantize& op, int which, cudaStream_t stream) {
    const EightBitCopy& copy = op.copies[static_cast<std::size_t>(which)];
    const ScaleGrid grid(op, copy);
    const std::int64_t count = grid.down * grid.across;
    const bool of_columns = (copy.transposed ? copy.scales.rows : copy.scales.columns) == 1;
    if (of_columns)
        launch("quantize", column_scales_kernel, {blocks_of_threads(count)}, stream, op, which,
               grid);
    else
        launch("quantize", block_scales_kernel, {blocks_for(count)}, stream, op, which, grid);
}

__global__ void lay_scales_kernel(LaidScales scales) {
    for (std::int64_t i = first_of_thread(); i < scales.down * scales.across;
         i += threads_of_grid()) {
        const std::int64_t row = i / scales.across, column = i % scales.across;
        const std::int64_t first = scales.from.first_row / scales.from.rows;
        const std::int64_t to =
            scales.by_columns ? column * scales.stride + row : row * scales.stride + column;
        scales.to[to] = scale_at(scales.from.values, (first + row) * scales.from.stride + column);
    }
}

}  // namespace

void amax(const Amax& op, cudaStream_t stream) {
    check_types({op.x, op.largest});
    const auto bytes = static_cast<std::size_t>(op.matrices) * sizeof(float);
    if (!op.accumulate)
        check(cudaMemsetAsync(op.largest.data, 0, bytes, stream), "largest magnitudes of 0");
    launch("amax", amax_kernel, {blocks_of_threads(op.elements / op.matrices)}, stream, op);
}

void update_scales(const UpdateScales& op, cudaStream_t stream) {
    check_types({op.history, op.noted});
    ORRERY_CHECK(op.steps <= kMostSteps, "a history that a block of threads holds");
    launch("update_scales", update_scales_kernel, {blocks_for(op.matrices)}, stream, op);
}

void quantize(const Quantize& op, cudaStream_t stream) {
    check_types({op.x, op.largest});
    if (op.largest)
        launch("quantize", given_scales_kernel, {blocks_of_threads(op.matrices)}, stream, op);
    else
        for (int which = 0; which < 2; ++which)
            if (op.copies[static_cast<std::size_t>(which)].data) make_scales(op, which, stream);
    const std::int64_t tiles = tiles_of(op.rows / op.matrices, op.width, op.matrices);
    launch("quantize", quantize_kernel, {blocks_for(tiles)}, stream, op, tiles);
}

void lay_scales(const LaidScales& scales, cudaStream_t stream) {
    launch("scales", lay_scales_kernel, {blocks_of_threads(scales.down * scales.across)}, stream,
           scales);
}

void transpose(const Transpose& op, cudaStream_t stream) {
    const std::int64_t tiles = tiles_of(op.rows / op.matrices, op.width, op.matrices);
    if (plan::size_bytes(op.x.dtype) == 1)
        launch("transpose", transpose_kernel<std::uint8_t>, {blocks_for(tiles)}, stream, op, tiles);
    else
        launch("transpose", transpose_kernel<std::uint32_t>, {blocks_for(tiles)}, stream, op,
               tiles);
}

void pack(const Cast& op, cudaStream_t stream) {
    const std::int64_t blocks = (op.elements + kWarp - 1) / kWarp;
    launch("cast", pack_kernel, {blocks_of_threads(blocks * kWarp)}, stream, op, blocks);
}

void unpack(const Cast& op, cudaStream_t stream) {
    launch("cast", unpack_kernel, {blocks_of_threads(op.elements)}, stream, op);
}

}  // namespace orrery::runtime::cuda
