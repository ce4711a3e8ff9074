#include "runtime/cpu/kernels/attention_heads.hpp"
#include "runtime/cpu/kernels/functions.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

constexpr std::int64_t kTile = 64;  // rows of a map at a time

// A map of probabilities or of gradients of scores is 0 beyond the diagonal, so that products with
// it stop there.
template <typename W>
class Products {
  public:
    Products(const AttentionProduct& op, Team& team)
        : op_(op),
          shape_(op.shape),
          team_(team),
          keys_(op.shape.sequence),
          d_(of_values(op.form) ? op.shape.values() : op.shape.head_dim) {
        const std::int64_t of_heads = keys_ * d_, of_tile = kTile * (keys_ + d_);
        team.reserve(0, static_cast<std::size_t>(of_heads + of_tile) * sizeof(W));
    }

    void run() {
        const bool by_group = op_.form == AttentionProductForm::value_gradient ||
                              op_.form == AttentionProductForm::key_gradient;
        const std::int64_t units = shape_.batch * (by_group ? shape_.kv_heads : shape_.heads);
        team_.parallel_for(units, 1, [&](std::int64_t unit, auto, int worker) {
            W* const space = static_cast<W*>(team_.scratch(worker));
            if (by_group)
                sum_over_group(unit / shape_.kv_heads, unit % shape_.kv_heads, space);
            else
                compute_head(unit / shape_.heads, unit % shape_.heads, space);
        });
    }

  private:
    // What is multiplied of heads: values, and what comes of them; or queries and keys.
    static bool of_values(AttentionProductForm form) {
        return form == AttentionProductForm::context ||
               form == AttentionProductForm::probability_gradient ||
               form == AttentionProductForm::value_gradient;
    }

    // Calls f(first row, rows) for tiles of a map.
    template <typename F>
    void for_tiles(const F& f) const {
        for (std::int64_t row = 0; row < keys_; row += kTile)
            f(row, keys_ - row < kTile ? keys_ - row : kTile);
    }

    std::int64_t map_row(std::int64_t sample, std::int64_t head, std::int64_t row) const {
        return (sample * shape_.heads + head) * keys_ + row;
    }

    Matrix<const W> read_map(std::int64_t sample, std::int64_t head, std::int64_t row,
                             std::int64_t rows, W* space) const {
        return read_head(op_.maps, HeadColumns{keys_, 0}, map_row(sample, head, row), rows, keys_,
                         space);
    }

    // maps = rows of q or of dcontext times rows of k or v; or context, dq = maps times v or k.
    void compute_head(std::int64_t sample, std::int64_t head, W* space) const {
        const bool with_keys = op_.form == AttentionProductForm::scores ||
                               op_.form == AttentionProductForm::query_gradient;
        const bool writes_maps = op_.form == AttentionProductForm::scores ||
                                 op_.form == AttentionProductForm::probability_gradient;
        const std::int64_t kv_head = head / group_size(shape_);
        const auto kv = read_head(
            op_.qkv, with_keys ? key_columns(shape_, kv_head) : value_columns(shape_, kv_head),
            sample * keys_, keys_, d_, space);
        const W scale = with_keys ? static_cast<W>(op_.scale) : W(1);
        W* const operand = space + keys_ * d_;
        W* const result = operand + kTile * keys_;
        for_tiles([&](std::int64_t row, std::int64_t rows) {
            const std::int64_t at = sample * keys_ + row;
            if (writes_maps) {
                const auto a = with_keys ? read_head(op_.qkv, query_columns(shape_, head), at, rows,
                                                     d_, result)
                                         : read_head(op_.context, context_columns(shape_, head), at,
                                                     rows, d_, result);
                multiply(ProductForm::rows_by_rows, {rows, keys_, d_}, a, kv, {operand, keys_},
                         false, scale);
                write_head<W>({operand, keys_}, op_.maps, {keys_, 0}, map_row(sample, head, row),
                              rows, keys_);
                return;
            }
            const auto a = read_map(sample, head, row, rows, operand);
            multiply(ProductForm::rows_by_columns, {rows, d_, row + rows}, a, kv, {result, d_},
                     false, scale);
            if (with_keys)
                write_head<W>({result, d_}, op_.dqkv, query_columns(shape_, head), at, rows, d_);
            else
                write_head<W>({result, d_}, op_.context, context_columns(shape_, head), at, rows,
                              d_);
        });
    }

    // dk or dv: Σ over heads of the group and over tiles of mapsᵀ times rows of q or of dcontext.
    void sum_over_group(std::int64_t sample, std::int64_t kv_head, W* space) const {
        const bool of_keys = op_.form == AttentionProductForm::key_gradient;
        const W scale = of_keys ? static_cast<W>(op_.scale) : W(1);
        W* const sum = space;
        W* const map_space = sum + keys_ * d_;
        W* const row_space = map_space + kTile * keys_;
        Array<W>(sum, keys_ * d_).setZero();
        const std::int64_t group = group_size(shape_);
        for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
            for_tiles([&](std::int64_t row, std::int64_t rows) {
                const std::int64_t at = sample * keys_ + row;
                const auto a = read_map(sample, head, row, rows, map_space);
                const auto b = of_keys ? read_head(op_.qkv, query_columns(shape_, head), at, rows,
                                                   d_, row_space)
                                       : read_head(op_.context, context_columns(shape_, head), at,
                                                   rows, d_, row_space);
                multiply(ProductForm::columns_by_columns, {row + rows, d_, rows}, a, b, {sum, d_},
                         true, scale);
            });
        write_head<W>({sum, d_}, op_.dqkv,
                      of_keys ? key_columns(shape_, kv_head) : value_columns(shape_, kv_head),
                      sample * keys_, keys_, d_);
    }

    const AttentionProduct& op_;
    const AttentionShape& shape_;
    Team& team_;
    std::int64_t keys_, d_;  // d: elements of a head that are multiplied
};

}  // namespace

void attention_product(const AttentionProduct& op, Team& team) {
    with_work_type(op.maps.dtype, [&](auto w) { Products<decltype(w)>(op, team).run(); });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
