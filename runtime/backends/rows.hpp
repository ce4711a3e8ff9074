// The rows of the registry, one file each. Internal to runtime/backends/.
#pragma once

#include "runtime/backends/backend_row.hpp"

namespace orrery::runtime {

BackendRow cpu_row();
BackendRow cuda_row();

}  // namespace orrery::runtime
