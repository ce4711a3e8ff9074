// How the ranks of a run find one another: rank 0 listens and takes in each of the others once.
#pragma once

#include <vector>

#include "runtime/launch/launch.hpp"
#include "runtime/launch/tcp/socket.hpp"

namespace orrery::runtime {

// Connections by rank: on rank 0 to each of the others, on these to rank 0 alone. Throws
// CommunicationError where not all have come before the deadline, or somebody comes who does not
// fit: another size or protocol, a rank that is there already.
std::vector<Socket> meet(const Launch& launch, Deadline deadline);

}  // namespace orrery::runtime
