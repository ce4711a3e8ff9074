// Collectives and transfers.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "plan/check.hpp"
#include "runtime/executor/expert_room.hpp"
#include "runtime/executor/performer.hpp"

namespace orrery::runtime {

using plan::OpKind;

void Performer::communicate(const Call& call) {
    const plan::Op& op = *call.bound.op;
    communicator_.set_label(op.label);
    if (op.is<plan::Exchange>()) {
        transfers_.clear();
        for (const BoundTransfer& transfer : call.bound.transfers)
            transfers_.push_back({transfer.peer,
                                  transfer.sends ? Direction::send : Direction::receive,
                                  arena_ + transfer.offset, transfer.bytes, transfer.tag});
        communicator_.exchange(transfers_, op.group);
        return;
    }
    if (op.is<plan::Shift>()) return shift(call);
    if (op.is<plan::AllToAllV>()) return all_to_all_v(call);
    if (op.is<plan::Broadcast>()) {
        const Buffer data = call.bound.reads.empty() ? written(call, 0) : read(call, 0);
        return communicator_.broadcast(op.group, data.dtype, data.data, op.size(0),
                                       op.as<plan::Broadcast>().root);
    }
    if (op.is<plan::AllGather>() && op.reads.size() > 1) return gather_copy(call);
    const std::int64_t elements = op.size(0);
    const Buffer in = read(call, 0);
    const Buffer out = written(call, 0);
    const auto members = static_cast<std::int64_t>(communicator_.members(op.group).size());
    // In place, a member's share lies at its own place in the whole.
    const std::int64_t own =
        op.reads[0] == op.writes[0]
            ? communicator_.index_in(op.group) * (elements / members) * plan::size_bytes(out.dtype)
            : 0;
    clear_padding(call);
    // A part of what this rank has of the whole.
    const std::int64_t part = op.part * (elements / members) * plan::size_bytes(out.dtype);
    switch (op.kind()) {
        case OpKind::all_reduce:
            return communicator_.all_reduce(op.group, out.dtype, out.data, elements,
                                            op.as<plan::AllReduce>().reduce == plan::ReduceOp::max
                                                ? Reduction::max
                                                : Reduction::sum);
        case OpKind::all_gather:
            return communicator_.all_gather(op.group, out.dtype,
                                            static_cast<std::byte*>(in.data) + own + part, out.data,
                                            elements);
        case OpKind::reduce_scatter:
            return communicator_.reduce_scatter(op.group, out.dtype, in.data,
                                                static_cast<std::byte*>(out.data) + own + part,
                                                elements);
        case OpKind::all_to_all:
            return communicator_.all_to_all(op.group, out.dtype, in.data, out.data, elements);
        default:
            ORRERY_CHECK(false, "no such communication: " + std::string(name(op.kind())));
    }
}

// Numbers of eight bits, then their scales.
void Performer::gather_copy(const Call& call) {
    for (std::size_t i = 0; i < call.bound.reads.size(); ++i) {
        const Buffer whole = written(call, i);
        communicator_.all_gather(call.bound.op->group, whole.dtype, read(call, i).data, whole.data,
                                 call.bound.writes[i].elements);
    }
}

// Every tensor to the next member of the group, as one call; a message's tag is its tensor's
// number.
void Performer::shift(const Call& call) {
    const plan::GroupKind group = call.bound.op->group;
    const auto members = communicator_.members(group);
    const auto count = static_cast<std::int64_t>(members.size());
    const std::int64_t own = communicator_.index_in(group);
    const plan::Rank next = members[static_cast<std::size_t>((own + 1) % count)];
    const plan::Rank before = members[static_cast<std::size_t>((own + count - 1) % count)];
    transfers_.clear();
    for (std::size_t i = 0; i < call.bound.reads.size(); ++i) {
        const auto tag = static_cast<std::int64_t>(i);
        const Operand &sent = call.bound.reads[i], &received = call.bound.writes[i];
        transfers_.push_back({next, Direction::send, arena_ + sent.offset, sent.bytes(), tag});
        transfers_.push_back(
            {before, Direction::receive, arena_ + received.offset, received.bytes(), tag});
    }
    communicator_.exchange(transfers_, call.bound.op->group);
}

// Rows that counts say, of each member one message and to each one; what stays is a copy. Every
// member knows all counts, and so who has too little room: all of them stop there.
void Performer::all_to_all_v(const Call& call) {
    const auto& op = call.bound.op->as<plan::AllToAllV>();
    const ExpertPlaces places = places_on_host(op, call, 1);
    if (!op.back)
        check_room(call, places, call.bound.writes[0].elements / op.width, op.elements / op.width);
    const auto members = communicator_.members(call.bound.op->group);
    const Operand &sent = call.bound.reads[0], &received = call.bound.writes[0];
    const std::int64_t row_bytes = op.width * plan::size_bytes(sent.dtype);
    // By expert the rows for a member follow those for the one before, unless both have shares of
    // the same experts.
    std::int64_t from = sent.offset, to = received.offset;
    transfers_.clear();
    for (std::int64_t member = 0; member < op.ranks; ++member) {
        const std::int64_t out = row_bytes * places.sent(places.member, member);
        const std::int64_t in = row_bytes * places.sent(member, places.member);
        const std::int64_t sends = op.back ? in : out, receives = op.back ? out : in;
        if (member == places.member) {
            call.kernels.copy(arena_ + from, arena_ + to, sends);
        } else {
            const plan::Rank peer = members[static_cast<std::size_t>(member)];
            if (sends > 0) transfers_.push_back({peer, Direction::send, arena_ + from, sends, 0});
            if (receives > 0)
                transfers_.push_back({peer, Direction::receive, arena_ + to, receives, 0});
        }
        to += receives;
        if (op.back || (member + 1) % op.split == 0) from += sends;
    }
    communicator_.exchange(transfers_, call.bound.op->group);
}

// expected: those of a member when all experts are chosen alike often.
void Performer::check_room(const Call& call, const ExpertPlaces& places, std::int64_t room,
                           std::int64_t expected) const {
    std::int64_t most = 0, member = 0;
    for (std::int64_t i = 0; i < places.ranks; ++i)
        if (places.received(i) > most) most = places.received(member = i);
    if (most <= room) return;
    const double bound = static_cast<double>(most) / static_cast<double>(expected);
    const auto members = communicator_.members(plan::GroupKind::expert);
    throw ExpertRoomError(fmt::format(
        "layer {}: {} rows have come to the experts of rank {}, which has room for {}; with "
        "--set layout.expert_row_bound={:.2f} they fit",
        call.bound.layer, most, members[static_cast<std::size_t>(member)], room,
        std::ceil(bound * 100) / 100));
}

// A bucket's end that no parameter fills is reduced with the rest: in a ring's slot it holds what
// was there before.
void Performer::clear_padding(const Call& call) {
    const plan::Tensor& tensor = call.read_tensor(0);
    if (tensor.role != plan::Role::gradient || call.bound.bucket < 0) return;
    const plan::Bucket& bucket = program_.buckets[static_cast<std::size_t>(call.bound.bucket)];
    const std::int64_t filled = bucket.elements + bucket.tied_elements;
    const std::int64_t padding = tensor.elements() - filled;
    if (padding <= 0) return;
    const std::int64_t size = plan::size_bytes(tensor.dtype);
    std::byte* const end = arena_ + call.bound.reads[0].offset + filled * size;
    call.kernels.fill({padding, 0, {end, tensor.dtype}});
}

}  // namespace orrery::runtime
