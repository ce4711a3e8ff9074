#include "sim/network/mixed_network.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "plan/check.hpp"

namespace orrery::sim {
namespace {

// With links that have so much less bandwidth. An uplink that several adapters share is as fast as
// before: a leaf's lacks the more of what its adapters can send, the less they can.
plan::Cluster with_slow_links(plan::Cluster cluster, const SlowLinks& slow) {
    cluster.intra_node.bandwidth_GBps /= slow.inside;
    plan::InterNode& network = cluster.inter_node;
    network.bandwidth_Gbps /= slow.network;
    if (network.fabric.levels.empty())
        network.oversubscription = std::max(1.0, network.oversubscription / slow.network);
    else
        network.fabric.levels.front().oversubscription /= slow.network;
    return cluster;
}

}  // namespace

struct MixedNetwork::Slowed {
    std::mutex mutex;
    std::map<std::tuple<std::size_t, double, double>, std::unique_ptr<const Network>> networks;
};

MixedNetwork::~MixedNetwork() = default;
MixedNetwork::MixedNetwork(MixedNetwork&&) noexcept = default;
MixedNetwork& MixedNetwork::operator=(MixedNetwork&&) noexcept = default;

const Network& MixedNetwork::network(std::size_t kind, const std::vector<SlowLinks>& slow) const {
    const Network& own = of_kinds_[kind];
    const auto found = std::find_if(slow.begin(), slow.end(),
                                    [&](const SlowLinks& links) { return links.kind == kind; });
    if (found == slow.end()) return own;
    const std::lock_guard<std::mutex> lock(slowed_->mutex);
    auto& made = slowed_->networks[{kind, found->inside, found->network}];
    if (made == nullptr)
        made = std::make_unique<Network>(with_slow_links(cluster_.all_of_kind(kind), *found),
                                         own.table());
    return *made;
}

MixedNetwork::MixedNetwork(const plan::Cluster& cluster, std::vector<CollectiveTable> tables)
    : cluster_(cluster), slowed_(std::make_unique<Slowed>()) {
    ORRERY_CHECK(!tables.empty() && tables.size() <= cluster.node_kinds(),
                 "tables of other nodes than the cluster has");
    of_kinds_.reserve(tables.size());
    for (std::size_t kind = 0; kind < tables.size(); ++kind)
        of_kinds_.emplace_back(cluster.all_of_kind(kind), std::move(tables[kind]));
}

template <typename Ask>
Price MixedNetwork::slowest(NodeKinds kinds, const std::vector<SlowLinks>& slow, Ask&& ask) const {
    Price slowest;
    bool any = false;
    for (std::size_t kind = 0; kind < of_kinds_.size(); ++kind) {
        if ((kinds >> kind & 1) == 0) continue;
        const Price price = ask(network(kind, slow));
        if (!any || price.seconds > slowest.seconds) slowest = price;
        any = true;
    }
    ORRERY_CHECK(any, "a group on nodes whose network is not known");
    return slowest;
}

Price MixedNetwork::collective(plan::OpKind kind, std::int64_t message_bytes,
                               const GroupShape& shape) const {
    return slowest(shape.kinds, shape.slow, [&](const Network& network) {
        return network.collective(kind, message_bytes, shape);
    });
}

Price MixedNetwork::rows(std::int64_t message_bytes, const GroupShape& shape, std::int64_t split,
                         bool back) const {
    return slowest(shape.kinds, shape.slow, [&](const Network& network) {
        return network.rows(message_bytes, shape, split, back);
    });
}

Price MixedNetwork::copies(double rank_bytes, double node_bytes, const GroupShape& shape) const {
    return slowest(shape.kinds, shape.slow, [&](const Network& network) {
        return network.copies(rank_bytes, node_bytes, shape);
    });
}

Price MixedNetwork::point_to_point(std::int64_t bytes, const Hop& hop) const {
    return slowest(hop.kinds, hop.slow,
                   [&](const Network& network) { return network.point_to_point(bytes, hop); });
}

template <typename Ask>
NetworkUse MixedNetwork::largest(NodeKinds kinds, const std::vector<SlowLinks>& slow,
                                 Ask&& ask) const {
    NetworkUse largest;
    for (std::size_t kind = 0; kind < of_kinds_.size(); ++kind) {
        if ((kinds >> kind & 1) == 0) continue;
        const Network& asked = network(kind, slow);
        NetworkUse use = ask(asked);
        const std::int64_t capacity = asked.node_kBps();
        if (&asked != &of_kinds_.front() && capacity > 0)  // both are below 2^40
            use.kBps = static_cast<std::int64_t>(static_cast<double>(use.kBps) /
                                                 static_cast<double>(capacity) *
                                                 static_cast<double>(node_kBps()));
        if (use.kBps >= largest.kBps) largest = use;
    }
    return largest;
}

// The kind that `largest` takes, of which a unit is the smallest part of an own node's.
double MixedNetwork::travels(NodeKinds kinds, const std::vector<SlowLinks>& slow) const {
    std::optional<double> least;
    for (std::size_t kind = 0; kind < of_kinds_.size(); ++kind) {
        if ((kinds >> kind & 1) == 0) continue;
        const Network& asked = network(kind, slow);
        const double share =
            &asked == &of_kinds_.front() || node_kBps() == 0
                ? 1
                : static_cast<double>(asked.node_kBps()) / static_cast<double>(node_kBps());
        least = std::min(least.value_or(share), share);
    }
    return least.value_or(1);
}

NetworkUse MixedNetwork::use_of(plan::OpKind kind, std::int64_t message_bytes,
                                const GroupShape& shape, double seconds) const {
    return largest(shape.kinds, shape.slow, [&](const Network& network) {
        return network.use_of(kind, message_bytes, shape, seconds);
    });
}

NetworkUse MixedNetwork::use_of(std::int64_t bytes, const Hop& hop, double seconds) const {
    return largest(hop.kinds, hop.slow,
                   [&](const Network& network) { return network.use_of(bytes, hop, seconds); });
}

}  // namespace orrery::sim
