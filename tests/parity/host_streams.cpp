#include "tests/parity/host_streams.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "runtime/comm/threads/thread_communicator.hpp"

namespace orrery::parity {
namespace {

using runtime::Event;
using runtime::Stream;

template <typename Handle>
Handle numbered(std::size_t number) {
    return {reinterpret_cast<void*>(number)};
}

template <typename Handle>
std::uintptr_t number_of(Handle handle) {
    return reinterpret_cast<std::uintptr_t>(handle.handle);
}

class HostKernels final : public runtime::Kernels {
  public:
    HostKernels(HostDriver& driver, Stream stream, const ChangeRequest& change)
        : driver_(driver), stream_(stream), change_(change) {}

    void launch(const runtime::KernelRequest& request) override {
        driver_.ask(stream_, std::string(runtime::name(request)), [this, request] {
            runtime::KernelRequest changed = request;
            if (change_) change_(changed);
            inner_.launch(changed);
        });
    }
    void bring(std::span<const std::int32_t> from, void* to) override {
        driver_.ask(stream_, "bring", [this, from, to] { inner_.bring(from, to); });
    }
    void copy(const void* from, void* to, std::int64_t bytes) override {
        driver_.ask(stream_, "copy", [this, from, to, bytes] { inner_.copy(from, to, bytes); });
    }
    const std::int32_t* fetch(std::span<const std::int32_t> numbers) override {
        const std::int32_t* fetched = nullptr;
        driver_.ask(stream_, "fetch", [&] { fetched = inner_.fetch(numbers); });
        return fetched;
    }
    const void* keep_bytes(std::span<const std::byte> bytes) override {
        return inner_.keep_bytes(bytes);
    }

  private:
    HostDriver& driver_;
    Stream stream_;
    const ChangeRequest& change_;
    runtime::CpuKernels inner_{1};
};

}  // namespace

std::byte* HostDriver::allocate(std::int64_t bytes) {
    constexpr std::size_t kAlignment = 256;
    memory_.emplace_back(static_cast<std::size_t>(bytes) + kAlignment);
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.back().data());
    return memory_.back().data() + (kAlignment - begin % kAlignment);
}

Stream HostDriver::create_stream(runtime::StreamUse use) {
    streams.push_back(use);
    return numbered<Stream>(streams.size());
}

Event HostDriver::create_event(bool timed) {
    timed_.push_back(timed);
    recorded.push_back(0);
    return numbered<Event>(recorded.size());
}

void HostDriver::ask(Stream stream, std::string name, const std::function<void()>& perform) {
    if (keeping_) {
        if (name == "bring" || name == "fetch")
            throw std::logic_error("work that is kept is of no step");
        kept_.back().push_back(perform);
        return;
    }
    log.push_back({Asked::What::request, number_of(stream), 0, std::move(name)});
    perform();
}

runtime::KeptWork HostDriver::keep(Stream, const std::function<void()>& put) {
    kept_.emplace_back();
    keeping_ = true;
    put();
    keeping_ = false;
    return numbered<runtime::KeptWork>(kept_.size());
}

void HostDriver::launch(Stream stream, runtime::KeptWork work) {
    log.push_back({Asked::What::launch, number_of(stream), 0, ""});
    for (const auto& perform : kept_.at(number_of(work) - 1))
        perform();
}

void HostDriver::record(Event event, Stream stream) {
    if (keeping_) throw std::logic_error("work that is kept is of one stream");
    const std::lock_guard lock(mutex_);
    recorded.at(number_of(event) - 1) = ++time_;
    log.push_back({Asked::What::record, number_of(stream), number_of(event), ""});
}

void HostDriver::wait(Stream stream, Event event) {
    if (!passed(event)) throw std::logic_error("waits for an event that was not recorded");
    log.push_back({Asked::What::wait, number_of(stream), number_of(event), ""});
}

bool HostDriver::passed(Event event) {
    const std::lock_guard lock(mutex_);
    return recorded.at(number_of(event) - 1) > 0;
}

// Every record takes a nanosecond.
std::int64_t HostDriver::nanoseconds(Event from, Event to) {
    if (!timed_.at(number_of(from) - 1) || !timed_.at(number_of(to) - 1))
        throw std::logic_error("the time of an event without one");
    return recorded.at(number_of(to) - 1) - recorded.at(number_of(from) - 1);
}

std::optional<std::int64_t> HostDriver::bytes_in_use() const {
    std::int64_t bytes = 0;
    for (const auto& memory : memory_)
        bytes += static_cast<std::int64_t>(memory.size());
    return bytes;
}

