// Gradients of attention (Dao 2022, algorithm 4) by two kernels without a sum that threads of
// different blocks share: of queries by tiles of queries, of keys and values by tiles of keys over
// all query heads of their group. Probabilities are made again from lse.
#include "runtime/cuda/attention_tile.cuh"
#include "runtime/cuda/launches.hpp"

namespace orrery::runtime::cuda {
namespace {

// One score of the map: where it is, and what is known of its query.
struct Score {
    std::int64_t sample, head, query, key;
    float lse, along;  // along: Σ over d of dcontext·context
};

struct Differentiated {
    float probability = 0;  // after dropout
    float dscore = 0;       // times scale
};

// P = exp(scale·Q·Kᵀ − lse), F = factors of dropout: dS = scale·P∘(F∘(dC·Vᵀ) − dC·C), times the
// slope of the cap.
__device__ Differentiated differentiate(const AttentionBackward& op, const Score& at, float product,
                                        float dprobability) {
    if (at.query >= op.shape.sequence || !sees(op.mask, at.query, at.key)) return {};
    const auto scale = static_cast<float>(op.scale);
    const Capped score = score_of(op.scores, op.mask, scale * product, at.head, at.query, at.key);
    const float p = std::exp(score.value - at.lse);
    const float factor =
        probability_factor(op.dropout, op.shape.sequence, at.sample, at.head, at.query, at.key);
    return {p * factor, scale * p * (dprobability * factor - at.along) * score.slope};
}

__device__ float lse_of(const AttentionBackward& op, std::int64_t sample, std::int64_t head,
                        std::int64_t query) {
    const auto* const lse = static_cast<const float*>(op.lse.data);
    const std::int64_t map = sample * op.shape.heads + head;
    return query < op.shape.sequence ? lse[map * op.shape.sequence + query] : 0.0F;
}

// By the eight threads of a group for one query, all of whom get it. `dcontext`: its row in shared
// memory.
__device__ float along_of(const AttentionBackward& op, std::int64_t sample, std::int64_t head,
                          std::int64_t query, const float* dcontext) {
    float sum = 0;
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    if (query < op.shape.sequence) {
        const std::int64_t at = context_at(op.shape, head, sample * op.shape.sequence + query);
        for (int c = lane; c < op.shape.values(); c += kLanes)
            sum = std::fma(dcontext[c], load(op.context, at + c), sum);
    }
    return over_lanes(sum, kLanes, Sum{});
}

template <typename T>
__device__ void differentiate_queries(const AttentionBackward& op, std::int64_t sample,
                                      std::int64_t head, std::int64_t query) {
    float* const queries = shared_memory;
    float* const dcontext = queries + T::kTallSize;
    float* const keys = dcontext + T::kTallSize;
    float* const values = keys + T::kWideSize;
    float* const dscores = values + T::kWideSize;
    const AttentionShape& shape = op.shape;
    const std::int64_t s = shape.sequence, row = sample * s, width = shape.qkv_width();
    const std::int64_t kv_head = head / (shape.heads / shape.kv_heads);
    const int d = static_cast<int>(shape.head_dim), dv = static_cast<int>(shape.values());
    T::read(op.qkv, query_at(shape, head, row + query), width, T::kTall, s - query, d, queries);
    T::read(op.dcontext, context_at(shape, head, row + query), shape.context_width(), T::kTall,
            s - query, dv, dcontext);
    __syncthreads();
    float lse[T::kRows], along[T::kRows];
    for (int i = 0; i < T::kRows; ++i) {
        lse[i] = lse_of(op, sample, head, query + T::row(i));
        along[i] =
            along_of(op, sample, head, query + T::row(i), dcontext + T::row(i) * T::kHeadPitch);
    }
    typename T::Sums sums;
    T::clear(sums);
    const std::int64_t end = query + T::kTall < s ? query + T::kTall : s;
    for (std::int64_t key = first_key_of(op.mask, query) / T::kWide * T::kWide; key < end;
         key += T::kWide) {
        typename T::Map map, of_values;
        T::read(op.qkv, key_at(shape, kv_head, row + key), width, T::kWide, s - key, d, keys);
        T::read(op.qkv, value_at(shape, kv_head, row + key), width, T::kWide, s - key, dv, values);
        __syncthreads();
        T::multiply(queries, keys, d, map);
        T::multiply(dcontext, values, dv, of_values);
        for (int i = 0; i < T::kRows; ++i)
            for (int j = 0; j < T::kPerLane; ++j) {
                const Score at{sample, head,    query + T::row(i), key + T::column(j),
                               lse[i], along[i]};
                map[i][j] = differentiate(op, at, map[i][j], of_values[i][j]).dscore;
            }
        T::share(map, dscores);
        T::add_product(dscores, keys, sums);
        __syncthreads();
    }
    for (int i = 0; i < T::kRows; ++i)
        if (query + T::row(i) < s)
            T::write(sums, i, 1, d, op.dqkv, query_at(shape, head, row + query + T::row(i)));
}

// What a tile of keys adds up over the heads and queries that see it.
template <typename T>
struct KeySums {
    typename T::Sums of_keys, of_values;
};

struct KeyTile {
    std::int64_t sample, kv_head, key;  // first one
};

// Shared memory of the kernel for keys and values.
template <typename T>
struct KeySpace {
    float *keys, *values, *queries, *dcontext, *probabilities, *dscores, *lse, *along;

