// The network of a cluster whose nodes are of one kind or of several: for each kind a Network as it
// would be if all nodes were of it. What stays on nodes of one kind costs what it costs there; a
// group or message that spans several goes at the pace of the slowest of them, since each step of a
// ring or a tree ends with its slowest link. How the faster nodes use what time that leaves them is
// not modelled. Links with less than their bandwidth are taken likewise: as if those of all nodes
// of the kind had as little, while what lies above the adapters keeps its capacity.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/network/collective_cost.hpp"

namespace orrery::sim {

class MixedNetwork {
  public:
    // `tables`: of the kinds of nodes from the cluster's own on, at least one; groups and hops must
    // lie on nodes of these kinds.
    MixedNetwork(const plan::Cluster& cluster, std::vector<CollectiveTable> tables);
    ~MixedNetwork();
    MixedNetwork(MixedNetwork&&) noexcept;
    MixedNetwork& operator=(MixedNetwork&&) noexcept;

    // As Network's.
    Price collective(plan::OpKind kind, std::int64_t message_bytes, const GroupShape& shape) const;
    Price rows(std::int64_t message_bytes, const GroupShape& shape, std::int64_t split,
               bool back) const;
    Price copies(double rank_bytes, double node_bytes, const GroupShape& shape) const;
    Price point_to_point(std::int64_t bytes, const Hop& hop) const;

    // In shares of what one of the cluster's own nodes has, whatever the kind: a flow that fills
    // another kind's node counts as one that fills an own.
    NetworkUse use_of(plan::OpKind kind, std::int64_t message_bytes, const GroupShape& shape,
                      double seconds) const;
    NetworkUse use_of(std::int64_t bytes, const Hop& hop, double seconds) const;
    std::int64_t node_kBps() const { return of_kinds_.front().node_kBps(); }
    // What travels of such a use, as a share of it: less than 1 where the node that it fills has
    // less than an own. What lies above the nodes is asked for no more than that.
    double travels(NodeKinds kinds, const std::vector<SlowLinks>& slow) const;

  private:
    template <typename Ask>
    Price slowest(NodeKinds kinds, const std::vector<SlowLinks>& slow, Ask&& ask) const;
    template <typename Ask>
    NetworkUse largest(NodeKinds kinds, const std::vector<SlowLinks>& slow, Ask&& ask) const;
    const Network& network(std::size_t kind, const std::vector<SlowLinks>& slow) const;

    struct Slowed;  // networks with slow links, made where one is asked for

    plan::Cluster cluster_;
    std::vector<Network> of_kinds_;
    std::unique_ptr<Slowed> slowed_;
};

}  // namespace orrery::sim
