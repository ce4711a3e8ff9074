#include "runtime/launch/inbox.hpp"

#include <utility>

#include <fmt/format.h>

namespace orrery::runtime {

void Inbox::put(std::int64_t from, MessageKind kind, ControlPlane::Bytes bytes) {
    {
        const std::lock_guard lock(mutex_);
        // Rank 0 says so when all have finished, and may leave before this is taken.
        finished_ = finished_ || (from == 0 && kind == MessageKind::finish);
        queues_[static_cast<std::size_t>(from)].push_back({kind, std::move(bytes)});
    }
    came_.notify_all();
}

Message Inbox::take(std::int64_t from) {
    std::unique_lock lock(mutex_);
    std::deque<Message>& queue = queues_[static_cast<std::size_t>(from)];
    const auto has_come = [&] { return !queue.empty() || !ended_.empty(); };
    if (patience_.count() == 0)
        came_.wait(lock, has_come);
    else if (!came_.wait_for(lock, patience_, has_come))
        throw CommunicationError(fmt::format("rank {} has not said anything for {} s", from,
                                             std::chrono::duration<double>(patience_).count()));
    if (queue.empty()) throw CommunicationError(ended_);
    Message message = std::move(queue.front());
    queue.pop_front();
    return message;
}

bool Inbox::end(const std::string& reason) {
    {
        const std::lock_guard lock(mutex_);
        if (finished_ || !ended_.empty()) return false;
        ended_ = reason;
    }
    came_.notify_all();
    return true;
}

void Inbox::finish() {
    {
        const std::lock_guard lock(mutex_);
        finished_ = true;
    }
    came_.notify_all();
}

std::string Inbox::wait_for_end(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    came_.wait_for(lock, patience, [&] { return finished_ || !ended_.empty(); });
    return ended_;
}

void Inbox::set_patience(std::chrono::milliseconds patience) {
    const std::lock_guard lock(mutex_);
    patience_ = patience;
}

void Inbox::check() {
    const std::lock_guard lock(mutex_);
    if (!ended_.empty()) throw CommunicationError(ended_);
}

void Inbox::check_after_loss() {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return finished_ || !ended_.empty(); });
    if (!ended_.empty()) throw CommunicationError(ended_);
}

}  // namespace orrery::runtime
