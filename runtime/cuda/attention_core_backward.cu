// Gradients of attention on tensor cores (Dao 2023), by two kernels without a sum that threads of
// different blocks share: of queries by tiles of queries, of keys and values by tiles of keys over
// all query heads of their group. Probabilities are made again from lse; in the second kernel they
// and the gradients of scores are transposed, so that a warp's keys are the rows of its results.
#include <algorithm>

#include "runtime/cuda/attention_core.hpp"
#include "runtime/cuda/attention_core_tile.cuh"
#include "runtime/kernels/elements.hpp"

namespace orrery::runtime::cuda {
namespace {

// Σ over d of dcontext·context of every query, like lse [batch, heads, S]. By eight lanes each.
__global__ void along_kernel(AttentionBackward op, float* along) {
    constexpr int kLanesOfQuery = 8;
    const AttentionShape& shape = op.shape;
    const std::int64_t queries = shape.batch * shape.sequence * shape.heads;
    const std::int64_t values = shape.values();
    const std::int64_t all = (queries * kLanesOfQuery + kWarp - 1) / kWarp * kWarp;
    for (std::int64_t i = first_of_thread(); i < all; i += threads_of_grid()) {
        const std::int64_t query = i / kLanesOfQuery, row = query / shape.heads;
        const std::int64_t head = query % shape.heads;
        float sum = 0;
        if (query < queries)
            for (std::int64_t c = i % kLanesOfQuery; c < values; c += kLanesOfQuery) {
                const std::int64_t at = query * values + c;
                sum = std::fma(load(op.dcontext, at), load(op.context, at), sum);
            }
        sum = over_lanes(sum, kLanesOfQuery, Sum{});
        if (query < queries && i % kLanesOfQuery == 0)
            along[(row / shape.sequence * shape.heads + head) * shape.sequence +
                  row % shape.sequence] = sum;
    }
}

struct DifferentiatedOnCores {
    float probability;  // after dropout
    float dscore;       // not yet times scale
};

// What a query has to say of its scores: −lse in units of log2, and `along`.
struct OfQuery {
    float minus_lse, along;
};

// P = exp(scale·Q·Kᵀ − lse), F = factors of dropout: dS ÷ scale = P∘(F∘(dC·Vᵀ) − dC·C), times the
// slope of the cap.
template <typename T>
__device__ DifferentiatedOnCores differentiate(const AttentionBackward& op, std::int64_t head,
                                               std::int64_t query, std::int64_t key, bool seen,
                                               const OfQuery& of, float product, float dprobability,
                                               float kept) {
    const auto scale = static_cast<float>(op.scale);
    float p = 0, slope = 1;
    if constexpr (T::kPlain) {
        p = exp2f(std::fma(scale * kLog2E, product, of.minus_lse));
    } else {
        const Capped score = score_of(op.scores, op.mask, scale * product, head, query, key);
        p = exp2f(std::fma(kLog2E, score.value, of.minus_lse));
        slope = score.slope;
    }
    if (!seen) p = 0;
    return {p * kept, p * (std::fma(dprobability, kept, -of.along)) * slope};
}

__device__ OfQuery query_facts(const AttentionBackward& op, const float* along, std::int64_t sample,
                               std::int64_t head, std::int64_t row, bool inside) {
    if (!inside) return {-INFINITY, 0};  // its probabilities are 0
    const std::int64_t at = (sample * op.shape.heads + head) * op.shape.sequence + row;
    return {-kLog2E * static_cast<const float*>(op.lse.data)[at], along[at]};
}

// Of one of two kernels: the rows that a block keeps, queries with dcontext or keys with values;
// then those of the other side, of which it takes kStep at a time, in two stages.
template <typename T, int kStep>
struct BackwardSpace {
    using E = typename T::E;
    using Heads = CoreRows<E, T::kDim>;
    using Values = CoreRows<E, T::kValues>;
    static constexpr int kKept = Heads::elements(T::kTall),
                         kKeptValues = Values::elements(T::kTall),
                         kOneStep = Heads::elements(kStep),
                         kOneStepValues = Values::elements(kStep),
                         kFacts = kStep * static_cast<int>(sizeof(OfQuery) / sizeof(E)),
                         kStage = kOneStep + kOneStepValues + kFacts;
    static constexpr std::size_t kSize =
        sizeof(E) * static_cast<std::size_t>(kKept + kKeptValues + 2 * kStage);

