// The learning rate of each step: what LearningRateSchedule says, in closed form.
#pragma once

#include <cstdint>

#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

// Steps count from 1. Of w warm-up steps, step k ≤ w has k/w of optimizer.learning_rate; then that
// stays, or falls along half a cosine (Loshchilov and Hutter 2017, arXiv 1608.03983), to
// min_learning_rate at run.steps and after. A cosine needs run.steps: without, this is a bug of
// ours.
double learning_rate_at(const Scenario& scenario, std::int64_t step);

}  // namespace orrery::plan
