// norm, residual_norm and norm_backward.
#include <cmath>

#include "runtime/cpu/kernels/column_sums.hpp"
#include "runtime/cpu/kernels/functions.hpp"
#include "runtime/cpu/kernels/lanes.hpp"
#include "runtime/cpu/kernels/residual_row.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

// What scales a normed element, once for all rows.
template <typename W>
const W* read_weight(const Buffer& weight, double offset, std::int64_t width, W* space) {
    convert_from(weight, 0, width, space);
    if (offset != 0) Array<W>(space, width) += static_cast<W>(offset);
    return space;
}

template <typename W>
struct Statistics {
    W mean, inverse_deviation;
};

template <typename W>
Statistics<W> statistics_of(const W* x, std::int64_t width, bool centred, double epsilon) {
    const W n = static_cast<W>(width);
    const W mean = centred ? sum_of<W>(width, [&](auto i) { return x[i]; }) / n : 0;
    const W squares = sum_of<W>(width, [&](auto i) { return (x[i] - mean) * (x[i] - mean); });
    return {mean, 1 / std::sqrt(squares / n + static_cast<W>(epsilon))};
}

// make_row(row) comes before a row of x is read.
template <typename W, typename F>
void norm_as(const Norm& op, Team& team, const F& make_row) {
    const std::int64_t width = op.width;
    const ScratchRows<W> rows(team, width, 2, 2);
    const W* const weight = read_weight(op.weight, op.weight_offset, width, rows.shared(0));
    const W* const bias = op.bias ? read(op.bias, 0, width, rows.shared(1)) : nullptr;
    team.parallel_for(op.rows, rows_per_part(width), [&](auto begin, auto end, int worker) {
        for (std::int64_t row = begin; row < end; ++row) {
            make_row(row);
            const W* const x = read(op.x, row * width, width, rows.own(worker, 0));
            W* const y = target(op.y, row * width, rows.own(worker, 1));
            const auto [mean, inverse] = statistics_of(x, width, op.centred, op.epsilon);
            Array<W> out(y, width);
            out = (ConstArray<W>(x, width) - mean) * inverse * ConstArray<W>(weight, width);
            if (bias != nullptr) out += ConstArray<W>(bias, width);
            store(y, op.y, row * width, width);
            W* const stats = data<W>(op.stats);
            if (op.centred) stats[2 * row] = mean;
            stats[op.centred ? 2 * row + 1 : row] = inverse;
        }
    });
}

// With x̂ = (x − mean)/σ and g = dy·weight: dx = (g − mean of g − x̂·mean of g·x̂)/σ, where RMSNorm
// has no mean of g. Rows of sums: dweight of the part, then dbias.
template <typename W>
void norm_backward_row(const NormBackward& op, std::int64_t row, const W* weight,
                       const ScratchRows<W>& rows, int worker, W* dweight, W* dbias) {
    const std::int64_t width = op.width, at = row * width;
    const W* const dy = read(op.dy, at, width, rows.own(worker, 0));
    const W* const x = read(op.x, at, width, rows.own(worker, 1));
    const W* const residual =
        op.residual ? read(op.residual, at, width, rows.own(worker, 2)) : nullptr;
    const W* const stats = data<W>(op.stats);
    const W mean = op.centred ? stats[2 * row] : 0;
    const W inverse = stats[op.centred ? 2 * row + 1 : row];
    W* const normed = rows.own(worker, 3);
    for (std::int64_t i = 0; i < width; ++i) {
        normed[i] = (x[i] - mean) * inverse;
        dweight[i] += dy[i] * normed[i];
    }
    if (dbias != nullptr)
        for (std::int64_t i = 0; i < width; ++i)
            dbias[i] += dy[i];
    const W n = static_cast<W>(width);
    const W along = sum_of<W>(width, [&](auto i) { return dy[i] * weight[i] * normed[i]; }) / n;
    const W across =
        op.centred ? sum_of<W>(width, [&](auto i) { return dy[i] * weight[i]; }) / n : 0;
    W* const dx = target(op.dx, at, rows.own(worker, 4));
    for (std::int64_t i = 0; i < width; ++i) {
        const W own = inverse * (dy[i] * weight[i] - across - normed[i] * along);
        dx[i] = residual != nullptr ? residual[i] + own : own;
    }
    store(dx, op.dx, at, width);
}

template <typename W>
void norm_backward_as(const NormBackward& op, Team& team) {
    const std::int64_t parts = row_parts(op.rows);
    const ScratchRows<W> rows(team, op.width, 1 + 2 * parts, 5);
    const W* const weight = read_weight(op.weight, op.weight_offset, op.width, rows.shared(0));
    W* const dweights = rows.shared(1);
    W* const dbiases = op.dbias ? rows.shared(1 + parts) : nullptr;
    team.parallel_for(op.rows, kRowsPerSum, [&](auto begin, auto end, int worker) {
        const std::int64_t sums = begin / kRowsPerSum * rows.stride();
        W* const dbias = dbiases != nullptr ? dbiases + sums : nullptr;
        Array<W>(dweights + sums, op.width).setZero();
        if (dbias != nullptr) Array<W>(dbias, op.width).setZero();
        for (std::int64_t row = begin; row < end; ++row)
            norm_backward_row(op, row, weight, rows, worker, dweights + sums, dbias);
    });
    if (op.dweight)
        add_parts(dweights, parts, rows.stride(), op.width, op.dweight, op.accumulate, team);
    if (op.dbias) add_parts(dbiases, parts, rows.stride(), op.width, op.dbias, op.accumulate, team);
}

}  // namespace

void norm(const Norm& op, Team& team) {
    with_work_type(op.x.dtype,
                   [&](auto w) { norm_as<decltype(w)>(op, team, [](std::int64_t) {}); });
}

void residual_norm(const ResidualNorm& op, Team& team) {
    with_work_type(op.norm.x.dtype, [&](auto w) {
        norm_as<decltype(w)>(op.norm, team,
                             [&](std::int64_t row) { add_residual_row<decltype(w)>(op.sum, row); });
    });
}

void norm_backward(const NormBackward& op, Team& team) {
    with_work_type(op.x.dtype, [&](auto w) { norm_backward_as<decltype(w)>(op, team); });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
