// NCCL as a library of collectives, as the rest of the program sees it: without a header of NCCL or
// CUDA. Its settings are variables of the environment, to be set before the first call.
#pragma once

#include <memory>

#include "runtime/streams/collective_driver.hpp"

namespace orrery::runtime {

// Communicators of this device, whose streams its calls are put into. The one of all ranks, and
// splits of it, are made without blocking: no call waits for another rank. Those that are split off
// block, for since NCCL 2.26 each launch on one that does not makes a thread. So the first call on
// one, which connects its members, waits until they have come to it, or until the process is ended.
std::unique_ptr<CollectiveDriver> make_nccl_driver(int device);

}  // namespace orrery::runtime
