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
    const std::lock_guard lock(doing_mutex_);
    return doing_.what.empty() ? reason : fmt::format("{}: {}", doing_.what, reason);
}

// The lock is not to be had while the driver is asked: a call that it has held for longer than it
// may is told to the others then, and this rank's communicators are left to whoever ends the
// process.
std::string GroupCommunicator::look() {
    std::string reason;
    try {
        plane_.check();
    } catch (const CommunicationError& error) {
        reason = error.what();
    }
    if (const std::unique_lock lock(mutex_, std::try_to_lock); lock) {
        if (!ended_.empty()) return ended_;
        const bool ended_elsewhere = !reason.empty();
        try {
            if (!ended_elsewhere) reason = fault();
        } catch (const DeviceError& error) {  // nobody catches anything here
            reason = error.what();
        }
        if (reason.empty()) return "";
        abort_all();
        ended_ = reason;
        // Before the thread that issues asks again: the plane's reason says which rank it was.
        if (!ended_elsewhere) plane_.abort(reason);
        return reason;
    }
    if (!reason.empty()) return told_within(reason);
    {
        const std::lock_guard doing(doing_mutex_);
        if (doing_.what.empty() || now_() - doing_.since <= doing_.allowed) return "";
        reason = fmt::format("{}: the driver has held it for {} s", doing_.what,
                             static_cast<double>(doing_.allowed.count()) / 1e3);
    }
    plane_.abort(reason);
    return reason;
}

}  // namespace orrery::runtime
