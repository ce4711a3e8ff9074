#include "runtime/streams/group_communicator.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/ir/check.hpp"

namespace orrery::runtime {
namespace {

using plan::GroupKind;

// In the one order in which all ranks make their communicators.
template <typename Visit>
void for_each_kind(const Visit& visit) {
    for (std::size_t kind = 0; kind < plan::kGroupKinds; ++kind)
        visit(static_cast<GroupKind>(kind));
}

}  // namespace

GroupCommunicator::GroupCommunicator(const plan::Mesh& mesh, plan::Rank rank,
                                     CollectiveDriver& driver, StreamDriver& streams,
                                     ControlPlane& plane, const CallTimeouts& timeouts,
                                     std::function<Instant()> now)
    : StreamCommunicator(mesh, rank),
      driver_(driver),
      plane_(plane),
      timeouts_(timeouts),
      now_(std::move(now)),
      barrier_word_(streams.allocate(plan::size_bytes(plan::DType::i32))),
      pending_(streams) {
    ORRERY_CHECK(plane.rank() == rank && plane.size() == mesh.ranks(),
                 "a control plane of other ranks than the mesh has");
    try {
        connect();
    } catch (...) {
        abort_all();
        throw;
    }
}

GroupCommunicator::~GroupCommunicator() {
    try {
        plane_.check();
        for (Handle& handle : handles_)
            if (handle != nullptr) driver_.end(std::exchange(handle, nullptr));
    } catch (const std::runtime_error&) {  // the run has ended, or cannot end well
        abort_all();
    }
}

bool GroupCommunicator::leads(plan::Rank rank, GroupKind group) const {
    const std::vector<plan::Rank> ranks = mesh().group(group, rank);
    return ranks.size() > 1 && ranks.front() == rank;
}

// Of the groups that this rank is the first of, one after another.
std::vector<std::byte> GroupCommunicator::own_ids() {
    std::vector<std::byte> ids;
    for_each_kind([&](GroupKind group) {
        if (!leads(rank(), group)) return;
        const std::vector<std::byte> id = driver_.unique_id();
        ids.insert(ids.end(), id.begin(), id.end());
    });
    return ids;
}

std::span<const std::byte> GroupCommunicator::id_of(
    GroupKind group, const std::vector<ControlPlane::Bytes>& ids) const {
    const plan::Rank first = members(group).front();
    std::size_t before = 0, all = 0;
    for_each_kind([&](GroupKind kind) {
        if (!leads(first, kind)) return;
        if (kind < group) ++before;
        ++all;
    });
    const std::span<const std::byte> from_first = ids[static_cast<std::size_t>(first)];
    const std::size_t size = from_first.size() / all;
    return from_first.subspan(before * size, size);
}

void GroupCommunicator::connect() {
    try {
        const std::vector<ControlPlane::Bytes> ids = plane_.all_gather(own_ids());
        for_each_kind([&](GroupKind group) {
            if (members(group).size() < 2) return;
            handles_[static_cast<std::size_t>(group)] =
                driver_.begin(id_of(group, ids), index_in(group), size_of(group));
            settle(group, [&] { return "making a communicator " + of_group(group); });
        });
    } catch (const CollectiveError& error) {
        fail(error.what());
    }
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

void GroupCommunicator::check() {
    check_plane();
    try {
        for_each_kind([&](GroupKind group) {
            if (handle(group) == nullptr ||
                driver_.state(handle(group)) != CollectiveDriver::State::failed)
                return;
            const PendingCall* call = pending_.first_of(group);
            fail(fmt::format("{}: {}", call != nullptr ? told(*call) : "no call " + of_group(group),
                             driver_.fault(handle(group))));
        });
        if (const PendingCall* late = pending_.advance(now_()))
            fail(fmt::format("{} has not ended after {} s", told(*late),
                             static_cast<double>(late->allowed.count()) / 1e3));
    } catch (const CollectiveError& error) {
        fail(error.what());
    }
}

void GroupCommunicator::call(const char* what, GroupKind group,
                             const std::function<void(Handle)>& issue) {
    check_plane();
    ORRERY_CHECK(handle(group) != nullptr, "a call after the run has ended");
    PendingCall made;
    made.what = what;
    made.label = label();
    made.group = group;
    made.number = ++calls_[static_cast<std::size_t>(group)];
    made.allowed = allowed();
    try {
        made.before = pending_.mark(stream_);
        issue(handle(group));
        settle(group, [&] { return told(made); });
        made.after = pending_.mark(stream_);
    } catch (const CollectiveError& error) {
        fail(fmt::format("{}: {}", told(made), error.what()));
    }
    pending_.add(stream_, std::move(made));
}

void GroupCommunicator::settle(GroupKind group, const std::function<std::string()>& doing) {
    const Instant start = now_();
    for (;;) {
        const CollectiveDriver::State state = driver_.state(handle(group));
        if (state == CollectiveDriver::State::ready) return;
        if (state == CollectiveDriver::State::failed)
            fail(fmt::format("{}: {}", doing(), driver_.fault(handle(group))));
        check_plane();
        if (now_() - start > timeouts_.usual)
            fail(fmt::format("{}: the driver has not taken it after {} s", doing(),
                             static_cast<double>(timeouts_.usual.count()) / 1e3));
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
}

std::chrono::milliseconds GroupCommunicator::allowed() const {
    const auto found = timeouts_.expected_s.find(label());
    if (found == timeouts_.expected_s.end()) return timeouts_.usual;
    const std::chrono::duration<double> scaled(found->second * timeouts_.factor);
    return std::max(timeouts_.least, std::chrono::ceil<std::chrono::milliseconds>(scaled));
}

std::string GroupCommunicator::of_group(GroupKind group) const {
    return fmt::format("in its {} group (ranks {})", name(group),
                       fmt::join(members(group).begin(), members(group).end(), " "));
}

std::string GroupCommunicator::told(const PendingCall& call) const {
    return fmt::format("{} of {} {}, its call {} there", call.what,
                       call.label.empty() ? "no op" : call.label, of_group(call.group),
                       call.number);
}

void GroupCommunicator::fail(const std::string& reason) {
    abort_all();
    ended_ = reason;
    plane_.abort(reason);
    plane_.check();  // throws the first reason of all ranks
    throw CommunicationError(reason);
}

void GroupCommunicator::abort_all() {
    for (Handle& handle : handles_)
        if (handle != nullptr) {
            try {
                driver_.abort(std::exchange(handle, nullptr));
            } catch (const CollectiveError&) {  // there is a better reason than this one
            }
        }
    pending_.clear();
}

}  // namespace orrery::runtime
