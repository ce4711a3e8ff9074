// The form of activation that each function of a plan is.
#pragma once

#include "plan/ops/rows.hpp"
#include "runtime/kernels/requests.hpp"

namespace orrery::runtime {

constexpr ActivationForm form_of(plan::ActivationFunction function) {
    switch (function) {
        case plan::ActivationFunction::gelu_tanh:
            return ActivationForm::gelu_tanh;
        case plan::ActivationFunction::gelu_erf:
            return ActivationForm::gelu_erf;
        case plan::ActivationFunction::relu:
            return ActivationForm::relu;
        case plan::ActivationFunction::squared_relu:
            return ActivationForm::squared_relu;
        case plan::ActivationFunction::swiglu:
            return ActivationForm::swiglu;
        case plan::ActivationFunction::geglu_tanh:
            return ActivationForm::geglu_tanh;
        case plan::ActivationFunction::clamped_swiglu:
            return ActivationForm::clamped_swiglu;
        case plan::ActivationFunction::geglu_erf:
            break;
    }
    return ActivationForm::geglu_erf;
}

}  // namespace orrery::runtime
