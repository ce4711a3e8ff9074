#include "runtime/cpu/cpu_driver.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <new>
#include <string>

#include "runtime/cpu/cpu_kernels.hpp"

namespace orrery::runtime {
namespace {

constexpr std::size_t kArenaAlignment = 4096;

WorkQueue& of(Stream stream) {
    return *static_cast<WorkQueue*>(stream.handle);
}
CpuEvent& of(Event event) {
    return *static_cast<CpuEvent*>(event.handle);
}

}  // namespace

void CpuDriver::MemoryDeleter::operator()(std::byte* memory) const {
    ::operator delete (memory, std::align_val_t{kArenaAlignment});
}

std::byte* CpuDriver::allocate(std::int64_t bytes) {
    const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
    memory_.emplace_back(
        static_cast<std::byte*>(::operator new (size, std::align_val_t{kArenaAlignment})));
    std::memset(memory_.back().get(), 0, size);
    return memory_.back().get();
}

Stream CpuDriver::create_stream(StreamUse use) {
    auto& queue = queues_[place(use)];
    if (!queue)
        queue = std::make_unique<WorkQueue>(all_queues_, use == StreamUse::compute
                                                             ? WorkQueue::By::who_waits
                                                             : WorkQueue::By::own_thread);
    return {queue.get()};
}

Event CpuDriver::create_event(bool timed) {
    return {&events_.emplace_back(timed)};
}

void CpuDriver::issue(Stream stream, QueuedWork& work, std::uint32_t number) {
    of(stream).perform(work, number);
}

void CpuDriver::when_failed(std::function<void(const std::exception_ptr&)> tell) {
    all_queues_.failure.when_failed(std::move(tell));
}

void CpuDriver::finish() {
    for (const auto& queue : queues_)
        if (queue) queue->finish();
}

void CpuDriver::record(Event event, Stream stream) {
    of(stream).pass(of(event));
}

// Of an event that was never recorded nothing is waited for.
void CpuDriver::wait(Stream stream, Event event) {
    const std::uint32_t number = of(event).recorded();
    if (!of(event).passed(number)) of(stream).await(of(event), number);
}

void CpuDriver::rethrow_failure() {
    if (!all_queues_.failure.any()) return;
    finish();
    all_queues_.failure.rethrow();
}

bool CpuDriver::passed(Event event) {
    rethrow_failure();
    return of(event).passed(of(event).recorded());
}

void CpuDriver::await(Event event, const std::function<void()>& meanwhile) {
    for (const auto& queue : queues_)
        if (queue) queue->work_off();
    of(event).await(of(event).recorded());
    rethrow_failure();
    meanwhile();
}

std::int64_t CpuDriver::nanoseconds(Event from, Event to) {
    return of(to).nanoseconds() - of(from).nanoseconds();
}

// Not from getrusage: a process that another started has the starter's size there.
std::optional<std::int64_t> CpuDriver::bytes_in_use() const {
    if (!alone_) return std::nullopt;
    constexpr std::int64_t kBytesPerKiB = 1024;
    std::ifstream status("/proc/self/status");
    std::string key;
    while (status >> key)
        if (std::int64_t kibibytes = 0; key == "VmHWM:" && status >> kibibytes)
            return kibibytes * kBytesPerKiB;
    return std::nullopt;
}

void CpuDriver::copy(Stream, std::byte* to, const std::byte* from, std::int64_t bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void CpuDriver::fill(Stream, std::byte* memory, std::int64_t bytes, std::byte value) {
    std::fill_n(memory, bytes, value);
}

void CpuDriver::call(Stream, std::function<void()> host) {
    host();
}

void CpuDriver::read(const std::byte* from, std::span<std::byte> into) {
    std::memcpy(into.data(), from, into.size());
}

void CpuDriver::write(std::byte* to, std::span<const std::byte> from) {
    std::memcpy(to, from.data(), from.size());
}

std::unique_ptr<Kernels> CpuDriver::kernels(Stream stream, std::byte*, std::int64_t) {
    const bool computes = stream.handle == queues_[place(StreamUse::compute)].get();
    return std::make_unique<CpuKernels>(computes ? threads_ : 1);
}

}  // namespace orrery::runtime
