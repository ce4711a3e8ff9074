// Keys of DeepSpeed's config without a counterpart in a scenario. Internal.
#pragma once

#include <span>

#include "plan/scenario/import/sheet.hpp"

namespace orrery::plan::imports {

std::span<const Row> deepspeed_ignored();
std::span<const Row> deepspeed_unsupported();

}  // namespace orrery::plan::imports
