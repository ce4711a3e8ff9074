// How the ranks of a run find one another: rank 0 listens and takes in each of the others once. Who
// comes proves that it is of this run (handshake.hpp); all that connect are heard side by side, and
// who says nothing, or nonsense, or is of another run, costs nobody anything.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/launch/launch.hpp"
#include "runtime/launch/socket.hpp"

namespace orrery::runtime {

// Now and then while it waits: for whom. From the thread that meets; may be empty.
using SayWaiting = std::function<void(const std::string& line)>;

// Connections by rank: on rank 0 to each of the others, on these to rank 0 alone. Throws
// CommunicationError where not all have come before the deadline, or one of this run comes who does
// not fit: another size, a rank that is there already.
std::vector<Socket> meet(const Launch& launch, Deadline deadline, const SayWaiting& say = {});

}  // namespace orrery::runtime
