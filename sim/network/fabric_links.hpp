// The links above the nodes one by one, and what the traffic of a group or a message puts on each:
// what jobs on one fabric share (sim/jobs). Shapes (group_shape.hpp) say how crowded the worst of
// them is for one job; here each has a place, so that those of several jobs can be told to be one.
//
// As there, a group's traffic between its nodes is that of a ring in rank order: it leaves each
// switch's set of nodes once and enters it once, on a rail fabric in equal parts on the rails that
// the ring is on. An all-to-all sends from each member below a switch what goes to members
// elsewhere. Rails meet above their leaves. Of a uniform fabric no link above a node is shared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/scenario/scenario.hpp"

namespace orrery::sim {

// All links above one switch of a level, of one rail's leaf there, in one direction.
struct FabricLink {
    std::int32_t level = 0;
    std::int64_t unit = 0;  // the switch: node ÷ nodes of the level
    std::int64_t rail = 0;  // 0 but for leaves of a rail fabric
    bool up = true;

    auto operator<=>(const FabricLink&) const = default;
};

// "leaf 3 up", "leaf 3 rail 2 down", "level 1 switch 0 up".
std::string name_of(const FabricLink& link, const plan::Cluster& cluster);

// What passes a link: unit flows, each of the rate that NetworkUse has for the op, and their load
// in such rates.
struct LinkLoad {
    FabricLink link;
    std::int32_t flows = 0;
    double load = 0;
};

enum class Pattern : std::uint8_t { ring, all_to_all };

// Appends what a group puts on links; nothing where all its members are below one leaf.
void add_loads(const std::vector<std::int64_t>& member_devices, Pattern pattern,
               const plan::Cluster& cluster, std::vector<LinkLoad>& loads);

// The same of a message between two devices.
void add_loads(std::int64_t from_device, std::int64_t to_device, const plan::Cluster& cluster,
               std::vector<LinkLoad>& loads);

// Loads on the same link as one, in order of links.
std::vector<LinkLoad> merged(std::vector<LinkLoad> loads);

}  // namespace orrery::sim
