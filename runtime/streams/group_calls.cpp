// The calls of a GroupCommunicator, as the driver's.
#include <algorithm>

#include "plan/check.hpp"
#include "runtime/streams/group_communicator.hpp"

namespace orrery::runtime {
namespace {

using plan::GroupKind;

// Calls that are issued as one; a fault in the midst of them closes the group too.
class CallGroup {
  public:
    explicit CallGroup(CollectiveDriver& driver) : driver_(driver) { driver_.group_start(); }
    ~CallGroup() {
        if (closed_) return;
        try {
            driver_.group_end();
        } catch (const CollectiveError&) {  // a fault is on its way already
        }
    }
    CallGroup(const CallGroup&) = delete;
    CallGroup& operator=(const CallGroup&) = delete;

    void close() {
        closed_ = true;
        driver_.group_end();
    }

  private:
    CollectiveDriver& driver_;
    bool closed_ = false;
};

}  // namespace

std::int64_t GroupCommunicator::size_of(GroupKind group) const {
    return static_cast<std::int64_t>(members(group).size());
}

void GroupCommunicator::do_all_reduce(GroupKind group, plan::DType dtype, void* data,
                                      std::int64_t elements, Reduction reduction) {
    call("all_reduce", group, [&](Handle communicator) {
        driver_.all_reduce(communicator, dtype, data, elements, reduction, stream_);
    });
}

void GroupCommunicator::do_all_gather(GroupKind group, plan::DType dtype, const void* mine,
                                      void* all, std::int64_t total) {
    call("all_gather", group, [&](Handle communicator) {
        driver_.all_gather(communicator, dtype, mine, all, total / size_of(group), stream_);
    });
}

void GroupCommunicator::do_reduce_scatter(GroupKind group, plan::DType dtype, const void* all,
                                          void* mine, std::int64_t total) {
    call("reduce_scatter", group, [&](Handle communicator) {
        driver_.reduce_scatter(communicator, dtype, all, mine, total / size_of(group), stream_);
    });
}

void GroupCommunicator::do_all_to_all(GroupKind group, plan::DType dtype, const void* to_all,
                                      void* from_all, std::int64_t total) {
    const std::int64_t bytes = total / size_of(group) * plan::size_bytes(dtype);
    call("all_to_all", group, [&](Handle communicator) {
        CallGroup together(driver_);
        for (std::int64_t member = 0; member < size_of(group); ++member) {
            driver_.send(communicator, static_cast<const std::byte*>(to_all) + member * bytes,
                         bytes, member, stream_);
            driver_.receive(communicator, static_cast<std::byte*>(from_all) + member * bytes, bytes,
                            member, stream_);
        }
        together.close();
    });
}

void GroupCommunicator::do_broadcast(GroupKind group, plan::DType dtype, void* data,
                                     std::int64_t elements, std::int64_t root) {
    call("broadcast", group, [&](Handle communicator) {
        driver_.broadcast(communicator, dtype, data, elements, root, stream_);
    });
}

GroupCommunicator::Party GroupCommunicator::party_with(plan::Rank peer, GroupKind group) const {
    if (group == GroupKind::pipeline)
        for (const Party party : {kAfter, kBefore}) {
            const std::vector<plan::Rank> pair = ranks_of(party);
            if (std::find(pair.begin(), pair.end(), peer) != pair.end()) return party;
        }
    return party_of(group);
}

void GroupCommunicator::do_exchange(std::span<const Transfer> transfers, GroupKind group) {
    const Party party = party_with(transfers.front().peer, group);
    const std::vector<plan::Rank> ranks = ranks_of(party);
    call("exchange", party, [&](Handle communicator) {
        CallGroup together(driver_);
        for (const Transfer& transfer : transfers) {
            const auto place = std::find(ranks.begin(), ranks.end(), transfer.peer);
            ORRERY_CHECK(place != ranks.end() && party_with(transfer.peer, group) == party,
                         "an exchange with ranks that no one communicator ties together");
            const std::int64_t member = place - ranks.begin();
            if (transfer.direction == Direction::send)
                driver_.send(communicator, transfer.data, transfer.bytes, member, stream_);
            else
                driver_.receive(communicator, transfer.data, transfer.bytes, member, stream_);
        }
        together.close();
    });
}

void GroupCommunicator::do_barrier(GroupKind group) {
    call("barrier", group, [&](Handle communicator) {
        driver_.all_reduce(communicator, plan::DType::i32, barrier_word_, 1, Reduction::sum,
                           stream_);
    });
}

void GroupCommunicator::copy_own(void* to, const void* from, std::int64_t bytes) {
    check_plane();
    driver_.copy(to, from, bytes, stream_);
}

}  // namespace orrery::runtime
