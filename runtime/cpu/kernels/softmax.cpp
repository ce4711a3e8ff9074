// softmax and softmax_backward of unfused attention.
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
        if (op.mask.slopes != nullptr) {
            const std::int64_t head = row / keys % op.shape.heads;
            const auto slope = static_cast<W>(op.mask.slopes[head]);
            const std::int64_t from_query = first - query;
            for (std::int64_t i = 0; i < seen; ++i)
                p[i] += slope * static_cast<W>(from_query + i);
        }
        const W largest = max_of(p, seen);
        auto all = padded(p, seen);
        all = (all - largest).exp();
        const W sum = sum_of<W>(seen, [&](auto i) { return p[i]; });
        Array<W>(p, seen) /= sum;
        convert_to(op.probabilities, row * keys + first, seen, p);
        Array<W>(p, keys).setZero();
        convert_to(op.probabilities, row * keys, first, p);
        convert_to(op.probabilities, row * keys + end, keys - end, p);
    });
}

// dscores = p·(dp − Σ dp·p).
template <typename W>
void softmax_backward_as(const SoftmaxBackward& op, Team& team) {
    const std::int64_t keys = op.shape.sequence;
    const ScratchRows<W> scratch(team, keys, 0, 3);
    for_rows(op.shape, team, [&](std::int64_t row, int worker) {
        const std::int64_t at = row * keys;
        const W* const dp = read(op.dprobabilities, at, keys, scratch.own(worker, 0));
        const W* const p = read(op.probabilities, at, keys, scratch.own(worker, 1));
        const W sum = sum_of<W>(keys, [&](auto i) { return dp[i] * p[i]; });
        W* const dscores = target(op.dscores, at, scratch.own(worker, 2));
        Array<W>(dscores, keys) = ConstArray<W>(p, keys) * (ConstArray<W>(dp, keys) - sum);
        store(dscores, op.dscores, at, keys);
    });
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
