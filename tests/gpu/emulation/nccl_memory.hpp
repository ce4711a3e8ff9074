// Memory of an NCCL that is not there, and how much of it is held.
#pragma once

#include "runtime/cuda/nccl_memory.hpp"

namespace emulation {

// Blocks that the caller's thread has taken and not given back.
int& blocks_of_nccl();

}  // namespace emulation
