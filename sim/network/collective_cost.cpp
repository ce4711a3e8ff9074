#include "sim/network/collective_cost.hpp"

#include <algorithm>
#include <utility>

#include "plan/check.hpp"
#include "sim/cost/log2.hpp"
#include "sim/network/network_kinds.hpp"

namespace orrery::sim {

namespace {

double network_efficiency(const plan::Cluster& cluster, const CollectiveTable& table) {
    const plan::InterNodeKind kind = cluster.inter_node.kind;
    if (kind == plan::InterNodeKind::none) return 0;
    const plan::InterNodeKind found = table.inter_node_kind.value_or(kind);
    if (kind == found) return table.inter_node.efficiency;
    return table.inter_node.efficiency * (network_share(kind).share / network_share(found).share);
}

// Of another kind of network than the profile's nobody knows more than what its clusters spread by.
double network_deviation(const plan::Cluster& cluster, const CollectiveTable& table) {
    const plan::InterNodeKind kind = cluster.inter_node.kind;
    const double found = table.inter_node.relative_sd;
    if (kind == plan::InterNodeKind::none || kind == table.inter_node_kind.value_or(kind))
        return found;
    return std::max(found, network_share(kind).relative_sd);
}

bool is_torus(const plan::Cluster& cluster) {
    return cluster.intra_node.kind == plan::IntraNodeKind::torus;
}

// Whether what a group finds in a node depends on nothing but how many of it are there.
bool devices_are_alike(const plan::Cluster& cluster) {
    return cluster.intra_node.kind != plan::IntraNodeKind::hybrid_cube_mesh && !is_torus(cluster);
}

}  // namespace

Network::Network(const plan::Cluster& cluster, CollectiveTable table)
    : cluster_(cluster),
      table_(std::move(table)),
      topology_(cluster_),
      network_efficiency_(network_efficiency(cluster_, table_)),
      network_deviation_(network_deviation(cluster_, table_)) {}

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
    links.intra_GBps =
        cluster_.intra_node.kind == plan::IntraNodeKind::hybrid_cube_mesh
            ? mesh_GBps(shape.mesh, shape.nodes == 1)
            : cluster_.intra_node.bandwidth_GBps * pair_share(cluster_, shape.ranks_per_node);
    if (is_torus(cluster_))
        links.intra_GBps *= torus_lanes(shape.torus) / torus_links(cluster_.intra_node.axes);
    links.intra_GBps *= table_.intra_node.efficiency;
    links.intra_latency_us = cluster_.intra_node.latency_us;
    if (shape.nodes > 1) {
        const double share = topology_.node_network_GBps() / shape.siblings_per_node;
        const double reach = topology_.device_network_GBps() * shape.ranks_per_node;
        links.network_GBps = std::min(share, reach);
        links.network_latency_us = cluster_.inter_node.latency_us;
        for (std::size_t level = 0; level < shape.fabric.size(); ++level) {
            const LevelUse& use = shape.fabric[level];
            if (use.groups == 0) continue;
            const int leaves = level == 0 ? shape.rails : 1;  // of one switch of a rail fabric
            links.network_GBps =
                std::min(links.network_GBps, topology_.uplink_GBps(level) * leaves / use.groups);
            // On average over the hops of a ring.
            links.network_latency_us +=
                2 * cluster_.inter_node.fabric.switch_latency_us * use.climbs / shape.nodes;
        }
        links.network_GBps *= network_efficiency_;
        // By NVLink to the device that is on the other's rail.
        if (shape.crosses_rails && cluster_.inter_node.fabric.cross_rail == plan::CrossRail::nvlink)
            links.network_latency_us += cluster_.intra_node.latency_us;
    }
    return links;
}

// Of a collective that goes round the members, within a node or through it.
double Network::mesh_GBps(const MeshPlace& place, bool within) const {
    const int lanes = within ? place.rings : place.chains;
    if (lanes == 0) return cluster_.intra_node.host_GBps / place.sharers;
    return lanes * cluster_.intra_node.bandwidth_GBps / kCubeMeshLinks;
}

