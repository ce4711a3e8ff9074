// Options that only some backends have.
#pragma once

#include <functional>
#include <string>

#include "runtime/backends/registry.hpp"

namespace orrery::cli {

// "--base is for --backend cuda": of those that have it.
std::string for_backends(const std::string& option,
                         const std::function<bool(const runtime::BackendRow&)>& has_it);

}  // namespace orrery::cli
