// What a process that trains holds beside the arenas of its ranks, seen from outside: by training
// small models in processes of their own.
#pragma once

#include <string>
#include <vector>

#include "calib/fit/fit_process.hpp"

namespace orrery::measure {

// Runs this program with its subcommand `train` on the smallest scenario of the library in several
// layouts, or in a few of them. Throws fit::FitError where one of them fails.
std::vector<fit::ProcessRow> measure_processes(const std::string& train,
                                               const std::string& scenarios_dir, bool few);

}  // namespace orrery::measure
