#include "plan/scenario/learning_rate.hpp"

#include <cmath>
#include <numbers>

#include "plan/check.hpp"

namespace orrery::plan {

double learning_rate_at(const Scenario& scenario, std::int64_t step) {
    ORRERY_CHECK(step >= 1, "steps count from 1");
    const LearningRateSchedule& schedule = scenario.training.schedule;
    const double most = scenario.training.optimizer.learning_rate;
    const std::int64_t warmup = schedule.warmup_steps;
    if (step <= warmup) return most * static_cast<double>(step) / static_cast<double>(warmup);
    if (schedule.decay == Decay::constant) return most;
    const std::int64_t last = scenario.run.steps;
    ORRERY_CHECK(last > 0, "a cosine without its last step");
    const double least = schedule.min_learning_rate;
    if (step >= last) return least;
    const double done = static_cast<double>(step - warmup) / static_cast<double>(last - warmup);
    return least + (most - least) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace orrery::plan
