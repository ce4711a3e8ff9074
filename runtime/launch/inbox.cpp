#include "runtime/launch/inbox.hpp"

#include <utility>

namespace orrery::runtime {

void Inbox::put(std::int64_t from, MessageKind kind, ControlPlane::Bytes bytes) {
    {
        const std::lock_guard lock(mutex_);
        queues_[static_cast<std::size_t>(from)].push_back({kind, std::move(bytes)});
    }
    came_.notify_all();
}

Message Inbox::take(std::int64_t from) {
    std::unique_lock lock(mutex_);
    std::deque<Message>& queue = queues_[static_cast<std::size_t>(from)];
    came_.wait(lock, [&] { return !queue.empty() || !ended_.empty(); });
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
