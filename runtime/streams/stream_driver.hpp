// What a device with queues must be able to do for the executor: memory, streams, events, copies.
// Whatever performs plans is a driver: the CPU's queues are threads (runtime/cpu/), CUDA's are the
// GPU's (runtime/cuda/); tests have one that writes down what it is asked. One driver per rank and
// device. Calls throw DeviceError; they come from one thread at a time, but for passed(), read()
// and write(), which may come from others meanwhile, and those that work makes (issue()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
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

// Work that can be put into a stream again as a whole; owned by the driver.
struct KeptWork {
    void* handle = nullptr;
};

// What a stream is for. A driver may give the same stream to all that ask for one of the same use.
enum class StreamUse : std::uint8_t {
    compute,
    communication,
    copies,  // between tiers of memory
    server   // steps parameters beside compute (layout.staleness)
};

// What a stream is given: pieces of work, by number.
class QueuedWork {
  public:
    QueuedWork() = default;
    QueuedWork(const QueuedWork&) = delete;
    QueuedWork& operator=(const QueuedWork&) = delete;

    virtual void perform(std::uint32_t number) = 0;

  protected:
    ~QueuedWork() = default;
};

class StreamDriver {
  public:
    StreamDriver() = default;
    virtual ~StreamDriver() = default;
    StreamDriver(const StreamDriver&) = delete;
    StreamDriver& operator=(const StreamDriver&) = delete;

    // Memory of the device, zeroed; freed with the driver.
    virtual std::byte* allocate(std::int64_t bytes) = 0;
    // Memory of the host that copy() may name, zeroed; freed with the driver.
    virtual std::byte* allocate_host(std::int64_t bytes) = 0;
    // Whether the host reads and writes the device's memory as its own.
    virtual bool shares_host_memory() const { return false; }

    // Communication comes before compute where both could run.
    virtual Stream create_stream(StreamUse use) = 0;
    // Timed events can be asked how long there was between them.
    virtual Event create_event(bool timed) = 0;

    // The stream performs the work in its turn. Of kernels(), copy(), fill() and call(), and of a
    // StreamCommunicator, work asks for its own stream alone. Where those are put into the stream
    // by being called, the work is called at once; where they are performed when they are called,
    // it waits for its turn, on the stream's thread (performs_in_turn()), and must live until then.
    // What such work throws ends the driver: when_failed() is told, work that waits is dropped,
    // marks are passed nevertheless, and await() and passed() throw it.
    virtual void issue(Stream /*stream*/, QueuedWork& work, std::uint32_t number) {
        work.perform(number);
    }
    virtual bool performs_in_turn() const { return false; }
    // On the stream's thread; to be set before anything is issued.
    virtual void when_failed(std::function<void(const std::exception_ptr&)> /*tell*/) {}
    // Returns once no work waits for its turn or is performed.
    virtual void finish() {}

    // Whether the host issues less where work that repeats itself is kept (a CUDA graph).
    virtual bool keeps_work() const { return false; }
    // What `put` asks of kernels of the stream is kept, and not performed. It has been performed
    // once before, so that nothing is allocated or loaded.
    virtual KeptWork keep(Stream stream, const std::function<void()>& put);
    // The stream performs it in its turn; one that is launched again has been performed before.
    virtual void launch(Stream stream, KeptWork work);

    // The mark stands behind what the stream has been given so far; one that is recorded again
    // forgets where it was.
    virtual void record(Event event, Stream stream) = 0;
    // What the stream is given from now on waits until the mark has been passed.
    virtual void wait(Stream stream, Event event) = 0;
    // Whether the mark has been passed; throws where the device has failed.
    virtual bool passed(Event event) = 0;
    // Returns once it has been passed, and calls `meanwhile` now and then; throws what either does.
    virtual void await(Event event, const std::function<void()>& meanwhile);
    // Between two marks that have been passed, both timed.
    virtual std::int64_t nanoseconds(Event from, Event to) = 0;

    // Of the device's memory, in use by anyone; nothing where it has none of its own.
    virtual std::optional<std::int64_t> bytes_in_use() const = 0;

    // In the stream: bytes from device to device, or to or from memory of allocate_host(); bytes of
    // either that are set; a call of the host's, which the stream waits for and which calls no
    // driver. What the call throws, await() and passed() throw.
    virtual void copy(Stream stream, std::byte* to, const std::byte* from, std::int64_t bytes) = 0;
    virtual void fill(Stream stream, std::byte* memory, std::int64_t bytes, std::byte value) = 0;
    virtual void call(Stream stream, std::function<void()> host) = 0;

    // Returns once it is done. No stream may write what is read, nor touch what is written.
    virtual void read(const std::byte* from, std::span<std::byte> into) = 0;
    virtual void write(std::byte* to, std::span<const std::byte> from) = 0;

    // Kernels that go into `stream`, with `workspace` bytes of scratch for products (the plan's).
    virtual std::unique_ptr<Kernels> kernels(Stream stream, std::byte* workspace,
                                             std::int64_t workspace_bytes) = 0;

    // Of the file that kernels prepare by, which must be one for all ranks: what tells it from
    // others. Empty: there is none.
    virtual std::string choices_id() const { return {}; }
};

}  // namespace orrery::runtime
