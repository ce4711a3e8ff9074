// A nanotron YAML to a scenario. Internal.
#pragma once

#include <string>
#include <string_view>

#include "plan/scenario/import/import.hpp"

namespace orrery::plan::imports {

Imported import_nanotron(std::string_view text, const std::string& file, const Wishes& wishes);

}  // namespace orrery::plan::imports
