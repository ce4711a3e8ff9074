// ZB-H1 (Qi et al. 2024 §2): the warm-up of 1F1B; rank i keeps i weight gradients back, so that all
// ranks hold min(m, p) micro-batches, as many as rank 0 of 1F1B. With W ≤ I and m ≥ p the step
// takes m(F + I + W) + (p−1)(F + I − W): a third of 1F1B's bubble in unit times.
#include "plan/schedule/split_backward.hpp"

namespace orrery::plan {

ActionGrid zb_h1(const ScheduleShape& shape) {
    return split_backwards(shape, [](std::int32_t pipeline, std::int32_t rank) {
        return SplitBackward{pipeline - rank - 1, rank};
    });
}

}  // namespace orrery::plan
