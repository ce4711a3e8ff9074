// Where the members of a group lie, and on which rails its ring goes from node to node: what shapes
// (group_shape.hpp) and the links of a path (fabric_links.hpp) are made from. Internal to network.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plan/scenario/scenario.hpp"

namespace orrery::sim {

// Positions of a group's members in each of its nodes; both ascending. Spans are of `positions`.
using Positions = std::span<const int>;
struct NodeMembers {
    std::vector<int> positions;
    std::vector<std::pair<std::int64_t, Positions>> nodes;

    NodeMembers() = default;
    NodeMembers(NodeMembers&&) = default;
    NodeMembers& operator=(NodeMembers&&) = default;

    auto begin() const { return nodes.begin(); }
    auto end() const { return nodes.end(); }
    std::size_t size() const { return nodes.size(); }
};

// `member_devices` must not be empty.
NodeMembers members_by_node(const std::vector<std::int64_t>& member_devices,
                            std::int64_t devices_per_node);

using Rails = std::vector<std::int64_t>;  // ascending, each once

// Rails on which a group's ring travels from node to node; where two nodes share none, its own.
struct RailUse {
    Rails rails;
    bool crosses = false;
};

RailUse rails_of_group(const NodeMembers& members, const plan::Cluster& cluster);

bool on_rails(const plan::Cluster& cluster);

// Whether traffic between rails goes up to the spine, wherever its ends are.
bool climbs(bool crosses_rails, const plan::Cluster& cluster);

}  // namespace orrery::sim
