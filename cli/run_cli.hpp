// The program orrery without its process: arguments in, text and an exit code out.
#pragma once

#include <string>
#include <vector>

#include "cli/console.hpp"
#include "cli/program.hpp"

namespace orrery::cli {

Program predicting_program();

// `args` without the program's name. Everything that a subcommand throws ends here as a message on
// console.err and an exit code.
int run_cli(const std::vector<std::string>& args, Console console);

}  // namespace orrery::cli
