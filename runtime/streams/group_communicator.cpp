#include "runtime/streams/group_communicator.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/check.hpp"

namespace orrery::runtime {
namespace {

using plan::GroupKind;

// In the one order in which all ranks make their communicators.
template <typename Visit>
void for_each_kind(const Visit& visit) {
    for (std::size_t kind = 0; kind < plan::kGroupKinds; ++kind)
        visit(static_cast<GroupKind>(kind));
}

// When the pair of a ring's members `first` and `first` + 1 has its turn, so that nobody is in two
// pairs at once.
constexpr int kTurns = 3;
int turn_of(std::int64_t first, std::int64_t members) {
    return first + 1 == members && members % 2 == 1 ? 2 : static_cast<int>(first % 2);
}

}  // namespace

GroupCommunicator::GroupCommunicator(const plan::Mesh& mesh, plan::Rank rank,
                                     CollectiveDriver& driver, StreamDriver& streams,
                                     ControlPlane& plane, const CallTimeouts& timeouts,
                                     std::function<Instant()> now, const WatchOptions& watching,
                                     const CommunicatorOptions& options, IssuedOps* issued)
    : StreamCommunicator(mesh, rank),
      driver_(driver),
      plane_(plane),
      timeouts_(timeouts),
      options_(options),
      now_(std::move(now)),
      held_for_(std::max(timeouts.usual, watching.held)),
      overdue_ends_(static_cast<bool>(watching.overdue)),
      barrier_word_(streams.allocate(plan::size_bytes(plan::DType::i32))),
      pending_(streams),
      issued_(issued) {
    ORRERY_CHECK(plane.rank() == rank && plane.size() == mesh.ranks(),
                 "a control plane of other ranks than the mesh has");
    watch_.emplace([this] { return look(); }, watching);
}

GroupCommunicator::~GroupCommunicator() {
    watch_.reset();  // a goodbye has a time of its own
    try {
        plane_.check();
        drop_registrations();
        for (Handle& handle : handles_)
            if (handle != nullptr) driver_.end(std::exchange(handle, nullptr));
    } catch (const std::runtime_error&) {  // the run has ended, or cannot end well
        abort_all();
    }
}

std::vector<plan::Rank> GroupCommunicator::ranks_of(Party party) const {
    if (party < plan::kGroupKinds) {
        const auto ranks = members(static_cast<GroupKind>(party));
        return {ranks.begin(), ranks.end()};
    }
    const auto ring = members(GroupKind::pipeline);
    const std::size_t size = ring.size();
    if (size < 3) return {rank()};  // a pair is a group already
    const auto own = static_cast<std::size_t>(index_in(GroupKind::pipeline));
    const std::size_t first = party == kAfter ? own : (own + size - 1) % size;
    return {ring[first], ring[(first + 1) % size]};
}

void GroupCommunicator::connect(const OfRanks& of_ranks) {
    ORRERY_CHECK(of_ranks.size() == members(GroupKind::pipeline).size(), "one of each program");
    OfRanks asked = of_ranks;
    made_.resize(asked.size());
    for (std::size_t rank = 0; rank < asked.size(); ++rank) {
        asked[rank].groups &= ~made_[rank].groups;
        asked[rank].after = asked[rank].after && !made_[rank].after;
        asked[rank].before = asked[rank].before && !made_[rank].before;
        made_[rank].groups |= asked[rank].groups;
        made_[rank].after = made_[rank].after || asked[rank].after;
        made_[rank].before = made_[rank].before || asked[rank].before;
    }
    if (asked == OfRanks(asked.size())) return;
    seen();
    const std::lock_guard lock(mutex_);
    check_plane();
    try {
        begin_all();
        split_all(asked);
        driver_.end(std::exchange(all_, nullptr));
    } catch (const CollectiveError& error) {
        fail(error.what());
    } catch (...) {
        abort_all();
        throw;
    }
}

// Namers are the first ranks of parts of the world, alike but for one rank, the larger ones first.
void GroupCommunicator::begin_all() {
    const std::int64_t ranks = mesh().ranks(), parts = driver_.namers(ranks);
    ControlPlane::Bytes own;
    for (std::int64_t part = 0; part < parts; ++part)
        if (part * (ranks / parts) + std::min(part, ranks % parts) == rank())
            own = driver_.unique_id();
    ControlPlane::Bytes ids;
    for (const ControlPlane::Bytes& id : plane_.all_gather(own))
        ids.insert(ids.end(), id.begin(), id.end());
    const std::string doing = fmt::format("meeting the other {} ranks", ranks - 1);
    enter_driver(doing, timeouts_.usual);
    all_ = driver_.begin(ids, rank(), ranks);
    leave_driver();
    settle(all_, [&] { return doing; });
}

void GroupCommunicator::split(std::optional<Party> party, const std::string& what) {
    std::optional<CollectiveDriver::Part> part;
    if (party) {
        const std::vector<plan::Rank> ranks = ranks_of(*party);
        const auto own = std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
        part = {ranks.front(), own, static_cast<std::int64_t>(ranks.size())};
    }
    const std::string doing = party ? "making a communicator " + of_party(*party)
                                    : "waiting while other ranks make communicators " + what;
    const Party kind = party && *party < plan::kGroupKinds ? *party : party_of(GroupKind::pipeline);
    enter_driver(doing, timeouts_.usual);
    const Handle made = driver_.split(all_, part, options_.blocks[kind]);
    leave_driver();
    if (party) handles_[*party] = made;
    settle(all_, [&] { return doing; });
    if (party) settle(made, [&] { return doing; });
}

void GroupCommunicator::split_all(const OfRanks& asked) {
    const auto own = static_cast<std::size_t>(index_in(GroupKind::pipeline));
    for_each_kind([&](GroupKind group) {
        const auto kind = static_cast<std::size_t>(group);
        const auto asks = [&](const plan::Communicators& of) { return of.groups[kind]; };
        if (!std::any_of(asked.begin(), asked.end(), asks)) return;
        split(asks(asked[own]) ? std::optional(party_of(group)) : std::nullopt,
              fmt::format("of {} groups", name(group)));
    });
    const std::size_t ring = asked.size(), before = (own + ring - 1) % ring;
    for (int turn = 0; turn < kTurns; ++turn) {
        const auto has_turn = [&](std::size_t first) {
            return asked[first].after && turn_of(static_cast<std::int64_t>(first),
                                                 static_cast<std::int64_t>(ring)) == turn;
        };
        bool any = false;
        for (std::size_t first = 0; first < ring; ++first)
            any = any || has_turn(first);
        if (!any) continue;
        const std::string what = "between neighbours in the pipeline";
        if (has_turn(own))
            split(kAfter, what);
        else
            split(has_turn(before) ? std::optional(kBefore) : std::nullopt, what);
    }
}

void GroupCommunicator::for_each_party(const std::function<void(Party)>& visit) {
    for_each_kind([&](GroupKind group) {
        if (handle(party_of(group)) != nullptr) visit(party_of(group));
    });
    const auto ring = static_cast<std::int64_t>(members(GroupKind::pipeline).size());
    const std::int64_t own = index_in(GroupKind::pipeline);
    for (int turn = 0; turn < kTurns; ++turn)
        for (const Party party : {kAfter, kBefore})
            if (handle(party) != nullptr &&
                turn_of(party == kAfter ? own : (own + ring - 1) % ring, ring) == turn)
                visit(party);
}

void GroupCommunicator::register_memory(std::byte* memory, std::int64_t bytes) {
    if (!options_.registers_memory) return;
    seen();
    const std::lock_guard lock(mutex_);
    check_plane();
    try {
        for_each_party([&](Party party) { make_known(party, memory, bytes); });
    } catch (const CollectiveError& error) {
        fail(error.what());
    }
}

// Ranks of one stage perform one program: their arenas are alike to the byte.
void GroupCommunicator::make_known(Party party, std::byte* memory, std::int64_t bytes) {
    ORRERY_CHECK(known_[party] == nullptr, "memory is registered once");
    const std::vector<plan::Rank> ranks = ranks_of(party);
    const bool alike = std::all_of(ranks.begin(), ranks.end(), [&](plan::Rank other) {
        return mesh().coordinates(other).pipeline == mesh().coordinates(rank()).pipeline;
    });
    const std::string doing = "registering memory with the communicator " + of_party(party);
    const auto ask = [&](bool symmetric) {
        enter_driver(doing, timeouts_.usual);
        known_[party] = driver_.register_memory(handle(party), memory, bytes, symmetric);
        leave_driver();
        settle(handle(party), [&] { return doing; });
    };
    ask(alike);
    if (!alike || driver_.taken(known_[party])) return;
    driver_.deregister(handle(party), std::exchange(known_[party], nullptr));
    ask(false);
}

void GroupCommunicator::forget_memory() {
    seen();
    const std::lock_guard lock(mutex_);
    check_plane();
    try {
        drop_registrations();
    } catch (const CollectiveError& error) {
        fail(error.what());
    }
}

void GroupCommunicator::drop_registrations() {
    for (Party party = 0; party < kParties; ++party)
        if (known_[party] != nullptr)
            driver_.deregister(handle(party), std::exchange(known_[party], nullptr));
}

void GroupCommunicator::abort(std::string_view reason) {
    seen();
    const std::lock_guard lock(mutex_);
    plane_.abort(reason);  // first, as below
    abort_all();
    if (ended_.empty()) ended_ = reason;
}

void GroupCommunicator::check_plane() {
    try {
        plane_.check();
    } catch (const CommunicationError&) {
        abort_all();
        throw;
    }
    if (!ended_.empty()) throw CommunicationError(ended_);
}

std::string GroupCommunicator::fault() {
    try {
        for (Party party = 0; party < kParties; ++party) {
            if (handle(party) == nullptr ||
                driver_.state(handle(party)) != CollectiveDriver::State::failed)
                continue;
            const PendingCall* call = pending_.first_of(party);
            return fmt::format("{}: {}",
                               call != nullptr ? told(*call) : "no call " + of_party(party),
                               driver_.fault(handle(party)));
        }
        if (const PendingCall* late = pending_.advance(now_()))
            return fmt::format("{} has not ended after {} s", told(*late),
                               static_cast<double>(late->allowed.count()) / 1e3);
        if (const auto still = device_stands_still()) return *still;
    } catch (const CollectiveError& error) {
        return error.what();
    }
    return "";
}

void GroupCommunicator::check() {
    seen();
    const std::lock_guard lock(mutex_);
    check_plane();
    if (const std::string reason = fault(); !reason.empty()) fail(reason);
}

void GroupCommunicator::call(const char* what, Party party,
                             const std::function<void(Handle)>& issue) {
    seen();
    const std::lock_guard lock(mutex_);
    check_plane();
    ORRERY_CHECK(handle(party) != nullptr, "a call that the plan does not have");
    PendingCall made;
    made.what = what;
    made.label = label();
    made.party = party;
    made.number = ++calls_[party];
    made.allowed = allowed();
    try {
        // The first call on a communicator finds its way to the other members.
        enter_driver(told(made), std::max(made.allowed, timeouts_.usual));
        made.before = pending_.mark(stream_);
        issue(handle(party));
        leave_driver();
        settle(handle(party), [&] { return told(made); });
        made.after = pending_.mark(stream_);
    } catch (const CollectiveError& error) {
        fail(fmt::format("{}: {}", told(made), error.what()));
    }
    pending_.add(stream_, std::move(made));
}

void GroupCommunicator::settle(Handle communicator, const std::function<std::string()>& doing) {
    const Instant start = now_();
    for (;;) {
        seen();
        const CollectiveDriver::State state = driver_.state(communicator);
        if (state == CollectiveDriver::State::ready) return;
        if (state == CollectiveDriver::State::failed)
            fail(fmt::format("{}: {}", doing(), driver_.fault(communicator)));
        check_plane();
        if (now_() - start > timeouts_.usual)
            fail(fmt::format("{}: the driver has not taken it after {} s", doing(),
                             static_cast<double>(timeouts_.usual.count()) / 1e3));
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
}

std::string GroupCommunicator::of_party(Party party) const {
    const std::vector<plan::Rank> ranks = ranks_of(party);
    if (party < plan::kGroupKinds)
        return fmt::format("in its {} group (ranks {})", name(static_cast<GroupKind>(party)),
                           fmt::join(ranks, " "));
    return fmt::format("between neighbours in the pipeline (ranks {})", fmt::join(ranks, " "));
}

std::string GroupCommunicator::told(const PendingCall& call) const {
    return fmt::format("{} of {} {}, its call {} there", call.what,
                       call.label.empty() ? "no op" : call.label, of_party(call.party),
                       call.number);
}

// Ranks are told before their communicators end under them, so that this reason is the first.
void GroupCommunicator::fail(const std::string& reason) {
    plane_.abort(reason);
    abort_all();
    ended_ = reason;
    plane_.check();  // throws the first reason of all ranks
    throw CommunicationError(reason);
}

std::optional<Waiting> GroupCommunicator::waits_in() const {
    const PendingCall* const call = pending_.longest();
    if (call == nullptr) return std::nullopt;
    Waiting waiting;
    waiting.call = told(*call);
    for (const plan::Rank other : ranks_of(call->party))
        if (other != rank()) waiting.ranks.push_back(other);
    waiting.seconds = std::chrono::duration<double>(now_() - *call->begun).count();
    return waiting;
}

std::optional<Waiting> GroupCommunicator::waiting() const {
    {
        const std::lock_guard lock(doing_mutex_);
        if (waited_) return waited_;
        if (!doing_.what.empty())
            return Waiting{
                doing_.what, {}, std::chrono::duration<double>(now_() - doing_.since).count()};
    }
    const std::unique_lock lock(mutex_, std::try_to_lock);
    return lock ? waits_in() : std::nullopt;
}

// What was under way is kept for whoever asks later: an aborted call ends as others do.
void GroupCommunicator::abort_all() {
    if (issued_ != nullptr) issued_->freeze();
    try {
        pending_.advance(now_());
    } catch (const std::exception&) {  // a device that has failed says nothing more
    }
    if (const auto waits = waits_in()) {
        const std::lock_guard lock(doing_mutex_);
        if (!waited_) waited_ = waits;
    }
    known_.fill(nullptr);
    const auto end = [&](Handle& handle) {
        if (handle == nullptr) return;
        try {
            driver_.abort(std::exchange(handle, nullptr));
        } catch (const CollectiveError&) {  // there is a better reason than this one
        }
    };
    for (Handle& handle : handles_)
        end(handle);
    end(all_);
    pending_.clear();
}

}  // namespace orrery::runtime
