// YAML text as settings with dotted keys, each with its line. The one file that sees libyaml.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/scenario/import/sheet.hpp"

namespace orrery::plan::imports {

// In the order of the file; plain scalars are numbers, truth values and null as PyYAML reads them.
// Where the text is not YAML, or is no mapping, nothing, and a diagnostic with the place in
// `errors`.
std::vector<Setting> read_yaml(std::string_view text, const std::string& file,
                               std::vector<Diagnostic>& errors);

// Takes out those that are null, which set nothing, and notes them as ignored.
void leave_nulls(std::vector<Setting>& settings, Imported& out);

}  // namespace orrery::plan::imports
