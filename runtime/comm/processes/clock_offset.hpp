// What joins the clocks of several machines, so that the times of all ranks can stand in one trace.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "runtime/comm/communicator.hpp"

namespace orrery::runtime {

// What this rank adds to its clock to have rank 0's, in nanoseconds: as if the quickest of a few
// messages had taken as long there as back, so at most half of its round trip wrong. `elsewhere`:
// the ranks whose clock is another one than rank 0's, the same on all ranks, which all call it; 0
// on the others.
std::int64_t clock_offset(Communicator& communicator, std::span<const plan::Rank> elsewhere,
                          const std::function<std::int64_t()>& now);

}  // namespace orrery::runtime
