// How long a collective or a message takes alone on its cluster: measured curves where the profile
// has them, NCCL's cost model elsewhere, the network of a node shared by the groups that use it at
// the same time.
//
// - Within a node: the curve of that rank count; between two measured counts the bus bandwidths are
//   interpolated (uncertainty doubled); else a ring at intra_node.efficiency of the link.
//   A cluster whose link differs from the one of the curves: the curve's latency t₀ (its first
//   point) moves as that of a ring does between the two links, what exceeds it is scaled by what
//   leaves a rank on either: t' = t₀' + (t − t₀)·measured_bandwidth/cluster_bandwidth. Where the
//   kind of link differs, nobody measured it: the uncertainty doubles.
//   In a hybrid cube mesh: rings × the rate of one link, as many as fit side by side; a group that
//   has none goes over the hosts, and shares that way with its siblings that do.
//   In a torus: what a group has of its links (torus.hpp), of which nothing was measured by curves.
// - Between nodes: the least of ring, tree and hierarchical (the latter where the library has it).
//   A node sends at most inter_node.efficiency × NICs × bandwidth ÷ oversubscription, equally
//   divided among the sibling groups, and a group no more than the NICs of its own members carry.
//   Of networks of another kind than the efficiency was found on, packets carry another share.
//   Through nodes that are tori, which have no chain to go along: inside the nodes, between them,
//   one after the other. Where the cluster says how its switches lie, the links above each switch
//   that the group leaves are divided likewise; a route that climbs k levels passes 2k switches
//   more than the first.
// - A message of b bytes: within a node the curve of `exchange`, where the profile has one; else
// what
//   each of two ranks sends in an all-gather of 2b.
// Not modelled: groups of one node that share a PCIe switch or the memory of a host.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/ir/kinds.hpp"
#include "plan/scenario/scenario.hpp"
#include "sim/cost/kernel_cost.hpp"
#include "sim/network/algorithms.hpp"
#include "sim/network/collective_table.hpp"
#include "sim/network/group_shape.hpp"
#include "sim/network/network_use.hpp"
#include "sim/network/topology.hpp"

namespace orrery::sim {

class Network {
  public:
    Network(const plan::Cluster& cluster, CollectiveTable table);

    // all_reduce, all_gather, reduce_scatter, broadcast, all_to_all or shift (checked) of S bytes,
    // nccl-tests' convention (plan::message_bytes). A group of one costs nothing.
    Price collective(plan::OpKind kind, std::int64_t message_bytes, const GroupShape& shape) const;

    // all_to_all_v of so many bytes of a member, among members of which `split` in a row hold parts
    // of the same experts. On their way there rows may go to one of these and be gathered by the
    // others, where that is faster; on their way back each has a part of its own.
    Price rows(std::int64_t message_bytes, const GroupShape& shape, std::int64_t split,
               bool back) const;

    // The same of copies, one to each rank: between nodes one goes to each node, whose devices hand
    // it on as it comes in. Bytes of a member's copies to ranks, and to nodes, its own included.
    Price copies(double rank_bytes, double node_bytes, const GroupShape& shape) const;

    // One message between two devices.
    Price point_to_point(std::int64_t bytes, const Hop& hop) const;

    // What such an op takes of the network of a node while it lasts: what leaves the node, on
    // average over its time, in as many equal flows as siblings run at once. So what is latency
    // rather than bytes takes little, and loses little to others.
    NetworkUse use_of(plan::OpKind kind, std::int64_t message_bytes, const GroupShape& shape,
                      double seconds) const;
    NetworkUse use_of(std::int64_t bytes, const Hop& hop, double seconds) const;
    // Of a node, that all its flows share; 0 where the cluster is one node.
    std::int64_t node_kBps() const;

    // What a group can reach: line rates times the profile's efficiencies, the node's share divided
    // by the siblings.
    GroupLinks links(const GroupShape& shape) const;

    const Topology& topology() const { return topology_; }
    const CollectiveTable& table() const { return table_; }

  private:
    Price within_node(plan::OpKind kind, double bytes, const GroupShape& shape) const;
    Price between_nodes(plan::OpKind kind, double bytes, const GroupShape& shape) const;
    Price all_to_all(double bytes, const GroupShape& shape) const;
    Price all_to_all(double near_bytes, double bytes, const GroupShape& shape) const;
    Price shift(double bytes, const GroupShape& shape) const;
    NetworkUse use(double bytes, double seconds, int flows) const;
    Price within_torus(plan::OpKind kind, double bytes, const GroupShape& shape) const;
    Price torus_exchange_of(double bytes, const GroupShape& shape) const;
    Price torus_message(double bytes, const TorusHop& way) const;
    Price torus_price(double start_us, double bytes_of_a_link, int links_passed) const;
    double mesh_GBps(const MeshPlace& place, bool within) const;
    double message_GBps(const GroupShape& shape) const;
    Price on_curve(const CollectiveCurve& curve, double bytes) const;
    double moved_start(const CollectiveCurve& curve) const;

    plan::Cluster cluster_;
    CollectiveTable table_;
    Topology topology_;
    double network_efficiency_ = 0;  // of the line rate of NICs, on a network of this kind
    double network_deviation_ = 0;   // relative, of what takes so long
};

}  // namespace orrery::sim
