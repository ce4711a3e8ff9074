// 1F1B whose backward runs in its two halves: I at once, so that the rank before may go on, and W a
// few micro-batches later, where the rank would wait. What ZB-H1 and ZB-2P have in common (Qi et
// al. 2024, arXiv 2401.10241).
#pragma once

#include <cstdint>

#include "plan/schedule/schedule.hpp"

namespace orrery::plan {

// What one rank does otherwise than 1F1B.
struct SplitBackward {
    std::int32_t ahead = 0;  // forwards before the first forward that is paired with a backward
    std::int32_t delay = 0;  // I of micro-batch k is followed by W of k − delay
};

// With min(m, ahead + delay + 1) micro-batches in flight on a rank.
ActionGrid split_backwards(const ScheduleShape& shape,
                           SplitBackward (*of_rank)(std::int32_t pipeline, std::int32_t rank));

}  // namespace orrery::plan
