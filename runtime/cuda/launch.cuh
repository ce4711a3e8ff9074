// How kernels are started. Work is shared out by strides of the whole grid, so that any grid does
// for any number of elements, and indices are of 64 bits. Shared memory is what the launch gives;
// a kernel divides it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "runtime/cuda/cuda_error.hpp"
#include "runtime/cuda/operand_types.hpp"

namespace orrery::runtime::cuda {

inline constexpr int kThreads = 256;  // of a block
inline constexpr int kWarp = 32;
inline constexpr int kWarps = kThreads / kWarp;

extern __shared__ __align__(16) float shared_memory[];

// One block for each piece, up to as many as keep any device busy.
inline unsigned blocks_for(std::int64_t pieces) {
    constexpr std::int64_t kMost = std::int64_t{1} << 16;
    if (pieces < 1) return 1;
    return static_cast<unsigned>(pieces < kMost ? pieces : kMost);
}
inline unsigned blocks_of_threads(std::int64_t elements) {
    return blocks_for((elements + kThreads - 1) / kThreads);
}

struct Grid {
    unsigned blocks = 1;
    unsigned threads = kThreads;
    std::size_t shared_bytes = 0;
};

// Of blocks of the current device: 163 KiB on A100, 227 on H100, 99 on their smaller kin.
inline bool has_shared_memory(std::size_t bytes) {
    int device = 0, most = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
          "cudaDeviceGetAttribute of shared memory");
    return bytes <= static_cast<std::size_t>(most);
}

// Puts the kernel into the stream. `name` is what an error calls it.
template <typename... Parameters, typename... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), const Grid& grid, cudaStream_t stream,
            Arguments&&... arguments) {
    constexpr std::size_t kGivenToAll = 48 * 1024;
    if (grid.shared_bytes > kGivenToAll)
        check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(grid.shared_bytes)),
              std::string("shared memory of kernel ") + name);
    cudaLaunchConfig_t config{};
    config.gridDim = dim3{grid.blocks};
    config.blockDim = dim3{grid.threads};
    config.dynamicSmemBytes = grid.shared_bytes;
    config.stream = stream;
    check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...),
          std::string("kernel ") + name);
    check(cudaGetLastError(), std::string("kernel ") + name);
}

// Where a thread begins in [0, n) shared out over the grid, and how far it is to its next element.
__device__ inline std::int64_t first_of_thread() {
    return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t threads_of_grid() {
    return std::int64_t{gridDim.x} * blockDim.x;
}

}  // namespace orrery::runtime::cuda
