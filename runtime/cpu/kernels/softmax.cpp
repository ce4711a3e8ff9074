// softmax and softmax_backward of unfused attention.
#include <cmath>
#include <limits>

#include "runtime/cpu/kernels/attention_heads.hpp"
#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"
#include "runtime/cpu/kernels/lanes.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

// Calls f(row, worker) for all rows of all maps.
template <typename F>
void for_rows(const AttentionShape& shape, Team& team, const F& f) {
    const std::int64_t rows = shape.maps() * shape.sequence;
    team.parallel_for(rows, rows_per_part(shape.sequence), [&](auto begin, auto end, int worker) {
        for (std::int64_t row = begin; row < end; ++row)
            f(row, worker);
    });
}

template <typename W>
void softmax_as(const Softmax& op, Team& team) {
    const std::int64_t keys = op.shape.sequence;
    const ScratchRows<W> scratch(team, keys, 0, 1);
    for_rows(op.shape, team, [&](std::int64_t row, int worker) {
        const std::int64_t query = row % keys;
        const auto [first, end] = keys_seen_by(query, op.mask);
        const std::int64_t seen = end - first;
        W* const p = scratch.own(worker, 0);  // of the keys from `first` on
        convert_from(op.scores, row * keys + first, seen, p);
        cap_softly(p, seen, op.rules.soft_cap);
        if (op.mask.slopes != nullptr) {
            const std::int64_t head = row / keys % op.shape.heads;
            const auto slope = static_cast<W>(op.mask.slopes[head]);
            const std::int64_t from_query = first - query;
            for (std::int64_t i = 0; i < seen; ++i)
                p[i] += slope * static_cast<W>(from_query + i);
        }
        W sink = -std::numeric_limits<W>::infinity();
        if (op.rules.sinks) convert_from(op.rules.sinks, row / keys % op.shape.heads, 1, &sink);
        const W of_scores = max_of(p, seen);
        const W largest = sink > of_scores ? sink : of_scores;
        auto all = padded(p, seen);
        all = (all - largest).exp();
        W sum = sum_of<W>(seen, [&](auto i) { return p[i]; });
        if (op.rules.sinks) sum += std::exp(sink - largest);
        Array<W>(p, seen) /= sum;
        convert_to(op.probabilities, row * keys + first, seen, p);
        Array<W>(p, keys).setZero();
        convert_to(op.probabilities, row * keys, first, p);
        convert_to(op.probabilities, row * keys + end, keys - end, p);
    });
}

// Probability of the row's sink, by that of the likeliest key, whose score is known.
template <typename W>
W sink_probability(const SoftmaxBackward& op, std::int64_t row, const W* p, const W* capped) {
    const std::int64_t keys = op.shape.sequence;
    std::int64_t likeliest = 0;
    for (std::int64_t i = 1; i < keys; ++i)
        if (p[i] > p[likeliest]) likeliest = i;
    W sink;
    convert_from(op.rules.sinks, row / keys % op.shape.heads, 1, &sink);
    return p[likeliest] * std::exp(sink - capped[likeliest]);
}

// Σ over the rows of a head, sample by sample.
template <typename W>
void add_sinks_of_rows(const SoftmaxBackward& op, const W* of_rows, std::int64_t stride) {
    const AttentionShape& shape = op.shape;
    for (std::int64_t head = 0; head < shape.heads; ++head) {
        W sum = 0;
        if (op.accumulate) convert_from(op.dsinks, head, 1, &sum);
        for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
            const W* const rows = of_rows + (sample * shape.heads + head) * stride;
            sum += sum_of<W>(shape.sequence, [&](auto i) { return rows[i]; });
        }
        convert_to(op.dsinks, head, 1, &sum);
    }
}

// dscores = p·(dp − Σ dp·p), times the slope of the cap.
template <typename W>
void softmax_backward_as(const SoftmaxBackward& op, Team& team) {
    const std::int64_t keys = op.shape.sequence;
    const std::int64_t maps = op.rules.sinks ? op.shape.maps() : 0;
    const ScratchRows<W> scratch(team, keys, maps, 4);
    for_rows(op.shape, team, [&](std::int64_t row, int worker) {
        const std::int64_t at = row * keys;
        const W* const dp = read(op.dprobabilities, at, keys, scratch.own(worker, 0));
        const W* const p = read(op.probabilities, at, keys, scratch.own(worker, 1));
        const W sum = sum_of<W>(keys, [&](auto i) { return dp[i] * p[i]; });
        W* const dscores = target(op.dscores, at, scratch.own(worker, 2));
        Array<W>(dscores, keys) = ConstArray<W>(p, keys) * (ConstArray<W>(dp, keys) - sum);
        W* const scores = scratch.own(worker, 3);
        if (op.scores) convert_from(op.scores, at, keys, scores);
        if (op.rules.soft_cap > 0) {
            slopes_of_cap(scores, keys, op.rules.soft_cap);
            Array<W>(dscores, keys) *= ConstArray<W>(scores, keys);
        }
        if (op.rules.sinks) {
            convert_from(op.scores, at, keys, scores);
            cap_softly(scores, keys, op.rules.soft_cap);
            scratch.shared(row / keys)[row % keys] = -sink_probability(op, row, p, scores) * sum;
        }
        store(dscores, op.dscores, at, keys);
    });
    if (op.rules.sinks) add_sinks_of_rows(op, scratch.shared(0), scratch.stride());
}

}  // namespace

void softmax(const Softmax& op, Team& team) {
    with_work_type(op.scores.dtype, [&](auto w) { softmax_as<decltype(w)>(op, team); });
}

void softmax_backward(const SoftmaxBackward& op, Team& team) {
    with_work_type(op.probabilities.dtype,
                   [&](auto w) { softmax_backward_as<decltype(w)>(op, team); });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
