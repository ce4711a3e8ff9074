// Gradients of attention (Dao 2022, algorithm 4) by two kernels without a sum that threads of
// different blocks share: of queries by tiles of queries, of keys and values by tiles of keys over
// all query heads of their group. Keys may be other ranks' as in forward. Probabilities are made
// again from lse.
#include "runtime/cuda/attention_core.hpp"
#include "runtime/cuda/attention_tile.cuh"
#include "runtime/cuda/launches.hpp"

namespace orrery::runtime::cuda {
namespace {

// One score of the map: the positions of its query and its key, and what is known of the query.
// `inside`: the tiles have both.
struct Score {
    std::int64_t sample, head, query, key;
    float lse, along;  // along: Σ over d of dcontext·context
    bool inside;
};

struct Differentiated {
    float probability = 0;  // after dropout
    float dscore = 0;       // times scale
};

// P = exp(scale·Q·Kᵀ − lse), F = factors of dropout: dS = scale·P∘(F∘(dC·Vᵀ) − dC·C), times the
// slope of the cap.
template <typename T>
__device__ Differentiated differentiate(const AttentionBackward& op, const Score& at, float product,
                                        float dprobability) {
    if (!at.inside || !sees(op.mask, at.query, at.key)) return {};
    const auto scale = static_cast<float>(op.scale);
    const Capped score = score_of(op.scores, op.mask, scale * product, at.head, at.query, at.key);
    const float p = std::exp(score.value - at.lse);
    const float factor = probability_factor(op.dropout, op.shape.sequence * part_of<T>(op).ranks,
                                            at.sample, at.head, at.query, at.key);
    return {p * factor, scale * p * (dprobability * factor - at.along) * score.slope};
}

// By the eight threads of a group for one query, all of whom get it. `dcontext`: its row in shared
// memory.
__device__ float along_of(const AttentionBackward& op, std::int64_t sample, std::int64_t head,
                          std::int64_t row, bool inside, const float* dcontext) {
    float sum = 0;
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    if (inside) {
        const std::int64_t at = context_at(op.shape, head, sample * op.shape.sequence + row);
        for (int c = lane; c < op.shape.values(); c += kLanes)
            sum = std::fma(dcontext[c], load(op.context, at + c), sum);
    }
    return over_lanes(sum, kLanes, Sum{});
}

template <typename T>
__device__ void differentiate_queries(const AttentionBackward& op, const QueryTile& tile) {
    float* const queries = shared_memory;
    float* const dcontext = queries + T::kTallSize;
    float* const keys = dcontext + T::kTallSize;
    float* const values = keys + T::kWideSize;
    float* const dscores = values + T::kWideSize;
    const AttentionShape& shape = op.shape;
    const std::int64_t sample = tile.sample, head = tile.head;
    const std::int64_t row = sample * shape.sequence + tile.row;
    const auto [kv, columns] = head_keys<T>(op, head / (shape.heads / shape.kv_heads));
    const int d = static_cast<int>(shape.head_dim), dv = static_cast<int>(shape.values());
    T::read(op.qkv, query_at(shape, head, row), shape.qkv_width(), T::kTall, tile.queries, d,
            queries);
    T::read(op.dcontext, context_at(shape, head, row), shape.context_width(), T::kTall,
            tile.queries, dv, dcontext);
    __syncthreads();
    const bool apart = !T::kOwnKeys && op.dq;
    const Buffer dq = either(apart, op.dq, op.dqkv);
    const auto to = [&](int i) {
        return apart ? packed_query_at(shape, head, row + T::row(i))
                     : query_at(shape, head, row + T::row(i));
    };
    typename T::Sums sums;
    T::clear(sums);
    float lse[T::kRows], along[T::kRows];
    for (int i = 0; i < T::kRows; ++i) {
        const bool inside = T::row(i) < tile.queries;
        lse[i] = inside ? lse_of(op, sample, head, tile.row + T::row(i)) : 0.0F;
        along[i] = along_of(op, sample, head, tile.row + T::row(i), inside,
                            dcontext + T::row(i) * T::kHeadPitch);
        if (continues<T>(op) && inside) T::take_up(dq, to(i), d, i, sums);
    }
    for (std::int64_t run = 0; run < key_runs(part_of<T>(op), keys_of<T>(op)); ++run) {
        const SequenceRun seen = keys_seen<T>(op, tile, run);
        for (std::int64_t key = 0; key < seen.rows; key += T::kWide) {
            const std::int64_t at = (seen.row + key) * columns.width, rest = seen.rows - key;
            typename T::Map map, of_values;
            T::read(kv, at + columns.key, columns.width, T::kWide, rest, d, keys);
            T::read(kv, at + columns.value, columns.width, T::kWide, rest, dv, values);
            __syncthreads();
            T::multiply(queries, keys, d, map);
            T::multiply(dcontext, values, dv, of_values);
            for (int i = 0; i < T::kRows; ++i)
                for (int j = 0; j < T::kPerLane; ++j) {
                    const Score score{sample,
                                      head,
                                      tile.position + T::row(i),
                                      seen.position + key + T::column(j),
                                      lse[i],
                                      along[i],
                                      T::row(i) < tile.queries && T::column(j) < rest};
                    map[i][j] = differentiate<T>(op, score, map[i][j], of_values[i][j]).dscore;
                }
            T::share(map, dscores);
            T::add_product(dscores, keys, sums);
            __syncthreads();
        }
    }
    for (int i = 0; i < T::kRows; ++i)
        if (T::row(i) < tile.queries) T::write(sums, i, 1, d, dq, to(i));
}

// What a tile of keys adds up over the heads and queries that see it.
template <typename T>
struct KeySums {
    typename T::Sums of_keys, of_values;
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

// Queries of the tile that is `queries`: of its head alone, at most T::kWide.
template <typename T>
__device__ void add_queries(const AttentionBackward& op, const KeyTile& tile,
                            const QueryTile& queries, const KeySpace<T>& space, KeySums<T>& sums) {
    const AttentionShape& shape = op.shape;
    const std::int64_t head = queries.head, row = tile.sample * shape.sequence + queries.row;
    const int d = static_cast<int>(shape.head_dim), dv = static_cast<int>(shape.values());
    T::read(op.qkv, query_at(shape, head, row), shape.qkv_width(), T::kWide, queries.queries, d,
            space.queries);
    T::read(op.dcontext, context_at(shape, head, row), shape.context_width(), T::kWide,
            queries.queries, dv, space.dcontext);
    __syncthreads();
    for (int q = T::group(); q < T::kWide; q += kGroups) {
        const bool inside = q < queries.queries;
        const float along = along_of(op, tile.sample, head, queries.row + q, inside,
                                     space.dcontext + q * T::kHeadPitch);
        if (T::lane() > 0) continue;
        space.along[q] = along;
        space.lse[q] = inside ? lse_of(op, tile.sample, head, queries.row + q) : 0.0F;
    }
    __syncthreads();
    typename T::Map map, of_values;
    T::multiply(space.keys, space.queries, d, map);
    T::multiply(space.values, space.dcontext, dv, of_values);
    for (int i = 0; i < T::kRows; ++i)
        for (int j = 0; j < T::kPerLane; ++j) {
            const int q = T::column(j);
            const Score at{tile.sample,
                           head,
                           queries.position + q,
                           tile.position + T::row(i),
                           space.lse[q],
                           space.along[q],
                           q < queries.queries && T::row(i) < tile.keys};
            const Differentiated found = differentiate<T>(op, at, map[i][j], of_values[i][j]);
            map[i][j] = found.probability;
            of_values[i][j] = found.dscore;
        }
    T::share(map, space.probabilities);
    T::share(of_values, space.dscores);
    T::add_product(space.probabilities, space.dcontext, sums.of_values);
    T::add_product(space.dscores, space.queries, sums.of_keys);
    __syncthreads();
}

// Queries of one run and one head, from the first one on that sees a key of the tile.
template <typename T>
__device__ void add_run(const AttentionBackward& op, const KeyTile& tile, std::int64_t head,
                        const SequenceRun& run, const KeySpace<T>& space, KeySums<T>& sums) {
    const std::int64_t end =
        end_of_queries(op.mask, tile.position + tile.keys - 1, run.position + run.rows) -
        run.position;
    const std::int64_t first = tile.position - run.position;
    for (std::int64_t query = first > 0 ? first / T::kWide * T::kWide : 0; query < end;
         query += T::kWide) {
        const std::int64_t rest = run.rows - query;
        add_queries<T>(op, tile,
                       {tile.sample, head, run.position + query, run.row + query,
                        rest < T::kWide ? static_cast<int>(rest) : T::kWide},
                       space, sums);
    }
}

template <typename T>
__device__ void differentiate_keys(const AttentionBackward& op, const KeyTile& tile) {
    const KeySpace<T> space(shared_memory);
    const AttentionShape& shape = op.shape;
    const std::int64_t group = shape.heads / shape.kv_heads;
    const auto [kv, columns] = head_keys<T>(op, tile.kv_head);
    const int d = static_cast<int>(shape.head_dim), dv = static_cast<int>(shape.values());
    const std::int64_t first = tile.row * columns.width;
    T::read(kv, first + columns.key, columns.width, T::kTall, tile.keys, d, space.keys);
    T::read(kv, first + columns.value, columns.width, T::kTall, tile.keys, dv, space.values);
    KeySums<T> sums;
    T::clear(sums.of_keys);
    T::clear(sums.of_values);
    for (std::int64_t head = tile.kv_head * group; head < (tile.kv_head + 1) * group; ++head)
        for (std::int64_t run = 0; run < part_of<T>(op).runs(); ++run)
            add_run<T>(op, tile, head, query_run(part_of<T>(op), shape.sequence, run), space, sums);
    const Buffer dkv = either(static_cast<bool>(keys_of<T>(op).kv), op.dkv, op.dqkv);
    for (int i = 0; i < T::kRows; ++i) {
        if (T::row(i) >= tile.keys) continue;
        const std::int64_t at = first + T::row(i) * columns.width;
        T::write(sums.of_keys, i, 1, d, dkv, at + columns.key);
        T::write(sums.of_values, i, 1, dv, dkv, at + columns.value);
    }
}

template <typename T>
__global__ void __launch_bounds__(kAttentionThreads) query_gradient_kernel(AttentionBackward op) {
    const std::int64_t tiles = op.shape.maps() * query_tiles<T>(op);
    for (std::int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
        differentiate_queries<T>(op, query_tile<T>(op, i));
        __syncthreads();
    }
}

template <typename T>
__global__ void __launch_bounds__(kAttentionThreads) key_gradient_kernel(AttentionBackward op) {
    const std::int64_t tiles = op.shape.batch * op.shape.kv_heads * key_tiles<T>(op);
    for (std::int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
        differentiate_keys<T>(op, key_tile<T>(op, i));
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

void attention_backward(const AttentionBackward& op, ScratchMemory& scratch, cudaStream_t stream) {
    check_types({op.dcontext, op.qkv, op.context, op.lse, op.dqkv, op.keys.kv, op.dq, op.dkv,
                 op.scores.sinks, op.dsinks});
    if (op.scores.sinks)
        launch("attention_backward of sinks", sink_gradient_kernel, {blocks_for(op.shape.heads)},
               stream, op);
    if (attention_backward_on_tensor_cores(op, scratch, stream)) return;
    with_tile("attention_backward", op, [&](auto tile) {
        using T = decltype(tile);
        constexpr std::size_t kShared =
            (2 * T::kTallSize + 2 * T::kWideSize + T::kMapSize) * sizeof(float);
        launch("attention_backward of queries", query_gradient_kernel<T>,
               {blocks_for(op.shape.maps() * query_tiles<T>(op)), kAttentionThreads, kShared},
               stream, op);
        launch("attention_backward of keys", key_gradient_kernel<T>,
               {blocks_for(op.shape.batch * op.shape.kv_heads * key_tiles<T>(op)),
                kAttentionThreads, KeySpace<T>::kSize * sizeof(float)},
               stream, op);
    });
}

}  // namespace orrery::runtime::cuda
