// The cluster as a graph: devices, the switch of a node, NICs, leaf switches, the spine; links with
// bandwidth, latency and kind. Routes and their bottlenecks come from here, and the share of the
// network that a node has.
//
// Nodes are alike and there may be thousands, so that one graph of few nodes stands for all: a
// route depends on the positions of its ends in their nodes and on the switches that these share.
// It is made when a route is asked for.
//
// The shape: every device hangs on its node's switch (NVSwitch, PCIe switch, or the memory of a
// host whose ranks are CPU processes), or, with xgmi, on a link of its own to each other device of
// the node, which carries an equal share of what the device can send; NIC k hangs on device
// ⌊k·devices/nics⌋ (device d sends through NIC ⌊d·nics/devices⌋ where NICs are fewer, and shares
// it). inter_node.latency_us is from device to device of two nodes, half at either end;
// intra_node.latency_us is through the switch, half at either side. In a hybrid cube mesh devices
// have the links of cube_mesh.hpp, and reach those that they have none to over the sockets; in a
// torus those to their neighbours, each of which takes intra_node.latency_us.
//
// Above the NICs:
// - uniform: those of a node hang on a leaf switch, whose uplink to the spine carries nics ×
//   bandwidth ÷ oversubscription. The cluster does not say how many nodes share a leaf: every route
//   between nodes goes through the spine (the worst case).
// - fat_tree: the NICs of `nodes` nodes hang on a leaf, leaves on switches of the next level, the
//   last on one spine; a switch of a level sends up what its nodes can send ÷ the product of the
//   oversubscriptions up to it. Each switch beyond the first takes switch_latency_us.
// - rail: a leaf for each rail (devices of the same NIC, or of the same place where they have their
//   own) of so many nodes; rails meet above. With cross_rail "nvlink" a message goes first to the
//   device of its own node that is in the place of the goal, and then on its rail.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/scenario/scenario.hpp"

namespace orrery::sim {

enum class LinkKind : std::uint8_t { nvlink, xgmi, pcie, host_memory, torus, nic, uplink };

// One link, in either direction at the full bandwidth.
struct Link {
    // "node0/device3", "node0/switch", "node0/nic1", "leaf0", "leaf0.rail3", "level1.0", "spine"
    std::string from;
    std::string to;
    LinkKind kind = LinkKind::nvlink;
    double bandwidth_GBps = 0;  // one direction
    double latency_us = 0;
};

struct Route {
    std::vector<Link> links;     // in the order travelled
    double latency_us = 0;       // sum over links
    double bottleneck_GBps = 0;  // least bandwidth of the links
};

// Share of intra_node.bandwidth_GBps that a device can use towards a group of `ranks` devices of
// its node, itself among them: (ranks − 1) ÷ (devices − 1) with a link for each pair, else 1.
double pair_share(plan::IntraNodeKind kind, std::int64_t devices_per_node, int ranks);
double pair_share(const plan::Cluster& cluster, int ranks);

class Topology {
  public:
    explicit Topology(const plan::Cluster& cluster);

    // The route of least latency, then of fewest links, between two different devices of the
    // cluster (checked), alone on the machine. The nodes in it are called node0 and, by the first
    // level at which they share a switch, node1, node2, …
    Route route(std::int64_t from_device, std::int64_t to_device) const;

    // What the NICs of one device can send; one NIC where devices share NICs.
    double device_network_GBps() const;
    // What a node can send into the network: its leaf's uplink.
    double node_network_GBps() const;
    // What the links above one switch of a level of the fabric carry, of one rail's leaf there.
    double uplink_GBps(std::size_t level) const { return uplink_GBps_[level]; }
    int rails() const { return rails_; }  // on which leaves part; 1 but for rail fabrics

  private:
    plan::Cluster cluster_;
    std::int64_t nodes_ = 1;
    std::int64_t devices_per_node_ = 1;
    double device_network_GBps_ = 0;
    double node_network_GBps_ = 0;
    std::vector<double> uplink_GBps_;
    int rails_ = 1;
};

}  // namespace orrery::sim
