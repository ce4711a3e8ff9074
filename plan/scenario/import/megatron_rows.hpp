// Options of Megatron-LM without a counterpart in a scenario. Internal.
#pragma once

#include <span>

#include "plan/scenario/import/sheet.hpp"

namespace orrery::plan::imports {

std::span<const Row> megatron_ignored();
std::span<const Row> megatron_unsupported();

}  // namespace orrery::plan::imports
