// A device with queues that is none: what the executor asks of its driver is written down, and
// performed at once by the CPU's kernels. So all of the executor's host side runs where there is no
// such device, and trains.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/comm/threads/thread_world.hpp"
#include "runtime/cpu/cpu_kernels.hpp"
#include "runtime/streams/stream_backend.hpp"
#include "runtime/streams/stream_device.hpp"

namespace orrery::parity {

struct Asked {
    enum class What { request, communication, record, wait, launch } what = What::request;
    std::uintptr_t stream = 0;
    std::uintptr_t event = 0;
    std::string name;  // of a request
};

// What a request becomes before it is performed.
using ChangeRequest = std::function<void(runtime::KernelRequest&)>;

// Streams and events are numbers; 0 is none.
class HostDriver final : public runtime::StreamDriver {
  public:
    explicit HostDriver(ChangeRequest change = {}) : change_(std::move(change)) {}

    std::byte* allocate(std::int64_t bytes) override;
    runtime::Stream create_stream(runtime::StreamUse use) override;
    runtime::Event create_event(bool timed) override;
    bool keeps_work() const override { return true; }
    runtime::KeptWork keep(runtime::Stream stream, const std::function<void()>& put) override;
    void launch(runtime::Stream stream, runtime::KeptWork work) override;
    void record(runtime::Event event, runtime::Stream stream) override;
    void wait(runtime::Stream stream, runtime::Event event) override;
    bool passed(runtime::Event event) override;
    std::int64_t nanoseconds(runtime::Event from, runtime::Event to) override;
    std::byte* allocate_host(std::int64_t bytes) override { return allocate(bytes); }
    std::optional<std::int64_t> bytes_in_use() const override;
    void copy(runtime::Stream stream, std::byte* to, const std::byte* from,
              std::int64_t bytes) override;
    void fill(runtime::Stream stream, std::byte* memory, std::int64_t bytes,
              std::byte value) override;
    void call(runtime::Stream stream, std::function<void()> host) override;
    void read(const std::byte* from, std::span<std::byte> into) override;
    void write(std::byte* to, std::span<const std::byte> from) override;
    std::unique_ptr<runtime::Kernels> kernels(runtime::Stream stream, std::byte* workspace,
                                              std::int64_t workspace_bytes) override;

    std::vector<Asked> log;
    std::vector<runtime::StreamUse> streams;  // by number less 1
    std::vector<std::int64_t> recorded;       // by number of the event less 1: when last; 0: never

    // What kernels are asked for: written down and performed; or kept.
    void ask(runtime::Stream stream, std::string name, const std::function<void()>& perform);

  private:
    void asked(runtime::Stream stream, const char* name);

    ChangeRequest change_;
    std::vector<std::vector<std::byte>> memory_;
    std::vector<bool> timed_;
    std::vector<std::vector<std::function<void()>>> kept_;
    bool keeping_ = false;
    std::int64_t time_ = 0;
    std::mutex mutex_;  // guards events, which another thread may ask for
};

// The calls of a thread's communicator, in the streams of a driver.
class HostCommunicator final : public runtime::StreamCommunicator {
  public:
    HostCommunicator(runtime::Communicator& inner, HostDriver& driver);

    void issue_on(runtime::Stream stream) override;
    void check() override {}
    void abort(std::string_view reason) override { inner_.abort(reason); }

  private:
    void do_all_reduce(plan::GroupKind group, plan::DType dtype, void* data, std::int64_t elements,
                       runtime::Reduction reduction) override;
    void do_all_gather(plan::GroupKind group, plan::DType dtype, const void* mine, void* all,
                       std::int64_t total) override;
    void do_reduce_scatter(plan::GroupKind group, plan::DType dtype, const void* all, void* mine,
                           std::int64_t total) override;
    void do_all_to_all(plan::GroupKind group, plan::DType dtype, const void* to_all, void* from_all,
                       std::int64_t total) override;
    void do_broadcast(plan::GroupKind group, plan::DType dtype, void* data, std::int64_t elements,
                      std::int64_t root) override;
    void do_exchange(std::span<const runtime::Transfer> transfers, plan::GroupKind group) override;
    void do_barrier(plan::GroupKind group) override;
    void call(const char* name);

    runtime::Communicator& inner_;
    HostDriver& driver_;
    runtime::Stream stream_;
};

// A library of collectives over the threads of this process: each communicator is a world of its
// own, which its members find by the id that they share, the split and their part.
class HostCollectives : public runtime::CollectiveDriver {
  public:
    std::int64_t namers(std::int64_t) const override { return 1; }
    std::vector<std::byte> unique_id() override;
    Communicator begin(std::span<const std::byte> ids, std::int64_t member,
                       std::int64_t members) override;
    Communicator split(Communicator all, const std::optional<Part>& part,
                       const runtime::BlockBounds& blocks) override;
    State state(Communicator) override { return State::ready; }
    std::string fault(Communicator) override { return ""; }
    Registration register_memory(Communicator communicator, std::byte*, std::int64_t,
                                 bool) override {
        return communicator;
    }
    bool taken(Registration) override { return true; }
    void deregister(Communicator, Registration) override {}
    void end(Communicator) override {}
    void abort(Communicator communicator) override;

    void group_start() override { ++depth_; }
    void group_end() override;

    void all_reduce(Communicator communicator, plan::DType dtype, void* data, std::int64_t elements,
                    runtime::Reduction reduction, runtime::Stream stream) override;
    void all_gather(Communicator communicator, plan::DType dtype, const void* mine, void* all,
                    std::int64_t each, runtime::Stream stream) override;
    void reduce_scatter(Communicator communicator, plan::DType dtype, const void* all, void* mine,
                        std::int64_t each, runtime::Stream stream) override;
    void broadcast(Communicator communicator, plan::DType dtype, void* data, std::int64_t elements,
                   std::int64_t root, runtime::Stream stream) override;
    void send(Communicator communicator, const void* data, std::int64_t bytes, std::int64_t member,
              runtime::Stream stream) override;
    void receive(Communicator communicator, void* data, std::int64_t bytes, std::int64_t member,
                 runtime::Stream stream) override;
    void copy(void* to, const void* from, std::int64_t bytes, runtime::Stream stream) override;

  private:
    struct Member;

    static Member& of(Communicator communicator);
    void transfer(Communicator communicator, const runtime::Transfer& transfer);

    std::vector<std::shared_ptr<Member>> members_;
    int depth_ = 0;  // of groups that are open
    Communicator grouped_ = nullptr;
    std::vector<runtime::Transfer> transfers_;
};

// So many devices of the two.
runtime::DriverSource host_devices(int devices, const ChangeRequest& change = {});

}  // namespace orrery::parity
