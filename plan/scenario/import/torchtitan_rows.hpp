// Keys of torchtitan's configs without a counterpart in a scenario. Internal.
#pragma once

#include <span>

#include "plan/scenario/import/sheet.hpp"

namespace orrery::plan::imports {

std::span<const Row> torchtitan_ignored();
std::span<const Row> torchtitan_unsupported();

}  // namespace orrery::plan::imports
