// A CUDA device for the executor: streams are CUDA streams that do not wait for the default one,
// marks are CUDA events, host memory is pinned, so that copies to and from it need no host.
#pragma once

#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/backends/cuda_settings.hpp"
#include "runtime/cuda/cuda_kernels.hpp"
#include "runtime/streams/stream_driver.hpp"

namespace orrery::runtime::cuda {

class CudaDriver final : public StreamDriver {
  public:
    CudaDriver(int device, const CudaSettings& settings);
    ~CudaDriver() override;

    std::byte* allocate(std::int64_t bytes) override;
    std::byte* allocate_host(std::int64_t bytes) override;
    Stream create_stream(StreamUse use) override;
    Event create_event(bool timed) override;
    bool keeps_work() const override { return true; }
    KeptWork keep(Stream stream, const std::function<void()>& put) override;
    void launch(Stream stream, KeptWork work) override;
    void record(Event event, Stream stream) override;
    void wait(Stream stream, Event event) override;
    bool passed(Event event) override;
    std::int64_t nanoseconds(Event from, Event to) override;
    std::optional<std::int64_t> bytes_in_use() const override;
    void copy(Stream stream, std::byte* to, const std::byte* from, std::int64_t bytes) override;
    void fill(Stream stream, std::byte* memory, std::int64_t bytes, std::byte value) override;
    void call(Stream stream, std::function<void()> host) override;
    void read(const std::byte* from, std::span<std::byte> into) override;
    void write(std::byte* to, std::span<const std::byte> from) override;
    std::unique_ptr<Kernels> kernels(Stream stream, std::byte* workspace,
                                     std::int64_t workspace_bytes) override;
    std::string choices_id() const override;

  private:
    // Of the host, which the device makes from its streams: they may not throw there.
    struct HostFault {
        std::mutex mutex;
        std::exception_ptr cause;  // the first
    };
    struct HostCall;
    struct HostBlock {
        PinnedMemory memory;
        std::int64_t bytes = 0;
    };

    void enter() const;
    bool is_hosts(const std::byte* memory) const;
    void rethrow_host_fault();

    int device_;
    bool cudnn_;
    bool registered_buffers_;
    std::optional<ProductChoices> choices_;
    std::vector<cudaStream_t> streams_;
    std::vector<cudaEvent_t> events_;
    std::vector<cudaGraphExec_t> graphs_;
    std::vector<DeviceMemory> memory_;
    struct NcclDeleter {
        void operator()(void* memory) const;
    };
    std::vector<std::unique_ptr<void, NcclDeleter>> memory_of_nccl_;
    std::vector<HostBlock> host_memory_;
    HostFault host_fault_;
    std::deque<std::unique_ptr<HostCall>> calls_;  // oldest first; those at the front may be over
};

}  // namespace orrery::runtime::cuda
