#include "runtime/cuda/cuda_driver.hpp"

#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/cuda/cublas_lt.hpp"
#include "runtime/cuda/cuda_backend.hpp"
#include "runtime/cuda/cuda_error.hpp"
#include "runtime/cuda/nccl_memory.hpp"

namespace orrery::runtime {

int cuda_devices() {
    int count = 0;
    const cudaError_t answer = cudaGetDeviceCount(&count);
    if (answer == cudaErrorNoDevice || answer == cudaErrorInsufficientDriver || count == 0) {
        cudaGetLastError();
        throw DeviceError(std::string("no CUDA device: ") + cudaGetErrorString(answer));
    }
    cuda::check(answer, "cudaGetDeviceCount");
    return count;
}

std::unique_ptr<StreamDriver> make_cuda_driver(int device, const CudaSettings& settings) {
    const int count = cuda_devices();
    if (device < 0 || device >= count)
        throw DeviceError("no CUDA device " + std::to_string(device) + ": this machine has " +
                          std::to_string(count));
    return std::make_unique<cuda::CudaDriver>(device, settings);
}

namespace cuda {
namespace {

cudaStream_t of(Stream stream) {
    return static_cast<cudaStream_t>(stream.handle);
}
cudaEvent_t of(Event event) {
    return static_cast<cudaEvent_t>(event.handle);
}

DeviceKind kind_of(int device) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    return {properties.name,
            std::to_string(properties.major) + "." + std::to_string(properties.minor),
            static_cast<std::int64_t>(cublas_lt().GetVersion())};
}

}  // namespace

struct CudaDriver::HostCall {
    std::function<void()> host;
    HostFault& fault;
    std::atomic<bool> over{false};

    void make() {
        try {
            host();
        } catch (...) {
            const std::lock_guard lock(fault.mutex);
            if (!fault.cause) fault.cause = std::current_exception();
        }
        over.store(true, std::memory_order_release);
    }
};

CudaDriver::CudaDriver(int device, const CudaSettings& settings)
    : device_(device), cudnn_(settings.cudnn), registered_buffers_(settings.registered_buffers) {
    enter();
    if (!settings.product_choices.empty())
        choices_.emplace(settings.product_choices, kind_of(device));
}

// What is under way ends first. Nothing can be done here about what fails.
CudaDriver::~CudaDriver() {
    cudaSetDevice(device_);
    for (cudaStream_t stream : streams_)
        cudaStreamSynchronize(stream);
    for (cudaGraphExec_t graph : graphs_)
        cudaGraphExecDestroy(graph);
    for (cudaEvent_t event : events_)
        cudaEventDestroy(event);
    for (cudaStream_t stream : streams_)
        cudaStreamDestroy(stream);
}

// CUDA's current device is the thread's, and threads may take turns.
void CudaDriver::enter() const {
    check(cudaSetDevice(device_), "cudaSetDevice " + std::to_string(device_));
}

std::byte* CudaDriver::allocate(std::int64_t bytes) {
    enter();
    if (!registered_buffers_) {
        memory_.push_back(cuda::allocate(bytes));
        return static_cast<std::byte*>(memory_.back().get());
    }
    void* const memory = allocate_for_nccl(bytes);
    memory_of_nccl_.emplace_back(memory);
    check(cudaMemset(memory, 0, static_cast<std::size_t>(bytes)), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return static_cast<std::byte*>(memory);
}

void CudaDriver::NcclDeleter::operator()(void* memory) const {
    free_of_nccl(memory);
}

std::byte* CudaDriver::allocate_host(std::int64_t bytes) {
    enter();
    const auto size = static_cast<std::size_t>(bytes);
    host_memory_.push_back({allocate_pinned(size), bytes});
    std::byte* const memory = host_memory_.back().memory.get();
    std::memset(memory, 0, size);
    return memory;
}

bool CudaDriver::is_hosts(const std::byte* memory) const {
    for (const HostBlock& block : host_memory_) {
        const std::byte* const begin = block.memory.get();
        if (memory >= begin && memory < begin + block.bytes) return true;
    }
    return false;
}

// Priorities are numbers of which the least is the greatest.
Stream CudaDriver::create_stream(StreamUse use) {
    enter();
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    const int priority = use == StreamUse::communication ? greatest : least;
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority),
          "cudaStreamCreateWithPriority");
    streams_.push_back(stream);
    return {stream};
}

