// The weights that a run starts from, where the scenario names a model to take them from.
#pragma once

#include <memory>

#include "cli/run/train_run.hpp"
#include "runtime/train/model_state.hpp"

namespace orrery::cli {

// Of run.init_from; empty where the scenario has none. Throws runtime::DataError where the folder
// is missing, or its model is not the scenario's.
runtime::FirstWeights first_weights(const TrainRun& run);

}  // namespace orrery::cli
