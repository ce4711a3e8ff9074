// CUDA on one thread of the host, for tests: the kernels of runtime/cuda compiled as C++ and run
// block after block, the threads of a block in turn, each until it waits for others. What a device
// would do with the same source is more, not other: here nothing runs at once, so that races
// between blocks, alignment and the precision of exp and its kin stay unseen. Seen are: what is
// computed; shared memory that is read before it is written (it is filled with NaN for each block)
// or is more than was asked for; threads that wait where others of their warp or block do not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__ thread_local
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};
extern thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

enum cudaError_t {
    cudaSuccess,
    cudaErrorInvalidValue,
    cudaErrorMemoryAllocation,
    cudaErrorNotReady,
    cudaErrorNoDevice,
    cudaErrorInsufficientDriver
};
inline const char* cudaGetErrorName(cudaError_t) {
    return "emulated";
}
inline const char* cudaGetErrorString(cudaError_t) {
    return "emulated";
}
inline cudaError_t cudaGetLastError() {
    return cudaSuccess;
}

using cudaStream_t = struct CUstream_st*;
struct CUevent_st {
    double at_ms = 0;
};
using cudaEvent_t = CUevent_st*;

// ---- in kernels ----
namespace emulation {

enum class Meeting : std::uint8_t { warp, block };
inline constexpr std::size_t kMostHandedIn = 24;

// Returns once all threads of the warp or block that have not ended have called.
void meet(Meeting meeting);
// A value of the calling thread, for its warp; and what the thread of a lane handed in.
void hand_in(const void* value, std::size_t bytes);
void take(unsigned lane, void* value, std::size_t bytes);
void next_turn();

// Instructions of tensor cores so far, of one thread each; bytes of shared memory of a block.
inline thread_local std::int64_t tensor_core_products = 0;
// Time of the device: products take some (cublasLt.h), all else takes none.
inline thread_local double clock_ms = 0;
inline thread_local const char* device_name = "Emulated";
inline thread_local int compute_capability = 90;  // of 9.0
void set_most_shared(std::size_t bytes);
std::size_t most_shared();

// A copy of the calling thread, of 16 bytes, or zeros from nowhere: made when make_copies has its
// group made, all but the last so many.
void copy_later(void* to, const void* from);
void end_group_of_copies();
void make_copies(int all_but);

// read(of_lane), where of_lane(lane) is what that thread of the warp handed in.
template <typename T, typename F>
auto exchange(T value, const F& read) {
    static_assert(sizeof(T) <= kMostHandedIn);
    hand_in(&value, sizeof value);
    meet(Meeting::warp);
    const auto result = read([](unsigned lane) {
        T of_lane{};
        take(lane, &of_lane, sizeof of_lane);
        return of_lane;
    });
    next_turn();
    return result;
}

}  // namespace emulation

inline void __syncthreads() {
    emulation::meet(emulation::Meeting::block);
}
inline void __syncwarp() {
    emulation::meet(emulation::Meeting::warp);
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
    return emulation::exchange(value, [mask](auto of_lane) {
        return of_lane((threadIdx.x % 32) ^ static_cast<unsigned>(mask));
    });
}
// Lanes beyond the block's threads have no part.
inline unsigned __ballot_sync(unsigned, bool value) {
    return emulation::exchange(value, [](auto of_lane) {
        unsigned lanes = 0;
        for (unsigned lane = 0; lane < 32; ++lane)
            if (threadIdx.x / 32 * 32 + lane < blockDim.x && of_lane(lane)) lanes |= 1U << lane;
        return lanes;
    });
}
inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
template <typename T>
T atomicAdd(T* to, T value) {
    const T before = *to;
    *to += value;
    return before;
}
template <typename T>
T atomicMax(T* to, T value) {
    const T before = *to;
    if (value > before) *to = value;
    return before;
}

// ---- graphs ----
using CUgraph_st = std::vector<std::function<cudaError_t()>>;
using cudaGraph_t = CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;

namespace emulation {

inline thread_local cudaGraph_t capture = nullptr;  // under way
inline thread_local std::int64_t graph_launches = 0;

// Performs what a stream is asked for, or keeps it for a graph.
inline cudaError_t put(std::function<cudaError_t()> work) {
    if (capture == nullptr) return work();
    capture->push_back(std::move(work));
    return cudaSuccess;
}

}  // namespace emulation

enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };
inline cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
    if (emulation::capture != nullptr) return cudaErrorInvalidValue;
    emulation::capture = new CUgraph_st;
    return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
    *graph = std::exchange(emulation::capture, nullptr);
    return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return cudaSuccess;
}
struct CUgraphExec_st {
    CUgraph_st nodes;
};
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* graph, cudaGraph_t from,
                                        unsigned long long) {
    *graph = new CUgraphExec_st{*from};
    return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    delete graph;
    return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
    ++emulation::graph_launches;
    for (const auto& node : graph->nodes)
        if (const cudaError_t answer = node(); answer != cudaSuccess) return answer;
    return cudaSuccess;
}

