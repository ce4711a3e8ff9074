// Activation functions and their slopes, of one element in fp32.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/host_device.hpp"
#include "runtime/kernels/requests.hpp"

namespace orrery::runtime {

ORRERY_HOST_DEVICE inline bool is_gated(ActivationForm form) {
    return form == ActivationForm::swiglu || form == ActivationForm::geglu_tanh ||
           form == ActivationForm::geglu_erf || form == ActivationForm::clamped_swiglu;
}

// f(x) and f'(x).
struct CurvePoint {
    float value = 0;
    float slope = 0;
};

ORRERY_HOST_DEVICE inline CurvePoint gelu_tanh_at(float x) {
    constexpr float kLinear = 0.79788456080286535588F;  // √(2/π)
    constexpr float kCubic = kLinear * 0.044715F;
    const float t = std::tanh(x * (kLinear + kCubic * (x * x)));
    const float slope = 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * (kLinear + 3 * kCubic * (x * x));
    return {0.5F * x * (1 + t), slope};
}

ORRERY_HOST_DEVICE inline CurvePoint gelu_erf_at(float x) {
    constexpr float kInverseRootTwo = 0.70710678118654752440F;
    constexpr float kInverseRootTwoPi = 0.39894228040143267794F;
    const float below = 0.5F * (1 + std::erf(x * kInverseRootTwo));  // of a normal distribution
    return {x * below, below + x * kInverseRootTwoPi * std::exp(-0.5F * (x * x))};
}

// x/(1 + exp(−steepness·x)).
ORRERY_HOST_DEVICE inline CurvePoint silu_at(float x, float steepness = 1) {
    const float share = 1 / (1 + std::exp(-steepness * x));
    return {x * share, share * (1 + steepness * x * (1 - share))};
}

// Beyond the limit nothing has a slope.
ORRERY_HOST_DEVICE inline CurvePoint clamped_silu_at(float x, float limit) {
    const bool beyond = x > limit;
    const CurvePoint point = silu_at(beyond ? limit : x, 1.702F);
    return {point.value, beyond ? 0 : point.slope};
}

// NaN stays NaN.
ORRERY_HOST_DEVICE inline CurvePoint relu_at(float x) {
    return {x < 0 ? 0.0F : x, x > 0 ? 1.0F : 0.0F};
}

ORRERY_HOST_DEVICE inline CurvePoint squared_relu_at(float x) {
    const float above = relu_at(x).value;
    return {above * above, 2 * above};
}

// What multiplies the function of the gate, and its slope by `up`.
ORRERY_HOST_DEVICE inline CurvePoint factor_at(ActivationForm form, float up, float limit) {
    if (form != ActivationForm::clamped_swiglu) return {up, 1};
    if (up > limit) return {1 + limit, 0};
    if (up < -limit) return {1 - limit, 0};
    return {1 + up, 1};
}

// Of a gated form the function that is applied to the gate. `limit`: of a clamped one.
ORRERY_HOST_DEVICE inline CurvePoint curve_at(ActivationForm form, float x, float limit = 0) {
    switch (form) {
        case ActivationForm::gelu_tanh:
        case ActivationForm::geglu_tanh:
            return gelu_tanh_at(x);
        case ActivationForm::gelu_erf:
        case ActivationForm::geglu_erf:
            return gelu_erf_at(x);
        case ActivationForm::swiglu:
            return silu_at(x);
        case ActivationForm::clamped_swiglu:
            return clamped_silu_at(x, limit);
        case ActivationForm::squared_relu:
            return squared_relu_at(x);
        case ActivationForm::relu:
            break;
    }
    return relu_at(x);
}

}  // namespace orrery::runtime
