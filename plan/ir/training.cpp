#include "plan/ir/training.hpp"

#include <cmath>
#include <numbers>

#include "plan/check.hpp"

namespace orrery::plan {

double LearningRates::at(std::int64_t step) const {
    ORRERY_CHECK(step >= 1, "steps count from 1");
    if (step <= warmup_steps)
        return most * static_cast<double>(step) / static_cast<double>(warmup_steps);
    if (!falls) return most;
    ORRERY_CHECK(last_step > 0, "a cosine without its last step");
    if (step >= last_step) return least;
    const double done =
        static_cast<double>(step - warmup_steps) / static_cast<double>(last_step - warmup_steps);
    return least + (most - least) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

std::int64_t BatchSizes::at(std::int64_t consumed_samples) const {
    if (start == 0 || consumed_samples >= over_samples) return whole;
    const std::int64_t increments = (whole - start) / increment;
    // ⌊consumed ÷ (over_samples ÷ increments)⌋, in whole numbers: both factors are below 2^30.
    return start + consumed_samples * increments / over_samples * increment;
}

}  // namespace orrery::plan
