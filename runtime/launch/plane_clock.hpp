// What joins the clocks of several machines where ranks have a control plane alone, so that the
// times of all of them can stand in one trace (runtime/comm/processes/clock_offset.hpp is for
// ranks that exchange messages in pairs).
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/launch/control_plane.hpp"

namespace orrery::runtime {

// What this rank adds to its clock to have rank 0's, in nanoseconds; 0 where it has rank 0's clock
// (`shares`). Rank 0 reads its clock between what it hears of a rank and what it answers: of a few
// rounds the one with the shortest wait, in whose middle that is taken to have been, and so at most
// half of that wait wrong. All ranks call it.
std::int64_t clock_offset(ControlPlane& plane, bool shares,
                          const std::function<std::int64_t()>& now);

// Of the host's steady clock, which processes of a machine share. All ranks call it.
std::int64_t host_clock_offset(ControlPlane& plane);

}  // namespace orrery::runtime
