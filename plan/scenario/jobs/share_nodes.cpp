#include "plan/scenario/jobs/share_nodes.hpp"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/edmonds_karp_max_flow.hpp>

#include <algorithm>
#include <numeric>

namespace orrery::plan {
namespace {

using FlowTraits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using FlowGraph = boost::adjacency_list<
    boost::vecS, boost::vecS, boost::directedS, boost::no_property,
    boost::property<
        boost::edge_capacity_t, std::int64_t,
        boost::property<boost::edge_residual_capacity_t, std::int64_t,
                        boost::property<boost::edge_reverse_t, FlowTraits::edge_descriptor>>>>;

// From a source over demands and kinds to a sink.
class NodeFlow {
  public:
    NodeFlow(std::size_t demands, std::size_t kinds)
        : demands_(demands), source_(demands + kinds), graph_(demands + kinds + 2) {}

    FlowTraits::vertex_descriptor of_kind(std::size_t kind) const { return demands_ + kind; }
    FlowTraits::vertex_descriptor source() const { return source_; }
    FlowTraits::vertex_descriptor sink() const { return source_ + 1; }

    FlowTraits::edge_descriptor join(std::size_t from, std::size_t to, std::int64_t capacity) {
        const auto there = boost::add_edge(from, to, graph_).first;
        const auto back = boost::add_edge(to, from, graph_).first;
        boost::put(boost::edge_capacity, graph_, there, capacity);
        boost::put(boost::edge_capacity, graph_, back, 0);
        boost::put(boost::edge_reverse, graph_, there, back);
        boost::put(boost::edge_reverse, graph_, back, there);
        return there;
    }

    std::int64_t run() {
        reached_.assign(boost::num_vertices(graph_), boost::white_color);
        std::vector<FlowTraits::edge_descriptor> before(boost::num_vertices(graph_));
        const auto index = boost::get(boost::vertex_index, graph_);
        return boost::edmonds_karp_max_flow(
            graph_, source(), sink(),
            boost::color_map(boost::make_iterator_property_map(reached_.begin(), index))
                .predecessor_map(boost::make_iterator_property_map(before.begin(), index)));
    }

    std::int64_t flow(FlowTraits::edge_descriptor edge) const {
        return boost::get(boost::edge_capacity, graph_, edge) -
               boost::get(boost::edge_residual_capacity, graph_, edge);
    }
    // Whether more could come here: on the source's side of the smallest cut.
    bool wants_more(std::size_t vertex) const { return reached_[vertex] != boost::white_color; }

  private:
    std::size_t demands_;
    std::size_t source_;
    FlowGraph graph_;
    std::vector<boost::default_color_type> reached_;
};

}  // namespace

NodeShares share_nodes(const std::vector<NodeDemand>& demands,
                       const std::vector<std::int64_t>& nodes_by_kind) {
    std::vector<std::size_t> all(nodes_by_kind.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    NodeFlow flow(demands.size(), nodes_by_kind.size());
    std::int64_t wanted = 0;
    std::vector<std::vector<FlowTraits::edge_descriptor>> edges;
    for (std::size_t d = 0; d < demands.size(); ++d) {
        wanted += demands[d].nodes;
        flow.join(flow.source(), d, demands[d].nodes);
        edges.emplace_back();
        for (const std::size_t kind : demands[d].kinds.empty() ? all : demands[d].kinds)
            edges.back().push_back(flow.join(d, flow.of_kind(kind), demands[d].nodes));
    }
    for (const std::size_t kind : all)
        flow.join(flow.of_kind(kind), flow.sink(), nodes_by_kind[kind]);
    NodeShares shares;
    if (flow.run() < wanted) {
        for (std::size_t d = 0; d < demands.size(); ++d)
            if (flow.wants_more(d)) shares.too_many.push_back(d);
        return shares;
    }
    for (std::size_t d = 0; d < demands.size(); ++d) {
        const std::vector<std::size_t>& kinds = demands[d].kinds.empty() ? all : demands[d].kinds;
        shares.of_kind.emplace_back(nodes_by_kind.size(), 0);
        for (std::size_t k = 0; k < kinds.size(); ++k)
            shares.of_kind.back()[kinds[k]] = flow.flow(edges[d][k]);
    }
    return shares;
}

}  // namespace orrery::plan
