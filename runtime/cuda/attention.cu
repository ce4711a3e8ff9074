// Forward attention (Dao 2022): a block per tile of queries of a head goes over the keys that they
// see, with running softmax.
#include "runtime/cuda/attention_tile.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/kernels/softmax_rules.hpp"

namespace orrery::runtime::cuda {
namespace {

struct QueryTile {
    std::int64_t sample, head, query;  // first one
};

// Scores become exp(score − largest) times what dropout makes of them; sums so far are scaled.
template <typename T>
__device__ void add_scores(const Attention& op, const QueryTile& tile, std::int64_t key,
                           typename T::Map& map, RunningSum (&running)[T::kRows],
                           typename T::Sums& sums) {
    const auto scale = static_cast<float>(op.scale);
    for (int i = 0; i < T::kRows; ++i) {
        const std::int64_t q = tile.query + T::row(i);
        const auto seen = [&](int j) {
            return q < op.shape.sequence && sees(op.mask, q, key + T::column(j));
        };
        float largest = RunningSum{}.largest;
        for (int j = 0; j < T::kPerLane; ++j) {
            const std::int64_t k = key + T::column(j);
            map[i][j] = score_of(op.scores, op.mask, scale * map[i][j], tile.head, q, k).value;
            if (seen(j)) largest = Largest{}(largest, map[i][j]);
        }
        const float factor = raise_largest(running[i], over_lanes(largest, kLanes, Largest{}));
        float sum = 0;
        for (int j = 0; j < T::kPerLane; ++j) {
            const float e = seen(j) ? std::exp(map[i][j] - running[i].largest) : 0.0F;
            sum += e;
            map[i][j] = e * probability_factor(op.dropout, op.shape.sequence, tile.sample,
                                               tile.head, q, key + T::column(j));
        }
        running[i].sum += over_lanes(sum, kLanes, Sum{});
        for (int c = 0; c < T::kColumns; ++c)
            sums[i][c] *= factor;
    }
}

template <typename T>
__device__ void attend(const Attention& op, const QueryTile& tile) {
    float* const queries = shared_memory;
    float* const keys = queries + T::kTallSize;  // then values
    float* const weights = keys + T::kWideSize;
    const AttentionShape& shape = op.shape;
    const std::int64_t s = shape.sequence, row = tile.sample * s, width = shape.qkv_width();
    const std::int64_t kv_head = tile.head / (shape.heads / shape.kv_heads);
    const int d = static_cast<int>(shape.head_dim), dv = static_cast<int>(shape.values());
    T::read(op.qkv, query_at(shape, tile.head, row + tile.query), width, T::kTall, s - tile.query,
            d, queries);
    RunningSum running[T::kRows];
    for (RunningSum& of_row : running)
        of_row = sum_before_keys(op.scores, tile.head);
    typename T::Sums sums;
    T::clear(sums);
    const std::int64_t end = tile.query + T::kTall < s ? tile.query + T::kTall : s;
    for (std::int64_t key = first_key_of(op.mask, tile.query) / T::kWide * T::kWide; key < end;
         key += T::kWide) {
        typename T::Map map;
        T::read(op.qkv, key_at(shape, kv_head, row + key), width, T::kWide, s - key, d, keys);
        __syncthreads();
        T::multiply(queries, keys, d, map);
        add_scores<T>(op, tile, key, map, running, sums);
        __syncthreads();
        T::read(op.qkv, value_at(shape, kv_head, row + key), width, T::kWide, s - key, dv, keys);
        T::share(map, weights);
        __syncthreads();
        T::add_product(weights, keys, sums);
        __syncthreads();
    }
    auto* const lse =
        static_cast<float*>(op.lse.data) + (tile.sample * shape.heads + tile.head) * s;
    for (int i = 0; i < T::kRows; ++i) {
        const std::int64_t q = tile.query + T::row(i);
        if (q >= s) continue;
        T::write(sums, i, 1 / running[i].sum, dv, op.context,
                 context_at(shape, tile.head, row + q));
        if (T::lane() == 0) lse[q] = log_sum_exp(running[i]);
    }
}

template <typename T>
__global__ void __launch_bounds__(kAttentionThreads) attention_kernel(Attention op) {
    const std::int64_t per_map = (op.shape.sequence + T::kTall - 1) / T::kTall;
    for (std::int64_t i = blockIdx.x; i < op.shape.maps() * per_map; i += gridDim.x) {
        const std::int64_t map = i / per_map;
        attend<T>(op, {map / op.shape.heads, map % op.shape.heads, i % per_map * T::kTall});
        __syncthreads();
    }
}

}  // namespace

void attention(const Attention& op, cudaStream_t stream) {
    with_tile("attention", op.shape, [&](auto tile) {
        using T = decltype(tile);
        const std::size_t shared = (T::kTallSize + T::kWideSize + T::kMapSize) * sizeof(float);
        launch("attention", attention_kernel<T>,
               {blocks_for(op.shape.maps() * tiles_of(op.shape.sequence, T::kTall)),
                kAttentionThreads, shared},
               stream, op);
    });
}

}  // namespace orrery::runtime::cuda
