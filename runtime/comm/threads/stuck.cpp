// Ranks that can never go on: who waits for whom, and how to say it.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/comm/threads/meeting_place.hpp"

namespace orrery::runtime {

// Ranks that must come before `rank` can go on; none if it does not wait for any.
std::vector<plan::Rank> MeetingPlace::awaited_by(plan::Rank rank) const {
    const Member& self = member(rank);
    std::vector<plan::Rank> awaited;
    if (self.call == nullptr) return awaited;
    if (self.group != nullptr) {
        for (std::size_t i = 0; i < self.group->members.size(); ++i)
            if (self.group->calls[i] == nullptr) awaited.push_back(self.group->members[i]);
        return awaited;
    }
    for (const Posted& posted : self.posted)
        if (posted.partner == nullptr) awaited.push_back(posted.transfer->peer);
    std::sort(awaited.begin(), awaited.end());
    awaited.erase(std::unique(awaited.begin(), awaited.end()), awaited.end());
    return awaited;
}

// The shortest circle of ranks, each waiting for the next and the last for `rank`, its first;
// empty: there is none.
std::vector<plan::Rank> MeetingPlace::circle_through(plan::Rank rank) const {
    std::vector<plan::Rank> from(members_.size(), -1);  // who waits for it, of those reached
    std::vector<plan::Rank> reached{rank};
    for (std::size_t i = 0; i < reached.size(); ++i) {
        const plan::Rank waiter = reached[i];
        for (const plan::Rank awaited : awaited_by(waiter)) {
            if (awaited == rank) {
                std::vector<plan::Rank> circle;
                for (plan::Rank r = waiter; r != rank; r = from[static_cast<std::size_t>(r)])
                    circle.push_back(r);
                circle.push_back(rank);
                std::reverse(circle.begin(), circle.end());
                return circle;
            }
            plan::Rank& seen_from = from[static_cast<std::size_t>(awaited)];
            if (seen_from >= 0) continue;
            seen_from = waiter;
            reached.push_back(awaited);
        }
    }
    return {};
}

// 'rank 0 waits in all_reduce of 12 fp32 for "qkv" in its tensor group (ranks 0 1)'.
std::string MeetingPlace::waiting(plan::Rank rank) const {
    return fmt::format("rank {} waits in {}", rank, call_of(rank));
}

std::string MeetingPlace::call_of(plan::Rank rank) const {
    const Member& self = member(rank);
    if (self.group != nullptr) return describe(*self.call, self.group->members);
    std::vector<std::string> open;
    for (const Posted& posted : self.posted) {
        if (posted.partner != nullptr) continue;
        const Transfer& transfer = *posted.transfer;
        const bool sends = transfer.direction == Direction::send;
        open.push_back(fmt::format("{} bytes with tag {} {} rank {}", transfer.bytes, transfer.tag,
                                   sends ? "to" : "from", transfer.peer));
    }
    return fmt::format("{} ({})", describe(*self.call), fmt::join(open, ", "));
}

std::optional<Waiting> MeetingPlace::waiting_now(plan::Rank rank) const {
    if (member(rank).call == nullptr) return std::nullopt;
    const std::chrono::duration<double> since =
        std::chrono::steady_clock::now() - member(rank).since;
    return Waiting{call_of(rank), awaited_by(rank), since.count()};
}

// The message of a rank that has waited too long.
std::string MeetingPlace::late(plan::Rank rank) const {
    const std::vector<plan::Rank> awaited = awaited_by(rank);
    std::string text = fmt::format("{}, since {} s, for rank{} {}", waiting(rank),
                                   std::chrono::duration<double>(timeout_).count(),
                                   awaited.size() == 1 ? "" : "s", fmt::join(awaited, " "));
    for (const plan::Rank other : awaited) {
        if (awaited_by(other).empty())
            text += fmt::format("; rank {} waits for nobody", other);
        else
            text += fmt::format("; {} for rank {}", waiting(other), awaited_by(other).front());
    }
    return text;
}

// Ends the run if `rank`, which has come to wait, can never go on.
void MeetingPlace::find_stuck(plan::Rank rank) {
    for (const plan::Rank other : awaited_by(rank)) {
        if (!member(other).left) continue;
        end_found(rank,
                  fmt::format("{} for rank {}, which has left the run", waiting(rank), other));
        return;
    }
    const std::vector<plan::Rank> circle = circle_through(rank);
    if (circle.empty()) return;
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < circle.size(); ++i)
        parts.push_back(
            fmt::format("{} for rank {}", waiting(circle[i]), circle[(i + 1) % circle.size()]));
    end_found(rank, fmt::format("ranks wait for one another: {}", fmt::join(parts, "; ")));
}

}  // namespace orrery::runtime