    E* space;
    __device__ Heads kept() const { return {space}; }
    __device__ Values kept_values() const { return {space + kKept}; }
    __device__ Heads step(int stage) const {
        return {space + kKept + kKeptValues + stage * kStage};
    }
    __device__ Values step_values(int stage) const { return {step(stage).data + kOneStep}; }
    // Of the queries of the step, where it has any.
    __device__ OfQuery* facts(int stage) const {
        return reinterpret_cast<OfQuery*>(step_values(stage).data + kOneStepValues);
    }
};

// ---- of queries ----

// Products of one row become gradients of its scores.
template <typename T>
__device__ void differentiate_row(const AttentionBackward& op, const QueryTile& tile,
                                  const KeyWalk<T, AttentionBackward>& keys, bool all, int of,
                                  const OfQuery& facts, CoreSums<T::kWide>& map,
                                  const CoreSums<T::kWide>& of_values) {
    const CoreLane lane = core_lane();
    const std::int64_t q = tile.position + lane.row + 8 * of;
    const SeenSpan seen = keys_of_query(op.mask, q, keys.position(), keys.rest(), T::kWide);
    ORRERY_UNROLLED
    for (int n = 0; n < T::kWide / 8; ++n) {
        const int column = 8 * n + lane.column;
        const std::int64_t k = keys.position() + column;
        float kept[2] = {1, 1};
        if constexpr (!T::kPlain)
            if (op.dropout.key) {
                const std::uint64_t index =
                    probability_index(op.dropout, op.shape.sequence * part_of<T>(op).ranks,
                                      tile.sample, tile.head, q, k);
                DropoutFactors factors(op.dropout.key);
                kept[0] = factors.at(index);
                kept[1] = factors.at(index + 1);
            }
        float& first = map[n][2 * of];
        float& second = map[n][2 * of + 1];
        first = differentiate<T>(op, tile.head, q, k, all || seen.has(column), facts, first,
                                 of_values[n][2 * of], kept[0])
                    .dscore;
        second = differentiate<T>(op, tile.head, q, k + 1, all || seen.has(column + 1), facts,
                                  second, of_values[n][2 * of + 1], kept[1])
                     .dscore;
    }
}

template <typename T>
__device__ void differentiate_queries(const AttentionBackward& op, const float* along,
                                      const QueryTile& tile) {
    const BackwardSpace<T, T::kWide> space{reinterpret_cast<typename T::E*>(shared_memory)};
    const AttentionShape& shape = op.shape;
    const std::int64_t row = tile.sample * shape.sequence + tile.row;
    const HeadKeys head_kv = head_keys<T>(op, tile.head / (shape.heads / shape.kv_heads));
    const int d = static_cast<int>(shape.head_dim), dv = static_cast<int>(shape.values());
    const CoreLane lane = core_lane();

    KeyWalk<T, AttentionBackward> walk;
    bool more = walk.advance(op, tile);
    const auto copy_step = [&](int stage) {
        copy_keys<T>(head_kv, walk, shape, space.step(stage), space.step_values(stage));
    };
    space.kept().copy_from(op.qkv, query_at(shape, tile.head, row), shape.qkv_width(), T::kTall,
                           tile.queries, d);
    space.kept_values().copy_from(op.dcontext, context_at(shape, tile.head, row),
                                  shape.context_width(), T::kTall, tile.queries, dv);
    if (more) copy_step(0);
    end_group_of_copies();

    OfQuery facts[2];
    ORRERY_UNROLLED
    for (int of = 0; of < 2; ++of) {
        const int r = lane.row + 8 * of;
        facts[of] = query_facts(op, along, tile.sample, tile.head, tile.row + r, r < tile.queries);
    }
    CoreSums<T::kDim> sums;
    clear<T::kDim>(sums);
    for (int stage = 0; more; stage ^= 1) {
        wait_for_copies<0>();
        __syncthreads();  // the step is there, and the one before is done with
        const KeyWalk<T, AttentionBackward> keys = walk;
        more = walk.advance(op, tile);
        if (more) copy_step(stage ^ 1);
        end_group_of_copies();
        CoreSums<T::kWide> map, of_values;
        multiply<T::kWide>(space.kept(), first_row_of_warp(), space.step(stage), map);
        multiply<T::kWide>(space.kept_values(), first_row_of_warp(), space.step_values(stage),
                           of_values);
        const bool all = keys.rest() >= T::kWide &&
                         all_seen(op.mask, tile.position, tile.position + T::kTall - 1,
                                  keys.position(), T::kWide);
        ORRERY_UNROLLED
        for (int of = 0; of < 2; ++of)
            differentiate_row<T>(op, tile, keys, all, of, facts[of], map, of_values);
        add_product<T::kWide>(map, space.step(stage), sums);
    }
    wait_for_copies<0>();
    const bool apart = !T::kOwnKeys && op.dq;
    const Buffer dq = either(apart, op.dq, op.dqkv);
    const auto scale = static_cast<float>(op.scale);
    ORRERY_UNROLLED
    for (int of = 0; of < 2; ++of) {
        const int r = lane.row + 8 * of;
        if (r >= tile.queries) continue;
        const std::int64_t to = apart ? packed_query_at(shape, tile.head, row + r)
                                      : query_at(shape, tile.head, row + r);
        if (!continues<T>(op)) {
            write_row<typename T::E, T::kDim>(sums, of, scale, d, dq, to);
            continue;
        }
        ORRERY_UNROLLED
        for (int n = 0; n < T::kDim / 8; ++n)
            for (int j = 0; j < 2 && 8 * n < d; ++j) {
                const std::int64_t at = to + 8 * n + lane.column + j;
                store(dq, at, std::fma(scale, sums[n][2 * of + j], load(dq, at)));
            }
    }
}

template <typename T>
__global__ void __launch_bounds__(kCoreThreads)
    query_gradient_core_kernel(AttentionBackward op, const float* along) {
    const std::int64_t tiles = op.shape.maps() * query_tiles<T>(op);
    for (std::int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
        differentiate_queries<T>(op, along, query_tile<T>(op, i));
        __syncthreads();
    }
}

// ---- of keys and values ----

// Queries of a step: with two sums for each key there is room for fewer.
template <typename T>
inline constexpr int kQueryStep = T::kDim > 64 ? 32 : 64;

// Steps through the queries of a group's heads that see a tile of keys.
template <typename T>
struct QueryWalk {
    std::int64_t head, last_head, run = -1, query = 0, end = 0;
    SequenceRun of_run{0, 0, 0};