    static constexpr int kSize =
        2 * T::kTallSize + 2 * T::kWideSize + 2 * T::kMapSize + 2 * T::kWide;
    __device__ explicit KeySpace(float* space)
        : keys(space),
          values(keys + T::kTallSize),
          queries(values + T::kTallSize),
          dcontext(queries + T::kWideSize),
          probabilities(dcontext + T::kWideSize),
          dscores(probabilities + T::kMapSize),
          lse(dscores + T::kMapSize),
          along(lse + T::kWide) {}
};

template <typename T>
__device__ void add_queries(const AttentionBackward& op, const KeyTile& tile, std::int64_t head,
                            std::int64_t query, const KeySpace<T>& space, KeySums<T>& sums) {
    const AttentionShape& shape = op.shape;
    const std::int64_t s = shape.sequence, row = tile.sample * s + query;
    const int d = static_cast<int>(shape.head_dim), dv = static_cast<int>(shape.values());
    T::read(op.qkv, query_at(shape, head, row), shape.qkv_width(), T::kWide, s - query, d,
            space.queries);
    T::read(op.dcontext, context_at(shape, head, row), shape.context_width(), T::kWide, s - query,
            dv, space.dcontext);
    __syncthreads();
    for (int q = T::group(); q < T::kWide; q += kGroups) {
        const float along =
            along_of(op, tile.sample, head, query + q, space.dcontext + q * T::kHeadPitch);
        if (T::lane() > 0) continue;
        space.along[q] = along;
        space.lse[q] = lse_of(op, tile.sample, head, query + q);
    }
    __syncthreads();
    typename T::Map map, of_values;
    T::multiply(space.keys, space.queries, d, map);
    T::multiply(space.values, space.dcontext, dv, of_values);
    for (int i = 0; i < T::kRows; ++i)
        for (int j = 0; j < T::kPerLane; ++j) {
            const int q = T::column(j);
            const Score at{tile.sample,          head,         query + q,
                           tile.key + T::row(i), space.lse[q], space.along[q]};
            const Differentiated found = differentiate(op, at, map[i][j], of_values[i][j]);
            map[i][j] = found.probability;
            of_values[i][j] = found.dscore;
        }
    T::share(map, space.probabilities);
    T::share(of_values, space.dscores);
    T::add_product(space.probabilities, space.dcontext, sums.of_values);
    T::add_product(space.dscores, space.queries, sums.of_keys);
    __syncthreads();
}

template <typename T>
__device__ void differentiate_keys(const AttentionBackward& op, const KeyTile& tile) {
    const KeySpace<T> space(shared_memory);
    const AttentionShape& shape = op.shape;
    const std::int64_t s = shape.sequence, row = tile.sample * s + tile.key;
    const std::int64_t group = shape.heads / shape.kv_heads, width = shape.qkv_width();
    const int d = static_cast<int>(shape.head_dim), dv = static_cast<int>(shape.values());
    T::read(op.qkv, key_at(shape, tile.kv_head, row), width, T::kTall, s - tile.key, d, space.keys);
    T::read(op.qkv, value_at(shape, tile.kv_head, row), width, T::kTall, s - tile.key, dv,
            space.values);
    KeySums<T> sums;
    T::clear(sums.of_keys);
    T::clear(sums.of_values);
    const std::int64_t end = end_of_queries(op.mask, tile.key + T::kTall - 1, s);
    for (std::int64_t head = tile.kv_head * group; head < (tile.kv_head + 1) * group; ++head)
        for (std::int64_t query = tile.key / T::kWide * T::kWide; query < end; query += T::kWide)
            add_queries<T>(op, tile, head, query, space, sums);
    for (int i = 0; i < T::kRows; ++i) {
        if (tile.key + T::row(i) >= s) continue;
        const std::int64_t at = row + T::row(i);
        T::write(sums.of_keys, i, 1, d, op.dqkv, key_at(shape, tile.kv_head, at));
        T::write(sums.of_values, i, 1, dv, op.dqkv, value_at(shape, tile.kv_head, at));
    }
}

template <typename T>
__global__ void __launch_bounds__(kAttentionThreads) query_gradient_kernel(AttentionBackward op) {
    const std::int64_t per_map = (op.shape.sequence + T::kTall - 1) / T::kTall;
    for (std::int64_t i = blockIdx.x; i < op.shape.maps() * per_map; i += gridDim.x) {
        const std::int64_t map = i / per_map;
        differentiate_queries<T>(op, map / op.shape.heads, map % op.shape.heads,
                                 i % per_map * T::kTall);
        __syncthreads();
    }
}

template <typename T>
__global__ void __launch_bounds__(kAttentionThreads) key_gradient_kernel(AttentionBackward op) {
    const std::int64_t per_head = (op.shape.sequence + T::kTall - 1) / T::kTall;
    const std::int64_t kv_heads = op.shape.kv_heads;
    for (std::int64_t i = blockIdx.x; i < op.shape.batch * kv_heads * per_head; i += gridDim.x) {
        const std::int64_t unit = i / per_head;
        differentiate_keys<T>(op, {unit / kv_heads, unit % kv_heads, i % per_head * T::kTall});
        __syncthreads();
    }
}

// A block per head. A sink's probability, exp(sink − lse), has no value: −Σ over rows of P·dC·C.
__global__ void sink_gradient_kernel(AttentionBackward op) {
    const AttentionShape& shape = op.shape;
    const std::int64_t rows = shape.batch * shape.sequence;
    const std::int64_t lane = threadIdx.x % kWarp;
    for (std::int64_t head = blockIdx.x; head < shape.heads; head += gridDim.x) {
        const float sink = load(op.scores.sinks, head);
        float sum = 0;
        for (std::int64_t row = threadIdx.x / kWarp; row < rows; row += blockDim.x / kWarp) {
            const std::int64_t at = context_at(shape, head, row);
            float along = 0;
            for (std::int64_t c = lane; c < shape.values(); c += kWarp)
                along = std::fma(load(op.dcontext, at + c), load(op.context, at + c), along);
            along = over_lanes(along, kWarp, Sum{});
            const float lse = lse_of(op, row / shape.sequence, head, row % shape.sequence);
            if (lane == 0) sum -= std::exp(sink - lse) * along;
        }
        sum = sum_over_block(sum);
        if (threadIdx.x == 0)
            store(op.dsinks, head, op.accumulate ? load(op.dsinks, head) + sum : sum);
    }
}

}  // namespace

void attention_backward(const AttentionBackward& op, cudaStream_t stream) {
    if (op.scores.sinks)
        launch("attention_backward of sinks", sink_gradient_kernel, {blocks_for(op.shape.heads)},
               stream, op);
    with_tile("attention_backward", op.shape, [&](auto tile) {
        using T = decltype(tile);
        const std::int64_t tiles = tiles_of(op.shape.sequence, T::kTall);
        constexpr std::size_t kShared =
            (2 * T::kTallSize + 2 * T::kWideSize + T::kMapSize) * sizeof(float);
        launch("attention_backward of queries", query_gradient_kernel<T>,
               {blocks_for(op.shape.maps() * tiles), kAttentionThreads, kShared}, stream, op);
        launch("attention_backward of keys", key_gradient_kernel<T>,
               {blocks_for(op.shape.batch * op.shape.kv_heads * tiles), kAttentionThreads,
                KeySpace<T>::kSize * sizeof(float)},
               stream, op);
    });
}

}  // namespace orrery::runtime::cuda
