#include "runtime/cpu/kernels/column_sums.hpp"
#include "runtime/cpu/kernels/functions.hpp"
#include "runtime/cpu/kernels/lanes.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

template <typename W>
void bias_gradient_as(const BiasGradient& op, Team& team) {
    const std::int64_t parts = row_parts(op.rows);
    const ScratchRows<W> sums(team, op.width, parts, 0);
    team.parallel_for(op.rows, kRowsPerSum, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t column = 0; column < op.width; column += kPiece) {
            const std::int64_t n = op.width - column < kPiece ? op.width - column : kPiece;
            Array<W> sum(sums.shared(begin / kRowsPerSum) + column, n);
            sum.setZero();
            Space<W> space;
            for (std::int64_t row = begin; row < end; ++row)
                sum += ConstArray<W>(read(op.dy, row * op.width + column, n, space.at), n);
        }
    });
    add_parts(sums.shared(0), parts, sums.stride(), op.width, op.dbias, op.accumulate, team);
}

}  // namespace

void bias_gradient(const BiasGradient& op, Team& team) {
    with_work_type(op.dy.dtype, [&](auto w) { bias_gradient_as<decltype(w)>(op, team); });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
