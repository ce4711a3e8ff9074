// What a device with queues must be able to do for the executor: memory, streams, events. The CUDA
// backend implements it in runtime/cuda/; tests record what is asked of it. One driver per rank and
// device; all calls come from one thread at a time. Calls throw DeviceError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "runtime/kernels/kernels.hpp"
#include "runtime/streams/stream.hpp"

namespace orrery::runtime {

// What the driver said, and to what.
class DeviceError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// A mark in a stream; owned by the driver.
struct Event {
    void* handle = nullptr;
};

enum class StreamUse : std::uint8_t { compute, communication };

class StreamDriver {
  public:
    StreamDriver() = default;
    virtual ~StreamDriver() = default;
    StreamDriver(const StreamDriver&) = delete;
    StreamDriver& operator=(const StreamDriver&) = delete;

    // Memory of the device, zeroed; freed with the driver.
    virtual std::byte* allocate(std::int64_t bytes) = 0;

    // Communication comes before compute where both could run.
    virtual Stream create_stream(StreamUse use) = 0;
    // Timed events can be asked how long there was between them.
    virtual Event create_event(bool timed) = 0;

    // The mark stands behind what the stream has been given so far; one that is recorded again
    // forgets where it was.
    virtual void record(Event event, Stream stream) = 0;
    // What the stream is given from now on waits until the mark has been passed.
    virtual void wait(Stream stream, Event event) = 0;
    // Whether the mark has been passed; throws where the device has failed.
    virtual bool passed(Event event) = 0;
    // Between two marks that have been passed, both timed.
    virtual std::int64_t nanoseconds(Event from, Event to) = 0;

    // Of the device's memory, in use by anyone.
    virtual std::int64_t bytes_in_use() const = 0;

    // Returns once it is done; nothing else may be under way.
    virtual void read(const std::byte* from, std::span<std::byte> into) = 0;
    virtual void write(std::byte* to, std::span<const std::byte> from) = 0;

    // Kernels that go into `stream`, with `workspace` bytes of scratch for products (the plan's).
    virtual std::unique_ptr<Kernels> kernels(Stream stream, std::byte* workspace,
                                             std::int64_t workspace_bytes) = 0;
};

}  // namespace orrery::runtime
