#include "sim/network/group_shape.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "plan/check.hpp"
#include "sim/network/group_members.hpp"

namespace orrery::sim {

NodeMembers members_by_node(const std::vector<std::int64_t>& member_devices,
                            std::int64_t devices_per_node) {
    ORRERY_CHECK(!member_devices.empty() && devices_per_node > 0, "a group without members");
    std::vector<std::int64_t> sorted;
    const std::vector<std::int64_t>* devices = &member_devices;
    if (!std::is_sorted(devices->begin(), devices->end())) {
        sorted = member_devices;
        std::sort(sorted.begin(), sorted.end());
        devices = &sorted;
    }
    NodeMembers members;
    members.positions.reserve(devices->size());
    const std::int64_t spanned =
        devices->back() / devices_per_node - devices->front() / devices_per_node + 1;
    members.nodes.reserve(static_cast<std::size_t>(std::min(spanned, std::ssize(*devices))));
    for (const std::int64_t device : *devices)
        members.positions.push_back(static_cast<int>(device % devices_per_node));
    for (std::size_t first = 0, past = 0; first < devices->size(); first = past) {
        const std::int64_t node = (*devices)[first] / devices_per_node;
        while (past < devices->size() && (*devices)[past] / devices_per_node == node)
            ++past;
        members.nodes.emplace_back(node, Positions(members.positions).subspan(first, past - first));
    }
    return members;
}

namespace {

GroupShape shape_from(const NodeMembers& members, int siblings_per_node) {
    GroupShape shape;
    shape.ranks = 0;
    shape.nodes = static_cast<int>(members.size());
    for (const auto& [node, positions] : members) {
        const int count = static_cast<int>(positions.size());
        shape.ranks += count;
        shape.ranks_per_node = std::max(shape.ranks_per_node, count);
    }
    shape.siblings_per_node = siblings_per_node;
    return shape;
}

NodeKinds kinds_of(const NodeMembers& members, const plan::Cluster& cluster) {
    if (cluster.other_nodes.empty()) return kOwnNodes;
    NodeKinds kinds = 0;
    for (const auto& [node, positions] : members)
        kinds |= kOwnNodes << cluster.kind_of_device(node * cluster.devices_per_node);
    return kinds;
}

// --- slow links

struct LinkFactors {
    double inside = 1, network = 1;

