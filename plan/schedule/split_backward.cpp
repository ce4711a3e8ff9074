#include "plan/schedule/split_backward.hpp"

#include <algorithm>

namespace orrery::plan {

ActionGrid split_backwards(const ScheduleShape& shape,
                           SplitBackward (*of_rank)(std::int32_t pipeline, std::int32_t rank)) {
    ActionGrid grid(static_cast<std::size_t>(shape.pipeline));
    const std::int32_t m = shape.micro_batches;
    for (std::int32_t rank = 0; rank < shape.pipeline; ++rank) {
        auto& row = grid[static_cast<std::size_t>(rank)];
        const auto [most_ahead, delay] = of_rank(shape.pipeline, rank);
        const std::int32_t ahead = std::min(most_ahead, m);
        row.reserve(3 * static_cast<std::size_t>(m));
        for (std::int32_t k = 0; k < ahead; ++k)
            row.push_back({rank, ActionKind::forward, k});
        for (std::int32_t k = 0; k < m; ++k) {
            if (k + ahead < m) row.push_back({rank, ActionKind::forward, k + ahead});
            row.push_back({rank, ActionKind::backward_input, k});
            if (k >= delay) row.push_back({rank, ActionKind::backward_weight, k - delay});
        }
        for (std::int32_t k = std::max(0, m - delay); k < m; ++k)
            row.push_back({rank, ActionKind::backward_weight, k});
    }
    return grid;
}

}  // namespace orrery::plan
