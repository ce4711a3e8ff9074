// The program orrery-run without its process: what needs the runtime, GPUs and MPI, which the
// program orrery does without.
#pragma once

#include <string>
#include <vector>

#include "cli/console.hpp"
#include "cli/program.hpp"

namespace orrery::cli {

Program performing_program();

// As run_cli of the program orrery.
int run_performing(const std::vector<std::string>& args, Console console);

}  // namespace orrery::cli
