// activation and activation_backward.
#include <Eigen/Core>
#include <unsupported/Eigen/SpecialFunctions>

#include "plan/check.hpp"
#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"
#include "runtime/cpu/kernels/lanes.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

enum class Curve : std::uint8_t { gelu_tanh, gelu_erf, relu, squared_relu, silu };

Curve curve_of(ActivationForm form) {
    switch (form) {
        case ActivationForm::gelu_tanh:
        case ActivationForm::geglu_tanh:
            return Curve::gelu_tanh;
        case ActivationForm::gelu_erf:
        case ActivationForm::geglu_erf:
            return Curve::gelu_erf;
        case ActivationForm::relu:
            return Curve::relu;
        case ActivationForm::squared_relu:
            return Curve::squared_relu;
        case ActivationForm::swiglu:
            return Curve::silu;
    }
    ORRERY_CHECK(false, "unknown form of activation");
}

bool is_gated(ActivationForm form) {
    return form == ActivationForm::swiglu || form == ActivationForm::geglu_tanh ||
           form == ActivationForm::geglu_erf;
}

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

// Of √(2/π)·(x + 0.044715·x³).
template <typename W>
constexpr W kGeluLinear = W(0.79788456080286535588);
template <typename W>
constexpr W kGeluCubic = W(0.79788456080286535588 * 0.044715);

// A piece of x in padded space becomes f(x) and, where `slope` is not null, f'(x).
template <typename W>
void gelu_tanh(W* x_space, std::int64_t n, W* slope) {
    auto x = padded(x_space, n);
    Space<W> space;
    auto t = padded(space.at, n);
    t = (x * (kGeluLinear<W> + kGeluCubic<W> * x.square())).tanh();
    if (slope != nullptr)
        padded(slope, n) = W(0.5) * (1 + t) + W(0.5) * x * (1 - t.square()) *
                                                  (kGeluLinear<W> + 3 * kGeluCubic<W> * x.square());
    x = W(0.5) * x * (1 + t);
}

template <typename W>
void gelu_erf(W* x_space, std::int64_t n, W* slope) {
    constexpr W kInverseRootTwo = W(0.70710678118654752440);
    constexpr W kInverseRootTwoPi = W(0.39894228040143267794);
    auto x = padded(x_space, n);
    Space<W> space;
    auto below = padded(space.at, n);  // the normal distribution's share below x
    below = W(0.5) * (1 + (x * kInverseRootTwo).erf());
    if (slope != nullptr)
        padded(slope, n) = below + x * kInverseRootTwoPi * (W(-0.5) * x.square()).exp();
    x = x * below;
}

template <typename W>
void silu(W* x_space, std::int64_t n, W* slope) {
    auto x = padded(x_space, n);
    Space<W> space;
    auto share = padded(space.at, n);
    share = 1 / (1 + (-x).exp());
    if (slope != nullptr) padded(slope, n) = share * (1 + x * (1 - share));
    x = x * share;
}

template <typename W>
void apply(Curve curve, W* x, std::int64_t n, W* slope) {
    switch (curve) {
        case Curve::gelu_tanh:
            return gelu_tanh(x, n, slope);
        case Curve::gelu_erf:
            return gelu_erf(x, n, slope);
        case Curve::silu:
            return silu(x, n, slope);
        case Curve::relu:
            for (std::int64_t i = 0; i < n; ++i) {
                if (slope != nullptr) slope[i] = x[i] > 0 ? W(1) : W(0);
                x[i] = x[i] < 0 ? W(0) : x[i];
            }
            return;
        case Curve::squared_relu:
            for (std::int64_t i = 0; i < n; ++i) {
                const W above = x[i] < 0 ? W(0) : x[i];  // NaN stays NaN
                if (slope != nullptr) slope[i] = 2 * above;
                x[i] = above * above;
            }
    }
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
    for_pieces_of_rows(team, op.rows, op.width, [&](auto row, auto column, auto n) {
        Space<W> f, up;
        const std::int64_t from = row * gating.pitch + column;
        convert_from(op.x, from, n, f.at);
        apply<W>(curve, f.at, n, nullptr);
        if (is_gated(op.form))
            Array<W>(f.at, n) *= ConstArray<W>(read(gating.up, from + gating.ahead, n, up.at), n);
        convert_to(op.y, row * op.width + column, n, f.at);
    });
}

template <typename W>
void activation_backward_as(const ActivationBackward& op, Team& team) {
    const Curve curve = curve_of(op.form);
    const bool gated = is_gated(op.form);
    const Gating gating = gating_of(op.form, op.told_by, op.up, op.width);
    for_pieces_of_rows(team, op.rows, op.width, [&](auto row, auto column, auto n) {
        Space<W> f, slope, dy_space, up_space;
        const std::int64_t from = row * gating.pitch + column;
        const std::int64_t to = row * (gated ? 2 * op.width : op.width) + column;
        convert_from(op.told_by, from, n, f.at);
        apply(curve, f.at, n, slope.at);
        const ConstArray<W> dy(read(op.dy, row * op.width + column, n, dy_space.at), n);
        Array<W> dgate(slope.at, n);
        if (gated) {
            dgate *= ConstArray<W>(read(gating.up, from + gating.ahead, n, up_space.at), n);
            Array<W>(f.at, n) *= dy;
            convert_to(op.dx, to + op.width, n, f.at);
        }
        dgate *= dy;
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
