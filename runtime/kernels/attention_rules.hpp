// Where the heads of attention lie in packed rows, which keys a query sees, what counts as a score,
// and what dropout makes of a probability.
#pragma once

#include <cstdint>

#include "runtime/host_device.hpp"
#include "runtime/kernels/dropout_rules.hpp"
#include "runtime/kernels/elements.hpp"
#include "runtime/kernels/requests.hpp"
#include "runtime/kernels/softmax_rules.hpp"

namespace orrery::runtime {

// Element [row, 0] of a head; row counts over all samples.
ORRERY_HOST_DEVICE inline std::int64_t query_at(const AttentionShape& shape, std::int64_t head,
                                                std::int64_t row) {
    return row * shape.qkv_width() + head * shape.head_dim;
}
ORRERY_HOST_DEVICE inline std::int64_t key_at(const AttentionShape& shape, std::int64_t kv_head,
                                              std::int64_t row) {
    return row * shape.qkv_width() + (shape.heads + kv_head) * shape.head_dim;
}
ORRERY_HOST_DEVICE inline std::int64_t value_at(const AttentionShape& shape, std::int64_t kv_head,
                                                std::int64_t row) {
    return row * shape.qkv_width() + (shape.heads + shape.kv_heads) * shape.head_dim +
           kv_head * shape.values();
}
ORRERY_HOST_DEVICE inline std::int64_t context_at(const AttentionShape& shape, std::int64_t head,
                                                  std::int64_t row) {
    return row * shape.context_width() + head * shape.values();
}

// Of queries, or their gradients, by themselves.
ORRERY_HOST_DEVICE inline std::int64_t packed_query_at(const AttentionShape& shape,
                                                       std::int64_t head, std::int64_t row) {
    return (row * shape.heads + head) * shape.head_dim;
}

// Where a head's keys and values begin in rows of qkv, or in rows that have no queries.
struct KeyColumns {
    std::int64_t width, key, value;
};
ORRERY_HOST_DEVICE inline KeyColumns key_columns_of(const AttentionShape& shape,
                                                    const AttentionKeys& keys,
                                                    std::int64_t kv_head) {
    const std::int64_t key = key_at(shape, kv_head, 0), value = value_at(shape, kv_head, 0);
    const std::int64_t queries = shape.heads * shape.head_dim;
    if (keys.kv) return {shape.kv_width(), key - queries, value - queries};
    return {shape.qkv_width(), key, value};
}

// Rows of one sample that are in a row in the sequence: position of the first one, and its row.
struct SequenceRun {
    std::int64_t position, row, rows;
};

// Of this rank's queries; rows of the sample.
ORRERY_HOST_DEVICE inline SequenceRun query_run(const SequencePart& part, std::int64_t rows,
                                                std::int64_t run) {
    const std::int64_t of_run = rows / part.runs();
    return {part.first_of(run, rows), run * of_run, of_run};
}

// Of keys; rows of all samples, in the order in which the owners' shares lie.
ORRERY_HOST_DEVICE inline std::int64_t key_runs(const SequencePart& part,
                                                const AttentionKeys& keys) {
    return keys.kv ? keys.blocks * part.runs() : 1;
}
ORRERY_HOST_DEVICE inline SequenceRun key_run(const SequencePart& part, const AttentionKeys& keys,
                                              const AttentionShape& shape, std::int64_t sample,
                                              std::int64_t run) {
    if (!keys.kv) return {0, sample * shape.sequence, shape.sequence};
    const std::int64_t block = run / part.runs();
    const SequencePart owner{part.ranks, keys.first + block, part.zigzag};
    SequenceRun of_owner = query_run(owner, shape.sequence, run % part.runs());
    of_owner.row += (block * shape.batch + sample) * shape.sequence;
    return of_owner;
}

ORRERY_HOST_DEVICE inline bool sees(const AttentionMask& mask, std::int64_t query,
                                    std::int64_t key) {
    return key <= query && (mask.window == 0 || key > query - mask.window);
}

// First key that a query sees; the last one is its own.
ORRERY_HOST_DEVICE inline std::int64_t first_key_of(const AttentionMask& mask, std::int64_t query) {
    return mask.window > 0 && query >= mask.window ? query - mask.window + 1 : 0;
}

// One past the last query that sees a key; the first one is its own.
ORRERY_HOST_DEVICE inline std::int64_t end_of_queries(const AttentionMask& mask, std::int64_t key,
                                                      std::int64_t sequence) {
    return mask.window > 0 && key + mask.window < sequence ? key + mask.window : sequence;
}

// ALiBi's part of a score.
ORRERY_HOST_DEVICE inline float slope_term(const AttentionMask& mask, std::int64_t head,
                                           std::int64_t query, std::int64_t key) {
    if (mask.slopes == nullptr) return 0;
    return static_cast<float>(mask.slopes[head]) * static_cast<float>(key - query);
}

// A score that is scaled already: capped, then with its slope term. The slope is that of the cap.
ORRERY_HOST_DEVICE inline Capped score_of(const AttentionScores& rules, const AttentionMask& mask,
                                          float scaled, std::int64_t head, std::int64_t query,
                                          std::int64_t key) {
    Capped score = capped(scaled, static_cast<float>(rules.soft_cap));
    score.value += slope_term(mask, head, query, key);
    return score;
}

// What a row's sum of exponentials is before any key: a sink is a score that is known from the
// start, and whose value is 0.
ORRERY_HOST_DEVICE inline RunningSum sum_before_keys(const AttentionScores& rules,
                                                     std::int64_t head) {
    if (!rules.sinks) return {};
    return {load(rules.sinks, head), 1};
}

// Index of a probability among those of dropout; head of this rank, sample of this micro-batch,
// positions in a sequence of this length.
ORRERY_HOST_DEVICE inline std::uint64_t probability_index(const AttentionDropout& dropout,
                                                          std::int64_t length, std::int64_t sample,
                                                          std::int64_t head, std::int64_t query,
                                                          std::int64_t key) {
    const std::int64_t map =
        (dropout.first_sample + sample) * dropout.total_heads + dropout.first_head + head;
    return static_cast<std::uint64_t>((map * length + query) * length + key);
}

// What a probability is multiplied by.
ORRERY_HOST_DEVICE inline float probability_factor(const AttentionDropout& dropout,
                                                   std::int64_t length, std::int64_t sample,
                                                   std::int64_t head, std::int64_t query,
                                                   std::int64_t key) {
    if (!dropout.key) return 1;
    return dropout_factor(dropout.key,
                          probability_index(dropout, length, sample, head, query, key));
}

}  // namespace orrery::runtime
