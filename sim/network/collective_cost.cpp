#include "sim/network/collective_cost.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "plan/ir/check.hpp"
#include "sim/cost/log2.hpp"

namespace orrery::sim {

namespace {

std::map<std::int64_t, int> members_by_node(const std::vector<std::int64_t>& member_devices,
                                            std::int64_t devices_per_node) {
    ORRERY_CHECK(!member_devices.empty() && devices_per_node > 0, "a group without members");
    std::map<std::int64_t, int> members;
    for (std::int64_t device : member_devices)
        ++members[device / devices_per_node];
    return members;
}

GroupShape shape_from(const std::map<std::int64_t, int>& members, int siblings_per_node) {
    GroupShape shape;
    shape.ranks = 0;
    shape.nodes = static_cast<int>(members.size());
    for (const auto& [node, count] : members) {
        shape.ranks += count;
        shape.ranks_per_node = std::max(shape.ranks_per_node, count);
    }
    shape.siblings_per_node = siblings_per_node;
    return shape;
}

}  // namespace

GroupShape shape_of(const std::vector<std::int64_t>& member_devices, std::int64_t devices_per_node,
                    int siblings_per_node) {
    ORRERY_CHECK(siblings_per_node >= 1, "a group is its own sibling");
    return shape_from(members_by_node(member_devices, devices_per_node), siblings_per_node);
}

std::vector<GroupShape> shapes_of(const std::vector<std::vector<std::int64_t>>& groups,
                                  std::int64_t devices_per_node) {
    std::vector<std::map<std::int64_t, int>> members;
    std::map<std::int64_t, int> users;  // groups that leave a node, by node
    for (const auto& group : groups) {
        members.push_back(members_by_node(group, devices_per_node));
        if (members.back().size() == 1) continue;
        for (const auto& [node, count] : members.back())
            ++users[node];
    }
    std::vector<GroupShape> shapes;
    for (const auto& own : members) {
        int siblings = 1;
        if (own.size() > 1)
            for (const auto& [node, count] : own)
                siblings = std::max(siblings, users[node]);
        shapes.push_back(shape_from(own, siblings));
    }
    return shapes;
}

Network::Network(const plan::Cluster& cluster, CollectiveTable table)
    : cluster_(cluster), table_(std::move(table)), topology_(cluster_) {}

GroupLinks Network::links(const GroupShape& shape) const {
    ORRERY_CHECK(shape.ranks >= 1 && shape.nodes >= 1 && shape.nodes <= cluster_.nodes &&
                     shape.ranks_per_node >= 1 && shape.ranks >= shape.nodes &&
                     shape.ranks <= static_cast<std::int64_t>(shape.nodes) * shape.ranks_per_node &&
                     shape.siblings_per_node >= 1,
                 "a group that does not fit its cluster");
    GroupLinks links;
    links.ranks = shape.ranks;
    links.nodes = shape.nodes;
    links.ranks_per_node = shape.ranks_per_node;
    links.kind = cluster_.intra_node.kind;
    links.intra_GBps = cluster_.intra_node.bandwidth_GBps * table_.intra_node.efficiency *
                       pair_share(cluster_, shape.ranks_per_node);
    links.intra_latency_us = cluster_.intra_node.latency_us;
    if (shape.nodes > 1) {
        const double share = topology_.node_network_GBps() / shape.siblings_per_node;
        const double reach = topology_.device_network_GBps() * shape.ranks_per_node;
        links.network_GBps = std::min(share, reach) * table_.inter_node.efficiency;
        links.network_latency_us = cluster_.inter_node.latency_us;
    }
    return links;
}

Price Network::on_curve(const CollectiveCurve& curve, double bytes) const {
    Price price{interpolate(curve.points, bytes), CostFamily::intra_node_collective,
                curve.relative_sd};
    const double latency = curve.points.front().seconds;
    const double scale = table_.measured_bandwidth_GBps / cluster_.intra_node.bandwidth_GBps;
    if (scale != 1) price.seconds = latency + (price.seconds - latency) * scale;
    // As in kernel prices: half more per octave beyond what was measured.
    const double last = curve.points.back().bytes;
    if (bytes > last) price.relative_sd *= 1 + 0.5 * log2_of(bytes / last);
    return price;
}

Price Network::within_node(plan::OpKind kind, double bytes, const GroupShape& shape) const {
    if (const CollectiveCurve* curve = table_.find(kind, shape.ranks))
        return on_curve(*curve, bytes);
    const CollectiveCurve* fewer = nullptr;
    const CollectiveCurve* more = nullptr;
    for (const CollectiveCurve& curve : table_.curves) {
        if (curve.collective != kind) continue;
        if (curve.ranks < shape.ranks && (!fewer || curve.ranks > fewer->ranks)) fewer = &curve;
        if (curve.ranks > shape.ranks && (!more || curve.ranks < more->ranks)) more = &curve;
    }
    if (!fewer || !more)
        return {ring_seconds(kind, bytes, links(shape), table_.ring),
                CostFamily::intra_node_collective, table_.intra_node.relative_sd};
    // Bus bandwidth = bytes sent per rank ÷ time; per byte of S, so that no bytes divide safely.
    const Price low = on_curve(*fewer, bytes);
    const Price high = on_curve(*more, bytes);
    const double share =
        static_cast<double>(shape.ranks - fewer->ranks) / (more->ranks - fewer->ranks);
    const double bus = (1 - share) * bytes_sent_per_rank(kind, 1, fewer->ranks) / low.seconds +
                       share * bytes_sent_per_rank(kind, 1, more->ranks) / high.seconds;
    return {bytes_sent_per_rank(kind, 1, shape.ranks) / bus, CostFamily::intra_node_collective,
            2 * std::max(low.relative_sd, high.relative_sd)};
}

Price Network::between_nodes(plan::OpKind kind, double bytes, const GroupShape& shape) const {
    const GroupLinks all = links(shape);
    double seconds = ring_seconds(kind, bytes, all, table_.ring);
    if (kind == plan::OpKind::all_reduce && !table_.tree.empty()) {
        seconds = std::min(seconds, tree_seconds(bytes, all, table_.tree));
        if (table_.hierarchical && shape.ranks_per_node > 1) {
            GroupShape local{shape.ranks_per_node, 1, shape.ranks_per_node, 1};
            GroupLinks outer = all;
            outer.ranks = shape.nodes;
            outer.ranks_per_node = 1;
            const auto between = [&](double size) {
                return std::min(ring_seconds(kind, size, outer, table_.ring),
                                tree_seconds(size, outer, table_.tree));
            };
            seconds =
                std::min(seconds, hierarchical_seconds({within_node(kind, bytes, local).seconds,
                                                        within_node(kind, 0, local).seconds},
                                                       {between(bytes), between(0)}));
        }
    }
    return {seconds, CostFamily::inter_node_collective, table_.inter_node.relative_sd};
}

// Every pair of members has a message of S/N. Those within a node travel at the rate of a gathering
// there, in which a rank sends as much; those between nodes at the same time, as one message each
// rank, all of a node's over its share of the network.
Price Network::all_to_all(double bytes, const GroupShape& shape) const {
    const double message = bytes / shape.ranks;
    const int near = shape.ranks_per_node, far = shape.ranks - near;
    Price inside;
    if (near > 1)
        inside = within_node(plan::OpKind::all_gather, message * near, {near, 1, near, 1});
    if (far == 0) return inside;
    const Price between = between_nodes(plan::OpKind::all_gather, 2 * message * far,
                                        {2, 2, 1, shape.siblings_per_node * near});
    return inside.seconds > between.seconds ? inside : between;
}

// The slowest of its messages: of a ring over several nodes one of each node leaves it.
Price Network::shift(double bytes, const GroupShape& shape) const {
    const auto size = static_cast<std::int64_t>(bytes);
    Price slowest;
    if (shape.ranks_per_node > 1) slowest = point_to_point(size, true, 1);
    if (shape.nodes == 1) return slowest;
    const Price between = point_to_point(size, false, shape.siblings_per_node);
    return between.seconds > slowest.seconds ? between : slowest;
}

Price Network::collective(plan::OpKind kind, std::int64_t message_bytes,
                          const GroupShape& shape) const {
    ORRERY_CHECK(kind == plan::OpKind::all_reduce || kind == plan::OpKind::all_gather ||
                     kind == plan::OpKind::reduce_scatter || kind == plan::OpKind::all_to_all ||
                     kind == plan::OpKind::shift,
                 "not a collective");
    ORRERY_CHECK(message_bytes >= 0, "a message of negative size");
    if (shape.ranks == 1) return {0, CostFamily::intra_node_collective, 0};
    const auto bytes = static_cast<double>(message_bytes);
    if (kind == plan::OpKind::all_to_all) return all_to_all(bytes, shape);
    if (kind == plan::OpKind::shift) return shift(bytes, shape);
    return shape.nodes == 1 ? within_node(kind, bytes, shape) : between_nodes(kind, bytes, shape);
}

Price Network::point_to_point(std::int64_t bytes, bool same_node, int flows) const {
    GroupShape pair;
    pair.ranks = 2;
    pair.nodes = same_node ? 1 : 2;
    pair.ranks_per_node = same_node ? 2 : 1;
    pair.siblings_per_node = same_node ? 1 : flows;
    Price price = collective(plan::OpKind::all_gather, 2 * bytes, pair);
    price.family = CostFamily::point_to_point;
    return price;
}

}  // namespace orrery::sim
