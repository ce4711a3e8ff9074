// What a process that trains holds beside the arenas of its ranks, seen from outside: by training
// small models in processes of their own.
#pragma once

#include <vector>

#include "calib/fit/fit_process.hpp"

namespace orrery::cli {

// Runs this program's `train` on the library's smallest scenario in several layouts, or in a few of
// them. Throws fit::FitError where one of them fails.
std::vector<fit::ProcessRow> measure_processes(bool few);

}  // namespace orrery::cli
