// One step of a call: its messages are on their way at once, and it ends when all have come and
// gone.
#include <algorithm>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "runtime/comm/processes/process_communicator.hpp"

namespace orrery::runtime {
namespace {

using StepClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How often a rank that waits looks around; what it waits for wakes it.
constexpr milliseconds kLook(100);

}  // namespace

void ProcessCommunicator::perform(const Call& call, std::uint32_t part,
                                  std::span<Message> messages) {
    begin(call, part, messages);
    const milliseconds allowed = options_.timeouts.allowed(call.label);
    StepClock::time_point moved = StepClock::now();
    for (;;) {
        take_in(call, part, messages);
        if (awaited_.empty() && all_sent(messages)) break;
        if (has_ended_.load()) throw_ended(call, messages);
        if (transport_.progress(awaited_, std::min(kLook, allowed))) {
            moved = StepClock::now();
            continue;
        }
        if (has_ended_.load()) throw_ended(call, messages);
        find_lost(call, messages);
        tell_awaited(messages);
        const auto waited = std::chrono::duration_cast<milliseconds>(StepClock::now() - moved);
        if (waited >= allowed) fail(late(call, messages, allowed));
    }
    const std::lock_guard lock(mutex_);
    current_.called = false;
}

void ProcessCommunicator::begin(const Call& call, std::uint32_t part, std::span<Message> messages) {
    enter(call);
    if (has_ended_.load()) throw_ended(call, messages);
    awaited_.clear();
    for (Message& message : messages) {
        if (message.direction == Direction::receive) {
            if (call.operation == Operation::exchange) take_early(message);
            if (!message.done) awaited_.push_back(message.peer);
            continue;
        }
        MessageHead head;
        head.call = call;
        head.part = part;
        head.tag = message.tag;
        head.bytes = message.bytes;
        transport_.send(message.peer, head, message.data);
    }
    std::sort(awaited_.begin(), awaited_.end());
    awaited_.erase(std::unique(awaited_.begin(), awaited_.end()), awaited_.end());
}

void ProcessCommunicator::enter(const Call& call) {
    const std::lock_guard lock(mutex_);
    current_.call = call;
    current_.called = true;
    current_.awaited.clear();
    current_.since = StepClock::now();
}

// Whom another thread is told that this one waits for.
void ProcessCommunicator::tell_awaited(std::span<const Message> messages) {
    const std::lock_guard lock(mutex_);
    current_.awaited = open_peers(messages);
}

bool ProcessCommunicator::all_sent(std::span<const Message> messages) const {
    return std::all_of(messages.begin(), messages.end(), [&](const Message& message) {
        return message.direction == Direction::receive || transport_.sent(message.peer);
    });
}

// Of those that came before they were asked for, the first with the same tag.
void ProcessCommunicator::take_early(Message& message) {
    const auto peer = peers_.find(message.peer);
    if (peer == peers_.end()) return;
    auto& early = peer->second.early;
    const auto found = std::find_if(early.begin(), early.end(), [&](const Early& held) {
        return held.head.tag == message.tag;
    });
    if (found == early.end()) return;
    accept_size(message, found->head);
    std::copy_n(found->bytes.get(), message.bytes, message.data);
    early_bytes_ -= message.bytes;
    early.erase(found);
    message.done = true;
}

// What has come, from those who still have something for this step.
void ProcessCommunicator::take_in(const Call& call, std::uint32_t part,
                                  std::span<Message> messages) {
    const auto has_all = [&](plan::Rank rank) {
        while (take_from(call, part, rank, messages)) {
        }
        return std::none_of(messages.begin(), messages.end(), [&](const Message& message) {
            return message.peer == rank && message.direction == Direction::receive && !message.done;
        });
    };
    awaited_.erase(std::remove_if(awaited_.begin(), awaited_.end(), has_all), awaited_.end());
}

// Whether there may be more to take.
bool ProcessCommunicator::take_from(const Call& call, std::uint32_t part, plan::Rank rank,
                                    std::span<Message> messages) {
    Peer& peer = peers_[rank];
    if (peer.receiving != nullptr || peer.holding) {
        if (!transport_.received(rank)) return false;
        if (peer.receiving != nullptr) peer.receiving->done = true;
        peer.receiving = nullptr;
        peer.holding = false;
    }
    const bool wants_more =
        std::any_of(messages.begin(), messages.end(), [&](const Message& message) {
            return message.peer == rank && message.direction == Direction::receive && !message.done;
        });
    if (!wants_more) return false;
    std::optional<MessageHead> head = transport_.take_head(rank);
    if (!head) return false;
    take_message(call, part, rank, std::move(*head), messages);
    return true;
}

void ProcessCommunicator::take_message(const Call& call, std::uint32_t part, plan::Rank rank,
                                       MessageHead head, std::span<Message> messages) {
    const bool transfer = head.call.operation == Operation::exchange;
    const bool exchanging = call.operation == Operation::exchange;
    if (transfer && !exchanging) return hold(rank, std::move(head));
    if (transfer != exchanging) fail(mismatch(call, rank, head));
    const auto found = std::find_if(messages.begin(), messages.end(), [&](const Message& message) {
        return message.peer == rank && message.direction == Direction::receive && !message.done &&
               (!exchanging || message.tag == head.tag);
    });
    if (found == messages.end()) return hold(rank, std::move(head));
    if (exchanging)
        accept_size(*found, head);
    else if (!same_call(call, head.call) || call.group != head.call.group || part != head.part ||
             found->bytes != head.bytes)
        fail(mismatch(call, rank, head));
    peers_[rank].receiving = &*found;
    transport_.receive(rank, found->data);
}

// A transfer that is asked for later.
void ProcessCommunicator::hold(plan::Rank rank, MessageHead head) {
    std::unique_ptr<std::byte[]> bytes;
    if (head.bytes <= options_.most_early_bytes - early_bytes_)
        bytes.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(head.bytes)]);
    if (!bytes)
        fail(
            fmt::format("{} sends {} bytes with tag {}{} before {} asks for them, which holds {} "
                        "of others already and has no room for these",
                        named(rank), head.bytes, head.tag, purpose(head.label), named(this->rank()),
                        early_bytes_));
    early_bytes_ += head.bytes;
    Peer& peer = peers_[rank];
    peer.early.push_back({std::move(head), std::move(bytes)});
    peer.holding = true;
    transport_.receive(rank, peer.early.back().bytes.get());
}

void ProcessCommunicator::end(const std::string& reason) {
    {
        const std::lock_guard lock(mutex_);
        if (!ended_.empty()) return;
        ended_ = reason;
    }
    has_ended_.store(true);
    came_.notify_all();
    transport_.wake();
}

}  // namespace orrery::runtime
