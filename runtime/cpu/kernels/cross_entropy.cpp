// The kernels of the vocabulary-parallel loss.
#include <cmath>
#include <limits>

#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"
#include "runtime/cpu/kernels/lanes.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

// Calls f(row, column, length) for pieces of the columns [0, columns) of one row after another.
template <typename F>
void for_pieces_of(const LogitsPart& part, std::int64_t row, std::int64_t columns, const F& f) {
    for (std::int64_t column = 0; column < columns; column += kPiece)
        f(row * part.columns + column, column,
          columns - column < kPiece ? columns - column : kPiece);
}

template <typename F>
void for_rows(const LogitsPart& part, Team& team, const F& f) {
    team.parallel_for(part.rows, rows_per_part(part.columns), [&](auto begin, auto end) {
        for (std::int64_t row = begin; row < end; ++row)
            f(row);
    });
}

// Column of the target on this rank, or −1.
std::int64_t column_of(const LogitsPart& part, std::int32_t target) {
    const std::int64_t column = target - part.first_column;
    return target >= 0 && column >= 0 && column < part.valid_columns ? column : -1;
}

// The logits of a piece as they count, in padded space.
template <typename W>
void counted_logits(const Buffer& logits, double soft_cap, std::int64_t at, std::int64_t n,
                    W* space) {
    convert_from(logits, at, n, space);
    cap_softly(space, n, soft_cap);
}

// exp(logit − largest) of a piece, in padded space.
template <typename W>
void exponentials(const Buffer& logits, double soft_cap, std::int64_t at, std::int64_t n, W largest,
                  W* space) {
    counted_logits(logits, soft_cap, at, n, space);
    auto x = padded(space, n);
    x = (x - largest).exp();
}

template <typename W>
W largest_of_row(const LogitsPart& part, const Buffer& logits, std::int64_t row) {
    W largest = -std::numeric_limits<W>::infinity();
    for_pieces_of(part, row, part.valid_columns, [&](auto at, auto, auto n) {
        Space<W> space;
        counted_logits(logits, part.soft_cap, at, n, space.at);
        const W here = max_of(space.at, n);
        largest = here > largest ? here : largest;
    });
    return largest;
}

template <typename W>
void max_as(const CrossEntropyMax& op, Team& team) {
    for_rows(op.part, team, [&](std::int64_t row) {
        data<W>(op.largest)[row] = largest_of_row<W>(op.part, op.logits, row);
    });
}

// Where it finds the largest logit too, the row stays in the cache between the two.
template <typename W>
void sum_as(const CrossEntropySum& op, Team& team) {
    for_rows(op.part, team, [&](std::int64_t row) {
        if (op.finds_largest) data<W>(op.largest)[row] = largest_of_row<W>(op.part, op.logits, row);
        W* const sums = data<W>(op.sums, 2 * row);
        sums[0] = op.part.first_column == 0 ? W(1) : W(0);
        sums[1] = 0;
        if (op.targets[row] < 0) return;
        const W largest = data<W>(op.largest)[row];
        double total = 0;
        for_pieces_of(op.part, row, op.part.valid_columns, [&](auto at, auto, auto n) {
            Space<W> space;
            exponentials(op.logits, op.part.soft_cap, at, n, largest, space.at);
            total += static_cast<double>(sum_of<W>(n, [&](auto i) { return space.at[i]; }));
        });
        sums[0] = static_cast<W>(total);
        const std::int64_t target = column_of(op.part, op.targets[row]);
        if (target < 0) return;
        Space<W> logit;
        counted_logits(op.logits, op.part.soft_cap, row * op.part.columns + target, 1, logit.at);
        sums[1] = logit.at[0] - largest;
    });
}

template <typename W>
void join_as(const CrossEntropyJoin& op) {
    const W* const part_sums = data<W>(op.part_sums);
    const W* const part_largest = data<W>(op.part_largest);
    W* const sums = data<W>(op.sums);
    for (std::int64_t row = 0; row < op.rows; ++row) {
        W largest = part_largest[row];
        for (std::int64_t part = 1; part < op.parts; ++part)
            largest = std::max(largest, part_largest[part * op.rows + row]);
        data<W>(op.largest)[row] = largest;
        sums[2 * row] = 1;
        sums[2 * row + 1] = 0;
        const std::int32_t target = op.targets[row];
        if (target < 0) continue;
        double total = 0;
        for (std::int64_t part = 0; part < op.parts; ++part) {
            const std::int64_t at = part * op.rows + row;
            const double below =
                static_cast<double>(part_largest[at]) - static_cast<double>(largest);
            total += static_cast<double>(part_sums[2 * at]) * std::exp(below);
            if (target / op.width == part)
                sums[2 * row + 1] =
                    static_cast<W>(static_cast<double>(part_sums[2 * at + 1]) + below);
        }
        sums[2 * row] = static_cast<W>(total);
    }
}

template <typename W>
void loss_as(const CrossEntropy& op) {
    double total = 0;
    const W* const sums = data<W>(op.sums);
    for (std::int64_t row = 0; row < op.rows; ++row)
        total +=
            std::log(static_cast<double>(sums[2 * row])) - static_cast<double>(sums[2 * row + 1]);
    W* const loss = data<W>(op.loss);
    const double before = op.accumulate ? static_cast<double>(*loss) : 0;
    *loss = static_cast<W>(before + op.factor * total);
}

