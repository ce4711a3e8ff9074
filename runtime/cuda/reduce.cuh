// Sums and maxima over the threads of a block, in one order: within a warp by halves, then over the
// warps in turn. Every thread of the block calls, and gets the result.
#pragma once

#include "runtime/cuda/launch.cuh"

namespace orrery::runtime::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffU;

struct Sum {
    template <typename T>
    __device__ T operator()(T a, T b) const {
        return a + b;
    }
};

// The largest that is not NaN.
struct Largest {
    template <typename T>
    __device__ T operator()(T a, T b) const {
        return b > a ? b : a;
    }
};

// Over `lanes` neighbouring threads of a warp, a power of two.
template <typename T, typename Operation>
__device__ T over_lanes(T value, int lanes, Operation operation) {
    for (int distance = lanes / 2; distance > 0; distance /= 2)
        value = operation(value, __shfl_xor_sync(kAllLanes, value, distance));
    return value;
}

template <typename T, typename Operation>
__device__ T over_block(T value, Operation operation) {
    __shared__ T of_warp[kWarps];
    value = over_lanes(value, kWarp, operation);
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
    __syncthreads();
    T total = of_warp[0];
    for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp)
        total = operation(total, of_warp[warp]);
    __syncthreads();  // before the next call writes there
    return total;
}

template <typename T>
__device__ T sum_over_block(T value) {
    return over_block(value, Sum{});
}
template <typename T>
__device__ T largest_over_block(T value) {
    return over_block(value, Largest{});
}

}  // namespace orrery::runtime::cuda
