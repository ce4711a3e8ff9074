// What a record says of the network between its nodes, in its own words:
//
//   "4x HDR200 InfiniBand per node"     four adapters of 200 Gb/s
//   "8x IB NDR", "8 x 400 Gb/s"         eight of 400
//   "RoCE, 200 Gb/s per GPU"            one of 200 for each GPU of a node
//   "one EDR adapter of 100 Gb/s"       one of 100
//   "EFA, 3,200 Gb/s per node"          eight of 400, where a node has eight GPUs
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace orrery::compare {

struct Fabric {
    std::string kind;  // as clusters spell it
    std::int64_t nics_per_node = 0;
    double bandwidth_Gbps = 0;  // of one adapter, one direction
};

// Empty: the text does not say how many adapters of which speed a node has.
std::optional<Fabric> read_fabric(const std::string& text, std::int64_t gpus_per_node);

}  // namespace orrery::compare
