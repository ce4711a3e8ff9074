#include "runtime/cpu/kernels/functions.hpp"
#include "runtime/cpu/kernels/tiled_product.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

void gemm(const Gemm& op, Team& team) {
    with_work_type(op.a.dtype, [&](auto w) {
        using Product = TiledProduct<decltype(w)>;
        const Product product(op, op.each_row_alone);
        team.reserve(0, Product::space(op.each_row_alone ? op.k : 0));
        team.parallel_for(product.tiles(), 1, [&](auto tile, auto, int worker) {
            product.compute(tile, team.scratch(worker));
        });
    });
}

// In memory of the result where nobody asks for the product.
void activated_gemm(const ActivatedGemm& op, Team& team) {
    Gemm product = op.product;
    const bool forward = product.form == GemmForm::forward;
    if (forward && op.before) product.c = op.before;
    gemm(product, team);
    const Buffer& c = op.product.c;
    if (forward)
        activation({op.form, product.m, product.n, product.c, c}, team);
    else
        activation_backward({op.form, product.m, product.n, c, op.before, c}, team);
}

void bias_gradient_gemm(const BiasGradientGemm& op, Team& team) {
    const Gemm& product = op.product;
    gemm(product, team);
    bias_gradient({product.k, product.m, product.a, op.dbias, product.accumulate}, team);
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
