// Interleaved 1F1B (Narayanan et al. 2021 §2.2): each rank holds v chunks; micro-batches go through
// a chunk in groups of p. Rank i runs min(mv, 2(p−i−1) + (v−1)p) chunk forwards ahead, then one
// forward, one backward in turn; one more is in flight at the peak. p divides m.
#include <algorithm>

#include "plan/check.hpp"
#include "plan/schedule/schedule.hpp"

namespace orrery::plan {
namespace {

// The n-th chunk forward of a rank (backward: chunks in descending order).
Action nth(const ScheduleShape& shape, std::int32_t rank, std::int32_t n, bool backward) {
    const std::int32_t group = shape.pipeline * shape.virtual_stages;
    std::int32_t chunk = (n % group) / shape.pipeline;
    if (backward) chunk = shape.virtual_stages - 1 - chunk;
    const std::int32_t micro_batch = (n / group) * shape.pipeline + n % shape.pipeline;
    return {chunk * shape.pipeline + rank, backward ? ActionKind::backward : ActionKind::forward,
            micro_batch};
}

}  // namespace

ActionGrid interleaved(const ScheduleShape& shape) {
    ORRERY_CHECK(shape.micro_batches % shape.pipeline == 0, "interleaved needs p to divide m");
    ActionGrid grid(static_cast<std::size_t>(shape.pipeline));
    const std::int32_t total = shape.micro_batches * shape.virtual_stages;
    for (std::int32_t rank = 0; rank < shape.pipeline; ++rank) {
        auto& row = grid[static_cast<std::size_t>(rank)];
        const std::int32_t ahead = std::min(total, 2 * (shape.pipeline - rank - 1) +
                                                       (shape.virtual_stages - 1) * shape.pipeline +
                                                       (shape.pairs ? 1 : 0));
        row.reserve(2 * static_cast<std::size_t>(total));
        for (std::int32_t n = 0; n < ahead; ++n)
            row.push_back(nth(shape, rank, n, false));
        for (std::int32_t n = 0; n < total; ++n) {
            if (n + ahead < total) row.push_back(nth(shape, rank, n + ahead, false));
            row.push_back(nth(shape, rank, n, true));
        }
    }
    return grid;
}

}  // namespace orrery::plan
