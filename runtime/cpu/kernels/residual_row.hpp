// A row of residual_add, which a norm of the sum begins with too.
#pragma once

#include <cstdint>

#include "runtime/cpu/kernels/dropout_mask.hpp"
#include "runtime/cpu/kernels/elements.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

template <typename W>
void drop(const ResidualAdd& op, std::int64_t at, std::int64_t n, W* sum) {
    Space<W> factor;
    keep_factors(op.key, op.index, at, n, factor.at);
    if (op.mask)
        for (std::int64_t i = 0; i < n; ++i)
            data<std::uint8_t>(op.mask, at)[i] = factor.at[i] != 0;
    Array<W>(sum, n) *= ConstArray<W>(factor.at, n);
}

template <typename W>
void add_residual_piece(const ResidualAdd& op, std::int64_t row, std::int64_t column,
                        std::int64_t n) {
    const std::int64_t at = row * op.width + column;
    Space<W> sum, space;
    Array<W> y(sum.at, n);
    convert_from(op.branch, at, n, sum.at);
    for (const Buffer& bias : op.biases)
        if (bias) y += ConstArray<W>(read(bias, column, n, space.at), n);
    if (op.positions) {
        const std::int64_t at_row = op.position_rows.of(row) * op.width;
        y += ConstArray<W>(read(op.positions, at_row + column, n, space.at), n);
    }
    if (op.key) drop(op, at, n, sum.at);
    if (op.x) y += ConstArray<W>(read(op.x, at, n, space.at), n);
    convert_to(op.y, at, n, sum.at);
}

template <typename W>
void add_residual_row(const ResidualAdd& op, std::int64_t row) {
    for (std::int64_t column = 0; column < op.width; column += kPiece) {
        const std::int64_t left = op.width - column;
        add_residual_piece<W>(op, row, column, left < kPiece ? left : kPiece);
    }
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
