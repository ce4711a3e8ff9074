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
// Where several jobs run beside each other, what lies above the nodes may let a flow have less
// (sim/engine/shared_links.hpp); it then moves at that rate.
//
// In whole numbers throughout: rates in millionths of a flow's own, of nodes in thousandths, work
// in millionths of a picosecond. Within an instant rates are settled once, so that its order does
// not count.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/engine/shared_links.hpp"
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
        std::uint32_t generation = 0;  // generation() until the end is moved
        Picoseconds time = 0;
    };

    NetworkFlows(std::int64_t capacity_kBps, std::size_t tracks)
        : capacity_(capacity_kBps), tracks_(capacity_kBps > 0 ? tracks : 0) {}

    // From now on flows with a path, those in flight too, are those of a job among several on
    // links above the nodes, which must outlive this.
    void join(SharedLinks& above, std::int32_t job);
    // No more so; the links are told nothing.
    void leave();
    // What flows with a path do is appended to it, whether links are told or not; null: it is not.
    void record(std::vector<FlowCall>* calls) { calls_ = calls; }

    bool shares(const NetworkUse& use) const { return capacity_ > 0 && use.kBps > 0; }

    // Alone it ends after `takes`. `transfer`: of two sides, not of a group.
    void begin(const std::vector<Member>& members, bool transfer, Picoseconds takes,
               Picoseconds now);

    bool unsettled() const { return !dirty_.empty(); }
    // The ends that are new, of flows whose rate has changed since the last call. To be called
    // before time moves on.
    const std::vector<Ending>& settle(Picoseconds now) {
        ask();
        return grant(now);
    }
    // The same in two steps, between which all jobs' flows above the nodes are settled: what nodes
    // allow is told them, then what they allow is taken.
    void ask();
    const std::vector<Ending>& grant(Picoseconds now);
    // What they allow this flow has changed.
    void limit(Id flow, std::int64_t rate);

    std::uint32_t generation(Id flow) const {
        return flows_[static_cast<std::size_t>(flow)].generation;
    }
    bool is_transfer(Id flow) const { return flows_[static_cast<std::size_t>(flow)].transfer; }
    // Takes a flow that has ended away, and puts its members in the place of what `members` holds.
    void end(Id flow, std::vector<Member>& members);

  private:
    struct Flow {
        std::vector<Member> members;
        Work work_left = 0;       // of which one picosecond does `rate` many
        std::int64_t rate = 0;    // 0: not settled yet
        std::int64_t inside = 0;  // that its nodes allow
        std::int64_t above = kOwnRate;
        Picoseconds since = 0;
        std::int32_t shared = -1;  // its number in above_
        std::uint32_t generation = 0;
        bool transfer = false;
        bool dirty = false;
        bool asked = false;  // is in asked_
    };
    struct Passing {
        Id flow = 0;
        NetworkUse use;
    };
    // By direction: out, in.
    using Passings = std::array<std::vector<Passing>, 2>;

    static std::int32_t path_of(const Flow& flow);
    void call(const FlowCall& call) {
        if (calls_ != nullptr) calls_->push_back(call);
    }
    template <typename Function>
    void each_way(const Member& member, const Function& f);
    void touch(const Flow& flow);
    std::int64_t rate_of(Id id);

    std::int64_t capacity_;
    std::vector<Passings> tracks_;
    std::vector<Flow> flows_;
    std::vector<Id> free_;
    std::vector<Id> dirty_;
    std::vector<Id> asked_;  // whose rate may have changed
    SharedLinks* above_ = nullptr;
    std::int32_t job_ = 0;
    std::vector<FlowCall>* calls_ = nullptr;
    std::vector<Ending> endings_;
    std::vector<NetworkUse> uses_;  // while shares are computed
    std::vector<std::int64_t> shares_;
};

}  // namespace orrery::sim
