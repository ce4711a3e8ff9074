// Small clusters and profiles for the tests of sim/network: α-β links whose closed forms fit a
// line.
#pragma once

#include <string>

#include "plan/scenario/scenario.hpp"
#include "sim/network/collective_table.hpp"

namespace orrery::sim {

// α in microseconds per hop, β as a share of the link.
inline ProtocolConstants link_protocol(double base_us, double intra_us, double inter_us,
                                       double share = 1) {
    ProtocolConstants out;
    out.name = "test";
    out.base_us = base_us;
    out.nvswitch_hop_us = intra_us;
    out.pcie_hop_us = intra_us;
    out.inter_node_hop_us = inter_us;
    out.inter_node_alone_hop_us = inter_us;
    out.bandwidth_factor = share;
    return out;
}

// Links at their full rate, one ring and one tree protocol, no curves.
inline CollectiveTable plain_table() {
    CollectiveTable table;
    table.system = "test";
    table.measured_bandwidth_GBps = 100;
    table.ring = {link_protocol(2, 1, 3)};
    table.tree = {link_protocol(2, 1, 3)};
    table.intra_node = {1, 0.1, "test"};
    table.inter_node = {1, 0.3, "test"};
    return table;
}

inline CollectiveCurve curve(plan::OpKind kind, int ranks, std::vector<CurvePoint> points) {
    return {kind, ranks, std::move(points), 0.04, "test"};
}

// Nodes of 8 devices at 100 GB/s, 8 NICs of 80 Gb/s = 10 GB/s: 80 GB/s out of a node.
inline plan::Cluster plain_cluster(std::int64_t nodes) {
    plan::Cluster cluster;
    cluster.nodes = nodes;
    cluster.devices_per_node = 8;
    cluster.intra_node = {plan::IntraNodeKind::nvswitch, 100, 2};
    cluster.inter_node = {plan::InterNodeKind::infiniband, 8, 80, 4, 1};
    return cluster;
}

}  // namespace orrery::sim
