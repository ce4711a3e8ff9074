// 1F1B (PipeDream-Flush; Narayanan et al. 2021): rank i runs p−i−1 forwards ahead, then one
// forward, one backward in turn. In flight: min(m, p−i).
#include <algorithm>

#include "plan/schedule/schedule.hpp"

namespace orrery::plan {

ActionGrid one_f_one_b(const ScheduleShape& shape) {
    ActionGrid grid(static_cast<std::size_t>(shape.pipeline));
    for (std::int32_t rank = 0; rank < shape.pipeline; ++rank) {
        auto& row = grid[static_cast<std::size_t>(rank)];
        const std::int32_t ahead =
            std::min(shape.pipeline - rank - (shape.pairs ? 0 : 1), shape.micro_batches);
        row.reserve(2 * static_cast<std::size_t>(shape.micro_batches));
        for (std::int32_t k = 0; k < ahead; ++k)
            row.push_back({rank, ActionKind::forward, k});
        for (std::int32_t k = 0; k < shape.micro_batches; ++k) {
            if (k + ahead < shape.micro_batches)
                row.push_back({rank, ActionKind::forward, k + ahead});
            row.push_back({rank, ActionKind::backward, k});
        }
    }
    return grid;
}

}  // namespace orrery::plan
