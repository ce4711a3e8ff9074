// Drivers of no device: they write down what they are asked, and do as a test says.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "plan/check.hpp"
#include "runtime/streams/collective_driver.hpp"
#include "runtime/streams/stream_driver.hpp"

namespace orrery::runtime {

struct FakeCommunicator {
    std::string id;  // "r2.0": of all, named by the first id of rank 2; "r2.0/1/4": of its second
                     // split, part 4
    std::int64_t member = 0, members = 0;
    BlockBounds blocks{};
    std::vector<std::string> calls;      // collectives, in order
    std::vector<std::string> transfers;  // "send 64 to 1"
    bool ended = false, aborted = false;
    int splits = 0;  // of one of all
};

struct FakeRegistration {
    FakeCommunicator* of = nullptr;
    bool symmetric = false;
};

class FakeCollectives final : public CollectiveDriver {
  public:
    explicit FakeCollectives(std::int64_t rank) : rank_(rank) {}

    std::list<FakeCommunicator> worlds;         // of all, which take no calls
    std::list<FakeCommunicator> communicators;  // in the order in which they were split off
    std::vector<std::string> made;              // "begin 0 of 4", "split 1 of 2", "split none"
    std::int64_t ranks_of_namer = 128;
    std::list<FakeRegistration> registrations;
    bool has_windows = true;  // takes memory that is symmetric
    std::vector<std::string> copies;
    int depth = 0;          // of groups that are open
    int groups = 0;         // that were closed
    int busy = 0;           // so many questions for a state are answered with in_progress
    bool refuses = false;   // calls throw
    std::string breaks_on;  // a communicator has failed after this call
    std::string broken;     // the communicator's id
    std::string blocks_on;  // held, a call like this one does not return until it is released
    std::atomic<bool> held = false, released = false;
    std::atomic<int> aborts = 0;
    std::vector<std::string>* goodbyes = nullptr;  // "abort r2.0", "end r2.0"; may outlive this

    std::vector<std::byte> unique_id() override {
        std::string text = fmt::format("r{}.{}", rank_, named_++);
        text.resize(16, ' ');
        const auto bytes = std::as_bytes(std::span(text));
        return {bytes.begin(), bytes.end()};
    }
    std::int64_t namers(std::int64_t members) const override {
        return (members + ranks_of_namer - 1) / ranks_of_namer;
    }
    Communicator begin(std::span<const std::byte> ids, std::int64_t member,
                       std::int64_t members) override {
        ORRERY_CHECK(static_cast<std::int64_t>(ids.size()) == 16 * namers(members),
                     "an id of each namer");
        std::string text(reinterpret_cast<const char*>(ids.data()), ids.size());
        std::erase(text, ' ');
        made.push_back(fmt::format("begin {} of {}", member, members));
        hold("begin");
        worlds.push_back({text, member, members, {}, {}, {}});
        return &worlds.back();
    }
    Communicator split(Communicator all, const std::optional<Part>& part,
                       const BlockBounds& blocks) override {
        FakeCommunicator& world = of(all);
        ORRERY_CHECK(&world == &worlds.back() && !world.ended && !world.aborted,
                     "one of all is split");
        made.push_back(part ? fmt::format("split {} of {}", part->member, part->members)
                            : "split none");
        hold("split");
        const int number = world.splits++;
        if (!part) return nullptr;
        communicators.push_back({fmt::format("{}/{}/{}", world.id, number, part->number),
                                 part->member,
                                 part->members,
                                 blocks,
                                 {},
                                 {}});
        return &communicators.back();
    }
    State state(Communicator communicator) override {
        if (!broken.empty() && of(communicator).id == broken) return State::failed;
        if (busy == 0) return State::ready;
        --busy;
        return State::in_progress;
    }
    std::string fault(Communicator) override { return "the network has gone"; }
    Registration register_memory(Communicator communicator, std::byte*, std::int64_t bytes,
                                 bool symmetric) override {
        taken(communicator, "register");
        of(communicator)
            .calls.push_back(fmt::format("register {}{}", bytes, symmetric ? " symmetric" : ""));
        registrations.push_back({&of(communicator), symmetric});
        return &registrations.back();
    }
    bool taken(Registration registration) override {
        return has_windows || !static_cast<FakeRegistration*>(registration)->symmetric;
    }
    void deregister(Communicator communicator, Registration registration) override {
        ORRERY_CHECK(!of(communicator).ended && !of(communicator).aborted,
                     "a communicator that is gone has forgotten what it knew");
        ORRERY_CHECK(static_cast<FakeRegistration*>(registration)->of == &of(communicator),
                     "memory that another communicator knows");
        of(communicator).calls.emplace_back("deregister");
    }
    void end(Communicator communicator) override {
        of(communicator).ended = true;
        if (goodbyes != nullptr) goodbyes->push_back("end " + of(communicator).id);
    }
    void abort(Communicator communicator) override {
        of(communicator).aborted = true;
        ++aborts;
        if (goodbyes != nullptr) goodbyes->push_back("abort " + of(communicator).id);
    }

