// What is thrown by the runtime and by calibrations, and what orrery-run ends with after it.
#pragma once

#include <span>

#include "cli/failure_row.hpp"

namespace orrery::cli {

std::span<const FailureRow> runtime_failures();

}  // namespace orrery::cli
