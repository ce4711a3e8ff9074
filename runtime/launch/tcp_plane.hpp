// The control plane over TCP: rank 0 waits at a host and port that every rank knows, the others
// come to it, and prove that they are of its run (tcp/handshake.hpp). One that does not fit is told
// why, and so is everybody else; strangers are passed over. Later messages are not sealed: who can
// read or change what passes between the machines can read or change the run.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "runtime/launch/launch.hpp"
#include "runtime/launch/meeting.hpp"
#include "runtime/launch/star_plane.hpp"

namespace orrery::runtime {

// How long ranks wait for one another at the start: nodes may come minutes apart.
inline constexpr std::chrono::seconds kMeetingTimeout(300);

// Returns once all have met. Throws CommunicationError where they do not within `timeout`. Ranks
// but the first learn by which of its addresses they came to rank 0, and by which rank 0 was
// reached.
std::unique_ptr<StarPlane> tcp_plane(const Launch& launch,
                                     std::chrono::milliseconds timeout = kMeetingTimeout,
                                     const SayWaiting& say = {}, std::string* own_host = nullptr,
                                     std::string* host_of_zero = nullptr);

}  // namespace orrery::runtime
