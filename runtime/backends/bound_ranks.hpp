// Ranks of a backend on the cores that they are bound to.
#pragma once

#include <memory>

#include "runtime/backends/backend_row.hpp"

namespace orrery::runtime {

// The backend, whose ranks are bound before they begin: that of a launch here and now, with this
// thread; threads each as it starts. `request` hears of it. Throws BindingError.
std::unique_ptr<Backend> with_bound_ranks(std::unique_ptr<Backend> backend,
                                          const BackendRequest& request, Binding binding);

}  // namespace orrery::runtime
