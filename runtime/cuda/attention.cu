// Forward attention (Dao 2022): a block per tile of queries of a head goes over the keys that they
// see, with running softmax. Where other ranks hold keys, over those that are there, from the
// result of the keys before.
#include "runtime/cuda/attention_core.hpp"
#include "runtime/cuda/attention_tile.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/kernels/softmax_rules.hpp"

namespace orrery::runtime::cuda {
namespace {

// Keys in a row in the sequence: positions of the first one, and of what follows the last one.
struct KeySpan {
    std::int64_t first, end;
};

// Scores become exp(score − largest) times what dropout makes of them; sums so far are scaled.
template <typename T>
__device__ void add_scores(const Attention& op, const QueryTile& tile, const KeySpan& keys,
                           typename T::Map& map, RunningSum (&running)[T::kRows],
                           typename T::Sums& sums) {
    const auto scale = static_cast<float>(op.scale);
    const std::int64_t length = op.shape.sequence * part_of<T>(op).ranks;
    for (int i = 0; i < T::kRows; ++i) {
        const std::int64_t q = tile.position + T::row(i);
        const auto seen = [&](int j) {
            const std::int64_t k = keys.first + T::column(j);
            return T::row(i) < tile.queries && (T::kOwnKeys || k < keys.end) && sees(op.mask, q, k);
        };
        float largest = RunningSum{}.largest;
        for (int j = 0; j < T::kPerLane; ++j) {
            const std::int64_t k = keys.first + T::column(j);
            map[i][j] = score_of(op.scores, op.mask, scale * map[i][j], tile.head, q, k).value;
            if (seen(j)) largest = Largest{}(largest, map[i][j]);
        }
        const float factor = raise_largest(running[i], over_lanes(largest, kLanes, Largest{}));
        float sum = 0;
        for (int j = 0; j < T::kPerLane; ++j) {
            const float e = seen(j) ? std::exp(map[i][j] - running[i].largest) : 0.0F;
            sum += e;
            map[i][j] = e * probability_factor(op.dropout, length, tile.sample, tile.head, q,
                                               keys.first + T::column(j));
        }
        running[i].sum += over_lanes(sum, kLanes, Sum{});
        for (int c = 0; c < T::kColumns; ++c)
            sums[i][c] *= factor;
    }
}

// What is known of a row counts as one score, its lse, whose value is the context so far.
template <typename T>
__device__ void take_up(const Attention& op, const QueryTile& tile, const float* lse,
                        RunningSum (&running)[T::kRows], typename T::Sums& sums) {
    const std::int64_t row = tile.sample * op.shape.sequence + tile.row;
    for (int i = 0; i < T::kRows; ++i) {
        if (T::row(i) >= tile.queries) continue;
        running[i] = {lse[T::row(i)], 1};
        T::take_up(op.sums, context_at(op.shape, tile.head, row + T::row(i)),
                   static_cast<int>(op.shape.values()), i, sums);
    }
    __syncwarp();  // lse is overwritten by one thread of a row's, perhaps without a key between
}

template <typename T>
__device__ void attend(const Attention& op, const QueryTile& tile) {
    float* const queries = shared_memory;
    float* const keys = queries + T::kTallSize;  // then values
    float* const weights = keys + T::kWideSize;
    const AttentionShape& shape = op.shape;
    const std::int64_t row = tile.sample * shape.sequence + tile.row;
    const auto [kv, columns] = head_keys<T>(op, tile.head / (shape.heads / shape.kv_heads));
    const int d = static_cast<int>(shape.head_dim), dv = static_cast<int>(shape.values());
    auto* const lse = static_cast<float*>(op.lse.data) +
                      (tile.sample * shape.heads + tile.head) * shape.sequence + tile.row;
    T::read(op.qkv, query_at(shape, tile.head, row), shape.qkv_width(), T::kTall, tile.queries, d,
            queries);
    RunningSum running[T::kRows];
    for (RunningSum& of_row : running)
        of_row = sum_before_keys(op.scores, tile.head);
    typename T::Sums sums;
    T::clear(sums);
    if (continues<T>(op)) take_up<T>(op, tile, lse, running, sums);
    for (std::int64_t run = 0; run < key_runs(part_of<T>(op), keys_of<T>(op)); ++run) {
        const SequenceRun seen = keys_seen<T>(op, tile, run);
        for (std::int64_t key = 0; key < seen.rows; key += T::kWide) {
            const std::int64_t at = (seen.row + key) * columns.width, rest = seen.rows - key;
            typename T::Map map;
            T::read(kv, at + columns.key, columns.width, T::kWide, rest, d, keys);
            __syncthreads();
            T::multiply(queries, keys, d, map);
            add_scores<T>(op, tile, {seen.position + key, seen.position + seen.rows}, map, running,
                          sums);
            __syncthreads();
            T::read(kv, at + columns.value, columns.width, T::kWide, rest, dv, keys);
            T::share(map, weights);
            __syncthreads();
            T::add_product(weights, keys, sums);
            __syncthreads();
        }
    }
    const Buffer to = either(T::kOwnKeys || op.ends, op.context, op.sums);
    for (int i = 0; i < T::kRows; ++i) {
        if (T::row(i) >= tile.queries) continue;
        T::write(sums, i, 1 / running[i].sum, dv, to,
                 context_at(shape, tile.head, row + T::row(i)));
        if (T::lane() == 0) lse[T::row(i)] = log_sum_exp(running[i]);
    }
}

template <typename T>
__global__ void __launch_bounds__(kAttentionThreads) attention_kernel(Attention op) {
    const std::int64_t tiles = op.shape.maps() * query_tiles<T>(op);
    for (std::int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
        attend<T>(op, query_tile<T>(op, i));
        __syncthreads();
    }
}

}  // namespace

void attention(const Attention& op, cudaStream_t stream) {
    check_types({op.qkv, op.context, op.lse, op.keys.kv, op.sums, op.scores.sinks});
    if (attention_on_tensor_cores(op, stream)) return;
    with_tile("attention", op, [&](auto tile) {
        using T = decltype(tile);
        const std::size_t shared = (T::kTallSize + T::kWideSize + T::kMapSize) * sizeof(float);
        launch("attention", attention_kernel<T>,
               {blocks_for(op.shape.maps() * query_tiles<T>(op)), kAttentionThreads, shared},
               stream, op);
    });
}

}  // namespace orrery::runtime::cuda
