#include "runtime/cpu/kernels/matrix_product.hpp"

#include <Eigen/Core>
#include <algorithm>

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

namespace {

// Eigen multiplies so many rows together, and those that are left one by one, in another order of
// additions; vectors, and matrices whose sides add up to less than kLeastSides, it multiplies
// without blocks. Rows that are left are therefore multiplied with rows of zeros.
constexpr std::int64_t kTogether = 4;
constexpr std::int64_t kLeastSides = 20;

std::int64_t filled(std::int64_t rows, std::int64_t n, std::int64_t k) {
    const std::int64_t whole = (rows + kTogether - 1) / kTogether * kTogether;
    return whole + n + k < kLeastSides ? kLeastSides : whole;
}

}  // namespace

std::int64_t space_alone(std::int64_t k, std::int64_t n) {
    return kTogether * (k + n) + kLeastSides * kLeastSides;
}

template <typename W>
void multiply_alone(ProductForm form, const ProductSize& size, Matrix<const W> a, Matrix<const W> b,
                    Matrix<W> c, bool add, W* space) {
    const auto [m, n, k] = size;
    std::int64_t whole = m / kTogether * kTogether;
    if (filled(whole, n, k) > whole) whole = 0;
    if (whole > 0) multiply(form, {whole, n, k}, a, b, c, add);
    const std::int64_t left = m - whole;
    if (left == 0) return;
    const std::int64_t rows = filled(left, n, k);
    const Matrix<W> some_a{space, k}, some_c{space + rows * k, n};
    std::fill_n(space, rows * (k + n), W(0));
    for (std::int64_t row = 0; row < left; ++row) {
        std::copy_n(a.from_row(whole + row).data, k, some_a.from_row(row).data);
        if (add) std::copy_n(c.from_row(whole + row).data, n, some_c.from_row(row).data);
    }
    multiply(form, {rows, n, k}, Matrix<const W>{some_a.data, k}, b, some_c, add);
    for (std::int64_t row = 0; row < left; ++row)
        std::copy_n(some_c.from_row(row).data, n, c.from_row(whole + row).data);
}

template void multiply<float>(ProductForm, const ProductSize&, Matrix<const float>,
                              Matrix<const float>, Matrix<float>, bool, float);
template void multiply<double>(ProductForm, const ProductSize&, Matrix<const double>,
                               Matrix<const double>, Matrix<double>, bool, double);
template void multiply_alone<float>(ProductForm, const ProductSize&, Matrix<const float>,
                                    Matrix<const float>, Matrix<float>, bool, float*);
template void multiply_alone<double>(ProductForm, const ProductSize&, Matrix<const double>,
                                     Matrix<const double>, Matrix<double>, bool, double*);

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
