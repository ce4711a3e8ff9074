#include "calib/preflight/judgement.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "plan/check.hpp"

namespace orrery::preflight {
namespace {

constexpr double kCentral90 = 1.645;  // standard deviations, of a normal distribution

double lower_median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

std::vector<Family> families_of(const std::vector<Timing>& measured, const Expected& expected,
                                std::int64_t ranks_per_node) {
    std::map<std::pair<Check, bool>, Family> families;
    for (std::size_t i = 0; i < measured.size(); ++i) {
        const Timing& timing = measured[i];
        const bool between =
            timing.peer >= 0 && timing.rank / ranks_per_node != timing.peer / ranks_per_node;
        Family& family = families[{timing.check, between}];
        family.check = timing.check;
        family.between_nodes = between;
        family.measured.push_back(timing);
        family.expected.push_back(expected.timings[i]);
        family.expected_sd = expected.relative_sd[i];
    }
    std::vector<Family> all;
    for (auto& [key, family] : families) {
        std::vector<double> ratios;
        for (std::size_t i = 0; i < family.measured.size(); ++i)
            ratios.push_back(family.slowdown(i));
        family.usual = lower_median(ratios);
        all.push_back(std::move(family));
    }
    return all;
}

// Ranks whose links are slow in most of their pairs, and pairs that are slow beside.
std::vector<Slow> slow_of_pairs(const Family& family, double tolerance) {
    std::map<plan::Rank, std::vector<double>> of_rank;
    for (std::size_t i = 0; i < family.measured.size(); ++i)
        for (const plan::Rank rank : {family.measured[i].rank, family.measured[i].peer})
            of_rank[rank].push_back(family.slowdown(i));
    std::vector<Slow> slow;
    std::set<plan::Rank> named;
    for (const auto& [rank, slowdowns] : of_rank) {
        const auto many = static_cast<std::int64_t>(slowdowns.size());
        const auto beyond = std::count_if(slowdowns.begin(), slowdowns.end(),
                                          [&](double each) { return each > 1 + tolerance; });
        if (many < 2 || 2 * beyond <= many) continue;
        Slow found{family.check, family.between_nodes, -1, rank, -1, lower_median(slowdowns)};
        found.slow_pairs = beyond;
        found.pairs = many;
        slow.push_back(found);
        named.insert(rank);
    }
    for (std::size_t i = 0; i < family.measured.size(); ++i) {
        const Timing& pair = family.measured[i];
        if (family.slowdown(i) <= 1 + tolerance) continue;
        if (named.count(pair.rank) + named.count(pair.peer) > 0) continue;
        slow.push_back(
            {family.check, family.between_nodes, -1, pair.rank, pair.peer, family.slowdown(i)});
    }
    return slow;
}

std::vector<Slow> slow_of_ranks(const Family& family, double tolerance) {
    std::vector<Slow> slow;
    for (std::size_t i = 0; i < family.measured.size(); ++i)
        if (family.slowdown(i) > 1 + tolerance)
            slow.push_back({family.check, family.between_nodes, -1, family.measured[i].rank, -1,
                            family.slowdown(i)});
    return slow;
}

// A node takes the place of its ranks where all of them are slow.
std::vector<Slow> by_node(std::vector<Slow> slow, std::int64_t ranks, std::int64_t ranks_per_node) {
    if (ranks_per_node < 2) return slow;
    std::map<std::int64_t, std::vector<double>> of_node;
    for (const Slow& each : slow)
        if (each.peer < 0) of_node[each.rank / ranks_per_node].push_back(each.slowdown);
    std::vector<Slow> out;
    for (const Slow& each : slow) {
        const std::int64_t node = each.rank / ranks_per_node;
        const std::int64_t there = std::min(ranks_per_node, ranks - node * ranks_per_node);
        const auto found = of_node.find(node);
        if (each.peer >= 0 || there < 2 || found == of_node.end() ||
            static_cast<std::int64_t>(found->second.size()) < there) {
            out.push_back(each);
            continue;
        }
        if (each.rank % ranks_per_node != 0) continue;  // its first rank stands for it
        Slow whole = each;
        whole.node = node;
        whole.slowdown = lower_median(found->second);
        out.push_back(whole);
    }
    return out;
}

}  // namespace

Judgement judge(const std::vector<Timing>& measured, const Expected& expected,
                std::int64_t ranks_per_node, double tolerance) {
    ORRERY_CHECK(measured.size() == expected.timings.size(), "both are of one plan");
    Judgement judgement;
    judgement.families = families_of(measured, expected, ranks_per_node);
    std::int64_t ranks = 0;
    for (const Timing& timing : measured)
        ranks = std::max({ranks, timing.rank + 1, timing.peer + 1});
    for (std::size_t f = 0; f < judgement.families.size(); ++f) {
        const Family& family = judgement.families[f];
        if (family.usual > 1 + tolerance + kCentral90 * family.expected_sd)
            judgement.behind_profile.push_back(f);
        if (family.check == Check::sum) continue;  // one of all
        std::vector<Slow> slow = family.check == Check::pair ? slow_of_pairs(family, tolerance)
                                                             : slow_of_ranks(family, tolerance);
        slow = by_node(std::move(slow), ranks, ranks_per_node);
        judgement.slow.insert(judgement.slow.end(), slow.begin(), slow.end());
    }
    std::stable_sort(judgement.slow.begin(), judgement.slow.end(),
                     [](const Slow& a, const Slow& b) { return a.slowdown > b.slowdown; });
    return judgement;
}

}  // namespace orrery::preflight
