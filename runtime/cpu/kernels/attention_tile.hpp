// Tiles of flash attention: kQueries × kKeys scores at a time, in padded rows of scratch.
#pragma once

#include "runtime/cpu/kernels/attention_heads.hpp"
#include "runtime/cpu/kernels/dropout_mask.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

inline constexpr std::int64_t kQueries = 128;
inline constexpr std::int64_t kKeys = 256;

// Queries [query, query + queries) and keys [key, key + keys) of one head.
struct AttentionTile {
    std::int64_t query, queries;
    std::int64_t key, keys;
};

// Calls f(tile) for the tiles of these queries in which one of them sees a key, in ascending order.
template <typename F>
void for_tiles_of_queries(const AttentionMask& mask, std::int64_t query, std::int64_t queries,
                          const F& f) {
    const std::int64_t end = query + queries;
    const std::int64_t first = keys_seen_by(query, mask).first / kKeys * kKeys;
    for (std::int64_t key = first; key < end; key += kKeys)
        f(AttentionTile{query, queries, key, end - key < kKeys ? end - key : kKeys});
}

// Keys of the tile that its row r sees, counted from the tile's first.
inline SeenKeys keys_seen_in(const AttentionTile& tile, std::int64_t r, const AttentionMask& mask) {
    const SeenKeys seen = keys_seen_by(tile.query + r, mask);
    const std::int64_t first = seen.first > tile.key ? seen.first - tile.key : 0;
    const std::int64_t end = seen.end - tile.key < tile.keys ? seen.end - tile.key : tile.keys;
    return {first < tile.keys ? first : tile.keys, end > 0 ? end : 0};
}

// Adds ALiBi's slope·(key − query) to row r of scores.
template <typename W>
void add_slope(const AttentionTile& tile, std::int64_t r, const AttentionMask& mask,
               std::int64_t head, W* scores) {
    if (mask.slopes == nullptr) return;
    const auto slope = static_cast<W>(mask.slopes[head]);
    const std::int64_t from_query = tile.key - tile.query - r;
    for (std::int64_t i = 0; i < tile.keys; ++i)
        scores[i] += slope * static_cast<W>(from_query + i);
}

// What dropout makes of the probabilities of row r: factors 1/(1 − p) and 0.
template <typename W>
void probability_factors(const AttentionShape& shape, const AttentionDropout& dropout,
                         std::int64_t sample, std::int64_t head, const AttentionTile& tile,
                         std::int64_t r, W* factor) {
    const std::int64_t map =
        (dropout.first_sample + sample) * dropout.total_heads + dropout.first_head + head;
    const std::int64_t first = (map * shape.sequence + tile.query + r) * shape.sequence + tile.key;
    keep_factors(dropout.key, static_cast<std::uint64_t>(first), tile.keys, factor);
}

// scores = exp(scores − subtracted) where seen, 0 elsewhere.
template <typename W>
void exponentials_of_seen(W* scores, std::int64_t keys, const SeenKeys& seen, W subtracted) {
    auto x = padded(scores, keys);
    x = (x - subtracted).exp();
    Array<W>(scores, seen.first).setZero();
    Array<W>(scores + seen.end, keys - seen.end).setZero();
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
