// What a rank that is a process says of the run that it is about to perform, for the others to hold
// against theirs.
#pragma once

#include "cli/run/train_run.hpp"
#include "runtime/train/agreement.hpp"

namespace orrery::cli {

// The resolved scenario key by key, its data by their content, the plan, the program's own bytes
// and what the command line says of the run. Left out is what may differ between machines: where
// they keep data and profiles.
runtime::RunStatement run_statement(const TrainRun& run, const Resumption& resumption);

}  // namespace orrery::cli
