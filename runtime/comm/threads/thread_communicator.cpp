#include "runtime/comm/threads/thread_communicator.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/comm/reduce.hpp"

namespace orrery::runtime {
namespace {

// Slices of a shared reduction begin at multiples of this, so that no two members write one cache
// line.
constexpr std::int64_t kSliceUnit = 64;

std::byte* at(void* memory, std::int64_t bytes) {
    return static_cast<std::byte*>(memory) + bytes;
}

const std::byte* at(const void* memory, std::int64_t bytes) {
    return static_cast<const std::byte*>(memory) + bytes;
}

// What lies in place already is not touched: others may be reading it.
void copy(void* to, const void* from, std::int64_t bytes) {
    if (to != from && bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace

ThreadCommunicator::Met ThreadCommunicator::meet(const Call& call, const void* source,
                                                 std::int64_t bytes) {
    Gathering& group = place_.gathering(call.group, rank());
    const std::size_t index = own_index(call.group);
    const std::size_t parity = calls_[static_cast<std::size_t>(call.group)]++ % 2;
    const bool reads = bytes > kStagedBytes;
    if (!reads) {
        std::byte* staged =
            at(group.staged[parity].data(), static_cast<std::int64_t>(index) * kStagedBytes);
        copy(staged, source, bytes);
        source = staged;
    }
    return {place_.enter(group, index, call, parity, source, reads), reads};
}

void ThreadCommunicator::between(const Call& call) {
    place_.between(place_.gathering(call.group, rank()), own_index(call.group), call);
}

void ThreadCommunicator::leave(const Call& call, const Met& met) {
    if (met.reads) place_.leave(place_.gathering(call.group, rank()), own_index(call.group), call);
}

void ThreadCommunicator::do_all_reduce(plan::GroupKind group, plan::DType dtype, void* data,
                                       std::int64_t elements, Reduction reduction) {
    const Call call{Operation::all_reduce, group, dtype, elements, 0, reduction, label()};
    const std::int64_t width = plan::size_bytes(dtype);
    const Met met = meet(call, data, elements * width);
    if (!met.reads) {
        reduce(dtype, reduction, met.sources, 0, elements, data);
        return;
    }
    const auto size = static_cast<std::int64_t>(met.sources.size());
    const std::int64_t slice = (elements / size / kSliceUnit + 1) * kSliceUnit;
    const auto first = [&](std::int64_t member) { return std::min(member * slice, elements); };
    const std::int64_t own = index_in(group);
    reduce(dtype, reduction, met.sources, first(own), first(own + 1) - first(own),
           at(data, first(own) * width));
    between(call);
    for (std::int64_t member = 0; member < size; ++member) {
        const std::int64_t offset = first(member) * width;
        copy(at(data, offset), at(met.sources[static_cast<std::size_t>(member)], offset),
             (first(member + 1) - first(member)) * width);
    }
    leave(call, met);
}

void ThreadCommunicator::do_all_gather(plan::GroupKind group, plan::DType dtype, const void* mine,
                                       void* all, std::int64_t total) {
    const Call call{Operation::all_gather, group, dtype, total, 0, Reduction::sum, label()};
    const auto size = static_cast<std::int64_t>(members(group).size());
    const std::int64_t share = total / size * plan::size_bytes(dtype);
    const Met met = meet(call, mine, share);
    for (std::int64_t member = 0; member < size; ++member)
        copy(at(all, member * share),
             member == index_in(group) ? mine : met.sources[static_cast<std::size_t>(member)],
             share);
    leave(call, met);
}

void ThreadCommunicator::do_reduce_scatter(plan::GroupKind group, plan::DType dtype,
                                           const void* all, void* mine, std::int64_t total) {
    const Call call{Operation::reduce_scatter, group, dtype, total, 0, Reduction::sum, label()};
    const Met met = meet(call, all, total * plan::size_bytes(dtype));
    const std::int64_t share = total / static_cast<std::int64_t>(met.sources.size());
    reduce(dtype, Reduction::sum, met.sources, index_in(group) * share, share, mine);
    leave(call, met);
}

void ThreadCommunicator::do_all_to_all(plan::GroupKind group, plan::DType dtype, const void* to_all,
                                       void* from_all, std::int64_t total) {
    const Call call{Operation::all_to_all, group, dtype, total, 0, Reduction::sum, label()};
    const Met met = meet(call, to_all, total * plan::size_bytes(dtype));
    const auto size = static_cast<std::int64_t>(met.sources.size());
    const std::int64_t part = total / size * plan::size_bytes(dtype);
    for (std::int64_t member = 0; member < size; ++member)
        copy(at(from_all, member * part),
             at(met.sources[static_cast<std::size_t>(member)], index_in(group) * part), part);
    leave(call, met);
}

void ThreadCommunicator::do_broadcast(plan::GroupKind group, plan::DType dtype, void* data,
                                      std::int64_t elements, std::int64_t root) {
    const Call call{Operation::broadcast, group, dtype, elements, root, Reduction::sum, label()};
    const std::int64_t bytes = elements * plan::size_bytes(dtype);
    const Met met = meet(call, data, bytes);
    if (index_in(group) != root) copy(data, met.sources[static_cast<std::size_t>(root)], bytes);
    leave(call, met);
}

void ThreadCommunicator::do_exchange(std::span<const Transfer> transfers,
                                     plan::GroupKind /*group*/) {
    Call call;
    call.operation = Operation::exchange;
    call.elements = static_cast<std::int64_t>(transfers.size());
    call.label = label();
    place_.exchange(rank(), call, transfers);
}

void ThreadCommunicator::do_barrier(plan::GroupKind group) {
    Call call;
    call.group = group;
    call.label = label();
    meet(call, nullptr, 0);
}

}  // namespace orrery::runtime
