#include "runtime/comm/processes/process_communicator.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/comm/reduce.hpp"

namespace orrery::runtime {
namespace {

// Up to this size everybody gets all addends: one step instead of two.
constexpr std::int64_t kSmallBytes = 4096;
// What is reduced at a time. Of other members' addends as much is held.
constexpr std::int64_t kChunkBytes = std::int64_t{4} << 20;
constexpr std::int64_t kSliceElements = 64;

std::byte* bytes_at(void* memory, std::int64_t offset) {
    return static_cast<std::byte*>(memory) + offset;
}

// Of what is only sent.
std::byte* bytes_at(const void* memory, std::int64_t offset) {
    return const_cast<std::byte*>(static_cast<const std::byte*>(memory)) + offset;
}

void copy_unless_same(void* to, const void* from, std::int64_t bytes) {
    if (to != from && bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

// Where something of so many bytes lies.
struct Place {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
    bool needed = true;  // of no bytes: to be sent all the same
};

}  // namespace

ProcessCommunicator::ProcessCommunicator(const plan::Mesh& mesh, plan::Rank rank,
                                         Transport& transport, ProcessCommunicatorOptions options)
    : Communicator(mesh, rank), transport_(transport), options_(std::move(options)) {}

template <typename Out, typename In>
void ProcessCommunicator::with_all(const Call& call, std::uint32_t part, const Out& out,
                                   const In& in) {
    messages_.clear();
    const auto ranks = members(call.group);
    const std::int64_t own = index_in(call.group);
    const auto add = [&](std::int64_t member, Direction direction, const Place& place) {
        if (place.bytes > 0 || place.needed)
            messages_.push_back({ranks[static_cast<std::size_t>(member)], direction, place.data,
                                 place.bytes, 0, false});
    };
    // Each begins with the member after it, so that not all send to one first.
    const auto size = static_cast<std::int64_t>(ranks.size());
    for (std::int64_t i = 1; i < size; ++i)
        add((own + i) % size, Direction::send, out((own + i) % size));
    for (std::int64_t i = 1; i < size; ++i)
        add((own + size - i) % size, Direction::receive, in((own + size - i) % size));
    perform(call, part, messages_);
}

void ProcessCommunicator::do_all_reduce(plan::GroupKind group, plan::DType dtype, void* data,
                                        std::int64_t elements, Reduction reduction) {
    const Call call{Operation::all_reduce, group, dtype, elements, 0, reduction, label()};
    const std::int64_t width = plan::size_bytes(dtype);
    if (elements * width <= kSmallBytes) return reduce_small(call, bytes_at(data, 0));
    const std::int64_t chunk = kChunkBytes / width;
    std::uint32_t part = 1;  // a small one is part 0
    for (std::int64_t first = 0; first < elements; first += chunk, part += 2)
        reduce_chunk(call, part, bytes_at(data, first * width), std::min(chunk, elements - first));
}

void ProcessCommunicator::reduce_small(const Call& call, std::byte* data) {
    const std::int64_t bytes = call.elements * plan::size_bytes(call.dtype);
    const std::int64_t size = size_of(call.group), own = index_in(call.group);
    addends_.resize(static_cast<std::size_t>(size * bytes));
    with_all(
        call, 0,
        [&](std::int64_t) {
            return Place{data, bytes};
        },
        [&](std::int64_t member) {
            return Place{addends_.data() + member * bytes, bytes};
        });
    std::vector<const void*> sources;
    for (std::int64_t member = 0; member < size; ++member)
        sources.push_back(member == own ? data : addends_.data() + member * bytes);
    reduce(call.dtype, call.reduction, sources, 0, call.elements, data);
}

// Each member reduces a slice, and then gives it to all.
void ProcessCommunicator::reduce_chunk(const Call& call, std::uint32_t part, std::byte* data,
                                       std::int64_t elements) {
    const std::int64_t width = plan::size_bytes(call.dtype);
    const std::int64_t size = size_of(call.group), own = index_in(call.group);
    const std::int64_t slice = (elements / size / kSliceElements + 1) * kSliceElements;
    const auto first = [&](std::int64_t member) { return std::min(member * slice, elements); };
    const auto of = [&](std::int64_t member) {
        return Place{data + first(member) * width, (first(member + 1) - first(member)) * width,
                     false};
    };
    const Place mine = of(own);
    addends_.resize(static_cast<std::size_t>(size * mine.bytes));
    const auto addend = [&](std::int64_t member) { return addends_.data() + member * mine.bytes; };
    with_all(call, part, of, [&](std::int64_t member) {
        return Place{addend(member), mine.bytes, false};
    });
    std::vector<const void*> sources;
    for (std::int64_t member = 0; member < size; ++member)
        sources.push_back(member == own ? mine.data : addend(member));
    reduce(call.dtype, call.reduction, sources, 0, mine.bytes / width, mine.data);
    with_all(
        call, part + 1, [&](std::int64_t) { return mine; }, of);
}

void ProcessCommunicator::do_all_gather(plan::GroupKind group, plan::DType dtype, const void* mine,
                                        void* all, std::int64_t total) {
    const Call call{Operation::all_gather, group, dtype, total, 0, Reduction::sum, label()};
    const std::int64_t share = total / size_of(group) * plan::size_bytes(dtype);
    with_all(
        call, 0,
        [&](std::int64_t) {
            return Place{bytes_at(mine, 0), share};
        },
        [&](std::int64_t member) {
            return Place{bytes_at(all, member * share), share};
        });
    copy_unless_same(bytes_at(all, index_in(group) * share), mine, share);
}

void ProcessCommunicator::do_reduce_scatter(plan::GroupKind group, plan::DType dtype,
                                            const void* all, void* mine, std::int64_t total) {
    const Call call{Operation::reduce_scatter, group, dtype, total, 0, Reduction::sum, label()};
    const std::int64_t width = plan::size_bytes(dtype);
    const std::int64_t size = size_of(group), own = index_in(group);
    const std::int64_t share = total / size;
    const std::int64_t chunk = std::max<std::int64_t>(1, kChunkBytes / width / size);
    std::uint32_t part = 0;
    std::int64_t first = 0;
    do {  // of no elements: one step, so that members meet
        const std::int64_t count = std::min(chunk, share - first);
        const std::int64_t bytes = count * width;
        addends_.resize(static_cast<std::size_t>(size * bytes));
        const auto addend = [&](std::int64_t member) { return addends_.data() + member * bytes; };
        const auto in_all = [&](std::int64_t member) {
            return bytes_at(all, (member * share + first) * width);
        };
        with_all(
            call, part,
            [&](std::int64_t member) {
                return Place{in_all(member), bytes};
            },
            [&](std::int64_t member) {
                return Place{addend(member), bytes};
            });
        std::vector<const void*> sources;
        for (std::int64_t member = 0; member < size; ++member)
            sources.push_back(member == own ? in_all(own) : addend(member));
        reduce(dtype, Reduction::sum, sources, 0, count, bytes_at(mine, first * width));
        first += count;
        ++part;
    } while (first < share);
}

void ProcessCommunicator::do_all_to_all(plan::GroupKind group, plan::DType dtype,
                                        const void* to_all, void* from_all, std::int64_t total) {
    const Call call{Operation::all_to_all, group, dtype, total, 0, Reduction::sum, label()};
    const std::int64_t share = total / size_of(group) * plan::size_bytes(dtype);
    with_all(
        call, 0,
        [&](std::int64_t member) {
            return Place{bytes_at(to_all, member * share), share};
        },
        [&](std::int64_t member) {
            return Place{bytes_at(from_all, member * share), share};
        });
    const std::int64_t own = index_in(group) * share;
    copy_unless_same(bytes_at(from_all, own), bytes_at(to_all, own), share);
}

void ProcessCommunicator::do_broadcast(plan::GroupKind group, plan::DType dtype, void* data,
                                       std::int64_t elements, std::int64_t root) {
    const Call call{Operation::broadcast, group, dtype, elements, root, Reduction::sum, label()};
    const std::int64_t bytes = elements * plan::size_bytes(dtype);
    const bool sends = index_in(group) == root;
    with_all(
        call, 0,
        [&](std::int64_t) {
            return Place{bytes_at(data, 0), sends ? bytes : 0, sends};
        },
        [&](std::int64_t member) {
            const bool comes = member == root;
            return Place{bytes_at(data, 0), comes ? bytes : 0, comes};
        });
}

void ProcessCommunicator::do_exchange(std::span<const Transfer> transfers,
                                      plan::GroupKind /*group*/) {
    Call call;
    call.operation = Operation::exchange;
    call.elements = static_cast<std::int64_t>(transfers.size());
    call.label = label();
    messages_.clear();
    for (const Transfer& transfer : transfers)
        messages_.push_back({transfer.peer, transfer.direction, bytes_at(transfer.data, 0),
                             transfer.bytes, transfer.tag, false});
    perform(call, 0, messages_);
}

void ProcessCommunicator::do_barrier(plan::GroupKind group) {
    Call call;
    call.group = group;
    call.label = label();
    const auto nothing = [](std::int64_t) { return Place{}; };
    with_all(call, 0, nothing, nothing);
}

}  // namespace orrery::runtime
