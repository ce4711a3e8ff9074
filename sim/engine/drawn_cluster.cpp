#include "sim/engine/drawn_cluster.hpp"

#include <algorithm>
#include <map>

#include "sim/engine/splitmix.hpp"
#include "sim/engine/uneven.hpp"

namespace orrery::sim {
namespace {

using plan::StragglerOf;

// In [0, 1), of 53 bits. Streams of entries and of the common factor lie apart from those of jitter
// by the last of their numbers.
double uniform_draw(std::uint64_t seed, std::uint64_t entry, std::uint64_t index) {
    constexpr std::uint64_t kStragglers = 0x5354524147474c45ULL;
    const std::uint64_t bits =
        split_mixed(split_mixed(split_mixed(split_mixed(seed) ^ kStragglers) ^ entry) ^ index);
    return static_cast<double>(bits >> 11) * 0x1p-53;
}

using Factors = std::map<std::int64_t, double>;  // by device or node

void multiply(Factors& factors, std::int64_t named, double factor) {
    factors.emplace(named, 1.0).first->second *= factor;
}

struct Drawn {
    Factors devices, nodes;
    std::vector<plan::SlowLink> links;
};

void draw_entry(const plan::Cluster& cluster, std::uint64_t entry, Drawn& drawn) {
    const plan::StragglerShare& slow = cluster.stragglers.slow[entry];
    const bool of_devices = slow.of == StragglerOf::device || slow.of == StragglerOf::intra_node;
    const std::int64_t all = of_devices ? cluster.devices() : cluster.all_nodes();
    for (std::int64_t i = 0; i < all; ++i) {
        if (uniform_draw(static_cast<std::uint64_t>(cluster.stragglers.seed), entry,
                         static_cast<std::uint64_t>(i)) >= slow.share)
            continue;
        switch (slow.of) {
            case StragglerOf::device:
                multiply(drawn.devices, i, slow.factor);
                break;
            case StragglerOf::node:
                multiply(drawn.nodes, i, slow.factor);
                break;
            case StragglerOf::intra_node:
                drawn.links.push_back({i, -1, plan::LinkOf::intra_node, slow.factor});
                break;
            case StragglerOf::inter_node:
                drawn.links.push_back({-1, i, plan::LinkOf::inter_node, slow.factor});
                break;
        }
    }
}

}  // namespace

plan::Cluster drawn_cluster(const plan::Cluster& cluster) {
    if (!cluster.stragglers.any()) return cluster;
    Drawn drawn;
    for (const plan::SlowDevice& slow : cluster.slow_devices)
        multiply(drawn.devices, slow.device, slow.factor);
    for (const plan::SlowNode& slow : cluster.slow_nodes)
        multiply(drawn.nodes, slow.node, slow.factor);
    drawn.links = cluster.slow_links;
    for (std::size_t entry = 0; entry < cluster.stragglers.slow.size(); ++entry)
        draw_entry(cluster, entry, drawn);
    plan::Cluster all = cluster;
    all.stragglers = {};
    all.slow_devices.clear();
    all.slow_nodes.clear();
    for (const auto& [device, factor] : drawn.devices)
        all.slow_devices.push_back({device, factor});
    for (const auto& [node, factor] : drawn.nodes)
        all.slow_nodes.push_back({node, factor});
    all.slow_links = std::move(drawn.links);
    if (const double sd = cluster.stragglers.common_sd; sd > 0) {
        constexpr std::uint64_t kCommon = 0x434f4d4d4f4eULL;
        const auto seed = static_cast<std::uint64_t>(cluster.stragglers.seed);
        all.all_slow_factor *= std::max(0.1, 1 + sd * normal_draw(seed, kCommon, 0));
    }
    return all;
}

plan::Cluster with_draw(plan::Cluster cluster, std::int64_t draw) {
    cluster.stragglers.seed += draw;
    cluster.jitter.seed += draw;
    return cluster;
}

}  // namespace orrery::sim