    __device__ QueryWalk(std::int64_t first, std::int64_t heads)
        : head(first), last_head(first + heads - 1) {}

    __device__ bool advance(const AttentionBackward& op, const KeyTile& tile) {
        query += kQueryStep<T>;
        while (query >= end) {
            if (++run == part_of<T>(op).runs()) {
                if (head == last_head) return false;
                run = 0;
                ++head;
            }
            of_run = query_run(part_of<T>(op), op.shape.sequence, run);
            const std::int64_t first = tile.position - of_run.position;
            query = first > 0 ? first / kQueryStep<T> * kQueryStep<T> : 0;
            end = end_of_queries(op.mask, tile.position + tile.keys - 1,
                                 of_run.position + of_run.rows) -
                  of_run.position;
        }
        return true;
    }
    __device__ std::int64_t position() const { return of_run.position + query; }
    __device__ std::int64_t row() const { return of_run.row + query; }  // of the sample's
    __device__ std::int64_t rest() const { return of_run.rows - query; }
};

// Products of one key's row become probabilities and gradients of scores.
template <typename T>
__device__ void differentiate_key(const AttentionBackward& op, const KeyTile& tile,
                                  const QueryWalk<T>& queries, bool all, int of,
                                  const OfQuery* facts, CoreSums<kQueryStep<T>>& map,
                                  CoreSums<kQueryStep<T>>& of_values) {
    const CoreLane lane = core_lane();
    const std::int64_t k = tile.position + lane.row + 8 * of;
    const SeenSpan seen = queries_of_key(op.mask, k, queries.position(), kQueryStep<T>);
    ORRERY_UNROLLED
    for (int n = 0; n < kQueryStep<T> / 8; ++n)
        ORRERY_UNROLLED
    for (int j = 0; j < 2; ++j) {
        const int column = 8 * n + lane.column + j;
        const std::int64_t q = queries.position() + column;
        float kept = 1;
        if constexpr (!T::kPlain)
            kept = probability_factor(op.dropout, op.shape.sequence * part_of<T>(op).ranks,
                                      tile.sample, queries.head, q, k);
        float& score = map[n][2 * of + j];
        float& of_value = of_values[n][2 * of + j];
        const DifferentiatedOnCores found = differentiate<T>(
            op, queries.head, q, k, all || seen.has(column), facts[column], score, of_value, kept);
        score = found.probability;
        of_value = found.dscore;
    }
}

template <typename T>
__device__ void differentiate_keys(const AttentionBackward& op, const float* along,
                                   const KeyTile& tile) {
    constexpr int kStep = kQueryStep<T>;
    const BackwardSpace<T, kStep> space{reinterpret_cast<typename T::E*>(shared_memory)};
    const AttentionShape& shape = op.shape;
    const std::int64_t group = shape.heads / shape.kv_heads;
    const auto [kv, columns] = head_keys<T>(op, tile.kv_head);
    const int d = static_cast<int>(shape.head_dim), dv = static_cast<int>(shape.values());
    const std::int64_t first = tile.row * columns.width;

    QueryWalk<T> walk(tile.kv_head * group, group);
    bool more = walk.advance(op, tile);
    const auto copy_queries = [&](int stage) {
        const std::int64_t row = tile.sample * shape.sequence + walk.row();
        space.step(stage).copy_from(op.qkv, query_at(shape, walk.head, row), shape.qkv_width(),
                                    kStep, walk.rest(), d);
        space.step_values(stage).copy_from(op.dcontext, context_at(shape, walk.head, row),
                                           shape.context_width(), kStep, walk.rest(), dv);
    };
    const int me = static_cast<int>(threadIdx.x);
    const auto next_facts = [&] {
        return query_facts(op, along, tile.sample, walk.head, walk.row() + me,
                           more && me < walk.rest());
    };
    space.kept().copy_from(kv, first + columns.key, columns.width, T::kTall, tile.keys, d);
    space.kept_values().copy_from(kv, first + columns.value, columns.width, T::kTall, tile.keys,
                                  dv);
    if (more) copy_queries(0);
    end_group_of_copies();
    if (me < kStep) space.facts(0)[me] = next_facts();

    CoreSums<T::kDim> of_keys;
    CoreSums<T::kValues> of_values;
    clear<T::kDim>(of_keys);
    clear<T::kValues>(of_values);
    for (int stage = 0; more; stage ^= 1) {
        wait_for_copies<0>();
        __syncthreads();  // the step is there, and the one before is done with
        const QueryWalk<T> queries = walk;
        more = walk.advance(op, tile);
        if (more) copy_queries(stage ^ 1);
        end_group_of_copies();
        OfQuery facts{};
        if (me < kStep) facts = next_facts();
        CoreSums<kStep> map, of_products;
        multiply<kStep>(space.kept(), first_row_of_warp(), space.step(stage), map);
        multiply<kStep>(space.kept_values(), first_row_of_warp(), space.step_values(stage),
                        of_products);
        const bool all = all_seen(op.mask, queries.position(), queries.position() + kStep - 1,
                                  tile.position, T::kTall);
        ORRERY_UNROLLED
        for (int of = 0; of < 2; ++of)
            differentiate_key<T>(op, tile, queries, all, of, space.facts(stage), map, of_products);
        add_product<kStep>(map, space.step_values(stage), of_values);
        add_product<kStep>(of_products, space.step(stage), of_keys);
        if (me < kStep) space.facts(stage ^ 1)[me] = facts;
    }
    wait_for_copies<0>();
    const Buffer dkv = either(static_cast<bool>(keys_of<T>(op).kv), op.dkv, op.dqkv);
    const CoreLane lane = core_lane();
    ORRERY_UNROLLED
    for (int of = 0; of < 2; ++of) {
        const int r = lane.row + 8 * of;
        if (r >= tile.keys) continue;
        const std::int64_t at = first + r * columns.width;
        write_row<typename T::E, T::kDim>(of_keys, of, static_cast<float>(op.scale), d, dkv,
                                          at + columns.key);
        write_row<typename T::E, T::kValues>(of_values, of, 1, dv, dkv, at + columns.value);
    }
}

template <typename T>
__global__ void __launch_bounds__(kCoreThreads)
    key_gradient_core_kernel(AttentionBackward op, const float* along) {
    const std::int64_t tiles = op.shape.batch * op.shape.kv_heads * key_tiles<T>(op);
    for (std::int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
        differentiate_keys<T>(op, along, key_tile<T>(op, i));
        __syncthreads();
    }
}

}  // namespace

bool attention_backward_on_tensor_cores(const AttentionBackward& op, ScratchMemory& scratch,
                                        cudaStream_t stream) {
    if (!fits_tensor_cores(op.shape, op.qkv, op.keys.kv) || op.dcontext.dtype != op.qkv.dtype ||
        !lies_for_tensor_cores(op.dcontext))
        return false;
    constexpr int kWidest = 192;  // a lane holds two sums of 16 keys
    return with_core_tile<kWidest>(op, [&](auto tile) {
        using T = decltype(tile);
        constexpr std::size_t kOfQueries = BackwardSpace<T, T::kWide>::kSize,
                              kOfKeys = BackwardSpace<T, kQueryStep<T>>::kSize;
        if (!has_shared_memory(std::max(kOfQueries, kOfKeys))) return false;
        const AttentionShape& shape = op.shape;
        const std::int64_t queries = shape.maps() * shape.sequence;
        auto* const along = scratch.numbers<float>(queries);
        launch("attention_backward of rows", along_kernel, {blocks_of_threads(queries * 8)}, stream,
               op, along);
        const auto* const known = static_cast<const float*>(along);
        launch("attention_backward of queries", query_gradient_core_kernel<T>,
               {blocks_for(shape.maps() * query_tiles<T>(op)), kCoreThreads, kOfQueries}, stream,
               op, known);
        launch("attention_backward of keys", key_gradient_core_kernel<T>,
               {blocks_for(shape.batch * shape.kv_heads * key_tiles<T>(op)), kCoreThreads, kOfKeys},
               stream, op, known);
        return true;
    });
}

}  // namespace orrery::runtime::cuda
