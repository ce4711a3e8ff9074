// Rows times a number each, which itself has a gradient: what gates and experts' weights share.
#pragma once

#include <algorithm>

#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/lanes.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

// Of y = weight·x, one row of `width` elements from element `row` on: dx = weight·dy, and returned
// the weight's gradient Σ dy·x.
template <typename W>
W weigh_row_backward(const Buffer& dy, const Buffer& x, const Buffer& dx, std::int64_t row,
                     std::int64_t width, W weight) {
    W along = 0;
    for (std::int64_t column = 0; column < width; column += kPiece) {
        const std::int64_t n = std::min(kPiece, width - column);
        Space<W> gradient, x_space;
        convert_from(dy, row + column, n, gradient.at);
        const W* const values = read(x, row + column, n, x_space.at);
        along += sum_of<W>(n, [&](auto i) { return gradient.at[i] * values[i]; });
        Array<W>(gradient.at, n) *= weight;
        convert_to(dx, row + column, n, gradient.at);
    }
    return along;
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
