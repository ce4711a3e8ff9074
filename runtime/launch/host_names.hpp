// On which host each rank is, for messages that name a rank which somebody has to look for.
#pragma once

#include <string>
#include <vector>

#include "runtime/launch/control_plane.hpp"

namespace orrery::runtime {

// By rank, the same on all. All ranks call it.
std::vector<std::string> host_names(ControlPlane& control);

}  // namespace orrery::runtime
