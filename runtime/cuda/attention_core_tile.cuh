// Flash attention on tensor cores, for 16-bit elements: tiles of rows of a head in shared memory,
// and 16 rows of one times another by a warp, whose results stay in registers as
// tensor_core_ptx.cuh says. What is multiplied again, probabilities and gradients of scores, is
// rounded to the elements' type first (Dao 2023, FlashAttention-2, arXiv 2307.08691); sums are of
// fp32.
#pragma once

#include <cstddef>
#include <type_traits>

#include "runtime/cuda/attention_walk.cuh"
#include "runtime/cuda/tensor_core_ptx.cuh"

namespace orrery::runtime::cuda {

inline constexpr int kCoreWarps = 4;
inline constexpr int kCoreThreads = kCoreWarps * kWarp;
inline constexpr int kRowsOfWarp = 16;
inline constexpr float kLog2E = 1.4426950408889634F;

// Heads are padded with zeros to kDim elements, their values to kValues. kPlain: scores are scaled,
// and nothing else is done to them, all keys lie in qkv.
template <typename Element, int kHead, int kHeadValues, bool kPlainScores>
struct CoreTile {
    using E = Element;
    static constexpr int kDim = kHead, kValues = kHeadValues;
    static constexpr bool kPlain = kPlainScores, kOwnKeys = kPlainScores;
    static constexpr int kTall = kCoreWarps * kRowsOfWarp;
    static constexpr int kWide = kDim <= 192 ? 64 : 32;
};

// Rows of kColumns elements in shared memory. 16 bytes more than a power of two: eight rows that
// are read at once lie in different banks.
template <typename E, int kColumns>
struct CoreRows {
    static constexpr int kPitch = kColumns + 8;
    static constexpr int elements(int rows) { return rows * kPitch; }

    E* data;

    // Of a head of `width` elements, `stride` from row to row; the rows from `valid` on are 0.
    // There after wait_for_copies and a barrier.
    __device__ void copy_from(const Buffer& from, std::int64_t first, std::int64_t stride, int rows,
                              std::int64_t valid, int width) const {
        constexpr int kAtOnce = 16 / sizeof(E), kPieces = kColumns / kAtOnce;
        // Threads of a row, and rows at a time; 192 columns leave some threads without any.
        constexpr int kRowsAtOnce = kCoreThreads / kPieces;
        const int c = static_cast<int>(threadIdx.x) % kPieces * kAtOnce;
        const int r = static_cast<int>(threadIdx.x) / kPieces;
        if (r >= kRowsAtOnce) return;
        const E* source = static_cast<const E*>(from.data) + first;
        const E* row = source + r * stride + c;
        int left = static_cast<int>(valid < rows ? valid : rows) - r;
        if (c >= width) left = 0;
        E* to = data + r * kPitch + c;
        for (int i = r; i < rows; i += kRowsAtOnce) {
            copy_16_bytes(to, left > 0 ? row : source, left > 0);
            row += kRowsAtOnce * stride;
            to += kRowsAtOnce * kPitch;
            left -= kRowsAtOnce;
        }
    }

