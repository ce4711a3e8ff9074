// Keys and values of one head: rows of packed qkv, or of shares of several ranks, with the
// positions that they have in the sequence.
#pragma once

#include "runtime/cpu/kernels/attention_heads.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

// Keys of positions [position, position + keys): which rows of HeadKeys they are, and which when
// the rows of all blocks are counted without gaps.
struct KeyRun {
    std::int64_t position, keys;
    std::int64_t row, count;
};

inline std::int64_t key_blocks(const AttentionKeys& keys) {
    return keys.kv ? keys.blocks : 1;
}

// Columns of k and v where they lie by themselves.
inline HeadColumns packed_key_columns(const AttentionShape& shape, std::int64_t kv_head) {
    return {shape.kv_width(), kv_head * shape.head_dim};
}
inline HeadColumns packed_value_columns(const AttentionShape& shape, std::int64_t kv_head) {
    return {shape.kv_width(), shape.kv_heads * shape.head_dim + kv_head * shape.values()};
}

template <typename W>
class HeadKeys {
  public:
    HeadKeys() = default;

    // The spaces have room for conversion: [key_blocks · S, width of a key, of a value].
    template <typename Request>
    HeadKeys(const Request& op, std::int64_t sample, std::int64_t kv_head, W* k_space, W* v_space)
        : part_(op.part), keys_(op.keys), rows_(op.shape.sequence) {
        const AttentionShape& shape = op.shape;
        const bool packed = static_cast<bool>(op.keys.kv);
        const Buffer& from = packed ? op.keys.kv : op.qkv;
        const HeadColumns k_columns =
            packed ? packed_key_columns(shape, kv_head) : key_columns(shape, kv_head);
        const HeadColumns v_columns =
            packed ? packed_value_columns(shape, kv_head) : value_columns(shape, kv_head);
        block_rows_ = from.dtype == kDType<W> ? shape.batch * rows_ : rows_;
        for (std::int64_t block = 0; block < key_blocks(keys_); ++block) {
            const std::int64_t row = (block * shape.batch + sample) * rows_;
            const std::int64_t before = block * rows_;
            const auto read_k = read_head(from, k_columns, row, rows_, shape.head_dim,
                                          k_space + before * shape.head_dim);
            const auto read_v = read_head(from, v_columns, row, rows_, shape.values(),
                                          v_space + before * shape.values());
            if (block == 0) k_ = read_k;
            if (block == 0) v_ = read_v;
        }
    }

    Matrix<const W> k_from(std::int64_t row) const { return k_.from_row(row); }
    Matrix<const W> v_from(std::int64_t row) const { return v_.from_row(row); }

    // Calls f(run) in ascending order of positions.
    template <typename F>
    void for_runs(const F& f) const {
        if (!keys_.kv) return f(KeyRun{0, rows_, 0, 0});
        const std::int64_t of_run = rows_ / part_.runs(), ranks = part_.ranks;
        for (std::int64_t chunk = 0; chunk < part_.runs() * ranks; ++chunk) {
            const bool second = chunk >= ranks;
            const std::int64_t block = (second ? 2 * ranks - 1 - chunk : chunk) - keys_.first;
            const std::int64_t of_block = second ? of_run : 0;
            if (block >= 0 && block < keys_.blocks)
                f(KeyRun{chunk * of_run, of_run, block * block_rows_ + of_block,
                         block * rows_ + of_block});
        }
    }

  private:
    SequencePart part_;
    AttentionKeys keys_;
    std::int64_t rows_ = 0;        // of a block, of one sample
    std::int64_t block_rows_ = 0;  // from a block to the next
    Matrix<const W> k_{}, v_{};
};

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
