#include "sim/network/topology.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/bellman_ford_shortest_paths.hpp>
#include <boost/property_map/transform_value_property_map.hpp>

#include "plan/check.hpp"
#include "sim/network/group_shape.hpp"

namespace orrery::sim {

namespace {

struct Vertex {
    std::string name;
};

struct Edge {
    LinkKind kind = LinkKind::nvlink;
    double bandwidth_GBps = 0;
    double latency_us = 0;
};

using Adjacency = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, Vertex, Edge>;
using Node = boost::graph_traits<Adjacency>::vertex_descriptor;

LinkKind link_kind(plan::IntraNodeKind kind) {
    switch (kind) {
        case plan::IntraNodeKind::nvswitch:
        case plan::IntraNodeKind::hybrid_cube_mesh:
            return LinkKind::nvlink;
        case plan::IntraNodeKind::xgmi:
            return LinkKind::xgmi;
        case plan::IntraNodeKind::pcie:
            return LinkKind::pcie;
        case plan::IntraNodeKind::host:
            return LinkKind::host_memory;
        case plan::IntraNodeKind::torus:
            return LinkKind::torus;
    }
    return LinkKind::pcie;
}

// Distance of a route: latency first, then the number of links.
struct Distance {
    double latency_us = 0;
    int links = 0;
    bool operator==(const Distance&) const = default;
    bool operator<(const Distance& other) const {
        return latency_us != other.latency_us ? latency_us < other.latency_us : links < other.links;
    }
};

struct AddDistance {
    Distance operator()(const Distance& a, const Distance& b) const {
        return {a.latency_us + b.latency_us, a.links + b.links};
    }
};

double nic_GBps(const plan::InterNode& network) {
    return network.bandwidth_Gbps / 8;
}

}  // namespace

double pair_share(plan::IntraNodeKind kind, std::int64_t devices_per_node, int ranks) {
    if (kind != plan::IntraNodeKind::xgmi || ranks < 2 || devices_per_node < 2) return 1;
    return static_cast<double>(ranks - 1) / static_cast<double>(devices_per_node - 1);
}

double pair_share(const plan::Cluster& cluster, int ranks) {
    return pair_share(cluster.intra_node.kind, cluster.devices_per_node, ranks);
}

namespace {

struct Graph {
    Graph(const plan::Cluster& cluster, const std::vector<double>& uplink_GBps, int rails);
    Route shortest(std::size_t node, std::int64_t from, std::int64_t to) const;

    Adjacency adjacency;
    std::vector<std::vector<Node>> devices;  // [node][position]

