// What the training of a scenario says of a run besides the ops of its steps.
#pragma once

#include "plan/ir/training.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

// A learning rate that falls does so until run.steps.
TrainingFacts training_facts(const Scenario& scenario);

}  // namespace orrery::plan