// ---- launches ----
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    std::size_t dynamicSmemBytes = 0;
    cudaStream_t stream = nullptr;
};
enum cudaDeviceAttr {
    cudaDevAttrMaxSharedMemoryPerBlockOptin,
    cudaDevAttrComputeCapabilityMajor,
    cudaDevAttrComputeCapabilityMinor
};
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
inline cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };

namespace emulation {
cudaError_t run_grid(const cudaLaunchConfig_t& config, const void* kernel,
                     const std::function<void()>& body);
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
    const std::tuple<Parameters...> held(std::forward<Arguments>(arguments)...);
    return emulation::put([config = *config, kernel, held] {
        return emulation::run_grid(config, reinterpret_cast<const void*>(kernel),
                                   [&] { std::apply(kernel, held); });
    });
}

// ---- memory, streams, events: everything has been performed when a call returns, but where it is
// captured; what waits for the device then is refused ----
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDefault };
namespace emulation {

// Memory that streams reach: the device's, and the host's that is pinned. Of all threads.
class ReachedMemory {
  public:
    void add(const void* memory, std::size_t bytes) {
        const std::lock_guard lock(mutex_);
        ends_[static_cast<const char*>(memory)] = static_cast<const char*>(memory) + bytes;
    }
    void remove(const void* memory) {
        const std::lock_guard lock(mutex_);
        ends_.erase(static_cast<const char*>(memory));
    }
    bool holds(const void* memory, std::size_t bytes) {
        const std::lock_guard lock(mutex_);
        const auto* const begin = static_cast<const char*>(memory);
        const auto next = ends_.upper_bound(begin);
        return next != ends_.begin() && begin + bytes <= std::prev(next)->second;
    }

  private:
    std::mutex mutex_;
    std::map<const char*, const char*> ends_;  // by begin
};
inline ReachedMemory device_memory, pinned_memory;
inline thread_local std::int64_t pinned_allocations = 0;
// Marks have not been passed yet.
inline thread_local bool marks_are_ahead = false;

}  // namespace emulation

inline cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
    if (emulation::capture != nullptr) return cudaErrorInvalidValue;
    *memory = std::malloc(bytes);
    emulation::pinned_memory.add(*memory, bytes);
    ++emulation::pinned_allocations;
    return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void* memory) {
    emulation::pinned_memory.remove(memory);
    std::free(memory);
    return cudaSuccess;
}
inline cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
    if (emulation::capture != nullptr) return cudaErrorInvalidValue;
    constexpr std::size_t kAlignment = 256;  // as CUDA promises
    *memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    emulation::device_memory.add(*memory, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
    if (memory != nullptr && emulation::capture != nullptr) return cudaErrorInvalidValue;
    emulation::device_memory.remove(memory);
    std::free(memory);
    return cudaSuccess;
}
inline cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
    std::memset(memory, value, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}
// From and to pageable memory a copy would be made, once the thread had waited for the stream: here
// it is refused, for no stream of a step may be waited for so.
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                                   cudaMemcpyKind kind, cudaStream_t) {
    const auto reaches = [&](const void* memory, cudaMemcpyKind of_host) {
        return emulation::pinned_memory.holds(memory, bytes) ||
               (kind != of_host && emulation::device_memory.holds(memory, bytes));
    };
    if (!reaches(from, cudaMemcpyHostToDevice) || !reaches(to, cudaMemcpyDeviceToHost))
        return cudaErrorInvalidValue;
    return emulation::put([=] {
        std::memcpy(to, from, bytes);
        return cudaSuccess;
    });
}
inline cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t) {
    return emulation::put([=] {
        std::memset(memory, value, bytes);
        return cudaSuccess;
    });
}
inline cudaError_t cudaLaunchHostFunc(cudaStream_t, void (*call)(void*), void* data) {
    call(data);
    return cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    *free = *total = 0;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() {
    return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
struct cudaDeviceProp {
    char name[256];
    int major, minor;
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
    std::strncpy(properties->name, emulation::device_name, sizeof properties->name - 1);
    properties->major = emulation::compute_capability / 10;
    properties->minor = emulation::compute_capability % 10;
    return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
    return device == 0 ? cudaSuccess : cudaErrorInvalidValue;
}
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}
enum : unsigned { cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2 };
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
    *stream = nullptr;
    return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
    return emulation::capture != nullptr ? cudaErrorInvalidValue : cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t) {
    return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
    return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
    *event = new CUevent_st;
    return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
    if (emulation::capture != nullptr) return cudaErrorInvalidValue;  // nobody records within one
    event->at_ms = emulation::clock_ms;
    return cudaSuccess;
}
inline cudaError_t cudaEventQuery(cudaEvent_t) {
    return emulation::marks_are_ahead ? cudaErrorNotReady : cudaSuccess;
}
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
    *milliseconds = static_cast<float>(to->at_ms - from->at_ms);
    return cudaSuccess;
}
