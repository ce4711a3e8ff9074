// route and route_backward.
#include <cmath>

#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"
#include "runtime/cpu/kernels/lanes.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

// The best of the candidates that are not marked, ties to the lower one; marks it.
template <typename W>
std::int64_t take_best(const W* values, std::int64_t n, std::uint8_t* marks) {
    std::int64_t best = -1;
    for (std::int64_t i = 0; i < n; ++i)
        if (marks[i] == 0 && (best < 0 || values[i] > values[best] ||
                              (std::isnan(values[best]) && !std::isnan(values[i]))))
            best = i;
    marks[best] = 1;
    return best;
}

// Rows of a worker: what is chosen by, scores of groups, marks of each.
template <typename W>
class Router {
  public:
    explicit Router(const Route& op, Team& team) : op_(op), space_(team, op.rule.experts, 0, 4) {}

    void run(Team& team) {
        const std::int64_t experts = op_.rule.experts;
        team.parallel_for(op_.rows, rows_per_part(experts), [&](auto begin, auto end, int worker) {
            for (std::int64_t row = begin; row < end; ++row)
                route_row(row, worker);
        });
        for (std::int64_t expert = 0; expert < experts; ++expert)
            op_.counts[expert] = 0;
        for (std::int64_t i = 0; i < op_.rows * op_.rule.chosen; ++i)
            ++op_.counts[op_.choice[i]];
    }

  private:
    void route_row(std::int64_t row, int worker) {
        const RoutingRule& rule = op_.rule;
        W* const values = space_.own(worker, 0);
        auto* const marks = reinterpret_cast<std::uint8_t*>(space_.own(worker, 2));
        W* const scores = data<W>(op_.scores, row * rule.experts);
        score_row(data<W>(op_.logits, row * rule.experts), values);
        std::copy_n(values, rule.experts, scores);
        if (op_.bias) {
            Array<W>(values, rule.experts) +=
                ConstArray<W>(read(op_.bias, 0, rule.experts, space_.own(worker, 1)), rule.experts);
        }
        std::fill_n(marks, rule.experts, std::uint8_t{0});
        if (rule.groups > 0) close_groups(values, space_.own(worker, 1), worker, marks);
        for (std::int64_t i = 0; i < rule.chosen; ++i)
            marks[take_best(values, rule.experts, marks)] = kChosen;
        weigh_row(row, scores, marks);
    }

    void score_row(const W* logits, W* values) {
        const std::int64_t n = op_.rule.experts;
        std::copy_n(logits, n, values);
        auto x = padded(values, n);
        if (op_.rule.sigmoid) {
            x = 1 / (1 + (-x).exp());
            return;
        }
        x = (x - max_of(values, n)).exp();
        x = x / sum_of<W>(n, [&](auto i) { return values[i]; });
    }

    // Marks the experts of all groups but the kept ones.
    void close_groups(const W* values, W* sums, int worker, std::uint8_t* marks) {
        const RoutingRule& rule = op_.rule;
        const std::int64_t each = rule.experts / rule.groups;
        auto* const group_marks = reinterpret_cast<std::uint8_t*>(space_.own(worker, 3));
        for (std::int64_t group = 0; group < rule.groups; ++group) {
            const W* const own = values + group * each;
            std::fill_n(group_marks, each, std::uint8_t{0});
            sums[group] = 0;
            for (std::int64_t i = 0; i < rule.group_best; ++i)
                sums[group] += own[take_best(own, each, group_marks)];
        }
        std::fill_n(marks, rule.experts, kClosed);
        std::fill_n(group_marks, rule.groups, std::uint8_t{0});
        for (std::int64_t i = 0; i < rule.kept_groups; ++i)
            std::fill_n(marks + take_best(sums, rule.groups, group_marks) * each, each,
                        std::uint8_t{0});
    }

    void weigh_row(std::int64_t row, const W* scores, const std::uint8_t* marks) {
        const RoutingRule& rule = op_.rule;
        std::int32_t* const choice = op_.choice + row * rule.chosen;
        W* const weights = data<W>(op_.weights, row * rule.chosen);
        std::int64_t next = 0;
        W sum = 0;
        for (std::int64_t expert = 0; expert < rule.experts; ++expert) {
            if (marks[expert] != kChosen) continue;
            choice[next] = static_cast<std::int32_t>(expert);
            weights[next++] = scores[expert];
            sum += scores[expert];
        }
        const W divisor = rule.sigmoid ? sum + static_cast<W>(kLeastSum) : sum;
        for (std::int64_t i = 0; i < rule.chosen; ++i) {
            if (rule.normalizes) weights[i] /= divisor;
            weights[i] *= static_cast<W>(rule.factor);
        }
    }

    static constexpr std::uint8_t kClosed = 1, kChosen = 2;

    const Route& op_;
    ScratchRows<W> space_;
};

// With w = factor·s, or factor·s/Σ: ds = factor·dw, or factor·(dw − Σ dw·s/Σ)/Σ, of the chosen;
// then through the softmax over all, or each sigmoid.
template <typename W>
void route_backward_as(const RouteBackward& op, Team& team) {
    const RoutingRule& rule = op.rule;
    const std::int64_t chosen = rule.chosen;
    const ScratchRows<W> space(team, rule.experts, 0, 1);
    team.parallel_for(op.rows, rows_per_part(rule.experts), [&](auto begin, auto end, int worker) {
        for (std::int64_t row = begin; row < end; ++row) {
            const std::int32_t* const choice = op.choice + row * chosen;
            const W* const scores = data<W>(op.scores, row * rule.experts);
            const W* const dweights = data<W>(op.dweights, row * chosen);
            W* const dlogits = target(op.dlogits, row * rule.experts, space.own(worker, 0));
            W sum = rule.sigmoid ? static_cast<W>(kLeastSum) : W(0), along = 0;
            for (std::int64_t i = 0; i < chosen; ++i) {
                sum += scores[choice[i]];
                along += dweights[i] * scores[choice[i]];
            }
            std::fill_n(dlogits, rule.experts, W(0));
            const auto factor = static_cast<W>(rule.factor);
            for (std::int64_t i = 0; i < chosen; ++i)
                dlogits[choice[i]] =
                    factor * (rule.normalizes ? (dweights[i] - along / sum) / sum : dweights[i]);
            W mean = 0;
            for (std::int64_t i = 0; i < chosen; ++i)
                mean += dlogits[choice[i]] * scores[choice[i]];
            for (std::int64_t i = 0; i < rule.experts; ++i)
                dlogits[i] =
                    scores[i] * (rule.sigmoid ? dlogits[i] * (1 - scores[i]) : dlogits[i] - mean);
            store(dlogits, op.dlogits, row * rule.experts, rule.experts);
        }
    });
}

}  // namespace

void route(const Route& op, Team& team) {
    with_work_type(op.logits.dtype, [&](auto w) { Router<decltype(w)>(op, team).run(team); });
}

void route_backward(const RouteBackward& op, Team& team) {
    with_work_type(op.scores.dtype, [&](auto w) { route_backward_as<decltype(w)>(op, team); });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
