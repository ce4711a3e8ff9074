// Collectives and transfers that leave a node at the same time share its network max-min fairly.
//
// Each is so many flows in a node: itself and its siblings, which run when it does, each at most at
// the rate that it has alone. A node's capacity is divided among the flows in flight by filling
// (Bertsekas, Gallager 1992, "Data Networks", §6.5.2): whoever needs less than an equal part takes
// what it needs, the others share the rest. A flow moves at the least of its parts, over its
// members and the directions in which it uses their nodes; parts are computed again when one starts
// or ends there. What one bottleneck leaves unused by flows that another holds back is not given
// on.
//
// In whole numbers throughout: rates in thousandths of a flow's own, work in thousandths of a
// picosecond. Within an instant rates are settled once, so that its order does not count.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/engine/time.hpp"
#include "sim/network/network_use.hpp"

namespace orrery::sim {

// Thousandths of its rate that each flow has of a capacity. At least 1; 1000 where it is alone.
// `shares` has room for all of `uses`.
void fair_shares(std::int64_t capacity_kBps, const NetworkUse* uses, std::size_t count,
                 std::int64_t* shares);

class NetworkFlows {
  public:
    using Id = std::int32_t;
    enum class Direction : std::uint8_t { out, in, both };
    struct Member {
        std::int32_t track = 0;
        std::uint8_t stream = 0;
        Direction direction = Direction::both;
        NetworkUse use;
    };
    struct Ending {
        Id flow = 0;
        std::uint32_t generation = 0;  // is_current() until the end is moved
        Picoseconds time = 0;
    };

    NetworkFlows(std::int64_t capacity_kBps, std::size_t tracks)
        : capacity_(capacity_kBps), tracks_(capacity_kBps > 0 ? tracks : 0) {}

    bool shares(const NetworkUse& use) const { return capacity_ > 0 && use.kBps > 0; }

    // Alone it ends after `takes`. `transfer`: of two sides, not of a group.
    void begin(const std::vector<Member>& members, bool transfer, Picoseconds takes,
               Picoseconds now);

    bool unsettled() const { return !dirty_.empty(); }
    // The ends that are new, of flows whose rate has changed since the last call. To be called
    // before time moves on.
    const std::vector<Ending>& settle(Picoseconds now);

    bool is_current(Id flow, std::uint32_t generation) const {
        return flows_[static_cast<std::size_t>(flow)].generation == generation;
    }
    bool is_transfer(Id flow) const { return flows_[static_cast<std::size_t>(flow)].transfer; }
    // Takes a flow that has ended away, and puts its members in the place of what `members` holds.
    void end(Id flow, std::vector<Member>& members);

  private:
    struct Flow {
        std::vector<Member> members;
        std::int64_t work_left = 0;  // of which one picosecond does `rate` many
        std::int64_t rate = 0;       // 0: not settled yet
        Picoseconds since = 0;
        std::uint32_t generation = 0;
        bool transfer = false;
        bool dirty = false;
    };
    struct Passing {
        Id flow = 0;
        NetworkUse use;
    };
    // By direction: out, in.
    using Passings = std::array<std::vector<Passing>, 2>;

    template <typename Function>
    void each_way(const Member& member, const Function& f);
    void touch(const Flow& flow);
    std::int64_t rate_of(Id id);

    std::int64_t capacity_;
    std::vector<Passings> tracks_;
    std::vector<Flow> flows_;
    std::vector<Id> free_;
    std::vector<Id> dirty_;
    std::vector<Ending> endings_;
    std::vector<NetworkUse> uses_;  // while shares are computed
    std::vector<std::int64_t> shares_;
};

}  // namespace orrery::sim
