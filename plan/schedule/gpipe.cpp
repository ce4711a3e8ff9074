// GPipe (Huang et al. 2019): all forwards, then all backwards. In flight: m. Backwards run in
// ascending order of micro-batches, as in every schedule here: gradients accumulate in one order.
#include "plan/schedule/schedule.hpp"

namespace orrery::plan {

ActionGrid gpipe(const ScheduleShape& shape) {
    ActionGrid grid(static_cast<std::size_t>(shape.pipeline));
    for (std::int32_t rank = 0; rank < shape.pipeline; ++rank) {
        auto& row = grid[static_cast<std::size_t>(rank)];
        for (std::int32_t k = 0; k < shape.micro_batches; ++k)
            row.push_back({rank, ActionKind::forward, k});
        for (std::int32_t k = 0; k < shape.micro_batches; ++k)
            row.push_back({rank, ActionKind::backward, k});
    }
    return grid;
}

}  // namespace orrery::plan
