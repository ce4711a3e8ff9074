// Ring algorithms. The message is cut in N parts that travel round the ring: N−1 steps gather or
// scatter it, 2(N−1) do both. In each step every rank sends S/N, so the ring moves at the rate of
// its slowest link and each rank sends (N−1)/N·S, twice that for all_reduce. Of these steps
// nodes−1 (twice that) cross between nodes on the critical path, the others are hops inside.
//
//   seconds = base + inner·hop_intra + outer·(hop_net + c·L) + bytes_sent ÷ bandwidth
//
// L is the latency of the network itself, c = 2 for the Simple protocol, whose receiver flushes.
// Where each node holds one rank no other hop hides the network's, which then counts as in a tree.
// Source: NCCL src/graph/tuning.cc (ncclTopoTuneModel); Thakur, Rabenseifner, Gropp 2005,
// "Optimization of collective communication operations in MPICH"; Patarasuk, Yuan 2009,
// "Bandwidth optimal all-reduce algorithms for clusters of workstations".
#include <algorithm>

#include "plan/check.hpp"
#include "sim/network/algorithms.hpp"

namespace orrery::sim {
namespace {

double protocol_seconds(plan::OpKind kind, double bytes, const GroupLinks& links,
                        const ProtocolConstants& protocol) {
    const int rounds = kind == plan::OpKind::all_reduce ? 2 : 1;
    const int outer = rounds * (links.nodes - 1);
    const int inner = rounds * (links.ranks - 1) - outer;
    const double inner_us = protocol.intra_hop_us(links.kind, links.intra_latency_us);
    const double network_us =
        links.ranks_per_node == 1 ? protocol.inter_node_alone_hop_us : protocol.inter_node_hop_us;
    const double outer_us = network_us + protocol.network_latencies * links.network_latency_us;
    double bandwidth_GBps = links.intra_GBps;
    if (links.nodes > 1) {
        bandwidth_GBps = links.ranks_per_node == 1 ? links.network_GBps
                                                   : std::min(bandwidth_GBps, links.network_GBps);
    }
    bandwidth_GBps *= protocol.bandwidth_factor;
    if (links.nodes > 1 && protocol.network_limit_GBps > 0)
        bandwidth_GBps = std::min(bandwidth_GBps, protocol.network_limit_GBps);
    const double sent = bytes_sent_per_rank(kind, bytes, links.ranks);
    return (protocol.base_us + inner * inner_us + outer * outer_us) * 1e-6 +
           sent / (bandwidth_GBps * protocol.correction(bytes) * 1e9);
}

}  // namespace

double ring_seconds(plan::OpKind kind, double bytes, const GroupLinks& links,
                    const std::vector<ProtocolConstants>& protocols) {
    ORRERY_CHECK(!protocols.empty(), "a ring without protocols");
    double best = protocol_seconds(kind, bytes, links, protocols.front());
    for (const ProtocolConstants& protocol : protocols)
        best = std::min(best, protocol_seconds(kind, bytes, links, protocol));
    return best;
}

}  // namespace orrery::sim
