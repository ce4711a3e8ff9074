#include "sim/jobs/placement.hpp"

#include <algorithm>
#include <utility>

#include "plan/check.hpp"
#include "sim/engine/splitmix.hpp"

namespace orrery::sim {

FreeNodes::FreeNodes(const plan::Cluster& cluster)
    : free_(static_cast<std::size_t>(cluster.all_nodes()), true) {
    for (const plan::FabricLevel& level : cluster.inter_node.fabric.levels)
        if (level.nodes < cluster.all_nodes()) levels_.push_back(level.nodes);
    levels_.push_back(cluster.all_nodes());
}

std::int64_t FreeNodes::count() const {
    return std::count(free_.begin(), free_.end(), true);
}

void FreeNodes::take(const NodeList& nodes) {
    for (const std::int64_t node : nodes) {
        ORRERY_CHECK(free_[static_cast<std::size_t>(node)], "a node that somebody has");
        free_[static_cast<std::size_t>(node)] = false;
    }
}

void FreeNodes::give_back(const NodeList& nodes) {
    for (const std::int64_t node : nodes)
        free_[static_cast<std::size_t>(node)] = true;
}

std::optional<NodeList> FreeNodes::place(PlacementPolicy policy, std::int64_t nodes,
                                         std::int64_t stage_nodes, std::uint64_t seed) {
    if (nodes > count()) return std::nullopt;
    NodeList taken;
    switch (policy) {
        case PlacementPolicy::compact:
            taken = compact(nodes);
            break;
        case PlacementPolicy::scattered:
            taken = scattered(nodes);
            break;
        case PlacementPolicy::random:
            taken = random(nodes, seed);
            break;
        case PlacementPolicy::rail_aligned:
            taken = rail_aligned(nodes, stage_nodes);
            break;
    }
    std::sort(taken.begin(), taken.end());
    take(taken);
    return taken;
}

NodeList FreeNodes::free_below(std::size_t level, std::int64_t unit) const {
    NodeList nodes;
    const auto all = static_cast<std::int64_t>(free_.size());
    for (std::int64_t node = unit * levels_[level];
         node < std::min(all, (unit + 1) * levels_[level]); ++node)
        if (free_[static_cast<std::size_t>(node)]) nodes.push_back(node);
    return nodes;
}

// Of these switches of a level, which together have room, so that few are used.
void FreeNodes::take_compactly(std::size_t level, const std::vector<std::int64_t>& units,
                               std::int64_t nodes, NodeList& taken) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> room;  // free, unit
    for (const std::int64_t unit : units)
        room.emplace_back(static_cast<std::int64_t>(free_below(level, unit).size()), unit);
    // Most room first, of as much the first.
    std::stable_sort(room.begin(), room.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (std::size_t i = 0; nodes > 0; ++i) {
        // The last: of those that have room for what is left the one that it fills most.
        std::size_t at = i;
        while (at + 1 < room.size() && room[at + 1].first >= nodes)
            ++at;
        // Of as much room the first in order.
        while (at > i && room[at - 1].first == room[at].first)
            --at;
        const auto [free, unit] = room[room[i].first >= nodes ? at : i];
        const std::int64_t part = std::min(nodes, free);
        if (part == 0) continue;
        nodes -= part;
        const NodeList below = free_below(level, unit);
        if (level == 0 || part == free) {
            taken.insert(taken.end(), below.begin(), below.begin() + part);
            continue;
        }
        // The top has all nodes, which need not be whole switches.
        const std::int64_t end =
            std::min(static_cast<std::int64_t>(free_.size()), (unit + 1) * levels_[level]);
        std::vector<std::int64_t> inside;
        for (std::int64_t u = unit * levels_[level] / levels_[level - 1];
             u * levels_[level - 1] < end; ++u)
            inside.push_back(u);
        take_compactly(level - 1, inside, part, taken);
    }
}

NodeList FreeNodes::compact(std::int64_t nodes) const {
    for (std::size_t level = 0; level < levels_.size(); ++level) {
        std::optional<std::pair<std::int64_t, std::int64_t>> best;  // room, unit
        const auto all = static_cast<std::int64_t>(free_.size());
        for (std::int64_t unit = 0; unit * levels_[level] < all; ++unit) {
            const auto room = static_cast<std::int64_t>(free_below(level, unit).size());
            if (room >= nodes && (!best || room < best->first)) best = {room, unit};
        }
        if (!best) continue;
        NodeList taken;
        take_compactly(level, {best->second}, nodes, taken);
        return taken;
    }
    return {};
}

NodeList FreeNodes::scattered(std::int64_t nodes) const {
    std::vector<NodeList> leaves;
    for (std::int64_t unit = 0; unit * levels_[0] < static_cast<std::int64_t>(free_.size()); ++unit)
        leaves.push_back(free_below(0, unit));
    std::stable_sort(leaves.begin(), leaves.end(),
                     [](const NodeList& a, const NodeList& b) { return a.size() > b.size(); });
    NodeList taken;
    for (std::size_t turn = 0; static_cast<std::int64_t>(taken.size()) < nodes; ++turn)
        for (const NodeList& leaf : leaves)
            if (turn < leaf.size() && static_cast<std::int64_t>(taken.size()) < nodes)
                taken.push_back(leaf[turn]);
    return taken;
}

NodeList FreeNodes::random(std::int64_t nodes, std::uint64_t seed) const {
    NodeList any;
    for (std::size_t node = 0; node < free_.size(); ++node)
        if (free_[node]) any.push_back(static_cast<std::int64_t>(node));
    // Fisher and Yates, as far as is needed.
    std::uint64_t state = split_mixed(seed);
    for (std::size_t i = 0; i < static_cast<std::size_t>(nodes); ++i) {
        state = split_mixed(state + i);
        std::swap(any[i], any[i + state % (any.size() - i)]);
    }
    any.resize(static_cast<std::size_t>(nodes));
    return any;
}

NodeList FreeNodes::rail_aligned(std::int64_t nodes, std::int64_t stage_nodes) const {
    NodeList taken;
    if (stage_nodes > 0 && nodes % stage_nodes == 0) {
        std::vector<std::pair<std::int64_t, NodeList>> leaves;  // whole stages, free nodes
        for (std::int64_t unit = 0; unit * levels_[0] < static_cast<std::int64_t>(free_.size());
             ++unit) {
            NodeList below = free_below(0, unit);
            leaves.emplace_back(static_cast<std::int64_t>(below.size()) / stage_nodes,
                                std::move(below));
        }
        std::stable_sort(leaves.begin(), leaves.end(),
                         [](const auto& a, const auto& b) { return a.first > b.first; });
        for (const auto& [stages, below] : leaves) {
            const std::int64_t left = nodes - static_cast<std::int64_t>(taken.size());
            const std::int64_t part = std::min(left, stages * stage_nodes);
            taken.insert(taken.end(), below.begin(), below.begin() + part);
        }
    }
    // Stages that fit no leaf.
    FreeNodes rest = *this;
    rest.take(taken);
    const NodeList more = rest.compact(nodes - static_cast<std::int64_t>(taken.size()));
    taken.insert(taken.end(), more.begin(), more.end());
    return taken;
}

}  // namespace orrery::sim
