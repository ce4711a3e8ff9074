// The functions of activations and their slopes, of pieces of rows.
#pragma once

#include <Eigen/Core>
#include <unsupported/Eigen/SpecialFunctions>

#include "plan/check.hpp"
#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/lanes.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

enum class Curve : std::uint8_t { gelu_tanh, gelu_erf, relu, squared_relu, silu, steep_silu };

inline Curve curve_of(ActivationForm form) {
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
        case ActivationForm::clamped_swiglu:
            return Curve::steep_silu;
    }
    ORRERY_CHECK(false, "unknown form of activation");
}

inline bool is_gated(ActivationForm form) {
    return form == ActivationForm::swiglu || form == ActivationForm::geglu_tanh ||
           form == ActivationForm::geglu_erf || form == ActivationForm::clamped_swiglu;
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

// x/(1 + exp(−steepness·x)).
template <typename W>
void silu(W* x_space, std::int64_t n, W* slope, W steepness = 1) {
    auto x = padded(x_space, n);
    Space<W> space;
    auto share = padded(space.at, n);
    share = 1 / (1 + (-steepness * x).exp());
    if (slope != nullptr) padded(slope, n) = share * (1 + steepness * x * (1 - share));
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
        case Curve::steep_silu:
            return silu(x, n, slope, W(1.702));
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

// A clamped gate and its other factor are within bounds, beyond which nothing has a slope. Forms
// without a limit are left as they are.
class Clamp {
  public:
    Clamp(ActivationForm form, double limit)
        : on_(form == ActivationForm::clamped_swiglu), limit_(limit) {}

    template <typename W>
    void gate(W* x, std::int64_t n) const {
        if (on_) Array<W>(x, n) = Array<W>(x, n).min(static_cast<W>(limit_));
    }
    // 1 + up within the bounds, in `space`, which may be `up`; else `up`.
    template <typename W>
    const W* factor(const W* up, std::int64_t n, W* space) const {
        if (!on_) return up;
        const auto limit = static_cast<W>(limit_);
        for (std::int64_t i = 0; i < n; ++i)
            space[i] = 1 + (up[i] < -limit ? -limit : up[i] > limit ? limit : up[i]);
        return space;
    }
    // Whether a gate, or another factor, is within the bounds.
    template <typename W>
    bool passes_gate(W x) const {
        return !on_ || !(x > static_cast<W>(limit_));
    }
    template <typename W>
    bool passes_factor(W x) const {
        return !on_ || !(x > static_cast<W>(limit_) || x < -static_cast<W>(limit_));
    }
    bool on() const { return on_; }

  private:
    bool on_;
    double limit_;
};

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
