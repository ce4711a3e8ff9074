// What a run says of how its work is performed on CUDA devices; nothing of it is in the plan.
#pragma once

#include <string>

namespace orrery::runtime {

struct CudaSettings {
    // The file of the algorithms that products were fastest with (run.product_choices), read and
    // made when a driver is: throws StorageError and DataError. Empty: cuBLASLt's heuristics
    // choose.
    std::string product_choices = {};
    bool cudnn = true;  // performs the attention that it has an engine for, where it is there
    // Memory is what NCCL's communicators can be made to know
    // (CommunicatorOptions::registers_memory has them do so): not freed before they are.
    bool registered_buffers = false;
};

}  // namespace orrery::runtime
