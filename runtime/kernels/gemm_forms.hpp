// How the operands of each product of a plan lie, as a request to a kernel says it.
#pragma once

#include <array>
#include <utility>

#include "plan/ops/matrix.hpp"
#include "runtime/kernels/requests.hpp"

namespace orrery::runtime {

// In the order of GemmProduct.
inline constexpr std::array<std::pair<plan::GemmProduct, GemmForm>, 3> kGemmForms = {
    {{plan::GemmProduct::forward, GemmForm::forward},
     {plan::GemmProduct::input_gradient, GemmForm::input_gradient},
     {plan::GemmProduct::weight_gradient, GemmForm::weight_gradient}}};

constexpr GemmForm form_of(plan::GemmProduct product) {
    return kGemmForms[static_cast<std::size_t>(product)].second;
}

}  // namespace orrery::runtime
