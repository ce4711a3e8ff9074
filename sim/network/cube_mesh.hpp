// The hybrid cube mesh of eight V100 (DGX-1V, AWS p3.16xlarge): six NVLinks from each device, two
// quads in which every pair is joined by one or two, and one or two to the partner in the other
// quad. A node with fewer devices has the first of them.
//
// A ring (or, between nodes, a chain) takes a link of its own for every hop, so that so many rings
// as fit beside one another each move at the rate of one link: NCCL searches for the most. A group
// that has none of direct links lets hops pass through a third member; where that does not help
// either, it goes by PCIe and the link between the sockets.
// Source: nvidia-smi topo -m in Oneflow-Inc/DLPerf, reports on four nodes of 8 V100; NVIDIA DGX-1
// with Tesla V100 whitepaper (2017); NCCL src/graph/search.cc and paths.cc (PATH_NVB).
#pragma once

#include <vector>

namespace orrery::sim {

inline constexpr int kCubeMeshLinks = 6;  // out of a device

// NVLinks between two different devices, by their position in the node: 0, 1 or 2.
int cube_mesh_links(int a, int b);

// What the members of a group find in one node.
struct MeshPlace {
    int rings = 0;       // directed, each with links of its own; 0: none, over the hosts
    int chains = 0;      // the same without the hop back to the first
    int pair_links = 0;  // fewest links between two members that are joined; 0: none are
    int far_pairs = 0;   // pairs of members that no link joins
    int next_links = 0;  // fewest links between neighbours round the group in its order …
    int far_nexts = 0;   // … of which so many are joined by none
    int sharers = 1;     // groups of the kind in the node that go over the hosts

    bool operator==(const MeshPlace&) const = default;
};

// Of positions in the node, ascending and each once (checked); at most eight.
MeshPlace mesh_place(const std::vector<int>& positions);

}  // namespace orrery::sim
