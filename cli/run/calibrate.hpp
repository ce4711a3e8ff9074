// orrery calibrate, of the program that holds the runtime: it times this machine and so is no part
// of the subcommands that only read files.
#pragma once

#include <memory>

#include "cli/subcommand.hpp"

namespace orrery::cli {

std::unique_ptr<Subcommand> calibrate_command();

}  // namespace orrery::cli
