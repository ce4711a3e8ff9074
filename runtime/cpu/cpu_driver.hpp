// The CPU as a device with queues: each is a thread of the rank, memory is the host's, kernels and
// calls of the communicator are performed when they are called, so that work waits for its turn.
// One queue for each use of streams: a thread of the rank, but for the one that computes. That is
// performed by whoever awaits an event or finishes, which is the rank's own thread: a step begins
// and ends without another thread to be woken.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/cpu/work_queue.hpp"
#include "runtime/streams/stream_driver.hpp"

namespace orrery::runtime {

class CpuDriver final : public StreamDriver {
  public:
    // `threads`: of the rank's team, for compute. `alone`: in its process, whose memory is the
    // device's then.
    explicit CpuDriver(int threads, bool alone = false) : threads_(threads), alone_(alone) {}

    std::byte* allocate(std::int64_t bytes) override;
    std::byte* allocate_host(std::int64_t bytes) override { return allocate(bytes); }
    bool shares_host_memory() const override { return true; }

    Stream create_stream(StreamUse use) override;
    Event create_event(bool timed) override;

    void issue(Stream stream, QueuedWork& work, std::uint32_t number) override;
    bool performs_in_turn() const override { return true; }
    void when_failed(std::function<void(const std::exception_ptr&)> tell) override;
    void finish() override;

    void record(Event event, Stream stream) override;
    void wait(Stream stream, Event event) override;
    bool passed(Event event) override;
    // Work that has failed has all been left once this throws it.
    void await(Event event, const std::function<void()>& meanwhile) override;
    std::int64_t nanoseconds(Event from, Event to) override;
    std::optional<std::int64_t> bytes_in_use() const override;

    void copy(Stream stream, std::byte* to, const std::byte* from, std::int64_t bytes) override;
    void fill(Stream stream, std::byte* memory, std::int64_t bytes, std::byte value) override;
    void call(Stream stream, std::function<void()> host) override;
    void read(const std::byte* from, std::span<std::byte> into) override;
    void write(std::byte* to, std::span<const std::byte> from) override;

    std::unique_ptr<Kernels> kernels(Stream stream, std::byte* workspace,
                                     std::int64_t workspace_bytes) override;

  private:
    struct MemoryDeleter {
        void operator()(std::byte* memory) const;
    };
    using Queues = std::array<std::unique_ptr<WorkQueue>, 4>;  // by use of streams

    static std::size_t place(StreamUse use) { return static_cast<std::size_t>(use); }
    void rethrow_failure();

    int threads_;
    bool alone_;
    std::vector<std::unique_ptr<std::byte, MemoryDeleter>> memory_;
    std::deque<CpuEvent> events_;
    WorkQueues all_queues_;
    Queues queues_;  // go first: they use the others
};

}  // namespace orrery::runtime
