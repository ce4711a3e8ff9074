// What the program ends with after an error of what it does with the runtime.
#pragma once

#include <exception>

namespace orrery::cli {

// kExitInternal for what should not have been thrown.
int exit_code_of_failure(const std::exception& error);

}  // namespace orrery::cli
