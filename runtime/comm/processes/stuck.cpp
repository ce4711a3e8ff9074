// Calls that cannot go on, and how to say so.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/comm/processes/process_communicator.hpp"

namespace orrery::runtime {
namespace {

// How long whoever finds a rank gone waits to be told why.
constexpr std::chrono::seconds kReasonWait(2);

}  // namespace

std::string ProcessCommunicator::named(plan::Rank rank) const {
    const auto index = static_cast<std::size_t>(rank);
    if (index >= options_.hosts.size()) return fmt::format("rank {}", rank);
    return fmt::format("rank {} on {}", rank, options_.hosts[index]);
}

std::string ProcessCommunicator::named_all(std::span<const plan::Rank> ranks) const {
    std::vector<std::string> names;
    for (const plan::Rank each : ranks)
        names.push_back(named(each));
    return fmt::format("{}", fmt::join(names, ", "));
}

std::string ProcessCommunicator::in_full(const Call& call) const {
    if (call.operation == Operation::exchange) return describe(call);
    return describe(call, members(call.group));
}

// With the transfers that are not done.
std::string ProcessCommunicator::in_full(const Call& call,
                                         std::span<const Message> messages) const {
    if (call.operation != Operation::exchange) return in_full(call);
    std::vector<std::string> open;
    for (const Message& message : messages) {
        const bool sends = message.direction == Direction::send;
        if (sends ? transport_.sent(message.peer) : message.done) continue;
        open.push_back(fmt::format("{} bytes with tag {} {} rank {}", message.bytes, message.tag,
                                   sends ? "to" : "from", message.peer));
    }
    if (open.empty()) return describe(call);
    return fmt::format("{} ({})", describe(call), fmt::join(open, ", "));
}

std::vector<plan::Rank> ProcessCommunicator::open_peers(std::span<const Message> messages) const {
    std::vector<plan::Rank> open;
    for (const Message& message : messages)
        if (message.direction == Direction::send ? !transport_.sent(message.peer) : !message.done)
            open.push_back(message.peer);
    std::sort(open.begin(), open.end());
    open.erase(std::unique(open.begin(), open.end()), open.end());
    return open;
}

void ProcessCommunicator::throw_ended(const Call& call, std::span<const Message> messages) {
    tell_awaited(messages);
    std::string reason;
    {
        const std::lock_guard lock(mutex_);
        reason = ended_;
    }
    throw CommunicationError(
        fmt::format("{} cannot go on with {}: {}", named(rank()), in_full(call, messages), reason));
}

void ProcessCommunicator::fail(const std::string& fault) {
    options_.abort(fault);
    throw CommunicationError(fault);
}

// A rank that has gone was missed elsewhere too, by whoever knows more.
void ProcessCommunicator::find_lost(const Call& call, std::span<const Message> messages) {
    for (const plan::Rank peer : open_peers(messages)) {
        const std::string loss = transport_.lost(peer);
        if (loss.empty()) continue;
        {
            std::unique_lock lock(mutex_);
            came_.wait_for(lock, kReasonWait, [&] { return !ended_.empty(); });
        }
        if (has_ended_.load()) throw_ended(call, messages);
        fail(fmt::format("{} cannot go on with {}: {}: {}", named(rank()), in_full(call, messages),
                         named(peer), loss));
    }
}

std::string ProcessCommunicator::late(const Call& call, std::span<const Message> messages,
                                      std::chrono::milliseconds waited) const {
    return fmt::format("{} waits in {}, since {} s, for {}", named(rank()), in_full(call, messages),
                       std::chrono::duration<double>(waited).count(),
                       named_all(open_peers(messages)));
}

std::string ProcessCommunicator::mismatch(const Call& call, plan::Rank peer,
                                          const MessageHead& head) const {
    std::string theirs = describe(head.told());
    if (head.call.operation != Operation::exchange && head.call.group != call.group)
        theirs += fmt::format(" in its {} group", plan::name(head.call.group));
    return fmt::format("{} calls {}, where {} calls {}", named(rank()), in_full(call), named(peer),
                       theirs);
}

// Both sides of a transfer name as many bytes.
void ProcessCommunicator::accept_size(const Message& message, const MessageHead& head) {
    if (message.bytes == head.bytes) return;
    fail(fmt::format("{} receives {} bytes with tag {}{}, where {} sends {} bytes{}", named(rank()),
                     message.bytes, message.tag, purpose(label()), named(message.peer), head.bytes,
                     purpose(head.label)));
}

std::optional<Waiting> ProcessCommunicator::waiting() const {
    const std::lock_guard lock(mutex_);
    if (!current_.called) return std::nullopt;
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - current_.since;
    return Waiting{in_full(current_.call), current_.awaited, since.count()};
}

}  // namespace orrery::runtime
