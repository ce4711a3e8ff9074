// ZB-2P, called ZB-H2 where it is made by hand (Qi et al. 2024 §2): twice the warm-up, for
// min(m, 2p − 1) micro-batches in flight on every rank. With F = I = W and m ≥ 2p − 1 a rank that
// has begun never waits: the ranks' steps are shifted against each other, and no bubble is left
// where optimizer steps need not wait for each other.
#include "plan/schedule/split_backward.hpp"

namespace orrery::plan {

ActionGrid zb_2p(const ScheduleShape& shape) {
    return split_backwards(shape, [](std::int32_t pipeline, std::int32_t rank) {
        return SplitBackward{2 * (pipeline - rank - 1), 2 * rank};
    });
}

}  // namespace orrery::plan