// Of members that all send to all others at once, each the same: what leaves a rank when the
// slowest message sets the pace.
double Network::message_GBps(const GroupShape& shape) const {
    const MeshPlace& place = shape.mesh;
    double message = place.pair_links * cluster_.intra_node.bandwidth_GBps / kCubeMeshLinks;
    if (place.far_pairs > 0) {
        const double far = cluster_.intra_node.host_GBps / (place.far_pairs * place.sharers);
        message = place.pair_links == 0 ? far : std::min(message, far);
    }
    return (shape.ranks_per_node - 1) * message * table_.intra_node.efficiency;
}

// The curve's latency on this cluster's link: moved by what separates a ring's on the two.
double Network::moved_start(const CollectiveCurve& curve) const {
    const double start = curve.points.front().seconds;
    if (!table_.measured_link) return start;
    const auto latency = [&](plan::IntraNodeKind kind, double latency_us) {
        GroupLinks ring;
        ring.ranks = curve.ranks;
        ring.ranks_per_node = curve.ranks;
        ring.kind = kind;
        ring.intra_GBps = 1;  // which no bytes use
        ring.intra_latency_us = latency_us;
        return ring_seconds(curve.collective, 0, ring, table_.ring);
    };
    return moved(start, latency(table_.measured_link->kind, table_.measured_link->latency_us),
                 latency(cluster_.intra_node.kind, cluster_.intra_node.latency_us));
}

Price Network::on_curve(const CollectiveCurve& curve, double bytes) const {
    Price price{interpolate(curve.points, bytes), CostFamily::intra_node_collective,
                curve.relative_sd};
    const double start = curve.points.front().seconds;
    const bool other_kind =
        table_.measured_link && table_.measured_link->kind != cluster_.intra_node.kind;
    double scale = table_.measured_bandwidth_GBps / cluster_.intra_node.bandwidth_GBps;
    if (other_kind)
        scale *= pair_share(table_.measured_link->kind, cluster_.devices_per_node, curve.ranks) /
                 pair_share(cluster_.intra_node.kind, cluster_.devices_per_node, curve.ranks);
    if (scale != 1) price.seconds = start + (price.seconds - start) * scale;
    price.seconds += moved_start(curve) - start;
    if (other_kind) price.relative_sd *= 2;
    // As in kernel prices: half more per octave beyond what was measured.
    const double last = curve.points.back().bytes;
    if (bytes > last) price.relative_sd *= 1 + 0.5 * log2_of(bytes / last);
    return price;
}

