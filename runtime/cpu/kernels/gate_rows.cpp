// gate_rows and gate_rows_backward.
#include <algorithm>

#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"
#include "runtime/cpu/kernels/lanes.hpp"
#include "runtime/cpu/kernels/weighed_rows.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

// By the same vector function for every row, so that its place in a vector does not count.
template <typename W>
W sigmoid(W logit) {
    Space<W> value;
    value.at[0] = logit;
    auto x = padded(value.at, 1);
    x = 1 / (1 + (-x).exp());
    return value.at[0];
}

}  // namespace

void gate_rows(const GateRows& op, Team& team) {
    with_work_type(op.x.dtype, [&](auto w) {
        using W = decltype(w);
        team.parallel_for(op.rows, rows_per_part(op.width), [&](auto begin, auto end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const W gate = sigmoid<W>(data<W>(op.logits)[row]);
                for (std::int64_t column = 0; column < op.width; column += kPiece) {
                    const std::int64_t n = std::min(kPiece, op.width - column);
                    Space<W> y;
                    convert_from(op.x, row * op.width + column, n, y.at);
                    Array<W>(y.at, n) *= gate;
                    convert_to(op.y, row * op.width + column, n, y.at);
                }
            }
        });
    });
}

void gate_rows_backward(const GateRowsBackward& op, Team& team) {
    with_work_type(op.dy.dtype, [&](auto w) {
        using W = decltype(w);
        team.parallel_for(op.rows, rows_per_part(op.width), [&](auto begin, auto end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const W gate = sigmoid<W>(data<W>(op.logits)[row]);
                const W along =
                    weigh_row_backward<W>(op.dy, op.x, op.dx, row * op.width, op.width, gate);
                data<W>(op.dlogits)[row] = along * gate * (1 - gate);
            }
        });
    });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
