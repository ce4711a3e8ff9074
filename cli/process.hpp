// The process around a program: its streams and what signals do to it.
#pragma once

#include <string>
#include <vector>

#include "cli/console.hpp"

namespace orrery::cli {

// What main returns: `run` on the arguments, stdout and stderr. A failed check ends the process
// with exit code 1, an interrupt with 130.
int run_process(int argc, char** argv, int (*run)(const std::vector<std::string>&, Console));

}  // namespace orrery::cli
