// What the watch of a GroupCommunicator sees while the thread that issues is away.
#include <fmt/format.h>

#include "runtime/streams/group_communicator.hpp"

namespace orrery::runtime {

void GroupCommunicator::seen() {
    if (watch_) watch_->seen();
}

void GroupCommunicator::enter_driver(const std::string& doing, std::chrono::milliseconds allowed) {
    const std::lock_guard lock(doing_mutex_);
    doing_ = {doing, now_(), allowed};
}

void GroupCommunicator::leave_driver() {
    const std::lock_guard lock(doing_mutex_);
    doing_ = {};
}

// Of a run that has ended elsewhere, with what this rank was asking of the driver.
std::string GroupCommunicator::told_within(const std::string& reason) {
    {
        const std::lock_guard lock(doing_mutex_);
        if (!doing_.what.empty()) return fmt::format("{}: {}", doing_.what, reason);
    }
    const auto asking = issued_ != nullptr ? issued_->asking() : std::nullopt;
    return asking ? fmt::format("{}: {}", asking->what, reason) : reason;
}

std::string GroupCommunicator::held() const {
    const auto told = [](const std::string& what, std::chrono::milliseconds time) {
        return fmt::format("{}: the driver has held it for {} s", what,
                           static_cast<double>(time.count()) / 1e3);
    };
    {
        const std::lock_guard doing(doing_mutex_);
        if (!doing_.what.empty())
            return now_() - doing_.since > doing_.allowed ? told(doing_.what, doing_.allowed) : "";
    }
    if (issued_ == nullptr) return "";
    const auto asking = issued_->asking();
    const bool late = asking && std::chrono::steady_clock::now() - asking->since > held_for_;
    return late ? told(asking->what, held_for_) : "";
}

// While a call is under way, streams may wait for it, and it has a time of its own.
std::optional<std::string> GroupCommunicator::device_stands_still() {
    if (issued_ == nullptr) return std::nullopt;
    const auto at = issued_->stands_still(now_(), held_for_, pending_.longest() != nullptr);
    if (!at) return std::nullopt;
    return fmt::format("{}: the device has not come past it for {} s", *at,
                       static_cast<double>(held_for_.count()) / 1e3);
}

// The lock is not to be had while the driver is asked for a call. One that holds the thread for
// longer than it may is told to the others at once, and this rank's communicators are left to
// whoever ends the process: a driver that answers one thread no more may hold this one too.
std::string GroupCommunicator::look() {
    std::string reason;
    try {
        plane_.check();
    } catch (const CommunicationError& error) {
        reason = error.what();
    }
    const bool ended_elsewhere = !reason.empty();
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock && !ended_.empty()) return ended_;
    if (ended_elsewhere && !lock) return told_within(reason);
    if (!ended_elsewhere) {
        if (reason = held(); !reason.empty()) {
            plane_.abort(reason);
            if (!lock) return reason;
            ended_ = reason;
            if (!overdue_ends_) abort_all();
            return reason;
        }
        if (!lock) return "";
        try {
            reason = fault();
        } catch (const DeviceError& error) {  // nobody catches anything here
            reason = error.what();
        }
        if (reason.empty()) return "";
    }
    abort_all();
    ended_ = reason;
    // Before the thread that issues asks again: the plane's reason says which rank it was.
    if (!ended_elsewhere) plane_.abort(reason);
    return ended_elsewhere ? told_within(reason) : reason;
}

}  // namespace orrery::runtime
