// A product in tiles that a team shares out. The result does not depend on how many threads there
// are.
#pragma once

#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"
#include "runtime/cpu/kernels/lanes.hpp"
#include "runtime/cpu/kernels/matrix_product.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

// The output is cut into tiles by its size alone, whatever the number of threads, and a tile is one
// thread's. Large tiles are faster by a tenth, but a small output needs enough of them to share
// out. Operands of another type are converted in panels of a tile's rows and of kDepth of k.
inline constexpr std::int64_t kTileRows = 512;
inline constexpr std::int64_t kTileColumns = 768;
inline constexpr std::int64_t kLeastTiles = 8;
inline constexpr std::int64_t kDepth = 512;

inline std::int64_t parts_of(std::int64_t n, std::int64_t size) {
    return (n + size - 1) / size;
}

struct TileSize {
    std::int64_t rows, columns;
};

inline TileSize tile_size_of(std::int64_t m, std::int64_t n) {
    TileSize size{kTileRows, kTileColumns};
    for (int halvings = 0; halvings < 4; ++halvings) {
        if (parts_of(m, size.rows) * parts_of(n, size.columns) >= kLeastTiles) break;
        (size.columns > size.rows ? size.columns : size.rows) /= 2;
    }
    return size;
}

// Rows × columns of an operand from a corner on, converted to W if need be.
struct Panel {
    const Buffer& operand;
    const Scales& scales;
    std::int64_t stride;
    std::int64_t row, column, rows, columns;
};

template <typename W>
Matrix<const W> read_panel(const Panel& panel, W* space) {
    const std::int64_t corner = panel.row * panel.stride + panel.column;
    if (panel.operand.dtype == kDType<W>) return {data<W>(panel.operand, corner), panel.stride};
    const std::int64_t stride = whole_lanes(panel.columns);
    const bool scaled = plan::is_eight_bit(panel.operand.dtype);
    for (std::int64_t row = 0; row < panel.rows; ++row)
        if (scaled)
            expand(panel.operand, panel.scales,
                   {panel.stride, panel.row + row, panel.column, panel.columns},
                   space + row * stride);
        else
            convert_from(panel.operand, corner + row * panel.stride, panel.columns,
                         space + row * stride);
    return {space, stride};
}

struct Tile {
    std::int64_t row, column, rows, columns;
};

// `each_row_alone`: a row of the result depends on nothing but the row of a and on b.
template <typename W>
class TiledProduct {
  public:
    explicit TiledProduct(const Gemm& op, bool each_row_alone = false)
        : op_(op),
          tile_(tile_size_of(op.m, op.n)),
          depth_(op.a.dtype == kDType<W> && op.k > 0 ? op.k : kDepth),
          each_row_alone_(each_row_alone) {}

    std::int64_t tiles() const {
        return parts_of(op_.m, tile_.rows) * parts_of(op_.n, tile_.columns);
    }
    // Bytes of a worker for any product of rows so wide.
    static std::size_t space(std::int64_t k) {
        return (kSpace + static_cast<std::size_t>(space_alone(k, kTileColumns))) * sizeof(W);
    }

    void compute(std::int64_t tile, void* space) const {
        // Down first: neighbours in time share columns of b, which are many in a head.
        const std::int64_t down = parts_of(op_.m, tile_.rows);
        const std::int64_t row = tile % down * tile_.rows;
        const std::int64_t column = tile / down * tile_.columns;
        compute({row, column, least(tile_.rows, op_.m - row), least(tile_.columns, op_.n - column)},
                static_cast<W*>(space));
    }

  private:
    // Of a worker: the tile of c, then panels of a and of b, whichever way they lie.
    static constexpr std::int64_t kSpaceOfC = kTileRows * kTileColumns;
    static constexpr std::int64_t kSpaceOfA = kTileRows * kDepth;
    static constexpr std::int64_t kSpaceOfB = kTileColumns * kDepth;
    static constexpr std::size_t kSpace = kSpaceOfC + kSpaceOfA + kSpaceOfB;

    static std::int64_t stride_of(std::int64_t said, std::int64_t width) {
        return said > 0 ? said : width;
    }
    static std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

