// How far one rounding may move a number, for bounds that tests derive.
#pragma once

#include "plan/ir/kinds.hpp"

namespace orrery {

// Largest relative error of one rounding: 2^-p at p significant bits.
inline double unit_of(plan::DType dtype) {
    switch (dtype) {
        case plan::DType::bf16:
            return 0x1p-8;
        case plan::DType::fp16:
            return 0x1p-11;
        case plan::DType::fp32:
            return 0x1p-24;
        case plan::DType::fp64:
            return 0x1p-53;
        default:
            return 0;
    }
}

}  // namespace orrery
