// Collectives: members come, read one another's memory, and leave together.
#include <algorithm>

#include <fmt/format.h>

#include "runtime/comm/threads/meeting_place.hpp"

namespace orrery::runtime {

std::span<const void* const> MeetingPlace::enter(Gathering& group, std::size_t index,
                                                 const Call& call, std::size_t parity,
                                                 const void* source, bool reads) {
    const plan::Rank rank = group.members[index];
    Lock lock(mutex_);
    if (end_) throw_ended(rank, call);
    compare(group, index, call);
    if (!end_) {
        group.sources[parity][index] = source;
        group.calls[index] = &call;
        member(rank).call = &call;
        member(rank).group = &group;
        member(rank).since = std::chrono::steady_clock::now();
        if (group.come + 1 < group.members.size()) find_stuck(rank);
    }
    if (!end_) meet(lock, group, index);
    if (end_) give_up(lock, group, index, call);
    if (reads) ++group.reading;
    return group.sources[parity];
}

void MeetingPlace::between(Gathering& group, std::size_t index, const Call& call) {
    Lock lock(mutex_);
    stop_reading(group);
    if (!end_) meet(lock, group, index);
    if (end_) give_up(lock, group, index, call);
    ++group.reading;
}

void MeetingPlace::leave(Gathering& group, std::size_t index, const Call& call) {
    Lock lock(mutex_);
    stop_reading(group);
    if (!end_) meet(lock, group, index);
    if (end_) give_up(lock, group, index, call);
}

// A call must be the one of those who have come before.
void MeetingPlace::compare(const Gathering& group, std::size_t index, const Call& call) {
    const auto first = std::find_if(group.calls.begin(), group.calls.end(),
                                    [](const Call* other) { return other != nullptr; });
    if (first == group.calls.end() || same_call(**first, call)) return;
    const plan::Rank rank = group.members[index];
    end_found(
        rank,
        fmt::format("rank {} calls {}, where rank {} calls {}", rank, describe(call, group.members),
                    group.members[static_cast<std::size_t>(first - group.calls.begin())],
                    describe(**first)));
}

// Returns when every member has called it, or the run has ended.
void MeetingPlace::meet(Lock& lock, Gathering& group, std::size_t index) {
    const plan::Rank rank = group.members[index];
    const std::uint64_t before = group.meetings;
    if (++group.come < group.members.size()) {
        wait_for_ranks(lock, rank, [&] { return group.meetings != before; });
        return;
    }
    group.come = 0;
    ++group.meetings;
    for (std::size_t i = 0; i < group.members.size(); ++i) {
        group.calls[i] = nullptr;
        member(group.members[i]).call = nullptr;
        member(group.members[i]).group = nullptr;
    }
    lock.unlock();  // or those who wake would wait for it
    for (const plan::Rank other : group.members)
        if (other != rank) wake(other);
    lock.lock();
}

void MeetingPlace::stop_reading(Gathering& group) {
    --group.reading;
    if (end_ && group.reading == 0) wake_all();
}

void MeetingPlace::give_up(Lock& lock, const Gathering& group, std::size_t index,
                           const Call& call) {
    wait_for_readers(lock, group.members[index], [&] { return group.reading == 0; });
    throw_ended(group.members[index], call);
}

}  // namespace orrery::runtime
