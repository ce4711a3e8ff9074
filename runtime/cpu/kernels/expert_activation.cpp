// expert_activation and expert_activation_backward.
#include <algorithm>

#include "runtime/cpu/kernels/activation_curves.hpp"
#include "runtime/cpu/kernels/functions.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

template <typename W>
void expert_activation_as(const ExpertActivation& op, Team& team) {
    const Curve curve = curve_of(op.form);
    const Clamp clamp(op.form, op.limit);
    const bool gated = is_gated(op.form);
    const std::int64_t pitch = gated ? 2 * op.width : op.width;
    const auto activate = [&](std::int64_t row, std::int64_t column, std::int64_t n) {
        Space<W> f, up;
        const std::int64_t from = row * pitch + column;
        convert_from(op.x, from, n, f.at);
        clamp.gate(f.at, n);
        apply<W>(curve, f.at, n, nullptr);
        Array<W> y(f.at, n);
        if (gated)
            y *= ConstArray<W>(clamp.factor(read(op.x, from + op.width, n, up.at), n, up.at), n);
        if (op.weights) y *= data<W>(op.weights)[row];
        convert_to(op.y, row * op.width + column, n, f.at);
    };
    const std::int64_t rows = op.places.received(op.places.member);
    team.parallel_for(rows, rows_per_part(op.width), [&](auto begin, auto end) {
        for (std::int64_t row = begin; row < end; ++row)
            for (std::int64_t column = 0; column < op.width; column += kPiece)
                activate(row, column, std::min(kPiece, op.width - column));
    });
}

// A row in pieces, each of which adds to the gradient of the row's weight.
template <typename W>
W differentiate_piece(const ExpertActivationBackward& op, std::int64_t row, std::int64_t column,
                      std::int64_t n) {
    Space<W> f, slope, dy_space, up_space, factor_space, gate_space;
    const Clamp clamp(op.form, op.limit);
    const bool gated = is_gated(op.form);
    const std::int64_t from = row * (gated ? 2 * op.width : op.width) + column;
    convert_from(op.x, from, n, f.at);
    clamp.gate(f.at, n);
    apply(curve_of(op.form), f.at, n, slope.at);
    const W* const dy = read(op.dy, row * op.width + column, n, dy_space.at);
    const W* const up = gated ? read(op.x, from + op.width, n, up_space.at) : nullptr;
    const W* const factor = gated ? clamp.factor(up, n, factor_space.at) : nullptr;
    const W dweight =
        sum_of<W>(n, [&](auto i) { return dy[i] * (gated ? f.at[i] * factor[i] : f.at[i]); });
    const W weight = op.weights ? data<W>(op.weights)[row] : W(1);
    for (std::int64_t i = 0; i < n; ++i) {
        const W scaled = dy[i] * weight;
        slope.at[i] = (gated ? slope.at[i] * factor[i] : slope.at[i]) * scaled;
        f.at[i] *= scaled;
    }
    if (clamp.on()) {
        const W* const gate = read(op.x, from, n, gate_space.at);
        for (std::int64_t i = 0; i < n; ++i) {
            if (!clamp.passes_gate(gate[i])) slope.at[i] = 0;
            if (!clamp.passes_factor(up[i])) f.at[i] = 0;
        }
    }
    convert_to(op.dx, from, n, slope.at);
    if (gated) convert_to(op.dx, from + op.width, n, f.at);
    return dweight;
}

}  // namespace

void expert_activation(const ExpertActivation& op, Team& team) {
    with_work_type(op.x.dtype, [&](auto w) { expert_activation_as<decltype(w)>(op, team); });
}

void expert_activation_backward(const ExpertActivationBackward& op, Team& team) {
    with_work_type(op.dy.dtype, [&](auto w) {
        using W = decltype(w);
        const std::int64_t rows = op.places.received(op.places.member);
        team.parallel_for(rows, rows_per_part(op.width), [&](auto begin, auto end) {
            for (std::int64_t row = begin; row < end; ++row) {
                W dweight = 0;
                for (std::int64_t column = 0; column < op.width; column += kPiece)
                    dweight += differentiate_piece<W>(op, row, column,
                                                      std::min(kPiece, op.width - column));
                if (op.weights) data<W>(op.dweights)[row] = dweight;
            }
        });
    });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
