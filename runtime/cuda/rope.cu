// rope, rope_backward and temper_queries: a block per row of qkv, whose angles are computed once
// for all heads.
#include "runtime/cuda/launch.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/kernels/elements.hpp"
#include "runtime/kernels/rope_rules.hpp"

namespace orrery::runtime::cuda {
namespace {

__global__ void rope_kernel(Rope op, bool backward) {
    auto* const turns = reinterpret_cast<Turn*>(shared_memory);  // [rotary_dim/2]
    const AttentionShape& shape = op.shape;
    const std::int64_t half = op.rotary_dim / 2;
    const std::int64_t pairs = (shape.heads + shape.kv_heads) * half;
    for (std::int64_t row = blockIdx.x; row < shape.batch * shape.sequence; row += gridDim.x) {
        for (std::int64_t i = threadIdx.x; i < half; i += blockDim.x)
            turns[i] = turn_at(op.part.position_of(row % shape.sequence, shape.sequence),
                               op.inverse_frequencies[i], backward);
        __syncthreads();
        for (std::int64_t pair = threadIdx.x; pair < pairs; pair += blockDim.x) {
            const std::int64_t i = pair % half;
            const std::int64_t at = row * shape.qkv_width() + pair / half * shape.head_dim + i;
            float low = load(op.qkv, at), high = load(op.qkv, at + half);
            turn_pair(turns[i], low, high);
            store(op.qkv, at, low);
            store(op.qkv, at + half, high);
        }
        __syncthreads();
    }
}

__global__ void temper_kernel(TemperQueries op) {
    const AttentionShape& shape = op.shape;
    const std::int64_t s = shape.sequence;
    for (std::int64_t row = blockIdx.x; row < shape.batch * s; row += gridDim.x) {
        const float factor = temper_factor(op.part.position_of(row % s, s), op.floor, op.scale);
        for (std::int64_t i = threadIdx.x; i < shape.heads * shape.head_dim; i += blockDim.x) {
            const std::int64_t at = row * shape.qkv_width() + i;
            store(op.qkv, at, load(op.qkv, at) * factor);
        }
    }
}

void turn(const char* name, const Rope& op, bool backward, cudaStream_t stream) {
    const auto shared = static_cast<std::size_t>(op.rotary_dim / 2) * sizeof(Turn);
    launch(name, rope_kernel, {blocks_for(op.shape.batch * op.shape.sequence), kThreads, shared},
           stream, op, backward);
}

}  // namespace

void rope(const Rope& op, cudaStream_t stream) {
    check_types({op.qkv});
    turn("rope", op, false, stream);
}

void rope_backward(const RopeBackward& op, cudaStream_t stream) {
    check_types({op.qkv});
    turn("rope_backward", op, true, stream);
}

void temper_queries(const TemperQueries& op, cudaStream_t stream) {
    check_types({op.qkv});
    launch("temper_queries", temper_kernel, {blocks_for(op.shape.batch * op.shape.sequence)},
           stream, op);
}

}  // namespace orrery::runtime::cuda
