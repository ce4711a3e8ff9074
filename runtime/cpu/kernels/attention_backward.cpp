#include <cmath>

#include "runtime/cpu/kernels/attention_tile.hpp"
#include "runtime/cpu/kernels/column_sums.hpp"
#include "runtime/cpu/kernels/functions.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

template <typename W>
struct BackwardSpace {
    W* q;         // [S, d]; this and the next where the tensors are not W already
    W* dcontext;  // [S, values]
    W* dq;        // [S, d]
    W* k;         // [keys, d]; likewise
    W* v;         // [keys, values]
    W* dk;        // [keys, d]
    W* dv;        // [keys, values]
    W* p;         // [kQueries, kKeys] each: probabilities, with dropout after it;
    W* ds;        // and gradients of scores
    W* factor;    // [kKeys]
    W* slope;     // [kKeys], of capped scores
    W* context;   // [values]
    W* along;     // [S], Σ over d of dcontext·context

    static std::int64_t size(const AttentionShape& shape, std::int64_t keys) {
        return 2 * (shape.sequence + keys) * whole_lanes(shape.head_dim) +
               (shape.sequence + 2 * keys + 1) * whole_lanes(shape.values()) +
               2 * kQueries * kKeys + 2 * kKeys + shape.sequence;
    }
    BackwardSpace(W* space, const AttentionShape& shape, std::int64_t keys) {
        const std::int64_t d = whole_lanes(shape.head_dim), values = whole_lanes(shape.values());
        const std::int64_t rows = shape.sequence;
        q = space;
        dcontext = q + rows * d;
        dq = dcontext + rows * values;
        k = dq + rows * d;
        v = k + keys * d;
        dk = v + keys * values;
        dv = dk + keys * d;
        p = dv + keys * values;
        ds = p + kQueries * kKeys;
        factor = ds + kQueries * kKeys;
        slope = factor + kKeys;
        context = slope + kKeys;
        along = context + values;
    }
};

// Gradients of one kv head and of the query heads that share it (Dao 2022, algorithm 4, with tiles
// of queries as the outer loop). Probabilities are made again from lse.
template <typename W>
class GroupBackward {
  public:
    GroupBackward(const AttentionBackward& op, std::int64_t sample, std::int64_t kv_head, W* space,
                  W* dsinks)
        : op_(op),
          dsinks_(dsinks),
          shape_(op.shape),
          sample_(sample),
          kv_head_(kv_head),
          s_(op.shape.sequence),
          d_(op.shape.head_dim),
          values_(op.shape.values()),
          all_keys_(key_blocks(op.keys) * op.shape.sequence),
          space_(space, op.shape, all_keys_),
          keys_(op, sample, kv_head, space_.k, space_.v) {}

    void run() {
        Array<W>(space_.dk, all_keys_ * d_).setZero();
        Array<W>(space_.dv, all_keys_ * values_).setZero();
        const std::int64_t group = group_size(shape_);
        for (head_ = kv_head_ * group; head_ < (kv_head_ + 1) * group; ++head_)
            run_head();
        write_keys();
    }

  private:
    void write_keys() const {
        const std::int64_t row = sample_ * s_;
        const Matrix<const W> dk{space_.dk, d_}, dv{space_.dv, values_};
        if (!op_.keys.kv) {
            write_head<W>(dk, op_.dqkv, key_columns(shape_, kv_head_), row, s_, d_);
            write_head<W>(dv, op_.dqkv, value_columns(shape_, kv_head_), row, s_, values_);
            return;
        }
        const HeadColumns k = packed_key_columns(shape_, kv_head_);
        const HeadColumns v = packed_value_columns(shape_, kv_head_);
        for (std::int64_t block = 0; block < op_.keys.blocks; ++block) {
            const std::int64_t at = block * shape_.batch * s_ + row;
            write_head<W>(dk.from_row(block * s_), op_.dkv, k, at, s_, d_);
            write_head<W>(dv.from_row(block * s_), op_.dkv, v, at, s_, values_);
        }
    }

    void run_head() {
        const std::int64_t row = sample_ * s_;
        const HeadColumns columns = context_columns(shape_, head_);
        q_ = read_head(op_.qkv, query_columns(shape_, head_), row, s_, d_, space_.q);
        dcontext_ = read_head(op_.dcontext, columns, row, s_, values_, space_.dcontext);
        lse_ = data<W>(op_.lse, (sample_ * shape_.heads + head_) * s_);
        for (std::int64_t r = 0; r < s_; ++r) {
            const W* const context =
                read_head(op_.context, columns, row + r, 1, values_, space_.context).data;
            const W* const dcontext = dcontext_.from_row(r).data;
            space_.along[r] = sum_of<W>(values_, [&](auto i) { return dcontext[i] * context[i]; });
        }
        if (op_.scores.sinks) dsinks_[sample_ * shape_.heads + head_] = sink_gradient();
        const Buffer& dq = op_.dq ? op_.dq : op_.dqkv;
        const HeadColumns to =
            op_.dq ? packed_query_columns(shape_, head_) : query_columns(shape_, head_);
        if (op_.continues)
            for (std::int64_t r = 0; r < s_; ++r)
                convert_from(dq, (row + r) * to.row_width + to.first, d_, space_.dq + r * d_);
        else
            Array<W>(space_.dq, s_ * d_).setZero();
        for_tiles_of_sequence(op_.part, s_, [&](const AttentionTile& queries) {
            for_tiles_of_queries(op_.mask, queries, keys_,
                                 [&](const AttentionTile& tile) { add_tile(tile); });
        });
        write_head<W>({space_.dq, d_}, dq, to, row, s_, d_);
    }

