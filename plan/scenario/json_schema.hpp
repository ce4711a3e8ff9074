// A JSON Schema of any table of keys, as json_schema() makes one of a scenario's.
#pragma once

#include <string>
#include <vector>

#include "plan/scenario/schema.hpp"

namespace orrery::plan {

// Ends in a newline.
std::string json_schema_of(const std::vector<KeySpec>& keys, const std::string& title,
                           const std::string& description);

}  // namespace orrery::plan
