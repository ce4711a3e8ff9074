// How ranks sleep and are woken.
#include "runtime/comm/threads/meeting_place.hpp"

namespace orrery::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// About what it costs to fall asleep and be woken.
constexpr std::chrono::microseconds kSpin(20);

}  // namespace

void MeetingPlace::wait_for_ranks(Lock& lock, plan::Rank rank, const std::function<bool()>& ready) {
    Member& self = member(rank);
    if (spins_ && !ready()) spin(lock, self);
    Clock::time_point deadline = Clock::now() + timeout_;
    while (!end_ && !ready()) {
        const bool late_now = self.wake.wait_until(lock, deadline) == std::cv_status::timeout;
        if (!late_now || end_ || ready()) continue;
        // Where nobody is awaited all have come, and they are busy with this very call.
        if (!awaited_by(rank).empty()) end_found(rank, late(rank));
        deadline = Clock::now() + timeout_;
    }
}

void MeetingPlace::wait_for_readers(Lock& lock, plan::Rank rank,
                                    const std::function<bool()>& ready) {
    member(rank).wake.wait(lock, ready);
}

void MeetingPlace::spin(Lock& lock, const Member& self) const {
    const std::uint32_t before = self.signals.load(std::memory_order_relaxed);
    lock.unlock();
    const Clock::time_point until = Clock::now() + kSpin;
    while (self.signals.load(std::memory_order_relaxed) == before && Clock::now() < until) {
    }
    lock.lock();
}

void MeetingPlace::wake(plan::Rank rank) {
    member(rank).signals.fetch_add(1, std::memory_order_relaxed);
    member(rank).wake.notify_one();
}

void MeetingPlace::wake_all() {
    for (std::size_t rank = 0; rank < members_.size(); ++rank)
        wake(static_cast<plan::Rank>(rank));
}

}  // namespace orrery::runtime
