// What experts add to their rows and weigh them by: expert_bias, weigh_rows, and their backward;
// and sum_sources.
#include <algorithm>

#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"
#include "runtime/cpu/kernels/lanes.hpp"
#include "runtime/cpu/kernels/weighed_rows.hpp"
#include "runtime/kernels/grouped_product.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

// Calls f(row, column, length) for pieces of rows that have come.
template <typename F>
void for_pieces(const ExpertPlaces& places, std::int64_t width, Team& team, const F& f) {
    const std::int64_t rows = places.received(places.member);
    team.parallel_for(rows, rows_per_part(width), [&](auto begin, auto end) {
        for (std::int64_t row = begin; row < end; ++row)
            for (std::int64_t column = 0; column < width; column += kPiece)
                f(row, column, std::min(kPiece, width - column));
    });
}

// The first row of each local expert, then the end of all.
std::vector<std::int64_t> ends_of(const ExpertPlaces& places) {
    std::vector<std::int64_t> ends = {0};
    for (std::int64_t i = 0; i < places.local(); ++i)
        ends.push_back(ends.back() + places.rows_of(places.first_of(places.member) + i));
    return ends;
}

std::int64_t expert_of(const std::vector<std::int64_t>& ends, std::int64_t row) {
    return std::upper_bound(ends.begin(), ends.end(), row) - ends.begin() - 1;
}

template <typename W>
void expert_bias_as(const ExpertBias& op, Team& team) {
    const std::vector<std::int64_t> ends = ends_of(op.places);
    for_pieces(op.places, op.width, team, [&](auto row, auto column, auto n) {
        Space<W> sum, bias_space;
        convert_from(op.x, row * op.width + column, n, sum.at);
        const ConstArray<W> bias(
            read(op.biases, expert_of(ends, row) * op.width + column, n, bias_space.at), n);
        const W weight = op.weights ? data<W>(op.weights)[row] : W(1);
        Array<W>(sum.at, n) += weight * bias;
        convert_to(op.y, row * op.width + column, n, sum.at);
    });
}

// Of an expert, a piece of its columns: in the order of its rows.
template <typename W>
void sum_piece(const ExpertBiasBackward& op, const ProductRows& of, std::int64_t column) {
    const std::int64_t n = std::min(kPiece, op.width - column);
    const std::int64_t at = (of.source * op.places.local() + of.i) * op.width + column;
    Space<W> sum, space;
    Array<W> total(sum.at, n);
    total.setZero();
    for (std::int64_t row = of.first; row < of.first + of.rows; ++row) {
        const W weight = op.weights ? data<W>(op.weights)[row] : W(1);
        total += weight * ConstArray<W>(read(op.dy, row * op.width + column, n, space.at), n);
    }
    if (op.accumulate) total += ConstArray<W>(read(op.dbiases, at, n, space.at), n);
    convert_to(op.dbiases, at, n, sum.at);
}

template <typename W>
void weight_gradients(const ExpertBiasBackward& op, const std::vector<std::int64_t>& ends,
                      Team& team) {
    const std::int64_t rows = op.places.received(op.places.member);
    team.parallel_for(rows, rows_per_part(op.width), [&](auto begin, auto end) {
        for (std::int64_t row = begin; row < end; ++row) {
            W sum = 0;
            for (std::int64_t column = 0; column < op.width; column += kPiece) {
                const std::int64_t n = std::min(kPiece, op.width - column);
                Space<W> dy_space, bias_space;
                const W* const dy = read(op.dy, row * op.width + column, n, dy_space.at);
                const W* const bias =
                    read(op.biases, expert_of(ends, row) * op.width + column, n, bias_space.at);
                sum += sum_of<W>(n, [&](auto i) { return dy[i] * bias[i]; });
            }
            data<W>(op.dweights)[row] = sum;
        }
    });
}

template <typename W>
void expert_bias_backward_as(const ExpertBiasBackward& op, Team& team) {
    std::vector<ProductRows> sums;
    for_products(op.places, op.by_source, [&](const ProductRows& of) { sums.push_back(of); });
    const std::int64_t pieces = (op.width + kPiece - 1) / kPiece;
    const auto count = static_cast<std::int64_t>(sums.size());
    team.parallel_for(count * pieces, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
            sum_piece<W>(op, sums[static_cast<std::size_t>(i / pieces)], i % pieces * kPiece);
    });
    if (op.weights) weight_gradients<W>(op, ends_of(op.places), team);
}

// Of sources [first, first + count), in pairs, of n elements from `element` on.
template <typename W>
void sum_in_pairs(const SumSources& op, std::int64_t first, std::int64_t count,
                  std::int64_t element, std::int64_t n, W* sum) {
    if (count == 1) return convert_from(op.x, first * op.elements + element, n, sum);
    Space<W> later;
    sum_in_pairs(op, first, count / 2, element, n, sum);
    sum_in_pairs(op, first + count / 2, count / 2, element, n, later.at);
    Array<W>(sum, n) += Array<W>(later.at, n);
}

template <typename W>
void sum_sources_as(const SumSources& op, Team& team) {
    const std::int64_t pieces = (op.elements + kPiece - 1) / kPiece;
    team.parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t element = begin * kPiece; element < std::min(end * kPiece, op.elements);
             element += kPiece) {
            Space<W> sum;
            const std::int64_t n = std::min(kPiece, op.elements - element);
            sum_in_pairs<W>(op, 0, op.sources, element, n, sum.at);
            convert_to(op.y, element, n, sum.at);
        }
    });
}

template <typename W>
void weigh_rows_backward_as(const WeighRowsBackward& op, Team& team) {
    const std::int64_t rows = op.places.received(op.places.member);
    team.parallel_for(rows, rows_per_part(op.width), [&](auto begin, auto end) {
        for (std::int64_t row = begin; row < end; ++row)
            data<W>(op.dweights)[row] = weigh_row_backward<W>(op.dy, op.x, op.dx, row * op.width,
                                                              op.width, data<W>(op.weights)[row]);
    });
}

}  // namespace

void expert_bias(const ExpertBias& op, Team& team) {
    with_work_type(op.x.dtype, [&](auto w) { expert_bias_as<decltype(w)>(op, team); });
}

void expert_bias_backward(const ExpertBiasBackward& op, Team& team) {
    with_work_type(op.dy.dtype, [&](auto w) { expert_bias_backward_as<decltype(w)>(op, team); });
}

void sum_sources(const SumSources& op, Team& team) {
    with_work_type(op.x.dtype, [&](auto w) { sum_sources_as<decltype(w)>(op, team); });
}

void weigh_rows(const WeighRows& op, Team& team) {
    with_work_type(op.x.dtype, [&](auto w) {
        using W = decltype(w);
        for_pieces(op.places, op.width, team, [&](auto row, auto column, auto n) {
            Space<W> y;
            convert_from(op.x, row * op.width + column, n, y.at);
            Array<W>(y.at, n) *= data<W>(op.weights)[row];
            convert_to(op.y, row * op.width + column, n, y.at);
        });
    });
}

void weigh_rows_backward(const WeighRowsBackward& op, Team& team) {
    with_work_type(op.dy.dtype, [&](auto w) { weigh_rows_backward_as<decltype(w)>(op, team); });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
