// A command line of Megatron-LM, of today or of 2021, in a script or alone, as a scenario.
#pragma once

#include <string>
#include <string_view>

#include "plan/scenario/import/import.hpp"

namespace orrery::plan::imports {

Imported import_megatron(std::string_view text, const std::string& file, const Wishes& wishes);

}  // namespace orrery::plan::imports
