// ZB-V (Qi et al. 2024 §6; arXiv 2405.15362): two chunks per rank in a V, so that the rank that
// begins a micro-batch also ends it. With F = I = W and m ≥ 2p − 1 a rank that has begun never
// waits, with 2p chunks in flight: what 1F1B holds on rank 0. Action by action what PyTorch's
// ScheduleZBVZeroBubble runs; with fewer micro-batches than fill the V, the same order without
// those that are missing.
#include <algorithm>

#include "plan/schedule/chunk_row.hpp"

namespace orrery::plan {
namespace {

std::vector<Action> filled_row(const ScheduleShape& shape, std::int32_t rank,
                               std::int32_t micro_batches) {
    ChunkRow row(shape, rank);
    const auto input_and_weight = [&](std::size_t chunk) {
        row.input(chunk);
        row.weight(chunk);
    };
    for (std::int32_t n = 0; n < 2 * (shape.pipeline - rank) - 1; ++n)
        row.forward(0);
    for (std::int32_t n = 0; n < rank; ++n) {
        row.forward(1);
        row.forward(0);
    }
    for (std::int32_t n = 0; n < shape.pipeline - rank; ++n) {
        row.forward(1);
        input_and_weight(1);
    }
    while (row.forwards(1) < micro_batches) {
        if (row.forwards(0) < micro_batches) row.forward(0);
        input_and_weight(0);
        row.forward(1);
        input_and_weight(1);
    }
    for (std::int32_t n = 0; n < rank; ++n) {
        row.input(0);
        row.input(1);
    }
    for (std::int32_t n = 0; n < shape.pipeline - rank; ++n)
        input_and_weight(0);
    for (std::int32_t n = 0; n < rank; ++n)
        row.weight(1);
    for (std::int32_t n = 0; n < rank; ++n)
        row.weight(0);
    return row.take();
}

}  // namespace

ActionGrid zb_v(const ScheduleShape& shape) {
    ActionGrid grid;
    const std::int32_t filling = std::max(shape.micro_batches, 2 * shape.pipeline - 1);
    for (std::int32_t rank = 0; rank < shape.pipeline; ++rank) {
        grid.push_back(filled_row(shape, rank, filling));
        std::erase_if(grid.back(), [&](const Action& action) {
            return action.micro_batch >= shape.micro_batches;
        });
    }
    return grid;
}

}  // namespace orrery::plan
