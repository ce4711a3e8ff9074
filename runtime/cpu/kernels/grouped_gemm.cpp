#include <algorithm>
#include <vector>

#include "runtime/cpu/kernels/functions.hpp"
#include "runtime/cpu/kernels/tiled_product.hpp"
#include "runtime/kernels/grouped_product.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

// Tiles of all experts are shared out together: few of them may have most rows.
template <typename W>
void grouped_gemm_as(const GroupedGemm& op, Team& team) {
    using Product = TiledProduct<W>;
    std::vector<Product> products;
    std::vector<std::int64_t> ends;  // of each product's tiles, of all
    const bool sums = op.form == GemmForm::weight_gradient;
    std::int64_t tiles = 0;
    for_products(op.places, op.by_source, [&](const ProductRows& rows) {
        const Product& product = products.emplace_back(product_of(op, rows), !sums);
        ends.push_back(tiles += product.tiles());
    });
    team.reserve(0, Product::space(sums ? 0 : op.k));
    team.parallel_for(tiles, 1, [&](std::int64_t tile, std::int64_t, int worker) {
        const auto end = std::upper_bound(ends.begin(), ends.end(), tile);
        const std::int64_t before = end == ends.begin() ? 0 : *(end - 1);
        products[static_cast<std::size_t>(end - ends.begin())].compute(tile - before,
                                                                       team.scratch(worker));
    });
}

}  // namespace

void grouped_gemm(const GroupedGemm& op, Team& team) {
    with_work_type(op.a.dtype, [&](auto w) { grouped_gemm_as<decltype(w)>(op, team); });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