void HostDriver::asked(Stream stream, const char* name) {
    log.push_back({Asked::What::request, number_of(stream), 0, name});
}

void HostDriver::copy(Stream stream, std::byte* to, const std::byte* from, std::int64_t bytes) {
    asked(stream, "copy");
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void HostDriver::fill(Stream stream, std::byte* memory, std::int64_t bytes, std::byte value) {
    asked(stream, "fill");
    std::fill_n(memory, bytes, value);
}

void HostDriver::call(Stream stream, std::function<void()> host) {
    asked(stream, "call");
    host();
}

void HostDriver::read(const std::byte* from, std::span<std::byte> into) {
    std::memcpy(into.data(), from, into.size());
}

void HostDriver::write(std::byte* to, std::span<const std::byte> from) {
    std::memcpy(to, from.data(), from.size());
}

std::unique_ptr<runtime::Kernels> HostDriver::kernels(Stream stream, std::byte*, std::int64_t) {
    return std::make_unique<HostKernels>(*this, stream, change_);
}

HostCommunicator::HostCommunicator(runtime::Communicator& inner, HostDriver& driver)
    : StreamCommunicator(inner.mesh(), inner.rank()), inner_(inner), driver_(driver) {}

void HostCommunicator::issue_on(Stream stream) {
    stream_ = stream;
}

void HostCommunicator::call(const char* name) {
    inner_.set_label(label());
    driver_.log.push_back({Asked::What::communication, number_of(stream_), 0, name});
}

void HostCommunicator::do_all_reduce(plan::GroupKind group, plan::DType dtype, void* data,
                                     std::int64_t elements, runtime::Reduction reduction) {
    call("all_reduce");
    inner_.all_reduce(group, dtype, data, elements, reduction);
}

void HostCommunicator::do_all_gather(plan::GroupKind group, plan::DType dtype, const void* mine,
                                     void* all, std::int64_t total) {
    call("all_gather");
    inner_.all_gather(group, dtype, mine, all, total);
}

void HostCommunicator::do_reduce_scatter(plan::GroupKind group, plan::DType dtype, const void* all,
                                         void* mine, std::int64_t total) {
    call("reduce_scatter");
    inner_.reduce_scatter(group, dtype, all, mine, total);
}

void HostCommunicator::do_all_to_all(plan::GroupKind group, plan::DType dtype, const void* to_all,
                                     void* from_all, std::int64_t total) {
    call("all_to_all");
    inner_.all_to_all(group, dtype, to_all, from_all, total);
}

void HostCommunicator::do_broadcast(plan::GroupKind group, plan::DType dtype, void* data,
                                    std::int64_t elements, std::int64_t root) {
    call("broadcast");
    inner_.broadcast(group, dtype, data, elements, root);
}

void HostCommunicator::do_exchange(std::span<const runtime::Transfer> transfers,
                                   plan::GroupKind group) {
    call("exchange");
    inner_.exchange(transfers, group);
}

void HostCommunicator::do_barrier(plan::GroupKind group) {
    call("barrier");
    inner_.barrier(group);
}

// Of the id of all, the split (0: none) and the part.
using PlaceId = std::array<std::int64_t, 3>;

// A world whose ranks are the members.
struct HostCollectives::Member {
    Member(const PlaceId& at, std::shared_ptr<runtime::MeetingPlace> there, const plan::Mesh& mesh,
           plan::Rank rank)
        : id(at), place(std::move(there)), communicator(mesh, rank, *place) {}

    PlaceId id;
    std::int64_t splits = 0;
    std::shared_ptr<runtime::MeetingPlace> place;
    runtime::ThreadCommunicator communicator;
};

namespace {

std::mutex places_mutex;
std::map<PlaceId, std::weak_ptr<runtime::MeetingPlace>> places;

plan::Mesh mesh_of(std::int64_t members) {
    plan::Mesh mesh;
    mesh.data = members;
    return mesh;
}

std::shared_ptr<runtime::MeetingPlace> place_of(const PlaceId& id, std::int64_t members) {
    const std::lock_guard lock(places_mutex);
    auto& known = places[id];
    auto place = known.lock();
    if (!place) {
        runtime::ThreadWorldOptions options;
        options.timeout = std::chrono::seconds(60);
        place = std::make_shared<runtime::MeetingPlace>(mesh_of(members), options);
        known = place;
    }
    return place;
}

}  // namespace

std::vector<std::byte> HostCollectives::unique_id() {
    static std::atomic<std::int64_t> last{0};
    const std::int64_t id = ++last;
    const auto bytes = std::as_bytes(std::span(&id, 1));
    return {bytes.begin(), bytes.end()};
}

HostCollectives::Communicator HostCollectives::begin(std::span<const std::byte> ids,
                                                     std::int64_t member, std::int64_t members) {
    PlaceId id{};
    std::memcpy(id.data(), ids.data(), sizeof id[0]);
    members_.push_back(
        std::make_shared<Member>(id, place_of(id, members), mesh_of(members), member));
    return members_.back().get();
}

HostCollectives::Communicator HostCollectives::split(Communicator all,
                                                     const std::optional<Part>& part,
                                                     const runtime::BlockBounds& /*blocks*/) {
    const std::int64_t number = ++of(all).splits;
    if (!part) return nullptr;
    const PlaceId id = {of(all).id[0], number, part->number};
    members_.push_back(std::make_shared<Member>(id, place_of(id, part->members),
                                                mesh_of(part->members), part->member));
    return members_.back().get();
}

HostCollectives::Member& HostCollectives::of(Communicator communicator) {
    return *static_cast<Member*>(communicator);
}

void HostCollectives::abort(Communicator communicator) {
    of(communicator).communicator.abort("aborted");
}

void HostCollectives::group_end() {
    if (--depth_ > 0) return;
    runtime::Communicator& inner = of(grouped_).communicator;
    const auto to_others = std::stable_partition(
        transfers_.begin(), transfers_.end(),
        [&](const runtime::Transfer& transfer) { return transfer.peer == inner.rank(); });
    // To oneself: what is sent is received in that order.
    const void* sent = nullptr;
    for (auto own = transfers_.begin(); own != to_others; ++own)
        if (own->direction == runtime::Direction::send)
            sent = own->data;
        else
            std::memcpy(own->data, sent, static_cast<std::size_t>(own->bytes));
    inner.exchange(std::span(to_others, transfers_.end()));
    transfers_.clear();
}

void HostCollectives::all_reduce(Communicator communicator, plan::DType dtype, void* data,
                                 std::int64_t elements, runtime::Reduction reduction, Stream) {
    of(communicator)
        .communicator.all_reduce(plan::GroupKind::world, dtype, data, elements, reduction);
}

void HostCollectives::all_gather(Communicator communicator, plan::DType dtype, const void* mine,
                                 void* all, std::int64_t each, Stream) {
    auto& inner = of(communicator).communicator;
    inner.all_gather(plan::GroupKind::world, dtype, mine, all, each * inner.mesh().ranks());
}

void HostCollectives::reduce_scatter(Communicator communicator, plan::DType dtype, const void* all,
                                     void* mine, std::int64_t each, Stream) {
    auto& inner = of(communicator).communicator;
    inner.reduce_scatter(plan::GroupKind::world, dtype, all, mine, each * inner.mesh().ranks());
}

void HostCollectives::broadcast(Communicator communicator, plan::DType dtype, void* data,
                                std::int64_t elements, std::int64_t root, Stream) {
    of(communicator).communicator.broadcast(plan::GroupKind::world, dtype, data, elements, root);
}

void HostCollectives::transfer(Communicator communicator, const runtime::Transfer& transfer) {
    if (depth_ == 0 || (!transfers_.empty() && grouped_ != communicator))
        throw std::logic_error("transfers are grouped, and of one communicator");
    grouped_ = communicator;
    transfers_.push_back(transfer);
}

void HostCollectives::send(Communicator communicator, const void* data, std::int64_t bytes,
                           std::int64_t member, Stream) {
    transfer(communicator, {member, runtime::Direction::send, const_cast<void*>(data), bytes, 0});
}

void HostCollectives::receive(Communicator communicator, void* data, std::int64_t bytes,
                              std::int64_t member, Stream) {
    transfer(communicator, {member, runtime::Direction::receive, data, bytes, 0});
}

void HostCollectives::copy(void* to, const void* from, std::int64_t bytes, Stream) {
    std::memmove(to, from, static_cast<std::size_t>(bytes));
}

runtime::DriverSource host_devices(int devices, const ChangeRequest& change) {
    return {devices, [change](int) { return std::make_unique<HostDriver>(change); },
            [](int) { return std::make_unique<HostCollectives>(); }};
}

}  // namespace orrery::parity
