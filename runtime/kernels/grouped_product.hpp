// The product of one expert in a GroupedGemm, as a Gemm of its own: for backends that perform them
// one by one.
#pragma once

#include "plan/ir/kinds.hpp"
#include "runtime/kernels/requests.hpp"

namespace orrery::runtime {

// Rows [first, first + rows) of local expert `i`; by source, those of one rank.
struct ProductRows {
    std::int64_t source = 0;
    std::int64_t i = 0, first = 0, rows = 0;
};

// Calls f(rows) for each product: by expert, then by source.
template <typename F>
void for_products(const ExpertPlaces& places, bool by_source, const F& f) {
    std::int64_t first = 0;
    for (std::int64_t i = 0; i < places.local(); ++i) {
        const std::int64_t expert = places.first_of(places.member) + i;
        for (std::int64_t source = 0; source < (by_source ? places.ranks : 1); ++source) {
            const std::int64_t rows =
                by_source ? places.count(source, expert) : places.rows_of(expert);
            f(ProductRows{source, i, first, rows});
            first += rows;
        }
    }
}

inline Gemm product_of(const GroupedGemm& op, const ProductRows& of) {
    const std::int64_t first = of.first, rows = of.rows;
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
        gemm.c = from(op.c, (of.source * op.places.local() + of.i) * op.m * op.n);
    } else {
        gemm.m = rows;
        gemm.a = from(op.a, first * op.k);
        gemm.b = from(op.b, of.i * op.n * op.k);
        gemm.c = from(op.c, first * op.n);
    }
    return gemm;
}

}  // namespace orrery::runtime
