#include "runtime/cpu/kernels/matrix_product.hpp"

#include <Eigen/Core>

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

// Eigen's blocks follow the sizes of caches; these are said once, lest a sum depend on the machine.
const bool cache_sizes_are_said = [] {
    Eigen::setCpuCacheSizes(32 << 10, 512 << 10, 4 << 20);
    return true;
}();

template <typename W>
using RowMajor = Eigen::Matrix<W, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <typename W>
auto view(Matrix<const W> matrix, std::int64_t rows, std::int64_t columns) {
    return Eigen::Map<const RowMajor<W>, Eigen::Unaligned, Eigen::OuterStride<>>(
        matrix.data, rows, columns, Eigen::OuterStride<>(matrix.stride));
}

template <typename C, typename Product>
void assign(C& c, const Product& product, bool add) {
    if (add)
        c.noalias() += product;
    else
        c.noalias() = product;
}

}  // namespace

template <typename W>
void multiply(ProductForm form, const ProductSize& size, Matrix<const W> a, Matrix<const W> b,
              Matrix<W> c, bool add, W scale) {
    const auto [m, n, k] = size;
    if (m == 0 || n == 0) return;
    Eigen::Map<RowMajor<W>, Eigen::Unaligned, Eigen::OuterStride<>> out(
        c.data, m, n, Eigen::OuterStride<>(c.stride));
    switch (form) {
        case ProductForm::rows_by_rows:
            return assign(out, scale * view(a, m, k) * view(b, n, k).transpose(), add);
        case ProductForm::rows_by_columns:
            return assign(out, scale * view(a, m, k) * view(b, k, n), add);
        case ProductForm::columns_by_columns:
            return assign(out, scale * view(a, k, m).transpose() * view(b, k, n), add);
    }
}

template void multiply<float>(ProductForm, const ProductSize&, Matrix<const float>,
                              Matrix<const float>, Matrix<float>, bool, float);
template void multiply<double>(ProductForm, const ProductSize&, Matrix<const double>,
                               Matrix<const double>, Matrix<double>, bool, double);

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
