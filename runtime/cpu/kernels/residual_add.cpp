#include "runtime/cpu/kernels/functions.hpp"
#include "runtime/cpu/kernels/residual_row.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

void residual_add(const ResidualAdd& op, Team& team) {
    with_work_type(op.branch.dtype, [&](auto w) {
        team.parallel_for(op.rows, rows_per_part(op.width), [&](auto begin, auto end) {
            for (std::int64_t row = begin; row < end; ++row)
                add_residual_row<decltype(w)>(op, row);
        });
    });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