Event CudaDriver::create_event(bool timed) {
    enter();
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
    events_.push_back(event);
    return {event};
}

// A call that may wait for the device ends a capture of its own thread, and of no other.
KeptWork CudaDriver::keep(Stream stream, const std::function<void()>& put) {
    enter();
    check(cudaStreamBeginCapture(of(stream), cudaStreamCaptureModeThreadLocal),
          "cudaStreamBeginCapture");
    cudaGraph_t captured = nullptr;
    try {
        put();
    } catch (...) {
        cudaStreamEndCapture(of(stream), &captured);
        cudaGraphDestroy(captured);
        throw;
    }
    check(cudaStreamEndCapture(of(stream), &captured), "cudaStreamEndCapture");
    cudaGraphExec_t graph = nullptr;
    const cudaError_t answer = cudaGraphInstantiate(&graph, captured, 0);
    cudaGraphDestroy(captured);
    check(answer, "cudaGraphInstantiate");
    graphs_.push_back(graph);
    return {graph};
}

void CudaDriver::launch(Stream stream, KeptWork work) {
    enter();
    check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(work.handle), of(stream)),
          "cudaGraphLaunch");
}

void CudaDriver::record(Event event, Stream stream) {
    enter();
    check(cudaEventRecord(of(event), of(stream)), "cudaEventRecord");
}

void CudaDriver::wait(Stream stream, Event event) {
    enter();
    check(cudaStreamWaitEvent(of(stream), of(event), 0), "cudaStreamWaitEvent");
}

void CudaDriver::rethrow_host_fault() {
    const std::lock_guard lock(host_fault_.mutex);
    if (host_fault_.cause) std::rethrow_exception(host_fault_.cause);
}

bool CudaDriver::passed(Event event) {
    enter();
    rethrow_host_fault();
    const cudaError_t answer = cudaEventQuery(of(event));
    if (answer == cudaErrorNotReady) {
        cudaGetLastError();
        return false;
    }
    check(answer, "what the device was given");
    rethrow_host_fault();  // of what has been passed
    return true;
}

std::int64_t CudaDriver::nanoseconds(Event from, Event to) {
    enter();
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, of(from), of(to)), "cudaEventElapsedTime");
    return std::llround(static_cast<double>(milliseconds) * 1e6);
}

std::optional<std::int64_t> CudaDriver::bytes_in_use() const {
    enter();
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "memory of the device");
    return static_cast<std::int64_t>(total - free);
}

void CudaDriver::copy(Stream stream, std::byte* to, const std::byte* from, std::int64_t bytes) {
    enter();
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, of(stream)),
          "copy between tiers of memory");
}

void CudaDriver::fill(Stream stream, std::byte* memory, std::int64_t bytes, std::byte value) {
    const auto size = static_cast<std::size_t>(bytes);
    const int set = std::to_integer<int>(value);
    if (is_hosts(memory)) return call(stream, [=] { std::memset(memory, set, size); });
    enter();
    check(cudaMemsetAsync(memory, set, size, of(stream)), "cudaMemsetAsync");
}

void CudaDriver::call(Stream stream, std::function<void()> host) {
    enter();
    while (!calls_.empty() && calls_.front()->over.load(std::memory_order_acquire))
        calls_.pop_front();
    calls_.push_back(std::unique_ptr<HostCall>(new HostCall{std::move(host), host_fault_}));
    check(cudaLaunchHostFunc(
              of(stream), [](void* call) { static_cast<HostCall*>(call)->make(); },
              calls_.back().get()),
          "cudaLaunchHostFunc");
}

void CudaDriver::read(const std::byte* from, std::span<std::byte> into) {
    enter();
    check(cudaMemcpy(into.data(), from, into.size(), cudaMemcpyDeviceToHost),
          "copy from the device");
}

void CudaDriver::write(std::byte* to, std::span<const std::byte> from) {
    enter();
    cuda::copy_to_device(to, from.data(), from.size());
}

std::unique_ptr<Kernels> CudaDriver::kernels(Stream stream, std::byte* workspace,
                                             std::int64_t workspace_bytes) {
    enter();
    return std::make_unique<CudaKernels>(of(stream), Workspace{workspace, workspace_bytes},
                                         choices_ ? &*choices_ : nullptr, cudnn_);
}

std::string CudaDriver::choices_id() const {
    return choices_ ? choices_->id() : "";
}

}  // namespace cuda
}  // namespace orrery::runtime
