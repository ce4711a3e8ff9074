#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

template <typename W>
void move_run(const Rearrange& op, std::int64_t from, std::int64_t to) {
    for (std::int64_t at = 0; at < op.run; at += kPiece) {
        const std::int64_t n = op.run - at < kPiece ? op.run - at : kPiece;
        Space<W> space;
        convert_to(op.to, to + at, n, read(op.from, from + at, n, space.at));
    }
}

}  // namespace

void rearrange(const Rearrange& op, Team& team) {
    const bool wide = op.from.dtype == plan::DType::fp64 || op.to.dtype == plan::DType::fp64;
    const auto [rows, columns] = op.counts;
    with_work_type(wide ? plan::DType::fp64 : op.from.dtype, [&](auto w) {
        team.parallel_for(rows * columns, rows_per_part(op.run), [&](auto begin, auto end) {
            for (std::int64_t piece = begin; piece < end; ++piece) {
                const std::int64_t i = piece / columns, j = piece % columns;
                move_run<decltype(w)>(
                    op, op.from_first + i * op.from_strides[0] + j * op.from_strides[1],
                    op.to_first + i * op.to_strides[0] + j * op.to_strides[1]);
            }
        });
    });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
