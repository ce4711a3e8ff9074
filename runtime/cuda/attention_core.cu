// Forward attention on tensor cores: a warp has 16 queries, and its block goes over the keys that
// its queries see, with running softmax (Dao 2022, 2023). While one tile of keys and values is
// worked on, the next one is copied.
#include "runtime/cuda/attention_core.hpp"
#include "runtime/cuda/attention_core_tile.cuh"
#include "runtime/kernels/softmax_rules.hpp"

namespace orrery::runtime::cuda {
namespace {

// Queries, then keys and values in two stages.
template <typename T>
struct ForwardSpace {
    using E = typename T::E;
    using Heads = CoreRows<E, T::kDim>;
    using Values = CoreRows<E, T::kValues>;
    static constexpr int kQueries = Heads::elements(T::kTall), kKeys = Heads::elements(T::kWide),
                         kHeadValues = Values::elements(T::kWide);
    static constexpr std::size_t kSize =
        sizeof(E) * static_cast<std::size_t>(kQueries + 2 * (kKeys + kHeadValues));

    E* space;
    __device__ Heads queries() const { return {space}; }
    __device__ Heads keys(int stage) const {
        return {space + kQueries + stage * (kKeys + kHeadValues)};
    }
    __device__ Values values(int stage) const { return {keys(stage).data + kKeys}; }
};

// Of a lane's two rows `largest` is of scores as they are exponentiated: exp2(score · to_log2 − …);
// the sum is of the lane's own columns until the end.

// What scores are multiplied by on their way into exp2: plain ones come without their scale.
template <typename T>
__device__ float to_log2(const Attention& op) {
    return T::kPlain ? static_cast<float>(op.scale) * kLog2E : kLog2E;
}

// A row of products becomes exp(score − largest); what is summed up so far is scaled.
template <typename T>
__device__ void add_row(const Attention& op, const QueryTile& tile,
                        const KeyWalk<T, Attention>& keys, bool all, int of,
                        CoreSums<T::kWide>& map, RunningSum& running, CoreSums<T::kValues>& sums) {
    const CoreLane lane = core_lane();
    const std::int64_t q = tile.position + lane.row + 8 * of;
    const float unit = to_log2<T>(op);
    const SeenSpan seen = keys_of_query(op.mask, q, keys.position(), keys.rest(), T::kWide);
    float largest = running.largest;
    ORRERY_UNROLLED
    for (int n = 0; n < T::kWide / 8; ++n)
        ORRERY_UNROLLED
    for (int j = 0; j < 2; ++j) {
        float& score = map[n][2 * of + j];
        const int column = 8 * n + lane.column + j;
        if constexpr (!T::kPlain)
            score = score_of(op.scores, op.mask, static_cast<float>(op.scale) * score, tile.head, q,
                             keys.position() + column)
                        .value;
        if (!all && !seen.has(column)) score = RunningSum{}.largest;
        largest = Largest{}(largest, score);
    }
    largest = over_lanes(largest, 4, Largest{});
    // Nothing is seen yet where it is −∞, and ∞ − ∞ is not a number.
    const float base = largest > RunningSum{}.largest ? unit * largest : 0.0F;
    const float factor = exp2f(std::fma(unit, running.largest, -base));
    running.largest = largest;
    float sum = running.sum * factor;
    ORRERY_UNROLLED
    for (int n = 0; n < T::kWide / 8; ++n) {
        float& first = map[n][2 * of];
        float& second = map[n][2 * of + 1];
        first = exp2f(std::fma(unit, first, -base));
        second = exp2f(std::fma(unit, second, -base));
        sum += first + second;
        if constexpr (!T::kPlain)
            if (op.dropout.key) {
                const std::uint64_t index = probability_index(
                    op.dropout, op.shape.sequence * part_of<T>(op).ranks, tile.sample, tile.head, q,
                    keys.position() + 8 * n + lane.column);
                DropoutFactors factors(op.dropout.key);
                first *= factors.at(index);
                second *= factors.at(index + 1);
            }
    }
    running.sum = sum;
    ORRERY_UNROLLED
    for (int n = 0; n < T::kValues / 8; ++n) {
        sums[n][2 * of] *= factor;
        sums[n][2 * of + 1] *= factor;
    }
}

// What is known of a row counts as one score, its lse, whose value is the context so far.
template <typename T>
__device__ void take_up_row(const Attention& op, const QueryTile& tile, int of, float lse,
                            RunningSum& running, CoreSums<T::kValues>& sums) {
    const CoreLane lane = core_lane();
    running = {lse, lane.column == 0 ? 1.0F : 0.0F};
    const std::int64_t first =
        context_at(op.shape, tile.head,
                   tile.sample * op.shape.sequence + tile.row + lane.row + 8 * of) +
        lane.column;
    ORRERY_UNROLLED
    for (int n = 0; n < T::kValues / 8; ++n)
        if (8 * n < op.shape.values()) {
            sums[n][2 * of] = load(op.sums, first + 8 * n);
            sums[n][2 * of + 1] = load(op.sums, first + 8 * n + 1);
        }
}

template <typename T>
__device__ void attend_on_cores(const Attention& op, const QueryTile& tile) {
    const ForwardSpace<T> space{reinterpret_cast<typename T::E*>(shared_memory)};
    const AttentionShape& shape = op.shape;
    const std::int64_t row = tile.sample * shape.sequence + tile.row;
    const HeadKeys head_kv = head_keys<T>(op, tile.head / (shape.heads / shape.kv_heads));
    const int d = static_cast<int>(shape.head_dim), dv = static_cast<int>(shape.values());
    auto* const lse = static_cast<float*>(op.lse.data) +
                      (tile.sample * shape.heads + tile.head) * shape.sequence + tile.row;
    const CoreLane lane = core_lane();

    KeyWalk<T, Attention> walk;
    bool more = walk.advance(op, tile);
    const auto copy_step = [&](int stage) {
        copy_keys<T>(head_kv, walk, shape, space.keys(stage), space.values(stage));
    };
    space.queries().copy_from(op.qkv, query_at(shape, tile.head, row), shape.qkv_width(), T::kTall,
                              tile.queries, d);
    if (more) copy_step(0);
    end_group_of_copies();

    RunningSum running[2];
    CoreSums<T::kValues> sums;
    clear<T::kValues>(sums);
    ORRERY_UNROLLED
    for (int of = 0; of < 2; ++of) {
        running[of] = sum_before_keys(op.scores, tile.head);
        if (lane.column > 0) running[of].sum = 0;
        if (continues<T>(op) && lane.row + 8 * of < tile.queries)
            take_up_row<T>(op, tile, of, lse[lane.row + 8 * of], running[of], sums);
    }
    for (int stage = 0; more; stage ^= 1) {
        wait_for_copies<0>();
        __syncthreads();  // the tile is there, and the one before is done with
        const KeyWalk<T, Attention> keys = walk;
        more = walk.advance(op, tile);
        if (more) copy_step(stage ^ 1);
        end_group_of_copies();
        CoreSums<T::kWide> map;
        multiply<T::kWide>(space.queries(), first_row_of_warp(), space.keys(stage), map);
        const bool all = keys.rest() >= T::kWide &&
                         all_seen(op.mask, tile.position, tile.position + T::kTall - 1,
                                  keys.position(), T::kWide);
        ORRERY_UNROLLED
        for (int of = 0; of < 2; ++of)
            add_row<T>(op, tile, keys, all, of, map, running[of], sums);
        add_product<T::kWide>(map, space.values(stage), sums);
    }
    wait_for_copies<0>();
    const Buffer to = either(T::kOwnKeys || op.ends, op.context, op.sums);
    __syncwarp();  // lse is overwritten by one lane of a row's, perhaps without a key between
    ORRERY_UNROLLED
    for (int of = 0; of < 2; ++of) {
        RunningSum& whole = running[of];
        whole.sum = over_lanes(whole.sum, 4, Sum{});
        const int r = lane.row + 8 * of;
        if (r >= tile.queries) continue;
        write_row<typename T::E, T::kValues>(sums, of, 1 / whole.sum, dv, to,
                                             context_at(shape, tile.head, row + r));
        if (T::kPlain) whole.largest *= static_cast<float>(op.scale);
        if (lane.column == 0) lse[r] = log_sum_exp(whole);
    }
}

template <typename T>
__global__ void __launch_bounds__(kCoreThreads) attention_core_kernel(Attention op) {
    const std::int64_t tiles = op.shape.maps() * query_tiles<T>(op);
    for (std::int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
        attend_on_cores<T>(op, query_tile<T>(op, i));
        __syncthreads();
    }
}

}  // namespace

bool attention_on_tensor_cores(const Attention& op, cudaStream_t stream) {
    if (!fits_tensor_cores(op.shape, op.qkv, op.keys.kv)) return false;
    constexpr int kWidest = 256;
    return with_core_tile<kWidest>(op, [&](auto tile) {
        using T = decltype(tile);
        if (!has_shared_memory(ForwardSpace<T>::kSize)) return false;
        launch("attention", attention_core_kernel<T>,
               {blocks_for(op.shape.maps() * query_tiles<T>(op)), kCoreThreads,
                ForwardSpace<T>::kSize},
               stream, op);
        return true;
    });
}

}  // namespace orrery::runtime::cuda
