#include "sim/network/fabric_links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/network/group_members.hpp"
#include "sim/network/group_shape.hpp"

namespace orrery::sim {
namespace {

void add_both_ways(FabricLink link, std::int32_t flows, double load, std::vector<LinkLoad>& loads) {
    for (const bool up : {true, false}) {
        link.up = up;
        loads.push_back({link, flows, load});
    }
}

void add_ring(const NodeMembers& members, const RailUse& rails, const plan::Cluster& cluster,
              std::vector<LinkLoad>& loads) {
    const auto& levels = cluster.inter_node.fabric.levels;
    for (std::size_t level = 0; level < levels.size(); ++level) {
        std::vector<std::int64_t> units;
        for (const auto& [node, positions] : members)
            if (units.empty() || units.back() != node / levels[level].nodes)
                units.push_back(node / levels[level].nodes);
        if (units.size() == 1 && !(level == 0 && climbs(rails.crosses, cluster))) continue;
        const Rails on = level == 0 ? rails.rails : Rails{0};
        for (const std::int64_t unit : units)
            for (const std::int64_t rail : on)
                add_both_ways({static_cast<std::int32_t>(level), unit, rail}, 1,
                              1.0 / static_cast<double>(on.size()), loads);
    }
}

// A unit flow is a member's, at the rate of what leaves its node.
void add_all_to_all(const NodeMembers& members, const plan::Cluster& cluster,
                    std::vector<LinkLoad>& loads) {
    std::int64_t all = 0, in_node = 0;
    for (const auto& [node, positions] : members) {
        const auto count = static_cast<std::int64_t>(positions.size());
        all += count;
        in_node = std::max(in_node, count);
    }
    const auto& levels = cluster.inter_node.fabric.levels;
    for (std::size_t level = 0; level < levels.size(); ++level) {
        std::map<std::int64_t, std::map<std::int64_t, std::int64_t>> inside;  // by switch, rail
        std::map<std::int64_t, std::int64_t> below;
        for (const auto& [node, positions] : members)
            for (const int position : positions) {
                const std::int64_t unit = node / levels[level].nodes;
                const std::int64_t rail =
                    level == 0 && on_rails(cluster) ? rail_of(position, cluster) : 0;
                ++inside[unit][rail];
                ++below[unit];
            }
        if (below.size() == 1) continue;
        for (const auto& [unit, rails] : inside)
            for (const auto& [rail, count] : rails)
                add_both_ways({static_cast<std::int32_t>(level), unit, rail},
                              static_cast<std::int32_t>(count),
                              static_cast<double>(count * (all - below[unit])) /
                                  static_cast<double>(all - in_node),
                              loads);
    }
}

}  // namespace

std::string name_of(const FabricLink& link, const plan::Cluster& cluster) {
    const std::string way = link.up ? "up" : "down";
    if (link.level > 0) return fmt::format("level {} switch {} {}", link.level, link.unit, way);
    if (on_rails(cluster)) return fmt::format("leaf {} rail {} {}", link.unit, link.rail, way);
    return fmt::format("leaf {} {}", link.unit, way);
}

void add_loads(const std::vector<std::int64_t>& member_devices, Pattern pattern,
               const plan::Cluster& cluster, std::vector<LinkLoad>& loads) {
    const NodeMembers members = members_by_node(member_devices, cluster.devices_per_node);
    if (members.size() == 1) return;
    if (pattern == Pattern::all_to_all) return add_all_to_all(members, cluster, loads);
    const RailUse fat_tree{{0}, false};
    add_ring(members, on_rails(cluster) ? rails_of_group(members, cluster) : fat_tree, cluster,
             loads);
}

void add_loads(std::int64_t from_device, std::int64_t to_device, const plan::Cluster& cluster,
               std::vector<LinkLoad>& loads) {
    const Hop hop = hop_between(from_device, to_device, cluster);
    const plan::Fabric& fabric = cluster.inter_node.fabric;
    const std::int64_t from = from_device / cluster.devices_per_node;
    const std::int64_t to = to_device / cluster.devices_per_node;
    for (std::size_t level = 0; level < static_cast<std::size_t>(hop.levels); ++level) {
        std::int64_t leaves_on = 0, enters_on = 0;
        if (level == 0 && on_rails(cluster)) {
            enters_on = rail_of(to_device, cluster);
            // With NVLink it goes to the other's rail before it leaves the node.
            leaves_on = fabric.cross_rail == plan::CrossRail::nvlink
                            ? enters_on
                            : rail_of(from_device, cluster);
        }
        const auto at = static_cast<std::int32_t>(level);
        loads.push_back({{at, from / fabric.levels[level].nodes, leaves_on, true}, 1, 1});
        loads.push_back({{at, to / fabric.levels[level].nodes, enters_on, false}, 1, 1});
    }
}

std::vector<LinkLoad> merged(std::vector<LinkLoad> loads) {
    std::stable_sort(loads.begin(), loads.end(),
                     [](const LinkLoad& a, const LinkLoad& b) { return a.link < b.link; });
    std::vector<LinkLoad> all;
    for (const LinkLoad& load : loads) {
        if (all.empty() || all.back().link != load.link) all.push_back({load.link, 0, 0});
        all.back().flows += load.flows;
        all.back().load += load.load;
    }
    return all;
}

}  // namespace orrery::sim
