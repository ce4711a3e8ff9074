// TOML text as settings with dotted keys, each with its line. The one file that sees toml++.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/scenario/import/sheet.hpp"

namespace orrery::plan::imports {

// In the order of the file. Where the text is not TOML, nothing, and a diagnostic with the place
// in `errors`.
std::vector<Setting> read_toml(std::string_view text, const std::string& file,
                               std::vector<Diagnostic>& errors);

}  // namespace orrery::plan::imports
