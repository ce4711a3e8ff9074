#include <cmath>
#include <limits>

#include "runtime/cpu/kernels/attention_tile.hpp"
#include "runtime/cpu/kernels/functions.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

template <typename W>
struct AttentionSpace {
    W* key;      // [keys, d] and …
    W* value;    // … [keys, values], where they are not W already
    W* query;    // [kQueries, d]
    W* scores;   // [kQueries, kKeys]
    W* context;  // [kQueries, values]
    W* factor;   // [kKeys]
    W* largest;  // [kQueries] each: of the scores so far, and Σ exp(score − largest)
    W* sum;

    static std::int64_t size(const AttentionShape& shape, std::int64_t keys) {
        return (keys + kQueries) * (whole_lanes(shape.head_dim) + whole_lanes(shape.values())) +
               kQueries * kKeys + kKeys + 2 * kQueries;
    }
    AttentionSpace(W* space, const AttentionShape& shape, std::int64_t keys) {
        const std::int64_t d = whole_lanes(shape.head_dim), values = whole_lanes(shape.values());
        key = space;
        value = key + keys * d;
        query = value + keys * values;
        scores = query + kQueries * d;
        context = scores + kQueries * kKeys;
        factor = context + kQueries * values;
        largest = factor + kKeys;
        sum = largest + kQueries;
    }
};

// Context and lse of one head, a tile of queries after the other.
template <typename W>
class HeadForward {
  public:
    HeadForward(const Attention& op, std::int64_t sample, std::int64_t head, W* space)
        : op_(op),
          sample_(sample),
          head_(head),
          d_(op.shape.head_dim),
          values_(op.shape.values()),
          space_(space, op.shape, key_blocks(op.keys) * op.shape.sequence),
          keys_(op, sample, head / group_size(op.shape), space_.key, space_.value) {}

    void run() {
        for_tiles_of_sequence(op_.part, op_.shape.sequence,
                              [&](const AttentionTile& queries) { attend(queries); });
    }

  private:
    void attend(const AttentionTile& tile) {
        const std::int64_t queries = tile.queries;
        const std::int64_t at = sample_ * op_.shape.sequence + tile.query_row;
        const HeadColumns columns = context_columns(op_.shape, head_);
        W* const lse = data<W>(op_.lse, (sample_ * op_.shape.heads + head_) * op_.shape.sequence) +
                       tile.query_row;
        q_ = read_head(op_.qkv, query_columns(op_.shape, head_), at, queries, d_, space_.query);
        if (op_.continues)
            take_up(at, queries, lse);
        else
            begin(queries);
        for_tiles_of_queries(op_.mask, tile, keys_,
                             [&](const AttentionTile& with_keys) { add_tile(with_keys); });
        for (std::int64_t r = 0; r < queries; ++r) {
            Array<W>(space_.context + r * values_, values_) /= space_.sum[r];
            lse[r] = space_.largest[r] + std::log(space_.sum[r]);
        }
        write_head<W>({space_.context, values_}, op_.ends ? op_.context : op_.sums, columns, at,
                      queries, values_);
    }

    // A sink is a score that is known from the start, and whose value is 0.
    void begin(std::int64_t queries) {
        Array<W>(space_.context, queries * values_).setZero();
        W largest = -std::numeric_limits<W>::infinity();
        if (op_.scores.sinks) convert_from(op_.scores.sinks, head_, 1, &largest);
        Array<W>(space_.largest, queries).setConstant(largest);
        Array<W>(space_.sum, queries).setConstant(op_.scores.sinks ? W(1) : W(0));
    }

    // What is known of a row counts as one score, its lse, whose value is the context so far.
    void take_up(std::int64_t at, std::int64_t queries, const W* lse) {
        const HeadColumns columns = context_columns(op_.shape, head_);
        for (std::int64_t r = 0; r < queries; ++r) {
            convert_from(op_.sums, (at + r) * columns.row_width + columns.first, values_,
                         space_.context + r * values_);
            space_.largest[r] = lse[r];
            space_.sum[r] = 1;
        }
    }

    void add_tile(const AttentionTile& tile) {
        multiply(ProductForm::rows_by_rows, {tile.queries, tile.keys, d_}, q_,
                 keys_.k_from(tile.key_row), {space_.scores, kKeys}, false,
                 static_cast<W>(op_.scale));
        for (std::int64_t r = 0; r < tile.queries; ++r)
            add_row(tile, r, space_.scores + r * kKeys);
        multiply(ProductForm::rows_by_columns, {tile.queries, values_, tile.keys},
                 {space_.scores, kKeys}, keys_.v_from(tile.key_row), {space_.context, values_},
                 true);
    }

    // Scores of a row become its probabilities times Σ; what was summed before is scaled to the
    // largest score now known (Milakov and Gimelshein 2018).
    void add_row(const AttentionTile& tile, std::int64_t r, W* scores) {
        const SeenKeys seen = keys_seen_in(tile, r, op_.mask);
        if (seen.first >= seen.end) return Array<W>(scores, tile.keys).setZero(), void();
        cap_softly(scores, tile.keys, op_.scores.soft_cap);
        add_slope(tile, r, op_.mask, head_, scores);
        const W before = space_.largest[r];
        const W here = max_of(scores + seen.first, seen.end - seen.first);
        const W largest = here > before ? here : before;
        exponentials_of_seen(scores, tile.keys, seen, largest);
        const W rescale = std::exp(before - largest);
        if (rescale != 1) Array<W>(space_.context + r * values_, values_) *= rescale;
        space_.sum[r] = space_.sum[r] * rescale +
                        sum_of<W>(tile.keys, [&](std::int64_t i) { return scores[i]; });
        space_.largest[r] = largest;
        if (!op_.dropout.key) return;
        probability_factors(op_.shape.sequence * op_.part.ranks, op_.dropout, sample_, head_, tile,
                            r, space_.factor);
        Array<W>(scores, tile.keys) *= ConstArray<W>(space_.factor, tile.keys);
    }

    const Attention& op_;
    std::int64_t sample_, head_, d_, values_;
    AttentionSpace<W> space_;
    HeadKeys<W> keys_;
    Matrix<const W> q_{};
};

template <typename W>
void attention_as(const Attention& op, Team& team) {
    const std::int64_t keys = key_blocks(op.keys) * op.shape.sequence;
    team.reserve(0, static_cast<std::size_t>(AttentionSpace<W>::size(op.shape, keys)) * sizeof(W));
    team.parallel_for(op.shape.maps(), 1, [&](std::int64_t map, auto, int worker) {
        HeadForward<W>(op, map / op.shape.heads, map % op.shape.heads,
                       static_cast<W*>(team.scratch(worker)))
            .run();
    });
}

}  // namespace

void attention(const Attention& op, Team& team) {
    with_work_type(op.qkv.dtype, [&](auto w) { attention_as<decltype(w)>(op, team); });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
