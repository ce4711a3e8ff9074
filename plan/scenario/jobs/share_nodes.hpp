// Whether there are nodes for all jobs where not every job fits every node: a flow from jobs to
// kinds of nodes. By Hall's theorem there are not exactly where some jobs together need more than
// all nodes that any of them fits: the smallest cut says which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace orrery::plan {

struct NodeDemand {
    std::int64_t nodes = 0;
    std::vector<std::size_t> kinds;  // that it fits; none: any
};

struct NodeShares {
    std::vector<std::vector<std::int64_t>> of_kind;  // by demand: nodes of each kind
    // Demands that together fit too few nodes, ascending; where there are any, of_kind is empty.
    std::vector<std::size_t> too_many;
};

// `nodes_by_kind`: of those that nobody has. One way of several to share them out, always the same.
NodeShares share_nodes(const std::vector<NodeDemand>& demands,
                       const std::vector<std::int64_t>& nodes_by_kind);

}  // namespace orrery::plan