    // 16 rows and columns, as the left operand.
    __device__ void left(int row, int column, std::uint32_t (&a)[4]) const {
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
        load_matrices(a, data + (row + lane % 16) * kPitch + column + lane / 16 * 8);
    }
    // 16 rows and columns, transposed, as two right operands of 8 columns, which are these rows.
    __device__ void right_of_rows(int row, int column, std::uint32_t (&b)[4]) const {
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
        load_matrices(b,
                      data + (row + lane % 8 + lane / 16 * 8) * kPitch + column + lane / 8 % 2 * 8);
    }
    // As they lie, as two right operands of 8 columns.
    __device__ void right(int row, int column, std::uint32_t (&b)[4]) const {
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
        load_transposed(b, data + (row + lane % 16) * kPitch + column + lane / 16 * 8);
    }
};

// 16 rows of a warp, in pieces of 8 columns.
template <int kColumns>
using CoreSums = float[kColumns / 8][4];

template <int kColumns>
__device__ void clear(CoreSums<kColumns>& sums) {
    ORRERY_UNROLLED
    for (int n = 0; n < kColumns / 8; ++n)
        ORRERY_UNROLLED
    for (int i = 0; i < 4; ++i)
        sums[n][i] = 0;
}

// map = 16 rows of `tall`, from `row` on, · the rows of `wide`, transposed.
template <int kRows, typename E, int kColumns>
__device__ void multiply(const CoreRows<E, kColumns>& tall, int row,
                         const CoreRows<E, kColumns>& wide, CoreSums<kRows>& map) {
    clear<kRows>(map);
    ORRERY_UNROLLED
    for (int k = 0; k < kColumns; k += 16) {
        std::uint32_t a[4];
        tall.left(row, k, a);
        ORRERY_UNROLLED
        for (int n = 0; n < kRows; n += 16) {
            std::uint32_t b[4];
            wide.right_of_rows(n, k, b);
            multiply_add<E>(map[n / 8], a, b[0], b[1]);
            multiply_add<E>(map[n / 8 + 1], a, b[2], b[3]);
        }
    }
}

// sums += map · the rows of `wide`, the map rounded to their type.
template <int kRows, typename E, int kColumns>
__device__ void add_product(const CoreSums<kRows>& map, const CoreRows<E, kColumns>& wide,
                            CoreSums<kColumns>& sums) {
    ORRERY_UNROLLED
    for (int k = 0; k < kRows; k += 16) {
        const auto& low = map[k / 8];
        const auto& high = map[k / 8 + 1];
        const std::uint32_t a[4] = {packed<E>(low[0], low[1]), packed<E>(low[2], low[3]),
                                    packed<E>(high[0], high[1]), packed<E>(high[2], high[3])};
        ORRERY_UNROLLED
        for (int n = 0; n < kColumns; n += 16) {
            std::uint32_t b[4];
            wide.right(k, n, b);
            multiply_add<E>(sums[n / 8], a, b[0], b[1]);
            multiply_add<E>(sums[n / 8 + 1], a, b[2], b[3]);
        }
    }
}

// Where the lane's parts of a map are: rows `row` and `row` + 8 of the block's, columns `column`
// and `column` + 1 of each eight.
struct CoreLane {
    int row, column;
};
__device__ inline int first_row_of_warp() {
    return static_cast<int>(threadIdx.x) / kWarp * kRowsOfWarp;
}
__device__ inline CoreLane core_lane() {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    return {first_row_of_warp() + lane / 4, lane % 4 * 2};
}

// Two neighbours of a row, the first one of even index.
template <typename E>
__device__ void store_pair(const Buffer& to, std::int64_t first, float a, float b) {
    if (to.dtype == plan::DType::fp32) {
        static_cast<float*>(to.data)[first] = a;
        static_cast<float*>(to.data)[first + 1] = b;
    } else {
        *reinterpret_cast<std::uint32_t*>(static_cast<E*>(to.data) + first) = packed<E>(a, b);
    }
}

// The lane's row `of` (0 or 1) of sums, times `factor`, into a head from element `first` on.
template <typename E, int kColumns>
__device__ void write_row(const CoreSums<kColumns>& sums, int of, float factor, int width,
                          const Buffer& to, std::int64_t first) {
    const int column = core_lane().column;
    ORRERY_UNROLLED
    for (int n = 0; n < kColumns / 8; ++n)
        if (8 * n < width)
            store_pair<E>(to, first + 8 * n + column, factor * sums[n][2 * of],
                          factor * sums[n][2 * of + 1]);
}

// Steps through the keys that a tile of queries sees, T::kWide at a time.
template <typename T, typename Request>
struct KeyWalk {
    std::int64_t run = -1, key = -T::kWide;  // key: of the run's that are seen
    SequenceRun seen{0, 0, 0};

    __device__ bool advance(const Request& op, const QueryTile& tile) {
        key += T::kWide;
        while (key >= seen.rows) {
            if (++run >= key_runs(part_of<T>(op), keys_of<T>(op))) return false;
            seen = keys_seen<T>(op, tile, run);
            key = 0;
        }
        return true;
    }
    __device__ std::int64_t position() const { return seen.position + key; }
    __device__ std::int64_t row() const { return seen.row + key; }
    __device__ std::int64_t rest() const { return seen.rows - key; }  // of the run
};

// Of `count` keys or queries in a row, those [first, end) that the other side of the mask sees.
struct SeenSpan {
    int first, end;

