// From who we are to a way to speak with the others: through MPI where Open MPI started us, does
// not say where rank 0 is and MPI is built in, else over TCP.
#pragma once

#include <memory>

#include "runtime/launch/control_plane.hpp"
#include "runtime/launch/launch.hpp"

namespace orrery::runtime {

// Returns once all ranks have come; a run of one needs nobody. Throws LaunchError where nothing
// says how to reach rank 0, CommunicationError where somebody does not come.
std::unique_ptr<ControlPlane> connect_ranks(const Launch& launch);

}  // namespace orrery::runtime
