// qk_norm, qk_norm_sums and qk_norm_backward: a warp per head of a row; sums of rows by a block
// each.
#include <algorithm>

#include "runtime/cuda/column_sums.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/cuda/reduce.cuh"
#include "runtime/kernels/qk_norm_rules.hpp"

namespace orrery::runtime::cuda {
namespace {

__device__ int lane() {
    return static_cast<int>(threadIdx.x) % kWarp;
}
__device__ int warp() {
    return static_cast<int>(threadIdx.x) / kWarp;
}

// Σ of term(i) over the n elements of a head, by the threads of a warp, all of whom get it.
template <typename Term>
__device__ float sum_over_head(std::int64_t n, const Term& term) {
    float sum = 0;
    for (std::int64_t i = lane(); i < n; i += kWarp)
        sum += term(i);
    return over_lanes(sum, kWarp, Sum{});
}

// 1/σ of a head by itself, or of all of its part.
template <typename Op>
__device__ float inverse_of(const Op& op, std::int64_t row, const NormedHead& head) {
    const std::int64_t d = op.shape.head_dim;
    if (op.sums)
        return inverse_deviation(sum_of_part(op.sums, row, head), elements_of_part(op, head),
                                 op.epsilon);
    const std::int64_t at = row * op.shape.qkv_width() + head.column;
    const float squares = sum_over_head(d, [&](std::int64_t i) {
        const float x = load(op.qkv, at + i);
        return x * x;
    });
    return inverse_deviation(squares, d, op.epsilon);
}

// Values as they are.
__device__ void copy_values(const AttentionShape& shape, std::int64_t row, const Buffer& from,
                            const Buffer& to) {
    const std::int64_t width = shape.qkv_width();
    for (std::int64_t i = normed_width(shape) + threadIdx.x; i < width; i += blockDim.x)
        store(to, row * width + i, load(from, row * width + i));
}

__global__ void qk_norm_kernel(QkNorm op) {
    const AttentionShape& shape = op.shape;
    for (std::int64_t row = blockIdx.x; row < shape.batch * shape.sequence; row += gridDim.x) {
        for (std::int64_t h = warp(); h < shape.heads + shape.kv_heads; h += kWarps) {
            const NormedHead head = normed_head(shape, h);
            const QkWeight weight = weight_of(op, head);
            const float inverse = inverse_of(op, row, head);
            const std::int64_t at = row * shape.qkv_width() + head.column;
            for (std::int64_t i = lane(); i < shape.head_dim; i += kWarp)
                store(op.y, at + i, load(op.qkv, at + i) * inverse * weight.at(i));
        }
        copy_values(shape, row, op.qkv, op.y);
    }
}

__global__ void qk_norm_sums_kernel(QkNormSums op) {
    const AttentionShape& shape = op.shape;
    const std::int64_t queries = shape.heads * shape.head_dim, normed = normed_width(shape);
    const QkWeight of_queries{op.q_weight, 0, static_cast<float>(op.weight_offset)};
    const QkWeight of_keys{op.k_weight, 0, static_cast<float>(op.weight_offset)};
    for (std::int64_t row = blockIdx.x; row < shape.batch * shape.sequence; row += gridDim.x) {
        const std::int64_t at = row * shape.qkv_width();
        const auto sum_of = [&](std::int64_t first, std::int64_t end, const QkWeight& weight) {
            float sum = 0;
            for (std::int64_t i = first + threadIdx.x; i < end; i += blockDim.x) {
                const float x = load(op.qkv, at + i);
                sum += op.dy ? load(op.dy, at + i) * weight.at(i - first) * x : x * x;
            }
            return sum_over_block(sum);
        };
        const float q = sum_of(0, queries, of_queries);
        const float k = sum_of(queries, normed, of_keys);
        if (threadIdx.x > 0) continue;
        static_cast<float*>(op.sums.data)[2 * row] = q;
        static_cast<float*>(op.sums.data)[2 * row + 1] = k;
    }
}

// With x̂ = x/σ and g = dy·weight: dx = (g − x̂·mean of g·x̂)/σ.
__global__ void qk_norm_backward_kernel(QkNormBackward op) {
    const AttentionShape& shape = op.shape;
    for (std::int64_t row = blockIdx.x; row < shape.batch * shape.sequence; row += gridDim.x) {
        for (std::int64_t h = warp(); h < shape.heads + shape.kv_heads; h += kWarps) {
            const NormedHead head = normed_head(shape, h);
            const QkWeight weight = weight_of(op, head);
            const std::int64_t at = row * shape.qkv_width() + head.column;
            const float inverse = inverse_of(op, row, head);
            const float along =
                op.sums ? sum_of_part(op.dots, row, head)
                        : sum_over_head(shape.head_dim, [&](std::int64_t i) {
                              return load(op.dy, at + i) * weight.at(i) * load(op.qkv, at + i);
                          });
            const float mean = along * inverse / static_cast<float>(elements_of_part(op, head));
            for (std::int64_t i = lane(); i < shape.head_dim; i += kWarp) {
                const float normed = load(op.qkv, at + i) * inverse;
                store(op.dqkv, at + i,
                      inverse * (load(op.dy, at + i) * weight.at(i) - normed * mean));
            }
        }
        copy_values(shape, row, op.dy, op.dqkv);
    }
}

// ---- gradients of weights, Σ dy·x̂ ----

// Weights of all columns of a part: x̂ is known from the sums.
__global__ void __launch_bounds__(kSumThreads<1>)
    part_weight_gradient_kernel(QkNormBackward op, int part) {
    const NormedHead first = normed_head(op.shape, part == 0 ? 0 : op.shape.heads);
    sum_columns<1>(
        op.shape.batch * op.shape.sequence, width_of_part(op.shape, first), {},
        [&](std::int64_t row, std::int64_t column) {
            const float inverse = inverse_deviation(sum_of_part(op.sums, row, first),
                                                    elements_of_part(op, first), op.epsilon);
            const std::int64_t at = row * op.shape.qkv_width() + first.column + column;
            return Elements<1>{load(op.dy, at) * (load(op.qkv, at) * inverse)};
        },
        ToColumn{part == 0 ? op.dq_weight : op.dk_weight, op.accumulate});
}

// What each block has of the sums of a weight of all heads, queries' then keys': in the memory of
// dqkv, which is written after them. A block that is alone adds to the gradients itself.
struct HeadSums {
    float* of_blocks = nullptr;  // [blocks, 2·head_dim]; null: there is one block
};

// A warp takes heads of every so many rows and adds them up in its own row of shared memory,
// [warps, 2·head_dim]; the rows are then added in turn.
__global__ void head_weight_gradient_kernel(QkNormBackward op, HeadSums sums) {
    const AttentionShape& shape = op.shape;
    const std::int64_t d = shape.head_dim;
    float* const own = shared_memory + warp() * 2 * d;
    for (std::int64_t i = lane(); i < 2 * d; i += kWarp)
        own[i] = 0;
    for (std::int64_t row = blockIdx.x; row < shape.batch * shape.sequence; row += gridDim.x)
        for (std::int64_t h = warp(); h < shape.heads + shape.kv_heads; h += kWarps) {
            const NormedHead head = normed_head(shape, h);
            const float inverse = inverse_of(op, row, head);
            const std::int64_t at = row * shape.qkv_width() + head.column;
            for (std::int64_t i = lane(); i < d; i += kWarp)
                own[head.part * d + i] += load(op.dy, at + i) * (load(op.qkv, at + i) * inverse);
        }
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < 2 * d; i += blockDim.x) {
        float sum = shared_memory[i];
        for (int k = 1; k < kWarps; ++k)
            sum += shared_memory[k * 2 * d + i];
        if (sums.of_blocks != nullptr) {
            sums.of_blocks[blockIdx.x * 2 * d + i] = sum;
            continue;
        }
        const Buffer& to = i < d ? op.dq_weight : op.dk_weight;
        store(to, i % d, op.accumulate ? load(to, i % d) + sum : sum);
    }
}

__global__ void __launch_bounds__(kSumThreads<1>)
    add_head_sums_kernel(QkNormBackward op, HeadSums sums, std::int64_t blocks, int part) {
    const std::int64_t d = op.shape.head_dim;
    sum_columns<1>(
        blocks, d, {},
        [&](std::int64_t block, std::int64_t column) {
            return Elements<1>{sums.of_blocks[(block * 2 + part) * d + column]};
        },
        ToColumn{part == 0 ? op.dq_weight : op.dk_weight, op.accumulate});
}

void head_weight_gradients(const QkNormBackward& op, cudaStream_t stream) {
    constexpr std::int64_t kMostBlocks = 512;
    const std::int64_t d = op.shape.head_dim, rows = op.shape.batch * op.shape.sequence;
    const std::int64_t row_bytes = 2 * d * static_cast<std::int64_t>(sizeof(float));
    const std::int64_t space =
        rows * op.shape.qkv_width() * static_cast<std::int64_t>(plan::size_bytes(op.dqkv.dtype));
    const std::int64_t blocks =
        std::max<std::int64_t>(1, std::min({rows, space / row_bytes, kMostBlocks}));
    const HeadSums sums{blocks > 1 ? static_cast<float*>(op.dqkv.data) : nullptr};
    launch("qk_norm_backward of weights", head_weight_gradient_kernel,
           {blocks_for(blocks), kThreads, static_cast<std::size_t>(kWarps * row_bytes)}, stream, op,
           sums);
    for (int part = 0; blocks > 1 && part < 2; ++part)
        launch("qk_norm_backward of weights", add_head_sums_kernel, column_grid<1>(d), stream, op,
               sums, blocks, part);
}

void part_weight_gradients(const QkNormBackward& op, cudaStream_t stream) {
    for (int part = 0; part < 2; ++part) {
        const std::int64_t heads = part == 0 ? op.shape.heads : op.shape.kv_heads;
        launch("qk_norm_backward of weights", part_weight_gradient_kernel,
               column_grid<1>(heads * op.shape.head_dim), stream, op, part);
    }
}

}  // namespace

void qk_norm(const QkNorm& op, cudaStream_t stream) {
    check_types({op.qkv, op.q_weight, op.k_weight, op.sums, op.y});
    launch("qk_norm", qk_norm_kernel, {blocks_for(op.shape.batch * op.shape.sequence)}, stream, op);
}

void qk_norm_sums(const QkNormSums& op, cudaStream_t stream) {
    check_types({op.qkv, op.dy, op.q_weight, op.k_weight, op.sums});
    launch("qk_norm_sums", qk_norm_sums_kernel, {blocks_for(op.shape.batch * op.shape.sequence)},
           stream, op);
}

void qk_norm_backward(const QkNormBackward& op, cudaStream_t stream) {
    check_types({op.dy, op.qkv, op.q_weight, op.k_weight, op.sums, op.dots, op.dqkv, op.dq_weight,
                 op.dk_weight});
    if (op.dq_weight)
        op.sums ? part_weight_gradients(op, stream) : head_weight_gradients(op, stream);
    launch("qk_norm_backward", qk_norm_backward_kernel,
           {blocks_for(op.shape.batch * op.shape.sequence)}, stream, op);
}

}  // namespace orrery::runtime::cuda
