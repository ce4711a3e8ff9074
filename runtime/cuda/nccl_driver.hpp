// NCCL as a library of collectives, as the rest of the program sees it: without a header of NCCL or
// CUDA. Its settings are variables of the environment, to be set before the first call.
#pragma once

#include <memory>

#include "runtime/streams/collective_driver.hpp"

namespace orrery::runtime {

// Communicators of this device, whose streams its calls are put into. Communicators are
// non-blocking: no call waits for another rank.
std::unique_ptr<CollectiveDriver> make_nccl_driver(int device);

}  // namespace orrery::runtime
