// What collectives reach of the line rate of the adapters between nodes, by kind of network, and
// how far clusters of that kind lie from it: the prior of a cluster that nobody measured.
//
// A profile says what it found on a network of its own kind (inter_node.efficiency); of another
// kind the cluster has that × share(kind) ÷ share(found). Clusters of one kind differ by their
// switches, routing, congestion and libraries: published ones of InfiniBand reach 0.45 to 0.9 of
// the line rate.
#pragma once

#include "plan/scenario/scenario.hpp"

namespace orrery::sim {

struct NetworkShare {
    double share = 1;        // of the line rate, large messages
    double relative_sd = 0;  // of the bandwidth, among clusters of the kind
    const char* source = "";
};

// Not of InterNodeKind::none.
const NetworkShare& network_share(plan::InterNodeKind kind);

}  // namespace orrery::sim
