// Which SMs the communicators of a run may take, by what a scenario says of all of NCCL's and of
// some groups' own.
#pragma once

#include "runtime/launch/nccl_variables.hpp"
#include "runtime/streams/group_communicator.hpp"

namespace orrery::runtime {

// A group that the scenario does not speak of has the bounds of all; where it says none, those of
// the environment. Without bounds of groups none: NCCL then reads variables (nccl_variables.hpp).
CommunicatorOptions communicator_options(const plan::NcclSettings& nccl,
                                         const VariableLookup& environment);

}  // namespace orrery::runtime