    void compute(const Tile& tile, W* space) const {
        const bool direct = op_.c.dtype == kDType<W> && !scaled();
        const std::int64_t corner = tile.row * op_.n + tile.column;
        const Matrix<W> c =
            direct ? Matrix<W>{data<W>(op_.c, corner), op_.n} : Matrix<W>{space, kTileColumns};
        if (op_.accumulate && !direct && !scaled())
            for (std::int64_t row = 0; row < tile.rows; ++row)
                convert_from(op_.c, corner + row * op_.n, tile.columns, c.from_row(row).data);
        bool add = op_.accumulate && !scaled();
        for (std::int64_t depth = 0; depth < op_.k || depth == 0; depth += depth_) {
            multiply_part(tile, depth, least(depth_, op_.k - depth), space + kSpaceOfC, c, add);
            add = true;
        }
        for (std::int64_t row = 0; row < tile.rows; ++row)
            finish_row(tile, corner + row * op_.n, c.from_row(row).data);
    }

    void multiply_part(const Tile& tile, std::int64_t depth, std::int64_t k, W* space, Matrix<W> c,
                       bool add) const {
        const ProductSize size{tile.rows, tile.columns, k};
        W* const space_b = space + kSpaceOfA;
        Matrix<const W> a, b;
        ProductForm form{};
        switch (op_.form) {
            case GemmForm::forward:
                form = ProductForm::rows_by_rows;
                a = read_panel({op_.a, op_.a_scales, stride_of(op_.a_stride, op_.k), tile.row,
                                depth, tile.rows, k},
                               space);
                b = read_panel({op_.b, op_.b_scales, stride_of(op_.b_stride, op_.k), tile.column,
                                depth, tile.columns, k},
                               space_b);
                break;
            case GemmForm::input_gradient:
                form = ProductForm::rows_by_columns;
                a = read_panel({op_.a, op_.a_scales, stride_of(op_.a_stride, op_.k), tile.row,
                                depth, tile.rows, k},
                               space);
                b = read_panel({op_.b, op_.b_scales, stride_of(op_.b_stride, op_.n), depth,
                                tile.column, k, tile.columns},
                               space_b);
                break;
            case GemmForm::weight_gradient:
                form = ProductForm::columns_by_columns;
                a = read_panel({op_.a, op_.a_scales, stride_of(op_.a_stride, op_.m), depth,
                                tile.row, k, tile.rows},
                               space);
                b = read_panel({op_.b, op_.b_scales, stride_of(op_.b_stride, op_.n), depth,
                                tile.column, k, tile.columns},
                               space_b);
        }
        if (each_row_alone_)
            multiply_alone(form, size, a, b, c, add, space_b + kSpaceOfB);
        else
            multiply(form, size, a, b, c, add);
    }

    // Its factor comes before what it is added to: the tile is then made in the worker's space.
    bool scaled() const { return op_.factor != 1; }

    void finish_row(const Tile& tile, std::int64_t at, W* c) const {
        if (scaled()) return store_scaled(tile, at, c);
        if (op_.bias) {
            Space<W> space;
            Array<W>(c, tile.columns) +=
                ConstArray<W>(read(op_.bias, tile.column, tile.columns, space.at), tile.columns);
        }
        if (op_.residual) {
            Space<W> space;
            Array<W>(c, tile.columns) +=
                ConstArray<W>(read(op_.residual, at, tile.columns, space.at), tile.columns);
        }
        store(c, op_.c, at, tile.columns);
    }

    void store_scaled(const Tile& tile, std::int64_t at, W* c) const {
        Array<W> row(c, tile.columns);
        row *= static_cast<W>(op_.factor);
        Space<W> space;
        const auto add = [&](const Buffer& from, std::int64_t begin) {
            row += ConstArray<W>(read(from, begin, tile.columns, space.at), tile.columns);
        };
        if (op_.accumulate) add(op_.c, at);
        if (op_.bias) add(op_.bias, tile.column);
        if (op_.residual) add(op_.residual, at);
        if (op_.c.dtype == kDType<W>)
            Array<W>(data<W>(op_.c, at), tile.columns) = row;
        else
            store(c, op_.c, at, tile.columns);
    }

    Gemm op_;
    TileSize tile_;
    std::int64_t depth_;
    bool each_row_alone_;
};

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