    __device__ bool has(int i) const { return i >= first && i < end; }
};
__device__ inline SeenSpan span_within(std::int64_t first, std::int64_t end, int count) {
    return {first > 0 ? static_cast<int>(first < count ? first : count) : 0,
            static_cast<int>(end < count ? (end > 0 ? end : 0) : count)};
}
// Of the keys from `key` on, of which there are `rest`, those that a query sees.
__device__ inline SeenSpan keys_of_query(const AttentionMask& mask, std::int64_t query,
                                         std::int64_t key, std::int64_t rest, int count) {
    const std::int64_t own = query - key;
    return span_within(mask.window > 0 ? own - mask.window + 1 : 0, own < rest ? own + 1 : rest,
                       count);
}
// Of the queries from `query` on, those that see a key.
__device__ inline SeenSpan queries_of_key(const AttentionMask& mask, std::int64_t key,
                                          std::int64_t query, int count) {
    const std::int64_t own = key - query;
    return span_within(own, mask.window > 0 ? own + mask.window : count, count);
}

// Keys and values of the walk's step, of one head.
template <typename T, typename Request, typename E>
__device__ void copy_keys(const HeadKeys& from, const KeyWalk<T, Request>& walk,
                          const AttentionShape& shape, const CoreRows<E, T::kDim>& keys,
                          const CoreRows<E, T::kValues>& values) {
    const std::int64_t at = walk.row() * from.columns.width;
    keys.copy_from(from.kv, at + from.columns.key, from.columns.width, T::kWide, walk.rest(),
                   static_cast<int>(shape.head_dim));
    values.copy_from(from.kv, at + from.columns.value, from.columns.width, T::kWide, walk.rest(),
                     static_cast<int>(shape.values()));
}

// Whether every query of [first, last] sees every key of the `keys` from `key` on.
__device__ inline bool all_seen(const AttentionMask& mask, std::int64_t first, std::int64_t last,
                                std::int64_t key, std::int64_t keys) {
    return key + keys - 1 <= first && (mask.window == 0 || key > last - mask.window);
}

inline bool lies_for_tensor_cores(const Buffer& buffer) {
    return reinterpret_cast<std::uintptr_t>(buffer.data) % 16 == 0;
}
// Of what is multiplied: 16 bytes are read at once.
inline bool fits_tensor_cores(const AttentionShape& shape, const Buffer& qkv, const Buffer& kv) {
    return (qkv.dtype == plan::DType::bf16 || qkv.dtype == plan::DType::fp16) &&
           shape.head_dim % 8 == 0 && shape.values() % 8 == 0 && lies_for_tensor_cores(qkv) &&
           (!kv || (kv.dtype == qkv.dtype && lies_for_tensor_cores(kv)));
}
template <typename Request>
bool has_plain_scores(const Request& op) {
    return has_own_keys(op) && !op.dropout.key && op.mask.slopes == nullptr &&
           !(op.scores.soft_cap > 0) && !op.scores.sinks;
}

// What f, which says whether the device can, has of the narrowest CoreTile that holds a head's keys
// and its values, if one of at most kWidest elements does.
template <int kWidest, typename E, typename F>
bool with_core_tile_of(const AttentionShape& shape, bool plain, const F& f) {
    const auto called = [&](auto dim, auto values) {
        constexpr int kDim = decltype(dim)::value, kValues = decltype(values)::value;
        if constexpr (kDim <= kWidest) {
            if (shape.head_dim > kDim || shape.values() > kValues) return false;
            return plain ? f(CoreTile<E, kDim, kValues, true>{})
                         : f(CoreTile<E, kDim, kValues, false>{});
        }
        return false;
    };
    using Narrow = std::integral_constant<int, 64>;
    using Middle = std::integral_constant<int, 128>;
    using Wide = std::integral_constant<int, 192>;
    using Widest = std::integral_constant<int, 256>;
    return called(Narrow{}, Narrow{}) || called(Middle{}, Middle{}) || called(Wide{}, Middle{}) ||
           called(Widest{}, Widest{});
}
template <int kWidest, typename Request, typename F>
bool with_core_tile(const Request& op, const F& f) {
    const bool plain = has_plain_scores(op);
    if (op.qkv.dtype == plan::DType::bf16)
        return with_core_tile_of<kWidest, BFloat16>(op.shape, plain, f);
    return with_core_tile_of<kWidest, Half>(op.shape, plain, f);
}

}  // namespace orrery::runtime::cuda
