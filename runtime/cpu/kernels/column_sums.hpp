// Sums over the rows of an activation, for gradients of biases and of norms: parts of a fixed
// number of rows are summed each by one thread, then their sums in order.
#pragma once

#include "runtime/cpu/kernels/elements.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

inline constexpr std::int64_t kRowsPerSum = 32;

inline std::int64_t row_parts(std::int64_t rows) {
    return (rows + kRowsPerSum - 1) / kRowsPerSum;
}

// to[c] (+)= Σ over parts of sums[part·stride + c].
template <typename W>
void add_parts(const W* sums, std::int64_t parts, std::int64_t stride, std::int64_t width,
               const Buffer& to, bool accumulate, Team& team) {
    team.parallel_for(width, kPiece, [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t n = end - begin;
        Space<W> total, before;
        Array<W> sum(total.at, n);
        sum.setZero();
        for (std::int64_t part = 0; part < parts; ++part)
            sum += ConstArray<W>(sums + part * stride + begin, n);
        if (accumulate) sum += ConstArray<W>(read(to, begin, n, before.at), n);
        convert_to(to, begin, n, total.at);
    });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
