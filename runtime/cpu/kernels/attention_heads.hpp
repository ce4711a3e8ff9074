// One head of packed rows as a matrix [S, d], and which keys a query of it sees.
#pragma once

#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/lanes.hpp"
#include "runtime/cpu/kernels/matrix_product.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

// Where a head's columns lie within rows of a packed tensor.
struct HeadColumns {
    std::int64_t row_width;
    std::int64_t first;
};

inline HeadColumns query_columns(const AttentionShape& shape, std::int64_t head) {
    return {shape.qkv_width(), head * shape.head_dim};
}
inline HeadColumns key_columns(const AttentionShape& shape, std::int64_t kv_head) {
    return {shape.qkv_width(), (shape.heads + kv_head) * shape.head_dim};
}
inline HeadColumns value_columns(const AttentionShape& shape, std::int64_t kv_head) {
    return {shape.qkv_width(),
            (shape.heads + shape.kv_heads) * shape.head_dim + kv_head * shape.values()};
}
inline HeadColumns context_columns(const AttentionShape& shape, std::int64_t head) {
    return {shape.context_width(), head * shape.values()};
}
// Of queries, or their gradients, by themselves.
inline HeadColumns packed_query_columns(const AttentionShape& shape, std::int64_t head) {
    return {shape.heads * shape.head_dim, head * shape.head_dim};
}

inline std::int64_t group_size(const AttentionShape& shape) {
    return shape.heads / shape.kv_heads;
}

// The head's [rows, d] from `row` on: where it lies, or converted into `space`.
template <typename W>
Matrix<const W> read_head(const Buffer& from, const HeadColumns& columns, std::int64_t row,
                          std::int64_t rows, std::int64_t head_dim, W* space) {
    const std::int64_t corner = row * columns.row_width + columns.first;
    if (from.dtype == kDType<W>) return {data<W>(from, corner), columns.row_width};
    for (std::int64_t r = 0; r < rows; ++r)
        convert_from(from, corner + r * columns.row_width, head_dim, space + r * head_dim);
    return {space, head_dim};
}

template <typename W>
void write_head(Matrix<const W> head, const Buffer& to, const HeadColumns& columns,
                std::int64_t row, std::int64_t rows, std::int64_t head_dim) {
    for (std::int64_t r = 0; r < rows; ++r)
        convert_to(to, (row + r) * columns.row_width + columns.first, head_dim,
                   head.from_row(r).data);
}

// Keys [first, end) that a query sees.
struct SeenKeys {
    std::int64_t first, end;
};
inline SeenKeys keys_seen_by(std::int64_t query, const AttentionMask& mask) {
    const bool cut = mask.window > 0 && query >= mask.window;
    return {cut ? query - mask.window + 1 : 0, query + 1};
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
