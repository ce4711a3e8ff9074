// A CUDA device for the executor: streams are CUDA streams that do not wait for the default one,
// marks are CUDA events.
#pragma once

#include <vector>

#include "runtime/cuda/cuda_kernels.hpp"
#include "runtime/streams/stream_driver.hpp"

namespace orrery::runtime::cuda {

class CudaDriver final : public StreamDriver {
  public:
    explicit CudaDriver(int device);
    ~CudaDriver() override;

    std::byte* allocate(std::int64_t bytes) override;
    Stream create_stream(StreamUse use) override;
    Event create_event(bool timed) override;
    void record(Event event, Stream stream) override;
    void wait(Stream stream, Event event) override;
    bool passed(Event event) override;
    std::int64_t nanoseconds(Event from, Event to) override;
    std::int64_t bytes_in_use() const override;
    void read(const std::byte* from, std::span<std::byte> into) override;
    void write(std::byte* to, std::span<const std::byte> from) override;
    std::unique_ptr<Kernels> kernels(Stream stream, std::byte* workspace,
                                     std::int64_t workspace_bytes) override;

  private:
    void enter() const;

    int device_;
    std::vector<cudaStream_t> streams_;
    std::vector<cudaEvent_t> events_;
    std::vector<DeviceMemory> memory_;
};

}  // namespace orrery::runtime::cuda
