#include "sim/network/topology.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/bellman_ford_shortest_paths.hpp>
#include <boost/property_map/transform_value_property_map.hpp>

#include "plan/ir/check.hpp"

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
            return LinkKind::nvlink;
        case plan::IntraNodeKind::xgmi:
            return LinkKind::xgmi;
        case plan::IntraNodeKind::pcie:
            return LinkKind::pcie;
        case plan::IntraNodeKind::host:
            return LinkKind::host_memory;
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

double pair_share(const plan::Cluster& cluster, int ranks) {
    const bool direct = cluster.intra_node.kind == plan::IntraNodeKind::xgmi;
    if (!direct || ranks < 2 || cluster.devices_per_node < 2) return 1;
    return static_cast<double>(ranks - 1) / static_cast<double>(cluster.devices_per_node - 1);
}

struct Topology::Graph {
    Adjacency adjacency;
    std::vector<std::vector<Node>> devices;  // [node][position]

    Node add_vertex(std::string name) {
        return boost::add_vertex(Vertex{std::move(name)}, adjacency);
    }
    void connect(Node a, Node b, const Edge& edge) { boost::add_edge(a, b, edge, adjacency); }
    void add_node(const plan::Cluster& cluster, int index);
    void add_network(const plan::Cluster& cluster, int index, Node spine);
};

void Topology::Graph::add_node(const plan::Cluster& cluster, int index) {
    Edge lane{link_kind(cluster.intra_node.kind), cluster.intra_node.bandwidth_GBps,
              cluster.intra_node.latency_us};
    devices.emplace_back();
    for (std::int64_t d = 0; d < cluster.devices_per_node; ++d)
        devices.back().push_back(add_vertex(fmt::format("node{}/device{}", index, d)));
    const std::vector<Node>& own = devices.back();
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

void Topology::Graph::add_network(const plan::Cluster& cluster, int index, Node spine) {
    const plan::InterNode& network = cluster.inter_node;
    const std::vector<Node>& own = devices[static_cast<std::size_t>(index)];
    const auto count = static_cast<std::int64_t>(own.size());
    const Node leaf = add_vertex(fmt::format("leaf{}", index));
    // The bus of a device is taken to be as fast as the NICs that hang on it.
    const Edge bus{LinkKind::pcie, nic_GBps(network), network.latency_us / 2};
    const Edge port{LinkKind::nic, nic_GBps(network), 0};
    std::vector<Node> nics;
    for (int k = 0; k < network.nics_per_node; ++k) {
        nics.push_back(add_vertex(fmt::format("node{}/nic{}", index, k)));
        connect(nics.back(), leaf, port);
        if (network.nics_per_node >= count)
            connect(own[static_cast<std::size_t>(k * count / network.nics_per_node)], nics.back(),
                    bus);
    }
    if (network.nics_per_node < count)
        for (std::int64_t d = 0; d < count; ++d)
            connect(own[static_cast<std::size_t>(d)],
                    nics[static_cast<std::size_t>(d * network.nics_per_node / count)], bus);
    connect(leaf, spine,
            {LinkKind::uplink, network.nics_per_node * nic_GBps(network) / network.oversubscription,
             0});
}

Topology::Topology(const plan::Cluster& cluster)
    : nodes_(cluster.nodes), devices_per_node_(cluster.devices_per_node) {
    ORRERY_CHECK(nodes_ > 0 && devices_per_node_ > 0, "a cluster without devices");
    auto graph = std::make_unique<Graph>();
    const int instances = nodes_ > 1 ? 2 : 1;
    for (int n = 0; n < instances; ++n)
        graph->add_node(cluster, n);
    if (nodes_ > 1) {
        const plan::InterNode& network = cluster.inter_node;
        ORRERY_CHECK(network.kind != plan::InterNodeKind::none && network.nics_per_node > 0 &&
                         network.bandwidth_Gbps > 0 && network.oversubscription > 0,
                     "several nodes need a network");
        const Node spine = graph->add_vertex("spine");
        for (int n = 0; n < instances; ++n)
            graph->add_network(cluster, n, spine);
        const std::int64_t own =
            std::max<std::int64_t>(1, network.nics_per_node / devices_per_node_);
        device_network_GBps_ = static_cast<double>(own) * nic_GBps(network);
        node_network_GBps_ = network.nics_per_node * nic_GBps(network) / network.oversubscription;
    }
    graph_ = std::move(graph);
}

Topology::~Topology() = default;
Topology::Topology(Topology&&) noexcept = default;
Topology& Topology::operator=(Topology&&) noexcept = default;

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
    const bool same = from_device / devices_per_node_ == to_device / devices_per_node_;
    const auto position = [this](std::int64_t device) {
        return static_cast<std::size_t>(device % devices_per_node_);
    };
    const Node start = graph_->devices.front()[position(from_device)];
    const Node goal =
        (same ? graph_->devices.front() : graph_->devices.back())[position(to_device)];

    const Adjacency& adjacency = graph_->adjacency;
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