template <typename W>
void backward_as(const CrossEntropyBackward& op, Team& team) {
    const double loss_scale = op.loss_scale != nullptr ? static_cast<double>(*op.loss_scale) : 1;
    const auto scale = static_cast<W>(op.scale * loss_scale);
    for_rows(op.part, team, [&](std::int64_t row) {
        const bool ignored = op.targets[row] < 0;
        const std::int64_t valid = ignored ? 0 : op.part.valid_columns;
        const W largest = data<W>(op.largest)[row];
        const W share = scale / data<W>(op.sums)[2 * row];
        const std::int64_t target = column_of(op.part, op.targets[row]);
        for_pieces_of(op.part, row, op.part.columns, [&](auto at, auto column, auto n) {
            Space<W> space;
            std::int64_t seen = valid - column < n ? valid - column : n;
            seen = seen > 0 ? seen : 0;
            Space<W> slope;
            if (op.part.soft_cap > 0 && seen > 0) {
                convert_from(op.logits, at, seen, slope.at);
                slopes_of_cap(slope.at, seen, op.part.soft_cap);
            }
            if (seen > 0) exponentials(op.logits, op.part.soft_cap, at, seen, largest, space.at);
            Array<W>(space.at, seen) *= share;
            Array<W>(space.at + seen, n - seen).setZero();
            if (target >= column && target < column + n) space.at[target - column] -= scale;
            if (op.part.soft_cap > 0) Array<W>(space.at, seen) *= ConstArray<W>(slope.at, seen);
            convert_to(op.logits, at, n, space.at);
        });
    });
}

// to = keep·from, and what is taken away of a piece of it: take(piece, its first column, length).
template <typename W, typename F>
void rescale_row(const Buffer& from, const Buffer& to, std::int64_t first, std::int64_t width,
                 W keep, const F& take) {
    for (std::int64_t i = 0; i < width; i += kPiece) {
        const std::int64_t n = std::min<std::int64_t>(width - i, kPiece);
        Space<W> space;
        convert_from(from, first + i, n, space.at);
        Array<W>(space.at, n) *= keep;
        take(space.at, i, n);
        convert_to(to, first + i, n, space.at);
    }
}

template <typename W>
void rescale_as(const CrossEntropyRescale& op, Team& team) {
    const double loss_scale = op.loss_scale != nullptr ? static_cast<double>(*op.loss_scale) : 1;
    for_rows(op.part, team, [&](std::int64_t row) {
        const auto largest = static_cast<double>(data<W>(op.largest)[row]);
        const double below = static_cast<double>(data<W>(op.part_largest)[row]) - largest;
        const double share = static_cast<double>(data<W>(op.part_sums)[2 * row]) * std::exp(below) /
                             static_cast<double>(data<W>(op.sums)[2 * row]);
        double of_target = (1 - share) * op.scale * loss_scale;
        if (op.part.soft_cap > 0) {
            const double logit = largest + static_cast<double>(data<W>(op.sums)[2 * row + 1]);
            of_target *= 1 - (logit / op.part.soft_cap) * (logit / op.part.soft_cap);
        }
        const auto keep = static_cast<W>(share), rest = static_cast<W>(of_target);
        const std::int64_t target = column_of(op.part, op.targets[row]);
        rescale_row(op.dlogits, op.dlogits, row * op.part.columns, op.part.columns, keep,
                    [&](W* piece, std::int64_t column, std::int64_t n) {
                        if (target >= column && target < column + n) piece[target - column] -= rest;
                    });
        const std::int64_t first = row * op.hidden;
        rescale_row(op.part_dx, op.dx, first, op.hidden, keep,
                    [&](W* piece, std::int64_t column, std::int64_t n) {
                        Space<W> words;
                        convert_from(op.words, first + column, n, words.at);
                        Array<W>(piece, n) -= rest * ConstArray<W>(words.at, n);
                    });
    });
}

}  // namespace

void cross_entropy_max(const CrossEntropyMax& op, Team& team) {
    with_work_type(op.logits.dtype, [&](auto w) { max_as<decltype(w)>(op, team); });
}

void cross_entropy_sum(const CrossEntropySum& op, Team& team) {
    with_work_type(op.logits.dtype, [&](auto w) { sum_as<decltype(w)>(op, team); });
}

void cross_entropy_join(const CrossEntropyJoin& op, Team&) {
    with_work_type(op.sums.dtype, [&](auto w) { join_as<decltype(w)>(op); });
}

void cross_entropy(const CrossEntropy& op, Team&) {
    with_work_type(op.sums.dtype, [&](auto w) { loss_as<decltype(w)>(op); });
}

void cross_entropy_backward(const CrossEntropyBackward& op, Team& team) {
    with_work_type(op.logits.dtype, [&](auto w) { backward_as<decltype(w)>(op, team); });
}

void cross_entropy_rescale(const CrossEntropyRescale& op, Team& team) {
    with_work_type(op.dlogits.dtype, [&](auto w) { rescale_as<decltype(w)>(op, team); });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
