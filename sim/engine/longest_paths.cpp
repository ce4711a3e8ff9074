#include "sim/engine/longest_paths.hpp"

#include <algorithm>
#include <utility>

namespace orrery::sim {
namespace {

// As many as a node may wait for once another is taken out.
constexpr std::size_t kMostTakenOver = 4;

}  // namespace

std::uint32_t PathDraft::derive(std::uint32_t a, std::uint32_t b, bool sum) {
    if (a > b) std::swap(a, b);
    if (a == b && !sum) return a;
    if (a == 0) return b;  // nothing is added, or no delay is less
    const auto [it, fresh] = numbers_.emplace(DerivedDelay{a, b, sum},
                                              given_ + static_cast<std::uint32_t>(derived_.size()));
    if (fresh) derived_.push_back(it->first);
    return it->second;
}

// Of several ends after one node the last counts.
void PathDraft::merge(std::vector<PathEnd>& ends) {
    std::sort(ends.begin(), ends.end());
    std::size_t kept = 0;
    for (std::size_t i = 1; i < ends.size(); ++i) {
        if (ends[i].node == ends[kept].node)
            ends[kept].delay = derive(ends[kept].delay, ends[i].delay, false);
        else
            ends[++kept] = ends[i];
    }
    if (!ends.empty()) ends.resize(kept + 1);
}

bool PathDraft::order() {
    after_.assign(before_.size(), {});
    std::vector<std::size_t> missing(before_.size());
    order_ = {0};
    std::size_t present = 1;
    for (std::uint32_t n = 1; n < before_.size(); ++n) {
        if (gone_[n]) continue;
        ++present;
        for (const PathEnd& end : before_[n]) {
            if (end.node == 0) continue;
            ++missing[n];
            after_[end.node].push_back(n);
        }
        if (missing[n] == 0) order_.push_back(n);
    }
    for (std::size_t i = 0; i < order_.size(); ++i)
        for (const std::uint32_t n : after_[order_[i]])
            if (--missing[n] == 0) order_.push_back(n);
    return order_.size() == present;
}

// Those that follow the node take over what it waits for, unless one has no room for it.
bool PathDraft::take_out(std::uint32_t node) {
    std::vector<std::uint32_t>& after = after_[node];
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    after.erase(
        std::remove_if(after.begin(), after.end(), [&](std::uint32_t n) { return gone_[n]; }),
        after.end());
    for (const std::uint32_t follower : after) {
        if (part_[follower] != part_[node]) return false;
        std::array<std::uint32_t, kMostTakenOver> bases{};
        std::size_t count = 0;
        for (const auto* ends : {&before_[follower], &before_[node]})
            for (const PathEnd& end : *ends)
                if (end.node != node && std::find(bases.begin(), bases.begin() + count, end.node) ==
                                            bases.begin() + count) {
                    if (count == kMostTakenOver) return false;
                    bases[count++] = end.node;
                }
    }
    for (const std::uint32_t follower : after) {
        std::vector<PathEnd> ends;
        for (const PathEnd& end : before_[follower]) {
            if (end.node != node) {
                ends.push_back(end);
                continue;
            }
            for (const PathEnd& earlier : before_[node])
                ends.push_back({earlier.node, derive(earlier.delay, end.delay, true)});
        }
        merge(ends);
        before_[follower] = std::move(ends);
        for (const PathEnd& end : before_[node])
            if (end.node != 0) after_[end.node].push_back(follower);
    }
    return true;
}

// More than a node has room for meet in nodes of their own.
void PathDraft::make_room() {
    for (std::uint32_t n = 1; n < before_.size(); ++n) {
        std::vector<PathEnd> ends = std::move(before_[n]);
        while (ends.size() > kPathEnds) {
            const auto some = ends.end() - kPathEnds;
            const auto fresh = static_cast<std::uint32_t>(before_.size());
            before_.emplace_back(some, ends.end());
            gone_.push_back(false);
            ends.erase(some, ends.end());
            ends.push_back({fresh, 0});
        }
        before_[n] = std::move(ends);
    }
}

void PathDraft::place(const std::vector<std::vector<PathEnd>*>& asked) {
    std::vector<std::uint32_t> place(before_.size());
    for (std::size_t i = 0; i < order_.size(); ++i)
        place[order_[i]] = static_cast<std::uint32_t>(i);
    for (const std::uint32_t n : order_) {
        PathNode node{};
        for (std::size_t i = 0; i < before_[n].size(); ++i)
            node[i] = {place[before_[n][i].node], before_[n][i].delay};
        nodes_.push_back(node);
    }
    for (std::vector<PathEnd>* ends : asked)
        for (PathEnd& end : *ends)
            end.node = place[end.node];
}

bool PathDraft::shorten(std::uint32_t delays, std::vector<std::vector<PathEnd>*> asked) {
    given_ = delays;
    gone_.assign(before_.size(), false);
    part_[0] = 0;
    for (std::vector<PathEnd>& ends : before_)
        merge(ends);
    for (std::vector<PathEnd>* ends : asked) {
        merge(*ends);
        for (const PathEnd& end : *ends)
            part_[end.node] = 0;
    }
    if (!order()) return false;
    for (const std::uint32_t n : order_)
        if (part_[n] != 0 && take_out(n)) gone_[n] = true;
    make_room();
    if (!order()) return false;
    place(asked);
    return true;
}

}  // namespace orrery::sim
