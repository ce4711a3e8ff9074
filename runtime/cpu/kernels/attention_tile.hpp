// Tiles of flash attention: kQueries × kKeys scores at a time, in padded rows of scratch.
#pragma once

#include "runtime/cpu/kernels/attention_keys.hpp"
#include "runtime/cpu/kernels/dropout_mask.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

inline constexpr std::int64_t kQueries = 128;
inline constexpr std::int64_t kKeys = 256;

// Queries of positions [query, query + queries) and keys of positions [key, key + keys) of one
// head, and in which rows they are.
struct AttentionTile {
    std::int64_t query, queries;
    std::int64_t key, keys;
    std::int64_t query_row, key_row;
    std::int64_t key_count;  // of the first key among all, without gaps
};

// Calls f(queries) for tiles of the rank's queries, whose keys are not told yet.
template <typename F>
void for_tiles_of_sequence(const SequencePart& part, std::int64_t rows, const F& f) {
    const std::int64_t of_run = rows / part.runs();
    for (std::int64_t run = 0; run < part.runs(); ++run)
        for (std::int64_t query = 0; query < of_run; query += kQueries)
            f(AttentionTile{part.first_of(run, rows) + query,
                            of_run - query < kQueries ? of_run - query : kQueries, 0, 0,
                            run * of_run + query, 0, 0});
}

// Calls f(tile) for the tiles of these queries in which one of them sees a key, in ascending order.
template <typename W, typename F>
void for_tiles_of_queries(const AttentionMask& mask, const AttentionTile& queries,
                          const HeadKeys<W>& keys, const F& f) {
    const std::int64_t end = queries.query + queries.queries;
    const std::int64_t seen = keys_seen_by(queries.query, mask).first;
    keys.for_runs([&](const KeyRun& run) {
        const std::int64_t last = run.position + run.keys < end ? run.position + run.keys : end;
        const std::int64_t before = seen > run.position ? seen - run.position : 0;
        for (std::int64_t key = run.position + before / kKeys * kKeys; key < last; key += kKeys) {
            AttentionTile tile = queries;
            tile.key = key;
            tile.keys = last - key < kKeys ? last - key : kKeys;
            tile.key_row = run.row + key - run.position;
            tile.key_count = run.count + key - run.position;
            f(tile);
        }
    });
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
// `length`: tokens of a sequence.
template <typename W>
void probability_factors(std::int64_t length, const AttentionDropout& dropout, std::int64_t sample,
                         std::int64_t head, const AttentionTile& tile, std::int64_t r, W* factor) {
    const std::int64_t map =
        (dropout.first_sample + sample) * dropout.total_heads + dropout.first_head + head;
    const std::int64_t first = (map * length + tile.query + r) * length + tile.key;
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
