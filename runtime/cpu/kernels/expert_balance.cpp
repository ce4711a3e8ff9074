// count_choices, balance_gradient, router_z_gradient and load_gradient.
#include <algorithm>
#include <cmath>

#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"
#include "runtime/cpu/kernels/lanes.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

template <typename W>
void count_choices_as(const CountChoices& op) {
    W* const choices = data<W>(op.choices, 0);
    std::fill_n(choices, op.units * op.experts, W(0));
    for (std::int64_t row = 0; row < op.rows; ++row) {
        W* const of = choices + (op.first + row) / op.run * op.experts;
        for (std::int64_t i = 0; i < op.chosen; ++i)
            of[op.choice[row * op.chosen + i]] += 1;
    }
}

// With p = s/Σs: ds = (f − Σ f·p)/Σs. A softmax's scores add up to 1, and ds goes on through it;
// or through each sigmoid.
template <typename W>
void balance_gradient_as(const BalanceGradient& op, Team& team) {
    const std::int64_t n = op.experts;
    const ScratchRows<W> space(team, n, 0, 2);
    const auto factor = static_cast<W>(
        op.scale == nullptr ? op.factor : op.factor * static_cast<double>(*op.scale));
    team.parallel_for(op.rows, rows_per_part(n), [&](auto begin, auto end, int worker) {
        for (std::int64_t row = begin; row < end; ++row) {
            const W* const scores = data<W>(op.scores, row * n);
            const W* const chosen = data<W>(op.choices, (op.first + row) / op.run * n);
            W* const sums = target(op.dlogits, row * n, space.own(worker, 0));
            const W* const before = read(op.dlogits, row * n, n, space.own(worker, 1));
            W sum = 0, mean = 0;
            for (std::int64_t i = 0; i < n; ++i) {
                sum += scores[i];
                mean += chosen[i] * scores[i];
            }
            mean /= sum;
            for (std::int64_t i = 0; i < n; ++i) {
                const W slope = op.sigmoid ? (1 - scores[i]) / sum : W(1);
                sums[i] = before[i] + factor * (chosen[i] - mean) * scores[i] * slope;
            }
            store(sums, op.dlogits, row * n, n);
        }
    });
}

// 2·factor·log Σ exp · softmax.
template <typename W>
void router_z_gradient_as(const RouterZGradient& op, Team& team) {
    const std::int64_t n = op.experts;
    const ScratchRows<W> space(team, n, 0, 3);
    const auto factor = static_cast<W>(
        op.scale == nullptr ? op.factor : op.factor * static_cast<double>(*op.scale));
    team.parallel_for(op.rows, rows_per_part(n), [&](auto begin, auto end, int worker) {
        for (std::int64_t row = begin; row < end; ++row) {
            const W* const logits = data<W>(op.logits, row * n);
            W* const sums = target(op.dlogits, row * n, space.own(worker, 0));
            const W* const before = read(op.dlogits, row * n, n, space.own(worker, 1));
            W* const powers = space.own(worker, 2);
            const W most = *std::max_element(logits, logits + n);
            W sum = 0;
            for (std::int64_t i = 0; i < n; ++i)
                sum += powers[i] = std::exp(logits[i] - most);
            const W along = 2 * factor * (most + std::log(sum)) / sum;
            for (std::int64_t i = 0; i < n; ++i)
                sums[i] = before[i] + along * powers[i];
            store(sums, op.dlogits, row * n, n);
        }
    });
}

template <typename W>
void load_gradient_as(const LoadGradient& op) {
    for (std::int64_t begin = 0; begin < op.experts; begin += kPiece) {
        const std::int64_t n = std::min(kPiece, op.experts - begin);
        Space<W> sums;
        if (op.accumulate)
            convert_from(op.dbias, begin, n, sums.at);
        else
            Array<W>(sums.at, n).setZero();
        for (std::int64_t i = 0; i < n; ++i)
            sums.at[i] += static_cast<W>(op.counts[begin + i]) - static_cast<W>(op.mean);
        convert_to(op.dbias, begin, n, sums.at);
    }
}

}  // namespace

void router_z_gradient(const RouterZGradient& op, Team& team) {
    with_work_type(op.logits.dtype, [&](auto w) { router_z_gradient_as<decltype(w)>(op, team); });
}

void load_gradient(const LoadGradient& op, Team&) {
    with_work_type(op.dbias.dtype, [&](auto w) { load_gradient_as<decltype(w)>(op); });
}

void count_choices(const CountChoices& op, Team&) {
    with_work_type(op.choices.dtype, [&](auto w) { count_choices_as<decltype(w)>(op); });
}

void balance_gradient(const BalanceGradient& op, Team& team) {
    with_work_type(op.scores.dtype, [&](auto w) { balance_gradient_as<decltype(w)>(op, team); });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
