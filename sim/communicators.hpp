// How many communicators of a library of collectives the process of a rank has.
#pragma once

#include "plan/ir/communicators.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::sim {

// Whether a stack performs the plan itself, in an arena that was laid out before, of which no
// allocator loses anything.
bool performs_the_plan(const plan::Framework& framework);

// A stack that performs the plan makes those that the plan asks for. Others make one for each of
// their process groups of several members: it is there once something is said in the group, and in
// all of them something is, if only a norm, a barrier or a checkpoint.
std::int64_t communicators(const plan::Framework& framework, const plan::Mesh& mesh,
                           const plan::Communicators& asked);

}  // namespace orrery::sim
