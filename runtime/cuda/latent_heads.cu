// latent_heads and latent_heads_backward: a block per row, whose angles are computed once for all
// heads, as what all heads share of keys is.
#include "runtime/cuda/launch.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/kernels/attention_rules.hpp"
#include "runtime/kernels/elements.hpp"
#include "runtime/kernels/rope_rules.hpp"

namespace orrery::runtime::cuda {
namespace {

// First elements of a row's head, where heads lie apart and packed.
struct HeadPlaces {
    std::int64_t q, kv;
    std::int64_t query, key, value;
};
__device__ HeadPlaces places_of(const LatentHeads& op, std::int64_t row, std::int64_t head) {
    const AttentionShape& shape = op.shape;
    const std::int64_t among = row * shape.heads + head;
    return {among * shape.head_dim, among * (op.plain_dim + shape.values()),
            query_at(shape, head, row), key_at(shape, head, row), value_at(shape, head, row)};
}

// Shared memory of a block.
struct Space {
    Turn* turns;  // [rotary_dim/2]
    float* keys;  // [rotary_dim], the turned part of all heads' keys

    __device__ explicit Space(const LatentHeads& op)
        : turns(reinterpret_cast<Turn*>(shared_memory)),
          keys(shared_memory + op.rotary_dim / 2 * (sizeof(Turn) / sizeof(float))) {}
};

// The two elements of pair i, counted from the first that is turned.
struct Pair {
    std::int64_t low, high;
};
__device__ Pair pair_of(const LatentHeads& op, std::int64_t i) {
    if (op.interleaved) return {2 * i, 2 * i + 1};
    return {i, i + op.rotary_dim / 2};
}

// Calls f(head, i) for i of the first n elements of all heads.
template <typename F>
__device__ void for_heads(const LatentHeads& op, std::int64_t n, const F& f) {
    for (std::int64_t i = threadIdx.x; i < op.shape.heads * n; i += blockDim.x)
        f(i / n, i % n);
}

__device__ void copy(const Buffer& from, std::int64_t at, const Buffer& to, std::int64_t to_at) {
    store(to, to_at, load(from, at));
}

__device__ void find_turns(const LatentHeads& op, std::int64_t row, bool backward,
                           const Space& space) {
    const std::int64_t s = op.shape.sequence;
    for (std::int64_t i = threadIdx.x; i < op.rotary_dim / 2; i += blockDim.x)
        space.turns[i] = turn_at(op.part.position_of(row % s, s), op.inverse_frequencies[i],
                                 backward, op.turned_scale);
}

// Pair i of one head's query, from one tensor to the other.
__device__ void turn_query(const LatentHeads& op, const Turn& turn, std::int64_t i,
                           const Buffer& from, std::int64_t at, const Buffer& to,
                           std::int64_t to_at) {
    const Pair pair = pair_of(op, i);
    float low = load(from, at + pair.low), high = load(from, at + pair.high);
    turn_pair(turn, low, high);
    store(to, to_at + pair.low, low);
    store(to, to_at + pair.high, high);
}

__global__ void latent_heads_kernel(LatentHeads op) {
    const Space space(op);
    const AttentionShape& shape = op.shape;
    const std::int64_t plain = op.plain_dim, half = op.rotary_dim / 2;
    for (std::int64_t row = blockIdx.x; row < shape.batch * shape.sequence; row += gridDim.x) {
        find_turns(op, row, false, space);
        __syncthreads();
        for (std::int64_t i = threadIdx.x; i < half; i += blockDim.x) {
            const Pair pair = pair_of(op, i);
            const std::int64_t at = row * op.rotary_dim;
            float low = load(op.rotary_keys, at + pair.low);
            float high = load(op.rotary_keys, at + pair.high);
            turn_pair(space.turns[i], low, high);
            space.keys[pair.low] = low;
            space.keys[pair.high] = high;
        }
        __syncthreads();
        for_heads(op, plain, [&](std::int64_t head, std::int64_t i) {
            const HeadPlaces at = places_of(op, row, head);
            copy(op.q, at.q + i, op.qkv, at.query + i);
            copy(op.kv, at.kv + i, op.qkv, at.key + i);
        });
        for_heads(op, half, [&](std::int64_t head, std::int64_t i) {
            const HeadPlaces at = places_of(op, row, head);
            turn_query(op, space.turns[i], i, op.q, at.q + plain, op.qkv, at.query + plain);
        });
        for_heads(op, op.rotary_dim, [&](std::int64_t head, std::int64_t i) {
            store(op.qkv, places_of(op, row, head).key + plain + i, space.keys[i]);
        });
        for_heads(op, shape.values(), [&](std::int64_t head, std::int64_t i) {
            const HeadPlaces at = places_of(op, row, head);
            copy(op.kv, at.kv + plain + i, op.qkv, at.value + i);
        });
        __syncthreads();
    }
}

// Gradients of the keys' common part are added up over the heads in turn, then turned back.
__global__ void latent_heads_backward_kernel(LatentHeads op) {
    const Space space(op);
    const AttentionShape& shape = op.shape;
    const std::int64_t plain = op.plain_dim, half = op.rotary_dim / 2;
    for (std::int64_t row = blockIdx.x; row < shape.batch * shape.sequence; row += gridDim.x) {
        find_turns(op, row, true, space);
        for (std::int64_t i = threadIdx.x; i < op.rotary_dim; i += blockDim.x) {
            float sum = 0;
            for (std::int64_t head = 0; head < shape.heads; ++head)
                sum += load(op.qkv, key_at(shape, head, row) + plain + i);
            space.keys[i] = sum;
        }
        __syncthreads();
        for (std::int64_t i = threadIdx.x; i < half; i += blockDim.x) {
            const Pair pair = pair_of(op, i);
            float low = space.keys[pair.low], high = space.keys[pair.high];
            turn_pair(space.turns[i], low, high);
            store(op.rotary_keys, row * op.rotary_dim + pair.low, low);
            store(op.rotary_keys, row * op.rotary_dim + pair.high, high);
        }
        for_heads(op, plain, [&](std::int64_t head, std::int64_t i) {
            const HeadPlaces at = places_of(op, row, head);
            copy(op.qkv, at.query + i, op.q, at.q + i);
            copy(op.qkv, at.key + i, op.kv, at.kv + i);
        });
        for_heads(op, half, [&](std::int64_t head, std::int64_t i) {
            const HeadPlaces at = places_of(op, row, head);
            turn_query(op, space.turns[i], i, op.qkv, at.query + plain, op.q, at.q + plain);
        });
        for_heads(op, shape.values(), [&](std::int64_t head, std::int64_t i) {
            const HeadPlaces at = places_of(op, row, head);
            copy(op.qkv, at.value + i, op.kv, at.kv + plain + i);
        });
        __syncthreads();
    }
}

Grid grid_of(const LatentHeads& op) {
    const auto shared = static_cast<std::size_t>(op.rotary_dim / 2) * sizeof(Turn) +
                        static_cast<std::size_t>(op.rotary_dim) * sizeof(float);
    return {blocks_for(op.shape.batch * op.shape.sequence), kThreads, shared};
}

}  // namespace

void latent_heads(const LatentHeads& op, cudaStream_t stream) {
    check_types({op.q, op.kv, op.rotary_keys, op.qkv});
    launch("latent_heads", latent_heads_kernel, grid_of(op), stream, op);
}

void latent_heads_backward(const LatentHeadsBackward& op, cudaStream_t stream) {
    check_types({op.q, op.kv, op.rotary_keys, op.qkv});
    launch("latent_heads_backward", latent_heads_backward_kernel, grid_of(op), stream,
           static_cast<const LatentHeads&>(op));
}

}  // namespace orrery::runtime::cuda
