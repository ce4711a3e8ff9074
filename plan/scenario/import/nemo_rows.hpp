// Keys of NeMo's Megatron models without a counterpart in a scenario. Internal.
#pragma once

#include <span>

#include "plan/scenario/import/sheet.hpp"

namespace orrery::plan::imports {

std::span<const Row> nemo_ignored();
std::span<const Row> nemo_unsupported();

}  // namespace orrery::plan::imports