    void take(const plan::SlowLink& slow) {
        (slow.link == plan::LinkOf::intra_node ? inside : network) *= slow.factor;
    }
};

// Whether the link is a device's: an adapter is that of all devices on its rail.
bool is_of(const plan::SlowLink& slow, std::int64_t device, const plan::Cluster& cluster) {
    const std::int64_t node = device / cluster.devices_per_node;
    if (slow.device < 0) return slow.node == node;
    if (slow.device == device) return true;
    return slow.link == plan::LinkOf::inter_node &&
           slow.device / cluster.devices_per_node == node &&
           rail_of(slow.device, cluster) == rail_of(device, cluster);
}

using FactorsByDevice = std::map<std::int64_t, LinkFactors>;

FactorsByDevice link_factors(const plan::Cluster& cluster) {
    FactorsByDevice factors;
    const std::int64_t per_node = cluster.devices_per_node;
    for (const plan::SlowLink& slow : cluster.slow_links) {
        const std::int64_t node = slow.device < 0 ? slow.node : slow.device / per_node;
        for (std::int64_t device = node * per_node; device < (node + 1) * per_node; ++device)
            if (is_of(slow, device, cluster)) factors[device].take(slow);
    }
    return factors;
}

// Of a member: its links in the node, where others of its group are there, and to other nodes.
void add_slow(const LinkFactors& factors, std::size_t kind, bool within, bool leaves,
              std::vector<SlowLinks>& slow) {
    const double inside = within ? factors.inside : 1;
    const double network = leaves ? factors.network : 1;
    if (inside == 1 && network == 1) return;
    auto place = std::lower_bound(slow.begin(), slow.end(), kind,
                                  [](const SlowLinks& one, std::size_t k) { return one.kind < k; });
    if (place == slow.end() || place->kind != kind) place = slow.insert(place, {kind, 1, 1});
    place->inside = std::max(place->inside, inside);
    place->network = std::max(place->network, network);
}

void add_slow(const NodeMembers& members, const FactorsByDevice& factors,
              const plan::Cluster& cluster, std::vector<SlowLinks>& slow) {
    for (const auto& [node, positions] : members)
        for (const int position : positions) {
            const std::int64_t device = node * cluster.devices_per_node + position;
            const auto found = factors.find(device);
            if (found == factors.end()) continue;
            add_slow(found->second, cluster.kind_of_device(device), positions.size() > 1,
                     members.size() > 1, slow);
        }
}

// --- hybrid cube mesh

// The node that has fewest lanes for its members sets the pace; distances are the worst of all.
MeshPlace mesh_place_of(const NodeMembers& members) {
    MeshPlace worst;
    bool first = true;
    for (const auto& [node, positions] : members) {
        if (positions.size() < 2) continue;
        MeshPlace place = mesh_place({positions.begin(), positions.end()});
        if (!first) {
            place.rings = std::min(place.rings, worst.rings);
            place.chains = std::min(place.chains, worst.chains);
            place.pair_links = std::min(place.pair_links, worst.pair_links);
            place.next_links = std::min(place.next_links, worst.next_links);
            place.far_pairs = std::max(place.far_pairs, worst.far_pairs);
            place.far_nexts = std::max(place.far_nexts, worst.far_nexts);
        }
        worst = place;
        first = false;
    }
    return worst;
}

void place_in_meshes(const std::vector<NodeMembers>& members, std::vector<GroupShape>& shapes) {
    std::map<std::int64_t, int> over_hosts;  // groups, by node
    for (std::size_t g = 0; g < members.size(); ++g) {
        shapes[g].mesh = mesh_place_of(members[g]);
        if (shapes[g].mesh.far_pairs == 0) continue;
        for (const auto& [node, positions] : members[g])
            ++over_hosts[node];
    }
    for (std::size_t g = 0; g < members.size(); ++g)
        for (const auto& [node, positions] : members[g])
            shapes[g].mesh.sharers = std::max(shapes[g].mesh.sharers,
                                              shapes[g].mesh.far_pairs == 0 ? 1 : over_hosts[node]);
}

// --- torus

void place_in_tori(const std::vector<std::vector<std::int64_t>>& groups,
                   const plan::Cluster& cluster, std::vector<GroupShape>& shapes) {
    using GroupOf = std::vector<std::size_t>;  // by place in `positions`
    struct OfNode {
        GroupOf group;
        std::vector<std::vector<int>> positions;
    };
    std::map<std::int64_t, OfNode> nodes;
    for (std::size_t g = 0; g < groups.size(); ++g) {
        std::map<std::int64_t, std::vector<int>> by_node;
        for (const std::int64_t device : groups[g])
            by_node[device / cluster.devices_per_node].push_back(
                static_cast<int>(device % cluster.devices_per_node));
        for (auto& [node, positions] : by_node) {
            nodes[node].group.push_back(g);
            nodes[node].positions.push_back(std::move(positions));
        }
    }
    std::vector<bool> placed(groups.size());
    for (const auto& [node, of_node] : nodes) {
        const std::vector<TorusPlace> places =
            torus_places(of_node.positions, cluster.intra_node.axes);
        for (std::size_t i = 0; i < places.size(); ++i) {
            const std::size_t g = of_node.group[i];
            shapes[g].torus = placed[g] ? slower(shapes[g].torus, places[i]) : places[i];
            placed[g] = true;
        }
    }
}

// --- fabrics

Rails rails_of_members(Positions positions, const plan::Cluster& cluster) {
    Rails rails;
    for (const int position : positions) {
        const std::int64_t rail = rail_of(position, cluster);
        if (rails.empty() || rails.back() != rail) rails.push_back(rail);
    }
    return rails;
}

}  // namespace

RailUse rails_of_group(const NodeMembers& members, const plan::Cluster& cluster) {
    RailUse use;
    std::set<std::int64_t> all;
    std::size_t fewest = 0;
    Rails before = rails_of_members(members.nodes.back().second, cluster);
    Rails common;
    bool first = true;
    for (const auto& [node, positions] : members) {
        const Rails own = rails_of_members(positions, cluster);
        Rails shared;
        std::set_intersection(before.begin(), before.end(), own.begin(), own.end(),
                              std::back_inserter(shared));
        use.crosses = use.crosses || shared.empty();
        fewest = first ? own.size() : std::min(fewest, own.size());
        all.insert(own.begin(), own.end());
        if (first || shared.size() < common.size()) common = shared;
        before = own;
        first = false;
    }
    use.rails = use.crosses ? Rails(all.begin(), all.end()) : common;
    return use;
}

bool on_rails(const plan::Cluster& cluster) {
    return cluster.inter_node.fabric.kind == plan::FabricKind::rail;
}

bool climbs(bool crosses_rails, const plan::Cluster& cluster) {
    return crosses_rails && cluster.inter_node.fabric.cross_rail == plan::CrossRail::spine;
}

namespace {

void place_on_level(std::size_t level, const std::vector<NodeMembers>& members,
                    const std::vector<RailUse>& rails, const plan::Cluster& cluster,
                    std::vector<GroupShape>& shapes) {
    const std::int64_t nodes = cluster.inter_node.fabric.levels[level].nodes;
    std::vector<std::map<std::int64_t, int>> inside(members.size());  // members, by switch
    std::map<std::pair<std::int64_t, std::int64_t>, int> groups;      // by switch and rail
    std::map<std::int64_t, int> senders;                              // by switch
    // Rails meet above their leaves.
    const auto joined = [&](const Rails& of_group) { return level == 0 ? of_group : Rails{0}; };
    const auto leaves = [&](std::size_t g) {
        return inside[g].size() > 1 ||
               (members[g].size() > 1 && level == 0 && climbs(shapes[g].crosses_rails, cluster));
    };
    for (std::size_t g = 0; g < members.size(); ++g) {
        for (const auto& [node, positions] : members[g])
            inside[g][node / nodes] += static_cast<int>(positions.size());
        if (!leaves(g)) continue;
        for (const auto& [unit, count] : inside[g]) {
            senders[unit] += count;
            for (const std::int64_t rail : joined(rails[g].rails))
                ++groups[{unit, rail}];
        }
    }
    for (std::size_t g = 0; g < members.size(); ++g) {
        if (!leaves(g)) continue;
        LevelUse& use = shapes[g].fabric[level];
        for (const auto& [unit, count] : inside[g]) {
            use.inside = std::max(use.inside, count);
            use.senders = std::max(use.senders, senders[unit]);
            for (const std::int64_t rail : joined(rails[g].rails))
                use.groups = std::max(use.groups, groups[{unit, rail}]);
        }
        const bool all = level == 0 && climbs(shapes[g].crosses_rails, cluster);
        use.climbs = static_cast<int>(all ? members[g].size() : inside[g].size());
    }
}

void place_on_fabric(const std::vector<NodeMembers>& members, const plan::Cluster& cluster,
                     std::vector<GroupShape>& shapes) {
    std::vector<RailUse> rails(members.size(), RailUse{{0}, false});  // a fat tree is one
    for (std::size_t g = 0; on_rails(cluster) && g < members.size(); ++g) {
        if (members[g].size() == 1) continue;
        rails[g] = rails_of_group(members[g], cluster);
        shapes[g].rails = static_cast<int>(rails[g].rails.size());
        shapes[g].crosses_rails = rails[g].crosses;
    }
    for (std::size_t level = 0; level < cluster.inter_node.fabric.levels.size(); ++level)
        place_on_level(level, members, rails, cluster, shapes);
}

}  // namespace

std::int64_t rails_of(const plan::Cluster& cluster) {
    return std::clamp<std::int64_t>(cluster.inter_node.nics_per_node, 1, cluster.devices_per_node);
}

std::int64_t rail_of(std::int64_t device, const plan::Cluster& cluster) {
    return device % cluster.devices_per_node * rails_of(cluster) / cluster.devices_per_node;
}

namespace {
void append_slow(const std::vector<SlowLinks>& slow, std::vector<std::int64_t>& key) {
    key.push_back(static_cast<std::int64_t>(slow.size()));
    for (const SlowLinks& links : slow)
        key.insert(key.end(), {static_cast<std::int64_t>(links.kind),
                               std::bit_cast<std::int64_t>(links.inside),
                               std::bit_cast<std::int64_t>(links.network)});
}
}  // namespace

void append_key(const GroupShape& shape, std::vector<std::int64_t>& key) {
    const MeshPlace& mesh = shape.mesh;
    key.insert(key.end(), {shape.kinds, shape.ranks, shape.nodes, shape.ranks_per_node,
                           shape.siblings_per_node, shape.rails, shape.crosses_rails ? 1 : 0,
                           mesh.rings, mesh.chains, mesh.pair_links, mesh.far_pairs,
                           mesh.next_links, mesh.far_nexts, mesh.sharers});
    const TorusPlace& torus = shape.torus;
    for (const AxisUse& use : torus.axes)
        key.insert(key.end(), {use.members, use.links, use.sharers, use.ring ? 1 : 0});
    key.insert(key.end(),
               {torus.box ? 1 : 0, torus.next_links, torus.next_flows, torus.round_flows});
    for (const LevelUse& use : shape.fabric)
        key.insert(key.end(), {use.groups, use.senders, use.inside, use.climbs});
    append_slow(shape.slow, key);
}

void append_key(const Hop& hop, std::vector<std::int64_t>& key) {
    key.insert(key.end(), {hop.kinds, hop.same_node ? 1 : 0, hop.flows, hop.links, hop.torus.links,
                           hop.torus.flows, hop.levels, hop.crosses_rails ? 1 : 0});
    append_slow(hop.slow, key);
}

GroupShape shape_of(const std::vector<std::int64_t>& member_devices, std::int64_t devices_per_node,
                    int siblings_per_node) {
    ORRERY_CHECK(siblings_per_node >= 1, "a group is its own sibling");
    return shape_from(members_by_node(member_devices, devices_per_node), siblings_per_node);
}

std::vector<GroupShape> shapes_of(const std::vector<std::vector<std::int64_t>>& groups,
                                  const plan::Cluster& cluster, const FabricNodes* places) {
    std::vector<NodeMembers> members;
    std::vector<int> users;  // groups that leave a node, by node
    for (const auto& group : groups) {
        members.push_back(members_by_node(group, cluster.devices_per_node));
        if (members.back().size() == 1) continue;
        const std::int64_t last = members.back().nodes.back().first;
        if (last >= std::ssize(users)) users.resize(static_cast<std::size_t>(last) + 1);
        for (const auto& [node, positions] : members.back())
            ++users[static_cast<std::size_t>(node)];
    }
    const FactorsByDevice factors = link_factors(cluster);
    std::vector<GroupShape> shapes;
    for (const auto& own : members) {
        int siblings = 1;
        if (own.size() > 1)
            for (const auto& [node, positions] : own)
                siblings = std::max(siblings, users[static_cast<std::size_t>(node)]);
        shapes.push_back(shape_from(own, siblings));
        shapes.back().kinds = kinds_of(own, cluster);
        if (!factors.empty()) add_slow(own, factors, cluster, shapes.back().slow);
    }
    if (cluster.intra_node.kind == plan::IntraNodeKind::hybrid_cube_mesh)
        place_in_meshes(members, shapes);
    if (cluster.intra_node.kind == plan::IntraNodeKind::torus)
        place_in_tori(groups, cluster, shapes);
    if (!cluster.inter_node.fabric.levels.empty()) {
        if (places != nullptr)
            for (NodeMembers& own : members)
                for (auto& [node, positions] : own.nodes)
                    node = (*places)[static_cast<std::size_t>(node)];
        place_on_fabric(members, cluster, shapes);
    }
    return shapes;
}

Hop hop_between(std::int64_t from_device, std::int64_t to_device, const plan::Cluster& cluster,
                const FabricNodes* places) {
    const std::int64_t own = from_device / cluster.devices_per_node;
    const std::int64_t other = to_device / cluster.devices_per_node;
    Hop hop;
    hop.same_node = own == other;
    hop.kinds = kOwnNodes << cluster.kind_of_device(from_device) |
                kOwnNodes << cluster.kind_of_device(to_device);
    for (const std::int64_t device : {from_device, to_device}) {
        LinkFactors factors;
        for (const plan::SlowLink& slow : cluster.slow_links)
            if (is_of(slow, device, cluster)) factors.take(slow);
        add_slow(factors, cluster.kind_of_device(device), hop.same_node, !hop.same_node, hop.slow);
    }
    if (hop.same_node) {
        const int start = static_cast<int>(from_device % cluster.devices_per_node);
        const int goal = static_cast<int>(to_device % cluster.devices_per_node);
        if (cluster.intra_node.kind == plan::IntraNodeKind::hybrid_cube_mesh)
            hop.links = cube_mesh_links(start, goal);
        if (cluster.intra_node.kind == plan::IntraNodeKind::torus)
            hop.torus = torus_hop(start, goal, cluster.intra_node.axes);
        return hop;
    }
    const auto on_fabric_at = [&](std::int64_t node) {
        return places == nullptr ? node : (*places)[static_cast<std::size_t>(node)];
    };
    for (const plan::FabricLevel& level : cluster.inter_node.fabric.levels)
        if (on_fabric_at(own) / level.nodes != on_fabric_at(other) / level.nodes) ++hop.levels;
    if (!on_rails(cluster)) return hop;
    hop.crosses_rails = rail_of(from_device, cluster) != rail_of(to_device, cluster);
    if (climbs(hop.crosses_rails, cluster)) hop.levels = std::max(hop.levels, 1);
    return hop;
}

}  // namespace orrery::sim