    // A sink's probability, exp(sink − lse), has no value: −Σ over rows of P·dC·C.
    W sink_gradient() const {
        W sink;
        convert_from(op_.scores.sinks, head_, 1, &sink);
        return -sum_of<W>(s_, [&](auto r) { return std::exp(sink - lse_[r]) * space_.along[r]; });
    }

    // P = exp(scale·Q·Kᵀ − lse), F = factors of dropout: dV += (P∘F)ᵀ·dC;
    // dS = scale·P∘(F∘(dC·Vᵀ) − dC·C), dQ += dS·K, dK += dSᵀ·Q.
    void add_tile(const AttentionTile& tile) {
        const Matrix<W> p{space_.p, kKeys}, ds{space_.ds, kKeys};
        const Matrix<const W> q = q_.from_row(tile.query_row), k = keys_.k_from(tile.key_row);
        const Matrix<const W> v = keys_.v_from(tile.key_row);
        const Matrix<const W> dc = dcontext_.from_row(tile.query_row);
        const auto [m, n] = std::array{tile.queries, tile.keys};
        multiply(ProductForm::rows_by_rows, {m, n, d_}, q, k, p, false, static_cast<W>(op_.scale));
        multiply(ProductForm::rows_by_rows, {m, n, values_}, dc, v, ds, false);
        for (std::int64_t r = 0; r < m; ++r)
            differentiate_row(tile, r, p.from_row(r).data, ds.from_row(r).data);
        const Matrix<const W> p_read{p.data, kKeys}, ds_read{ds.data, kKeys};
        multiply(ProductForm::columns_by_columns, {n, values_, m}, p_read, dc,
                 {space_.dv + tile.key_count * values_, values_}, true);
        multiply(ProductForm::rows_by_columns, {m, d_, n}, ds_read, k,
                 {space_.dq + tile.query_row * d_, d_}, true);
        multiply(ProductForm::columns_by_columns, {n, d_, m}, ds_read, q,
                 {space_.dk + tile.key_count * d_, d_}, true);
    }

    // Scores become probabilities, after dropout; gradients of those, gradients of scores.
    void differentiate_row(const AttentionTile& tile, std::int64_t r, W* p, W* ds) {
        const SeenKeys seen = keys_seen_in(tile, r, op_.mask);
        if (seen.first >= seen.end) {
            Array<W>(p, tile.keys).setZero();
            Array<W>(ds, tile.keys).setZero();
            return;
        }
        if (op_.scores.soft_cap > 0) {
            Array<W>(space_.slope, tile.keys) = ConstArray<W>(p, tile.keys);
            slopes_of_cap(space_.slope, tile.keys, op_.scores.soft_cap);
            cap_softly(p, tile.keys, op_.scores.soft_cap);
        }
        add_slope(tile, r, op_.mask, head_, p);
        exponentials_of_seen(p, tile.keys, seen, lse_[tile.query_row + r]);
        const W along = space_.along[tile.query_row + r];
        const auto scale = static_cast<W>(op_.scale);
        if (!op_.dropout.key) {
            for (std::int64_t i = 0; i < tile.keys; ++i)
                ds[i] = scale * p[i] * (ds[i] - along);
            return bend(ds, tile.keys);
        }
        W* const factor = space_.factor;
        probability_factors(s_ * op_.part.ranks, op_.dropout, sample_, head_, tile, r, factor);
        for (std::int64_t i = 0; i < tile.keys; ++i) {
            ds[i] = scale * p[i] * (ds[i] * factor[i] - along);
            p[i] *= factor[i];
        }
        bend(ds, tile.keys);
    }

    // By the slope of the cap.
    void bend(W* ds, std::int64_t keys) const {
        if (op_.scores.soft_cap > 0) Array<W>(ds, keys) *= ConstArray<W>(space_.slope, keys);
    }

    const AttentionBackward& op_;
    W* dsinks_;  // [batch, heads]
    const AttentionShape& shape_;
    std::int64_t sample_, kv_head_, s_, d_, values_;
    std::int64_t all_keys_;
    std::int64_t head_ = 0;
    BackwardSpace<W> space_;
    HeadKeys<W> keys_;
    Matrix<const W> q_{}, dcontext_{};
    const W* lse_ = nullptr;
};

template <typename W>
void attention_backward_as(const AttentionBackward& op, Team& team) {
    const std::int64_t keys = key_blocks(op.keys) * op.shape.sequence;
    const std::int64_t maps = op.scores.sinks ? op.shape.maps() : 0;
    team.reserve(static_cast<std::size_t>(maps) * sizeof(W),
                 static_cast<std::size_t>(BackwardSpace<W>::size(op.shape, keys)) * sizeof(W));
    W* const dsinks = static_cast<W*>(team.shared_scratch());
    team.parallel_for(op.shape.batch * op.shape.kv_heads, 1,
                      [&](std::int64_t unit, auto, int worker) {
                          GroupBackward<W>(op, unit / op.shape.kv_heads, unit % op.shape.kv_heads,
                                           static_cast<W*>(team.scratch(worker)), dsinks)
                              .run();
                      });
    if (op.scores.sinks)
        add_parts(dsinks, op.shape.batch, op.shape.heads, op.shape.heads, op.dsinks, op.accumulate,
                  team);
}

}  // namespace

void attention_backward(const AttentionBackward& op, Team& team) {
    with_work_type(op.qkv.dtype, [&](auto w) { attention_backward_as<decltype(w)>(op, team); });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
