#include "runtime/streams/issue_watch.hpp"

#include <algorithm>
#include <utility>

namespace orrery::runtime {

using Clock = std::chrono::steady_clock;

IssueWatch::IssueWatch(std::function<std::string()> look, WatchOptions options)
    : look_(std::move(look)), options_(std::move(options)), seen_(Clock::now()) {
    thread_ = std::thread([this] { watch(); });
}

IssueWatch::~IssueWatch() {
    {
        const std::lock_guard lock(mutex_);
        leaves_ = true;
    }
    left_.notify_all();
    thread_.join();
}

bool IssueWatch::leaves_within(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return left_.wait_for(lock, time, [this] { return leaves_; });
}

void IssueWatch::watch() {
    const auto turn = std::max(options_.away / 5, std::chrono::milliseconds(1));
    std::string reason;
    while (reason.empty()) {
        if (leaves_within(turn)) return;
        if (Clock::now() - seen_.load() >= options_.away) reason = look_();
    }
    const Clock::time_point found = Clock::now();
    while (seen_.load() < found && Clock::now() - found < options_.until_back)
        if (leaves_within(turn)) return;
    if (seen_.load() < found && options_.overdue) options_.overdue(reason);
}

}  // namespace orrery::runtime
