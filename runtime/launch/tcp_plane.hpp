// The control plane over TCP: rank 0 waits at a host and port that every rank knows, the others
// come to it. A first message says which rank of how many each is, and in which version of this
// protocol it speaks; who does not fit is told why, and so is everybody else.
//
// Whoever reaches the port can join or end the run: it belongs into a cluster's inner network, as
// those of other launchers do.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "runtime/launch/launch.hpp"
#include "runtime/launch/star_plane.hpp"

namespace orrery::runtime {

// How long ranks wait for one another at the start: nodes may come minutes apart.
inline constexpr std::chrono::seconds kMeetingTimeout(300);

// Returns once all have met. Throws CommunicationError where they do not within `timeout`. Ranks
// but the first learn by which of its addresses they came to rank 0, and by which rank 0 was
// reached.
std::unique_ptr<StarPlane> tcp_plane(const Launch& launch,
                                     std::chrono::milliseconds timeout = kMeetingTimeout,
                                     std::string* own_host = nullptr,
                                     std::string* host_of_zero = nullptr);

}  // namespace orrery::runtime