    Node add_vertex(std::string name) {
        return boost::add_vertex(Vertex{std::move(name)}, adjacency);
    }
    void connect(Node a, Node b, const Edge& edge) { boost::add_edge(a, b, edge, adjacency); }
    void add_node(const plan::Cluster& cluster, int index);
    void add_cube_mesh(const plan::Cluster& cluster, int index);
    void add_torus(const plan::Cluster& cluster);
    void add_adapters(const plan::Cluster& cluster, int index, const std::vector<Node>& leaves);
    void add_uniform(const plan::Cluster& cluster);
    void add_fabric(const plan::Cluster& cluster, const std::vector<double>& uplink_GBps,
                    int rails);
};

}  // namespace

void Graph::add_node(const plan::Cluster& cluster, int index) {
    Edge lane{link_kind(cluster.intra_node.kind), cluster.intra_node.bandwidth_GBps,
              cluster.intra_node.latency_us};
    devices.emplace_back();
    for (std::int64_t d = 0; d < cluster.devices_per_node; ++d)
        devices.back().push_back(add_vertex(fmt::format("node{}/device{}", index, d)));
    const std::vector<Node>& own = devices.back();
    if (cluster.intra_node.kind == plan::IntraNodeKind::hybrid_cube_mesh)
        return add_cube_mesh(cluster, index);
    if (cluster.intra_node.kind == plan::IntraNodeKind::torus) return add_torus(cluster);
    if (cluster.intra_node.kind == plan::IntraNodeKind::xgmi) {
        lane.bandwidth_GBps *= pair_share(cluster, 2);
        for (std::size_t a = 0; a < own.size(); ++a)
            for (std::size_t b = a + 1; b < own.size(); ++b)
                connect(own[a], own[b], lane);
        return;
    }
    lane.latency_us /= 2;
    const Node hub = add_vertex(fmt::format("node{}/switch", index));
    for (const Node device : own)
        connect(device, hub, lane);
}

void Graph::add_cube_mesh(const plan::Cluster& cluster, int index) {
    const plan::IntraNode& inside = cluster.intra_node;
    const std::vector<Node>& own = devices.back();
    const Edge host{LinkKind::pcie, inside.host_GBps, inside.latency_us / 2};
    const Node sockets[] = {add_vertex(fmt::format("node{}/socket0", index)),
                            add_vertex(fmt::format("node{}/socket1", index))};
    connect(sockets[0], sockets[1], {LinkKind::pcie, inside.host_GBps, 0});
    for (std::size_t a = 0; a < own.size(); ++a) {
        connect(own[a], sockets[a < 4 ? 0 : 1], host);
        for (std::size_t b = a + 1; b < own.size(); ++b) {
            const int links = cube_mesh_links(static_cast<int>(a), static_cast<int>(b));
            if (links > 0)
                connect(own[a], own[b],
                        {LinkKind::nvlink, links * inside.bandwidth_GBps / kCubeMeshLinks,
                         inside.latency_us});
        }
    }
}

void Graph::add_torus(const plan::Cluster& cluster) {
    const plan::IntraNode& inside = cluster.intra_node;
    const std::vector<Node>& own = devices.back();
    const Edge lane{LinkKind::torus, inside.bandwidth_GBps / torus_links(inside.axes),
                    inside.latency_us};
    std::size_t step = 1;
    for (const plan::TorusAxis& axis : inside.axes) {
        const auto length = static_cast<std::size_t>(axis.devices);
        for (std::size_t d = 0; d < own.size(); ++d) {
            const bool last = d / step % length == length - 1;
            if (!last)
                connect(own[d], own[d + step], lane);
            else if (axis.wraps && length > 1)
                connect(own[d], own[d - (length - 1) * step], lane);
        }
        step *= length;
    }
}

// The NICs of a node, on the leaf of their rail; with one leaf all are on it.
void Graph::add_adapters(const plan::Cluster& cluster, int index, const std::vector<Node>& leaves) {
    const plan::InterNode& network = cluster.inter_node;
    const std::vector<Node>& own = devices[static_cast<std::size_t>(index)];
    const auto count = static_cast<std::int64_t>(own.size());
    // The bus of a device is taken to be as fast as the NICs that hang on it.
    const Edge bus{LinkKind::pcie, nic_GBps(network), network.latency_us / 2};
    const Edge port{LinkKind::nic, nic_GBps(network), 0};
    std::vector<Node> nics;
    for (int k = 0; k < network.nics_per_node; ++k) {
        const bool spare = network.nics_per_node >= count;  // every device has its own
        const std::int64_t device = spare ? k * count / network.nics_per_node : 0;
        const std::size_t rail = spare ? static_cast<std::size_t>(rail_of(device, cluster))
                                       : static_cast<std::size_t>(k);
        nics.push_back(add_vertex(fmt::format("node{}/nic{}", index, k)));
        connect(nics.back(), leaves[leaves.size() == 1 ? 0 : rail], port);
        if (spare) connect(own[static_cast<std::size_t>(device)], nics.back(), bus);
    }
    if (network.nics_per_node < count)
        for (std::int64_t d = 0; d < count; ++d)
            connect(own[static_cast<std::size_t>(d)],
                    nics[static_cast<std::size_t>(d * network.nics_per_node / count)], bus);
}

void Graph::add_uniform(const plan::Cluster& cluster) {
    const plan::InterNode& network = cluster.inter_node;
    const Node spine = add_vertex("spine");
    for (int n = 0; n < static_cast<int>(devices.size()); ++n) {
        const Node leaf = add_vertex(fmt::format("leaf{}", n));
        add_adapters(cluster, n, {leaf});
        connect(leaf, spine,
                {LinkKind::uplink,
                 network.nics_per_node * nic_GBps(network) / network.oversubscription, 0});
    }
}

// Node n > 0 shares the switches of level n − 1 and of those above with node 0.
void Graph::add_fabric(const plan::Cluster& cluster, const std::vector<double>& uplink_GBps,
                       int rails) {
    const plan::Fabric& fabric = cluster.inter_node.fabric;
    const std::size_t levels = fabric.levels.size();
    std::vector<std::vector<Node>> of_first;  // by level
    for (std::size_t n = 0; n < devices.size(); ++n) {
        std::vector<std::vector<Node>> switches;
        for (std::size_t level = 0; level <= levels; ++level) {
            if (n > 0 && level + 1 >= n) {
                switches.push_back(of_first[level]);
                continue;
            }
            switches.emplace_back();
            const int beside = level == 0 ? rails : 1;
            for (int r = 0; r < beside; ++r)
                switches.back().push_back(
                    add_vertex(level == levels ? "spine"
                               : level > 0     ? fmt::format("level{}.{}", level, n)
                               : rails > 1     ? fmt::format("leaf{}.rail{}", n, r)
                                               : fmt::format("leaf{}", n)));
        }
        add_adapters(cluster, static_cast<int>(n), switches.front());
        for (std::size_t level = 0; level < levels; ++level)
            if (n == 0 || level + 1 < n)
                for (const Node below : switches[level])
                    connect(below, switches[level + 1].front(),
                            {LinkKind::uplink, uplink_GBps[level], fabric.switch_latency_us});
        if (n == 0) of_first = switches;
    }
}

Graph::Graph(const plan::Cluster& cluster, const std::vector<double>& uplink_GBps, int rails) {
    const int levels = static_cast<int>(cluster.inter_node.fabric.levels.size());
    const int instances = cluster.nodes == 1 ? 1 : 2 + levels;
    for (int n = 0; n < instances; ++n)
        add_node(cluster, n);
    if (cluster.nodes == 1) return;
    if (levels == 0)
        add_uniform(cluster);
    else
        add_fabric(cluster, uplink_GBps, rails);
}

Topology::Topology(const plan::Cluster& cluster)
    : cluster_(cluster), nodes_(cluster.nodes), devices_per_node_(cluster.devices_per_node) {
    ORRERY_CHECK(nodes_ > 0 && devices_per_node_ > 0, "a cluster without devices");
    const plan::InterNode& network = cluster.inter_node;
    if (nodes_ > 1) {
        ORRERY_CHECK(network.kind != plan::InterNodeKind::none && network.nics_per_node > 0 &&
                         network.bandwidth_Gbps > 0 && network.oversubscription > 0,
                     "several nodes need a network");
        const std::int64_t own =
            std::max<std::int64_t>(1, network.nics_per_node / devices_per_node_);
        device_network_GBps_ = static_cast<double>(own) * nic_GBps(network);
        node_network_GBps_ = network.nics_per_node * nic_GBps(network) / network.oversubscription;
        if (network.fabric.kind == plan::FabricKind::rail)
            rails_ = static_cast<int>(rails_of(cluster));
        double share = 1;
        for (const plan::FabricLevel& level : network.fabric.levels) {
            share *= level.oversubscription;
            uplink_GBps_.push_back(static_cast<double>(level.nodes) * node_network_GBps_ / share /
                                   (uplink_GBps_.empty() ? rails_ : 1));
        }
    }
}

double Topology::device_network_GBps() const {
    return device_network_GBps_;
}
double Topology::node_network_GBps() const {
    return node_network_GBps_;
}

Route Topology::route(std::int64_t from_device, std::int64_t to_device) const {
    const std::int64_t total = nodes_ * devices_per_node_;
    ORRERY_CHECK(from_device >= 0 && from_device < total && to_device >= 0 && to_device < total &&
                     from_device != to_device,
                 "a route needs two different devices of the cluster");
    const std::int64_t own = from_device / devices_per_node_;
    const std::int64_t other = to_device / devices_per_node_;
    const std::int64_t from = from_device % devices_per_node_;
    const std::int64_t to = to_device % devices_per_node_;
    const Graph graph(cluster_, uplink_GBps_, rails_);
    if (own == other) return graph.shortest(0, from, to);
    std::size_t node = 1;
    const plan::Fabric& fabric = cluster_.inter_node.fabric;
    for (const plan::FabricLevel& level : fabric.levels)
        if (own / level.nodes != other / level.nodes) ++node;
    const bool relayed = fabric.kind == plan::FabricKind::rail &&
                         fabric.cross_rail == plan::CrossRail::nvlink &&
                         rail_of(from, cluster_) != rail_of(to, cluster_);
    if (!relayed) return graph.shortest(node, from, to);
    Route route = graph.shortest(0, from, to);
    const Route on_rail = graph.shortest(node, to, to);
    route.links.insert(route.links.end(), on_rail.links.begin(), on_rail.links.end());
    route.latency_us += on_rail.latency_us;
    route.bottleneck_GBps = std::min(route.bottleneck_GBps, on_rail.bottleneck_GBps);
    return route;
}

// From a position in node 0 to one in that node of the graph.
Route Graph::shortest(std::size_t node, std::int64_t from, std::int64_t to) const {
    const Node start = devices.front()[static_cast<std::size_t>(from)];
    const Node goal = devices[node][static_cast<std::size_t>(to)];

    std::vector<Node> before(boost::num_vertices(adjacency));
    // Farther than any route; adding a link to it does not bring it nearer.
    std::vector<Distance> distance(before.size(), {std::numeric_limits<double>::max(), 0});
    for (Node vertex = 0; vertex < before.size(); ++vertex)
        before[vertex] = vertex;
    distance[start] = {};
    const auto weight = boost::make_transform_value_property_map(
        [](const Edge& edge) {
            return Distance{edge.latency_us, 1};
        },
        boost::get(boost::edge_bundle, adjacency));
    const auto index = boost::get(boost::vertex_index, adjacency);
    // Bellman and Ford, not Dijkstra: some forty links need no heap.
    const bool settled = boost::bellman_ford_shortest_paths(
        adjacency, static_cast<int>(before.size()),
        boost::weight_map(weight)
            .predecessor_map(boost::make_iterator_property_map(before.begin(), index))
            .distance_map(boost::make_iterator_property_map(distance.begin(), index))
            .distance_compare(std::less<Distance>())
            .distance_combine(AddDistance()));
    ORRERY_CHECK(settled, "a link of negative latency");

    Route route;
    route.bottleneck_GBps = std::numeric_limits<double>::infinity();
    for (Node at = goal; at != start; at = before[at]) {
        ORRERY_CHECK(before[at] != at, "devices that no link connects");
        const Edge& edge = adjacency[boost::edge(before[at], at, adjacency).first];
        route.links.push_back({adjacency[before[at]].name, adjacency[at].name, edge.kind,
                               edge.bandwidth_GBps, edge.latency_us});
        route.latency_us += edge.latency_us;
        route.bottleneck_GBps = std::min(route.bottleneck_GBps, edge.bandwidth_GBps);
    }
    std::reverse(route.links.begin(), route.links.end());
    return route;
}

}  // namespace orrery::sim
