// The product of two matrices on one thread, on which all products of the kernels rest. Its result
// depends on the matrices and their sizes alone: not on addresses, threads or the size of caches.
#pragma once

#include <cstdint>

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

// Row-major, `stride` elements from row to row.
template <typename W>
struct Matrix {
    W* data;
    std::int64_t stride;

    Matrix from_row(std::int64_t row) const { return {data + row * stride, stride}; }
};

enum class ProductForm : std::uint8_t {
    rows_by_rows,        // c[m,n] = a[m,k]·b[n,k]ᵀ
    rows_by_columns,     // c[m,n] = a[m,k]·b[k,n]
    columns_by_columns,  // c[m,n] = a[k,m]ᵀ·b[k,n]
};

struct ProductSize {
    std::int64_t m, n, k;
};

// c = scale·product, or c += scale·product. Defined for float and double.
template <typename W>
void multiply(ProductForm form, const ProductSize& size, Matrix<const W> a, Matrix<const W> b,
              Matrix<W> c, bool add, W scale = 1);

// As multiply, of forms whose rows of a are rows of c; and a row of c depends on that row of a and
// on b alone, not on the rows beside it nor on how many there are. `space`: space_alone elements.
template <typename W>
void multiply_alone(ProductForm form, const ProductSize& size, Matrix<const W> a, Matrix<const W> b,
                    Matrix<W> c, bool add, W* space);
std::int64_t space_alone(std::int64_t k, std::int64_t n);

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
