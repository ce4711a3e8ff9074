#include "runtime/cuda/nccl_memory.hpp"

#include <string>

#include "runtime/cuda/nccl_functions.hpp"
#include "runtime/streams/stream_driver.hpp"

namespace orrery::runtime::cuda {

void* allocate_for_nccl(std::int64_t bytes) {
    void* memory = nullptr;
    const ncclResult_t answer = nccl().MemAlloc(&memory, static_cast<std::size_t>(bytes));
    if (answer != ncclSuccess)
        throw DeviceError("ncclMemAlloc of " + std::to_string(bytes) +
                          " bytes: " + nccl().GetErrorString(answer));
    return memory;
}

void free_of_nccl(void* memory) {
    nccl().MemFree(memory);
}

}  // namespace orrery::runtime::cuda
