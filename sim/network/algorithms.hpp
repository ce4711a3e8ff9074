// Costs of collective algorithms that no curve covers, in the form of NCCL's own tuning model:
// seconds = base + hops × latency per hop + bytes ÷ bandwidth, the least over protocols. One file
// per algorithm: ring.cpp, tree.cpp, hierarchical.cpp. Uses + − × ÷ √ only.
#pragma once

#include "plan/ir/block.hpp"
#include "plan/scenario/scenario.hpp"
#include "sim/network/collective_table.hpp"

namespace orrery::sim {

// What a group finds on its way. Bandwidths are achievable ones: line rate × efficiency, the node's
// network share already divided by the groups that use it at the same time.
struct GroupLinks {
    int ranks = 1;
    int nodes = 1;
    int ranks_per_node = 1;  // largest number of members in one node
    plan::IntraNodeKind kind = plan::IntraNodeKind::nvswitch;
    double intra_GBps = 0;          // out of one rank, within the node
    double intra_latency_us = 0;    // the cluster's, for links whose hops the profile does not know
    double network_GBps = 0;        // out of one node, for this group; unused where nodes == 1
    double network_latency_us = 0;  // the cluster's, end to end
};

using plan::bytes_sent_per_rank;

// Flat ring over all ranks.
double ring_seconds(plan::OpKind kind, double bytes, const GroupLinks& links,
                    const std::vector<ProtocolConstants>& protocols);

// Double binary tree between nodes, chain inside; all_reduce only. `protocols` must not be empty.
double tree_seconds(double bytes, const GroupLinks& links,
                    const std::vector<ProtocolConstants>& protocols);

// One stage of a hierarchical all-reduce.
struct StageCost {
    double seconds = 0;          // of the whole message
    double latency_seconds = 0;  // of a message of no bytes
};

// Reduce-scatter inside the nodes, all-reduce between them, all-gather inside; all_reduce only.
// `inside` is the reduce-scatter and the all-gather of one node, `between` the all-reduce of nodes.
double hierarchical_seconds(const StageCost& inside, const StageCost& between);

}  // namespace orrery::sim
