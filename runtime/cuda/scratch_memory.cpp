#include "runtime/cuda/scratch_memory.hpp"

#include <cuda_runtime.h>

#include <string>

#include "runtime/cuda/cuda_error.hpp"

namespace orrery::runtime::cuda {

ScratchMemory::~ScratchMemory() {
    cudaFree(memory_);
}

void* ScratchMemory::bytes(std::int64_t count) {
    if (count <= count_) return memory_;
    check(cudaFree(memory_), "cudaFree");
    memory_ = nullptr;
    count_ = 0;
    check(cudaMalloc(&memory_, static_cast<std::size_t>(count)),
          "cudaMalloc of " + std::to_string(count) + " bytes for a kernel");
    count_ = count;
    return memory_;
}

}  // namespace orrery::runtime::cuda
