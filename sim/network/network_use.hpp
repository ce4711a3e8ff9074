// What the prices of communication say of a node's network, and the engine shares out
// (sim/engine/network_flows.hpp).
#pragma once

#include <cstdint>

namespace orrery::sim {

// What an op takes of the network of a node while no other kind of op uses it.
struct NetworkUse {
    std::int64_t kBps = 0;   // of one flow; 0: leaves no node, or counts for nothing
    std::int32_t flows = 0;  // that run at the same time in the node, this one included
    std::int32_t path = -1;  // over links that jobs share (sim/engine/shared_links.hpp); −1: none
};

}  // namespace orrery::sim
