// The control plane of ranks that are threads of one process, and of a run of one rank.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/launch/control_plane.hpp"

namespace orrery::runtime {

// By rank; each may outlive the others.
std::vector<std::unique_ptr<ControlPlane>> thread_planes(std::int64_t size);

}  // namespace orrery::runtime
