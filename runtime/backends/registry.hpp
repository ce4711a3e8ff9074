// All backends, those that this program was built without among them. A new one is a folder beside
// cpu/ and cuda/, and a row.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/backends/backend_row.hpp"

namespace orrery::runtime {

// The first is the default.
std::span<const BackendRow> backends();

std::vector<std::string> backend_names();

// It must be one of these names.
const BackendRow& backend_named(std::string_view name);

}  // namespace orrery::runtime
