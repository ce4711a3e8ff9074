// Double binary tree of all_reduce: inside a node the ranks form a chain to the one at the NIC;
// between nodes two trees carry half of the message each, a node being inner in one and leaf in
// the other. Reduction goes up, the result comes down:
//
//   seconds = base + 2·((r−1)·hop_intra + ⌊log2 nodes⌋·(hop_net + c·L)) + 2S ÷ bandwidth
//
// r are the ranks of a node; a node sends S up and S down, hence 2S. Pipelining along the tree is
// imperfect at middle sizes, which size_correction of the protocol expresses, as NCCL does.
// Source: Sanders, Speck, Träff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction
// and scan"; NCCL src/graph/tuning.cc (ncclTopoTuneModel, treeCorrectionFactor).
#include <algorithm>
#include <bit>

#include "plan/check.hpp"
#include "sim/network/algorithms.hpp"

namespace orrery::sim {

namespace {

double protocol_seconds(double bytes, const GroupLinks& links, const ProtocolConstants& protocol) {
    const int depth = std::bit_width(static_cast<unsigned>(links.nodes)) - 1;
    const double inner_us = protocol.intra_hop_us(links.kind, links.intra_latency_us);
    const double network_us =
        links.ranks_per_node == 1 ? protocol.inter_node_alone_hop_us : protocol.inter_node_hop_us;
    const double outer_us = network_us + protocol.network_latencies * links.network_latency_us;
    double bandwidth_GBps = links.network_GBps;
    if (links.ranks_per_node > 1) bandwidth_GBps = std::min(bandwidth_GBps, links.intra_GBps);
    bandwidth_GBps *= protocol.bandwidth_factor;
    if (protocol.network_limit_GBps > 0)
        bandwidth_GBps = std::min(bandwidth_GBps, protocol.network_limit_GBps);
    const double latency_us =
        protocol.base_us + 2 * ((links.ranks_per_node - 1) * inner_us + depth * outer_us);
    return latency_us * 1e-6 + 2 * bytes / (bandwidth_GBps * protocol.correction(bytes) * 1e9);
}

}  // namespace

double tree_seconds(double bytes, const GroupLinks& links,
                    const std::vector<ProtocolConstants>& protocols) {
    ORRERY_CHECK(!protocols.empty() && links.nodes > 1, "a tree needs protocols and nodes");
    double best = protocol_seconds(bytes, links, protocols.front());
    for (const ProtocolConstants& protocol : protocols)
        best = std::min(best, protocol_seconds(bytes, links, protocol));
    return best;
}

}  // namespace orrery::sim
