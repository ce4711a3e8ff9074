// Transfers: both sides post theirs, whoever comes second matches them, and the receiver copies.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "runtime/comm/threads/meeting_place.hpp"

namespace orrery::runtime {

void MeetingPlace::exchange(plan::Rank rank, const Call& call,
                            std::span<const Transfer> transfers) {
    std::vector<Posted> posted(transfers.size());
    for (std::size_t i = 0; i < posted.size(); ++i)
        posted[i] = {&transfers[i], nullptr, rank};
    const auto to_copy = [&] {
        return std::find_if(posted.begin(), posted.end(), [](const Posted& p) {
            return p.transfer->direction == Direction::receive && p.partner != nullptr && !p.done;
        });
    };
    const auto all_done = [&] {
        return std::all_of(posted.begin(), posted.end(), [](const Posted& p) { return p.done; });
    };

    Lock lock(mutex_);
    if (end_) throw_ended(rank, call);
    member(rank).call = &call;
    member(rank).posted = posted;
    member(rank).since = std::chrono::steady_clock::now();
    match(posted);
    if (!end_) find_stuck(rank);
    while (!end_ && !all_done()) {
        if (const auto next = to_copy(); next != posted.end())
            copy(lock, *next);
        else
            wait_for_ranks(lock, rank, [&] { return to_copy() != posted.end() || all_done(); });
    }
    wait_for_readers(lock, rank, [&] {
        return std::none_of(posted.begin(), posted.end(),
                            [](const Posted& p) { return p.copying; });
    });
    member(rank).call = nullptr;
    member(rank).posted = {};
    if (end_) throw_ended(rank, call);
}

// Finds the partners of new transfers among those of ranks that wait in an exchange.
void MeetingPlace::match(std::span<Posted> posted) {
    const auto verb = [](const Transfer& t) {
        return t.direction == Direction::send ? "sends" : "receives";
    };
    for (Posted& mine : posted) {
        const Transfer& own = *mine.transfer;
        const auto theirs = member(own.peer).posted;
        const auto found = std::find_if(theirs.begin(), theirs.end(), [&](const Posted& other) {
            return other.partner == nullptr && other.transfer->peer == mine.owner &&
                   other.transfer->direction != own.direction && other.transfer->tag == own.tag;
        });
        if (found == theirs.end()) continue;
        if (found->transfer->bytes != own.bytes) {
            end_found(mine.owner,
                      fmt::format("rank {} {} {} bytes with tag {}{}, where rank {} {} {} bytes{}",
                                  mine.owner, verb(own), own.bytes, own.tag,
                                  purpose(member(mine.owner).call->label), own.peer,
                                  verb(*found->transfer), found->transfer->bytes,
                                  purpose(member(own.peer).call->label)));
            return;
        }
        mine.partner = &*found;
        found->partner = &mine;
        if (own.direction == Direction::send) wake(own.peer);
    }
}

// The sender stays, and what it has posted with it, while `copying` says so.
void MeetingPlace::copy(Lock& lock, Posted& receiving) {
    Posted& sending = *receiving.partner;
    sending.copying = true;
    lock.unlock();
    if (receiving.transfer->bytes > 0)
        std::memcpy(receiving.transfer->data, sending.transfer->data,
                    static_cast<std::size_t>(receiving.transfer->bytes));
    lock.lock();
    sending.copying = false;
    sending.done = true;
    receiving.done = true;
    wake(sending.owner);
}

}  // namespace orrery::runtime
