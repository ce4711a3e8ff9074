// activation and activation_backward.
#include <Eigen/Core>

#include "runtime/cpu/kernels/activation_curves.hpp"
#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

// Where the two factors of a gated form lie: rows of the gate are `pitch` elements apart, the other
// factor is `ahead` elements further on, in `up`.
struct Gating {
    Buffer up;
    std::int64_t pitch = 0;
    std::int64_t ahead = 0;
};

Gating gating_of(ActivationForm form, const Buffer& x, const Buffer& up, std::int64_t width) {
    if (!is_gated(form)) return {x, width, 0};
    return up.data == nullptr ? Gating{x, 2 * width, width} : Gating{up, width, 0};
}

// Calls f(row, column, length) for pieces of rows.
template <typename F>
void for_pieces_of_rows(Team& team, std::int64_t rows, std::int64_t width, const F& f) {
    team.parallel_for(rows, rows_per_part(width), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row)
            for (std::int64_t column = 0; column < width; column += kPiece)
                f(row, column, width - column < kPiece ? width - column : kPiece);
    });
}

template <typename W>
void activation_as(const Activation& op, Team& team) {
    const Curve curve = curve_of(op.form);
    const Gating gating = gating_of(op.form, op.x, op.up, op.width);
    const Clamp clamp(op.form, op.limit);
    for_pieces_of_rows(team, op.rows, op.width, [&](auto row, auto column, auto n) {
        Space<W> f, up;
        const std::int64_t from = row * gating.pitch + column;
        convert_from(op.x, from, n, f.at);
        clamp.gate(f.at, n);
        apply<W>(curve, f.at, n, nullptr);
        if (is_gated(op.form))
            Array<W>(f.at, n) *= ConstArray<W>(
                clamp.factor(read(gating.up, from + gating.ahead, n, up.at), n, up.at), n);
        convert_to(op.y, row * op.width + column, n, f.at);
    });
}

template <typename W>
void activation_backward_as(const ActivationBackward& op, Team& team) {
    const Curve curve = curve_of(op.form);
    const bool gated = is_gated(op.form);
    const Gating gating = gating_of(op.form, op.told_by, op.up, op.width);
    const Clamp clamp(op.form, op.limit);
    for_pieces_of_rows(team, op.rows, op.width, [&](auto row, auto column, auto n) {
        Space<W> f, slope, dy_space, up_space, factor_space, gate_space;
        const std::int64_t from = row * gating.pitch + column;
        const std::int64_t to = row * (gated ? 2 * op.width : op.width) + column;
        convert_from(op.told_by, from, n, f.at);
        clamp.gate(f.at, n);
        apply(curve, f.at, n, slope.at);
        const ConstArray<W> dy(read(op.dy, row * op.width + column, n, dy_space.at), n);
        Array<W> dgate(slope.at, n);
        if (gated) {
            const W* const up = read(gating.up, from + gating.ahead, n, up_space.at);
            dgate *= ConstArray<W>(clamp.factor(up, n, factor_space.at), n);
            Array<W>(f.at, n) *= dy;
            for (std::int64_t i = 0; clamp.on() && i < n; ++i)
                if (!clamp.passes_factor(up[i])) f.at[i] = 0;
            convert_to(op.dx, to + op.width, n, f.at);
        }
        dgate *= dy;
        if (clamp.on()) {
            const W* const gate = read(op.told_by, from, n, gate_space.at);
            for (std::int64_t i = 0; i < n; ++i)
                if (!clamp.passes_gate(gate[i])) slope.at[i] = 0;
        }
        convert_to(op.dx, to, n, slope.at);
    });
}

}  // namespace

void activation(const Activation& op, Team& team) {
    with_work_type(op.x.dtype, [&](auto w) { activation_as<decltype(w)>(op, team); });
}

void activation_backward(const ActivationBackward& op, Team& team) {
    with_work_type(op.dy.dtype, [&](auto w) { activation_backward_as<decltype(w)>(op, team); });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
