// Attributes of NeMo 2's recipes without a counterpart in a scenario. Internal.
#pragma once

#include <span>

#include "plan/scenario/import/sheet.hpp"

namespace orrery::plan::imports {

std::span<const Row> nemo_recipe_ignored();
std::span<const Row> nemo_recipe_unsupported();

}  // namespace orrery::plan::imports
