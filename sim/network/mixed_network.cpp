#include "sim/network/mixed_network.hpp"

#include <utility>

#include "plan/check.hpp"

namespace orrery::sim {

MixedNetwork::MixedNetwork(const plan::Cluster& cluster, std::vector<CollectiveTable> tables) {
    ORRERY_CHECK(!tables.empty() && tables.size() <= cluster.node_kinds(),
                 "tables of other nodes than the cluster has");
    of_kinds_.reserve(tables.size());
    for (std::size_t kind = 0; kind < tables.size(); ++kind)
        of_kinds_.emplace_back(cluster.all_of_kind(kind), std::move(tables[kind]));
}

template <typename Ask>
Price MixedNetwork::slowest(NodeKinds kinds, Ask&& ask) const {
    Price slowest;
    bool any = false;
    for (std::size_t kind = 0; kind < of_kinds_.size(); ++kind) {
        if ((kinds >> kind & 1) == 0) continue;
        const Price price = ask(of_kinds_[kind]);
        if (!any || price.seconds > slowest.seconds) slowest = price;
        any = true;
    }
    ORRERY_CHECK(any, "a group on nodes whose network is not known");
    return slowest;
}

Price MixedNetwork::collective(plan::OpKind kind, std::int64_t message_bytes,
                               const GroupShape& shape) const {
    return slowest(shape.kinds, [&](const Network& network) {
        return network.collective(kind, message_bytes, shape);
    });
}

Price MixedNetwork::rows(std::int64_t message_bytes, const GroupShape& shape, std::int64_t split,
                         bool back) const {
    return slowest(shape.kinds, [&](const Network& network) {
        return network.rows(message_bytes, shape, split, back);
    });
}

Price MixedNetwork::copies(double rank_bytes, double node_bytes, const GroupShape& shape) const {
    return slowest(shape.kinds, [&](const Network& network) {
        return network.copies(rank_bytes, node_bytes, shape);
    });
}

Price MixedNetwork::point_to_point(std::int64_t bytes, const Hop& hop) const {
    return slowest(hop.kinds,
                   [&](const Network& network) { return network.point_to_point(bytes, hop); });
}

template <typename Ask>
NetworkUse MixedNetwork::largest(NodeKinds kinds, Ask&& ask) const {
    NetworkUse largest;
    for (std::size_t kind = 0; kind < of_kinds_.size(); ++kind) {
        if ((kinds >> kind & 1) == 0) continue;
        NetworkUse use = ask(of_kinds_[kind]);
        const std::int64_t capacity = of_kinds_[kind].node_kBps();
        if (kind > 0 && capacity > 0)  // both are below 2^40
            use.kBps = static_cast<std::int64_t>(static_cast<double>(use.kBps) /
                                                 static_cast<double>(capacity) *
                                                 static_cast<double>(node_kBps()));
        if (use.kBps >= largest.kBps) largest = use;
    }
    return largest;
}

NetworkUse MixedNetwork::use_of(plan::OpKind kind, std::int64_t message_bytes,
                                const GroupShape& shape, double seconds) const {
    return largest(shape.kinds, [&](const Network& network) {
        return network.use_of(kind, message_bytes, shape, seconds);
    });
}

NetworkUse MixedNetwork::use_of(std::int64_t bytes, const Hop& hop, double seconds) const {
    return largest(hop.kinds,
                   [&](const Network& network) { return network.use_of(bytes, hop, seconds); });
}

}  // namespace orrery::sim