    void group_start() override { ++depth; }
    void group_end() override {
        --depth;
        ++groups;
    }

    void all_reduce(Communicator communicator, plan::DType dtype, void*, std::int64_t elements,
                    Reduction reduction, Stream) override {
        note(communicator, fmt::format("all_reduce {} {} {}", plan::name(dtype), elements,
                                       reduction == Reduction::sum ? "sum" : "max"));
    }
    void all_gather(Communicator communicator, plan::DType dtype, const void*, void*,
                    std::int64_t each, Stream) override {
        note(communicator, fmt::format("all_gather {} {}", plan::name(dtype), each));
    }
    void reduce_scatter(Communicator communicator, plan::DType dtype, const void*, void*,
                        std::int64_t each, Stream) override {
        note(communicator, fmt::format("reduce_scatter {} {}", plan::name(dtype), each));
    }
    void broadcast(Communicator communicator, plan::DType dtype, void*, std::int64_t elements,
                   std::int64_t root, Stream) override {
        note(communicator,
             fmt::format("broadcast {} {} from {}", plan::name(dtype), elements, root));
    }
    void send(Communicator communicator, const void*, std::int64_t bytes, std::int64_t member,
              Stream) override {
        transfer(communicator, fmt::format("send {} to {}", bytes, member));
    }
    void receive(Communicator communicator, void*, std::int64_t bytes, std::int64_t member,
                 Stream) override {
        transfer(communicator, fmt::format("receive {} from {}", bytes, member));
    }
    void copy(void*, const void*, std::int64_t bytes, Stream) override {
        copies.push_back(fmt::format("{} bytes", bytes));
    }

  private:
    static FakeCommunicator& of(Communicator communicator) {
        return *static_cast<FakeCommunicator*>(communicator);
    }
    void taken(Communicator communicator, const std::string& call) {
        if (refuses) throw CollectiveError("no such call");
        hold(call);
        if (call == breaks_on) broken = of(communicator).id;
    }
    void hold(const std::string& call) {
        if (blocks_on.empty() || call.rfind(blocks_on, 0) != 0) return;
        held = true;
        while (!released)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        throw CollectiveError("it was released");
    }
    void note(Communicator communicator, const std::string& call) {
        ORRERY_CHECK(depth == 0, "collectives are issued one by one");
        taken(communicator, call);
        of(communicator).calls.push_back(call);
    }
    void transfer(Communicator communicator, const std::string& call) {
        ORRERY_CHECK(depth == 1, "a transfer outside of a group waits for its peer alone");
        taken(communicator, call);
        of(communicator).transfers.push_back(call);
    }

    std::int64_t rank_;
    int named_ = 0;
};

// Streams and events are numbers. A stream has passed as many of its marks as a test says.
class FakeStreams final : public StreamDriver {
  public:
    std::int64_t passed_marks = 1'000'000'000;  // of each stream
    std::size_t events = 0;

    std::byte* allocate(std::int64_t bytes) override {
        memory_.emplace_back(static_cast<std::size_t>(bytes));
        return memory_.back().data();
    }
    std::byte* allocate_host(std::int64_t bytes) override { return allocate(bytes); }
    Stream create_stream(StreamUse) override { return {as_handle(++streams_)}; }
    Event create_event(bool) override { return {as_handle(++events)}; }
    void record(Event event, Stream stream) override {
        place_[event.handle] = ++marks_[stream.handle];
    }
    void wait(Stream, Event) override {}
    bool passed(Event event) override { return place_.at(event.handle) <= passed_marks; }
    std::int64_t nanoseconds(Event, Event) override { return 0; }
    std::optional<std::int64_t> bytes_in_use() const override { return 0; }
    void copy(Stream, std::byte*, const std::byte*, std::int64_t) override {}
    void fill(Stream, std::byte*, std::int64_t, std::byte) override {}
    void call(Stream, std::function<void()>) override {}
    void read(const std::byte*, std::span<std::byte>) override {}
    void write(std::byte*, std::span<const std::byte>) override {}
    std::unique_ptr<Kernels> kernels(Stream, std::byte*, std::int64_t) override { return nullptr; }

  private:
    static void* as_handle(std::size_t number) {
        return reinterpret_cast<void*>(number);  // NOLINT(performance-no-int-to-ptr)
    }

    std::size_t streams_ = 0;
    std::list<std::vector<std::byte>> memory_;
    std::map<void*, std::int64_t> marks_;
    std::map<void*, std::int64_t> place_;
};

}  // namespace orrery::runtime
