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

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
