// How kernels of attention share out queries and keys, whatever they multiply with. A tile type T
// says how many: T::kTall queries or keys of a block, T::kWide of the other side at a time;
// T::kOwnKeys: all keys lie in qkv, for a rank that holds whole sequences. Kernels are compiled for
// that by itself: what the others need costs registers.
#pragma once

#include "runtime/cuda/reduce.cuh"
#include "runtime/kernels/attention_rules.hpp"

namespace orrery::runtime::cuda {

inline bool has_own_keys(const Attention& op) {
    return !op.keys.kv && op.part.ranks == 1 && !op.continues && op.ends;
}
inline bool has_own_keys(const AttentionBackward& op) {
    return !op.keys.kv && op.part.ranks == 1 && !op.continues && !op.dq;
}

__host__ __device__ inline std::int64_t tiles_of(std::int64_t rows, int size) {
    return (rows + size - 1) / size;
}

// What a request says of keys of other ranks: nothing, where the kernel is of a rank's own.
template <typename T, typename Request>
__host__ __device__ SequencePart part_of(const Request& op) {
    if constexpr (T::kOwnKeys) return {};
    return op.part;
}
template <typename T, typename Request>
__host__ __device__ AttentionKeys keys_of(const Request& op) {
    if constexpr (T::kOwnKeys) return {};
    return op.keys;
}
template <typename T, typename Request>
__device__ bool continues(const Request& op) {
    return !T::kOwnKeys && op.continues;
}

// By fields: a request whose address is taken would be copied out of the kernel's parameters.
__device__ inline Buffer either(bool first, const Buffer& a, const Buffer& b) {
    return {first ? a.data : b.data, first ? a.dtype : b.dtype};
}
template <typename T, typename Request>
__device__ Buffer keys_and_values(const Request& op) {
    if constexpr (T::kOwnKeys) return op.qkv;
    return either(static_cast<bool>(op.keys.kv), op.keys.kv, op.qkv);
}

// Where the keys and values of a head lie.
struct HeadKeys {
    Buffer kv;
    KeyColumns columns;
};
template <typename T, typename Request>
__device__ HeadKeys head_keys(const Request& op, std::int64_t kv_head) {
    return {keys_and_values<T>(op), key_columns_of(op.shape, keys_of<T>(op), kv_head)};
}

// Queries of one head that are in a row in the sequence.
struct QueryTile {
    std::int64_t sample, head;
    std::int64_t position, row;  // of the first one: in the sequence, among the rank's rows of it
    int queries;
};

// Of one head. No tile has queries of two runs.
template <typename T, typename Request>
__host__ __device__ std::int64_t query_tiles(const Request& op) {
    const std::int64_t runs = part_of<T>(op).runs();
    return runs * tiles_of(op.shape.sequence / runs, T::kTall);
}
template <typename T, typename Request>
__device__ QueryTile query_tile(const Request& op, std::int64_t index) {
    const SequencePart part = part_of<T>(op);
    const std::int64_t per_map = query_tiles<T>(op), per_run = per_map / part.runs();
    const std::int64_t map = index / per_map, of_map = index % per_map;
    const SequenceRun run = query_run(part, op.shape.sequence, of_map / per_run);
    const std::int64_t first = of_map % per_run * T::kTall, rest = run.rows - first;
    return {map / op.shape.heads, map % op.shape.heads, run.position + first, run.row + first,
            rest < T::kTall ? static_cast<int>(rest) : T::kTall};
}

// The part of a run of keys that queries of the tile see, from the beginning of a tile of keys on;
// without rows where they see none.
template <typename T, typename Request>
__device__ SequenceRun keys_seen(const Request& op, const QueryTile& tile, std::int64_t run) {
    const SequenceRun keys = key_run(part_of<T>(op), keys_of<T>(op), op.shape, tile.sample, run);
    const std::int64_t seen = first_key_of(op.mask, tile.position) - keys.position;
    const std::int64_t before = seen > 0 ? seen / T::kWide * T::kWide : 0;
    const std::int64_t end = tile.position + tile.queries - keys.position;
    return {keys.position + before, keys.row + before,
            (end < keys.rows ? end : keys.rows) - before};
}

// Keys of one head that are in a row in the sequence.
struct KeyTile {
    std::int64_t sample, kv_head;
    std::int64_t position, row;  // of the first one: in the sequence, among rows of all samples
    int keys;
};

// Of one sample and head. All runs are as long as the first one.
template <typename T>
__host__ __device__ std::int64_t key_tiles(const AttentionBackward& op) {
    const std::int64_t of_run = key_run(part_of<T>(op), keys_of<T>(op), op.shape, 0, 0).rows;
    return key_runs(part_of<T>(op), keys_of<T>(op)) * tiles_of(of_run, T::kTall);
}

template <typename T>
__device__ KeyTile key_tile(const AttentionBackward& op, std::int64_t index) {
    const std::int64_t per_head = key_tiles<T>(op), runs = key_runs(part_of<T>(op), keys_of<T>(op));
    const std::int64_t unit = index / per_head, kv_heads = op.shape.kv_heads;
    const std::int64_t sample = unit / kv_heads, of_head = index % per_head;
    const std::int64_t per_run = per_head / runs;
    const SequenceRun run =
        key_run(part_of<T>(op), keys_of<T>(op), op.shape, sample, of_head / per_run);
    const std::int64_t first = of_head % per_run * T::kTall, rest = run.rows - first;
    return {sample, unit % kv_heads, run.position + first, run.row + first,
            rest < T::kTall ? static_cast<int>(rest) : T::kTall};
}

// `row`: of the rank's rows of the sample.
__device__ inline float lse_of(const AttentionBackward& op, std::int64_t sample, std::int64_t head,
                               std::int64_t row) {
    const auto* const lse = static_cast<const float*>(op.lse.data);
    const std::int64_t map = sample * op.shape.heads + head;
    return lse[map * op.shape.sequence + row];
}

}  // namespace orrery::runtime::cuda
