#include "tests/gpu/emulation/nccl_memory.hpp"

#include "tests/gpu/emulation/cuda_runtime.h"

namespace emulation {

int& blocks_of_nccl() {
    thread_local int of_thread = 0;
    return of_thread;
}

}  // namespace emulation

namespace orrery::runtime::cuda {

void* allocate_for_nccl(std::int64_t bytes) {
    void* memory = nullptr;
    cudaMalloc(&memory, static_cast<std::size_t>(bytes));
    ++emulation::blocks_of_nccl();
    return memory;
}

void free_of_nccl(void* memory) {
    cudaFree(memory);
    --emulation::blocks_of_nccl();
}

}  // namespace orrery::runtime::cuda