Price Network::within_node(plan::OpKind kind, double bytes, const GroupShape& shape) const {
    // Curves are of one placement, and devices of a mesh are not alike.
    if (is_torus(cluster_)) return within_torus(kind, bytes, shape);
    const bool mesh = cluster_.intra_node.kind == plan::IntraNodeKind::hybrid_cube_mesh;
    if (mesh)
        return {ring_seconds(kind, bytes, links(shape), table_.ring),
                CostFamily::intra_node_collective, table_.intra_node.relative_sd};
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
    GroupLinks all = links(shape);
    double inside = 0;
    if (is_torus(cluster_) && shape.ranks_per_node > 1) {
        inside = within_torus(kind, bytes, shape).seconds;
        all.ranks = shape.nodes;
        all.ranks_per_node = 1;
    }
    double seconds = ring_seconds(kind, bytes, all, table_.ring);
    if (kind == plan::OpKind::all_reduce && !table_.tree.empty()) {
        seconds = std::min(seconds, tree_seconds(bytes, all, table_.tree));
        if (table_.hierarchical && all.ranks_per_node > 1) {
            GroupShape local{shape.ranks_per_node, 1, shape.ranks_per_node, 1};
            local.mesh = shape.mesh;
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
    return {inside + seconds, CostFamily::inter_node_collective, network_deviation_};
}

// A collective's start on such links, beside the latency of each: gatherings over 2 × 2 TPU7x took
// 13 to 15 µs besides what their bytes take, two of them for the links (AI-Hypercomputer/
// accelerator-microbenchmarks, Ironwood/guides/collectives/all_gather.md); one of 32 KiB of each of
// four TPU v5e in a row took 8 µs, three of them (How To Scale Your Model, part 3, pop quiz 2).
constexpr double kTorusStart_us = 8;
// A message's: to the next device 4.5 to 5.5 µs on TPU v5p and 5.6 to 5.9 on v6e, 1 to 16 KiB, a
// link's with it (jax.lax.ppermute; marin-community/marin, issue 6736).
constexpr double kTorusMessageStart_us = 4;

Price Network::torus_price(double start_us, double bytes_of_a_link, int links_passed) const {
    const double link_GBps =
        cluster_.intra_node.bandwidth_GBps / torus_links(cluster_.intra_node.axes);
    return {(start_us + links_passed * cluster_.intra_node.latency_us) * 1e-6 +
                bytes_of_a_link / (link_GBps * table_.intra_node.efficiency * 1e9),
            CostFamily::intra_node_collective, table_.intra_node.relative_sd};
}

Price Network::within_torus(plan::OpKind kind, double bytes, const GroupShape& shape) const {
    const int rounds = kind == plan::OpKind::all_reduce ? 2 : 1;
    return torus_price(
        kTorusStart_us,
        bytes_sent_per_rank(kind, bytes, shape.ranks_per_node) / torus_lanes(shape.torus),
        rounds * torus_steps(shape.torus, shape.ranks_per_node));
}

Price Network::torus_exchange_of(double bytes, const GroupShape& shape) const {
    return torus_price(kTorusStart_us, bytes * torus_exchange(shape.torus),
                       torus_steps(shape.torus, shape.ranks_per_node));
}

Price Network::torus_message(double bytes, const TorusHop& way) const {
    return torus_price(kTorusMessageStart_us, bytes * way.flows, way.links);
}

// Every pair of members has a message of S/N. Those within a node travel at the rate of a gathering
// there, in which a rank sends as much; those between nodes at the same time, as one message each
// rank, all of a node's over its share of the network, and all that leave the nodes below a switch
// over its links.
Price Network::all_to_all(double bytes, const GroupShape& shape) const {
    return all_to_all(bytes / shape.ranks * shape.ranks_per_node, bytes, shape);
}

// Of bytes to those of the node, and to all members.
Price Network::all_to_all(double near_bytes, double bytes, const GroupShape& shape) const {
    const double message = bytes / shape.ranks;
    const int near = shape.ranks_per_node, far = shape.ranks - near;
    Price slowest;
    const auto consider = [&](const Price& price) {
        if (price.seconds > slowest.seconds) slowest = price;
    };
    if (near > 1 && is_torus(cluster_)) {
        consider(torus_exchange_of(near_bytes, shape));
    } else if (near > 1 && cluster_.intra_node.kind == plan::IntraNodeKind::hybrid_cube_mesh) {
        GroupLinks all = links({near, 1, near, 1});
        all.intra_GBps = message_GBps(shape);
        consider({ring_seconds(plan::OpKind::all_gather, near_bytes, all, table_.ring),
                  CostFamily::intra_node_collective, table_.intra_node.relative_sd});
    } else if (near > 1) {
        consider(within_node(plan::OpKind::all_gather, near_bytes, {near, 1, near, 1}));
    }
    if (far == 0) return slowest;
    GroupShape pair{2, 2, 1, shape.siblings_per_node * near};
    pair.crosses_rails = shape.rails > 1 || shape.crosses_rails;  // some of the messages do
    consider(between_nodes(plan::OpKind::all_gather, 2 * message * far, pair));
    for (std::size_t level = 0; level < shape.fabric.size(); ++level) {
        const LevelUse& use = shape.fabric[level];
        if (use.groups == 0) continue;
        GroupShape through = pair;
        through.rails = topology_.rails();
        for (std::size_t below = 0; below <= level; ++below)
            through.fabric[below] = {below == level ? use.senders : 1, 0, 0, 2};
        consider(between_nodes(plan::OpKind::all_gather, 2 * message * (shape.ranks - use.inside),
                               through));
    }
    return slowest;
}

Price Network::rows(std::int64_t message_bytes, const GroupShape& shape, std::int64_t split,
                    bool back) const {
    const Price direct = collective(plan::OpKind::all_to_all, message_bytes, shape);
    const auto parts = static_cast<int>(split);
    if (back || parts == 1 || shape.nodes == 1 || shape.ranks_per_node % parts != 0 ||
        !devices_are_alike(cluster_))
        return direct;
    GroupShape among = shape;
    among.ranks /= parts;
    among.ranks_per_node /= parts;
    among.siblings_per_node *= parts;
    for (LevelUse& use : among.fabric)
        use.inside /= parts;
    const auto bytes = static_cast<double>(message_bytes);
    Price once = all_to_all(bytes / parts, among);
    once.seconds += within_node(plan::OpKind::all_gather, bytes, {parts, 1, parts, 1}).seconds;
    return once.seconds < direct.seconds ? once : direct;
}

// Of line rates, what kernels that send copies reach, by the READMEs of their libraries
// (github.com/deepseek-ai/DeepEP, and its branch hybrid-ep). Within a node DeepEP 0.67 on H800,
// 0.62 and 0.71 on B200, HybridEP 0.49 to 0.53 on B200 and GB200 (8 to 36 ranks); between two nodes
// DeepEP 0.43 on H800, HybridEP 0.57 on H100 (16 ranks); between more DeepEP 0.87 and 0.89 (32 and
// 64 ranks), HybridEP 0.70 to 0.82. Their tables count what a rank sends to itself, and its node;
// here that is taken off.
constexpr double kCopiesWithin = 0.57, kCopiesBetweenTwo = 0.5, kCopiesBetween = 0.8,
                 kCopiesDeviation = 0.15;

Price Network::copies(double rank_bytes, double node_bytes, const GroupShape& shape) const {
    if (shape.ranks == 1) return {};
    const int near = shape.ranks_per_node;
    if (!devices_are_alike(cluster_)) return all_to_all(rank_bytes, node_bytes, shape);
    Price price{0, CostFamily::intra_node_collective, kCopiesDeviation};
    if (near > 1)
        price.seconds = within_node(plan::OpKind::all_gather, 0, {near, 1, near, 1}).seconds +
                        bytes_sent_per_rank(plan::OpKind::all_gather, rank_bytes, near) /
                            (kCopiesWithin * cluster_.intra_node.bandwidth_GBps * 1e9);
    if (shape.nodes == 1) return price;
    const double of_line = shape.nodes == 2 ? kCopiesBetweenTwo : kCopiesBetween;
    const Price between = all_to_all(0, node_bytes * network_efficiency_ / of_line, shape);
    if (between.seconds <= price.seconds) return price;
    return {between.seconds, CostFamily::inter_node_collective, kCopiesDeviation};
}

// The slowest of its messages: of a ring over several nodes one of each node leaves it.
Price Network::shift(double bytes, const GroupShape& shape) const {
    const auto size = static_cast<std::int64_t>(bytes);
    Price slowest;
    const auto consider = [&](const Price& price) {
        if (price.seconds > slowest.seconds) slowest = price;
    };
    const MeshPlace& mesh = shape.mesh;
    if (is_torus(cluster_) && shape.ranks_per_node > 1)
        consider(torus_message(bytes, {shape.torus.next_links, shape.torus.next_flows}));
    else if (shape.ranks_per_node > 1)
        consider(point_to_point(size, {true, 1, mesh.next_links}));
    if (mesh.far_nexts > 0)
        consider(point_to_point(size, {true, mesh.far_nexts * mesh.sharers, 0}));
    if (shape.nodes == 1) return slowest;
    GroupShape pair{2, 2, 1, shape.siblings_per_node, shape.rails, shape.crosses_rails, {}, {}, {}};
    pair.fabric = shape.fabric;
    for (LevelUse& use : pair.fabric)
        use.climbs = use.groups > 0 ? 2 : 0;
    Price between = between_nodes(plan::OpKind::all_gather, 2 * bytes, pair);
    between.family = CostFamily::point_to_point;
    consider(between);
    return slowest;
}

Price Network::collective(plan::OpKind kind, std::int64_t message_bytes,
                          const GroupShape& shape) const {
    ORRERY_CHECK(kind == plan::OpKind::all_reduce || kind == plan::OpKind::all_gather ||
                     kind == plan::OpKind::reduce_scatter || kind == plan::OpKind::all_to_all ||
                     kind == plan::OpKind::broadcast || kind == plan::OpKind::shift,
                 "not a collective");
    ORRERY_CHECK(message_bytes >= 0, "a message of negative size");
    if (shape.ranks == 1) return {0, CostFamily::intra_node_collective, 0};
    const auto bytes = static_cast<double>(message_bytes);
    // In chunks round the ring of an all-gather, of which all links carry all S bytes, and not
    // (N−1)/N of them (nccl-tests, doc/PERFORMANCE.md: a factor of 1).
    if (kind == plan::OpKind::broadcast) {
        const double gathered = bytes * shape.ranks / (shape.ranks - 1);
        return shape.nodes == 1 ? within_node(plan::OpKind::all_gather, gathered, shape)
                                : between_nodes(plan::OpKind::all_gather, gathered, shape);
    }
    if (kind == plan::OpKind::all_to_all) return all_to_all(bytes, shape);
    if (kind == plan::OpKind::shift) return shift(bytes, shape);
    return shape.nodes == 1 ? within_node(kind, bytes, shape) : between_nodes(kind, bytes, shape);
}

// All ranks of the nodes below a switch send at the same time as those of one node do, and each
// node's share of the links above is what the levels below leave of its own.
Price Network::point_to_point(std::int64_t bytes, const Hop& hop) const {
    if (hop.same_node && is_torus(cluster_)) {
        Price price = torus_message(static_cast<double>(bytes), hop.torus);
        price.family = CostFamily::point_to_point;
        return price;
    }
    GroupShape pair;
    pair.ranks = 2;
    pair.nodes = hop.same_node ? 1 : 2;
    pair.ranks_per_node = hop.same_node ? 2 : 1;
    if (hop.same_node) {
        pair.mesh.rings = hop.links;
        pair.mesh.sharers = hop.flows;
    } else {
        pair.siblings_per_node = hop.flows;
        pair.rails = topology_.rails();
        pair.crosses_rails = hop.crosses_rails;
        for (std::size_t level = 0; level < static_cast<std::size_t>(hop.levels); ++level)
            pair.fabric[level] = {
                hop.flows * static_cast<int>(cluster_.inter_node.fabric.levels[level].nodes), 0, 0,
                2};
    }
    const bool mesh = cluster_.intra_node.kind == plan::IntraNodeKind::hybrid_cube_mesh;
    const CollectiveCurve* messages =
        hop.same_node && !mesh ? table_.find(plan::OpKind::exchange, 2) : nullptr;
    Price price = messages != nullptr ? on_curve(*messages, static_cast<double>(bytes))
                                      : collective(plan::OpKind::all_gather, 2 * bytes, pair);
    price.family = CostFamily::point_to_point;
    return price;
}

std::int64_t Network::node_kBps() const {
    constexpr double kMost = 1e12;  // 1 PB/s, which no node has: shares are counted in 64 bits
    return static_cast<std::int64_t>(
        std::min(kMost, topology_.node_network_GBps() * network_efficiency_ * 1e6));
}

NetworkUse Network::use(double bytes, double seconds, int flows) const {
    if (!(seconds > 0)) return {};
    const double kBps = bytes / seconds / 1e3;
    const std::int64_t most = node_kBps() / flows;
    return {kBps < static_cast<double>(most) ? static_cast<std::int64_t>(kBps) : most, flows};
}

NetworkUse Network::use_of(plan::OpKind kind, std::int64_t message_bytes, const GroupShape& shape,
                           double seconds) const {
    if (shape.nodes == 1) return {};
    const auto bytes = static_cast<double>(message_bytes);
    if (kind == plan::OpKind::all_to_all)
        return use(bytes / shape.ranks * (shape.ranks - shape.ranks_per_node), seconds,
                   shape.siblings_per_node * shape.ranks_per_node);
    if (kind == plan::OpKind::shift) return use(bytes, seconds, shape.siblings_per_node);
    return use(bytes_sent_per_rank(kind, bytes, shape.ranks), seconds, shape.siblings_per_node);
}

NetworkUse Network::use_of(std::int64_t bytes, const Hop& hop, double seconds) const {
    if (hop.same_node) return {};
    return use(static_cast<double>(bytes), seconds, hop.flows);
}

}  // namespace orrery::sim
