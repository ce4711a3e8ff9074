// The product of one expert in a GroupedGemm, as a Gemm of its own: for backends that perform them
// one by one.
#pragma once

#include "plan/ir/kinds.hpp"
#include "runtime/kernels/requests.hpp"

namespace orrery::runtime {

// Of local expert `i`, whose rows are [first, first + rows).
inline Gemm product_of(const GroupedGemm& op, std::int64_t i, std::int64_t first,
                       std::int64_t rows) {
    const auto from = [](const Buffer& whole, std::int64_t element) {
        return Buffer{static_cast<std::byte*>(whole.data) + element * plan::size_bytes(whole.dtype),
                      whole.dtype};
    };
    Gemm gemm;
    gemm.form = op.form;
    gemm.m = op.m;
    gemm.n = op.n;
    gemm.k = op.k;
    gemm.accumulate = op.accumulate;
    if (op.form == GemmForm::weight_gradient) {
        gemm.k = rows;
        gemm.a = from(op.a, first * op.m);
        gemm.b = from(op.b, first * op.n);
        gemm.c = from(op.c, i * op.m * op.n);
    } else {
        gemm.m = rows;
        gemm.a = from(op.a, first * op.k);
        gemm.b = from(op.b, i * op.n * op.k);
        gemm.c = from(op.c, first * op.n);
    }
    return gemm;
}

}  // namespace orrery::runtime
