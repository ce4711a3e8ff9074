#include "sim/stragglers.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "sim/engine/drawn_cluster.hpp"

namespace orrery::sim {
namespace {

constexpr auto kBubble = static_cast<std::size_t>(trace::Account::bubble);

// The step of the same plan on another cluster.
Prediction step_on(plan::Cluster cluster, const plan::Scenario& scenario, const Profile& profile,
                   SimulateOptions options, bool part_waiting) {
    plan::Scenario other = scenario;
    other.cluster = std::move(cluster);
    options.keep_trace = false;
    options.part_waiting = part_waiting;
    return simulate(other, profile, options, "");
}

// By rank: its track.
std::vector<std::size_t> tracks_of(const trace::Trace& trace, std::int64_t ranks) {
    std::vector<std::size_t> tracks(static_cast<std::size_t>(ranks));
    for (std::size_t t = 0; t < trace.tracks.size(); ++t) {
        tracks[static_cast<std::size_t>(trace.tracks[t].rank)] = t;
        for (const trace::RankRange& range : trace.tracks[t].alike)
            std::fill_n(tracks.begin() + range.first, range.count, t);
    }
    return tracks;
}

// Of a list the slowest that the layout uses, the first of several; and how many it uses.
struct Slowest {
    std::int64_t count = 0;
    std::optional<StragglerCost::Worst> worst;

    void consider(StragglerCost::Worst one, std::int64_t ranks) {
        if (one.rank >= ranks || one.factor == 1) return;
        ++count;
        if (!worst || one.factor > worst->factor) worst = one;
    }
};

plan::Cluster with_alone(plan::Cluster even, const StragglerCost::Worst& one) {
    using plan::StragglerOf;
    if (one.of == StragglerOf::device)
        even.slow_devices = {{one.device, one.factor}};
    else if (one.of == StragglerOf::node)
        even.slow_nodes = {{one.node, one.factor}};
    else
        even.slow_links = {{one.device, one.node,
                            one.of == StragglerOf::intra_node ? plan::LinkOf::intra_node
                                                              : plan::LinkOf::inter_node,
                            one.factor}};
    return even;
}

}  // namespace

void leave_to_schedule(Picoseconds of_schedule, trace::Accounts& accounts) {
    const Picoseconds left = std::min(accounts[kBubble], of_schedule);
    accounts[static_cast<std::size_t>(trace::Account::imbalance)] += accounts[kBubble] - left;
    accounts[kBubble] = left;
}

Prediction even_step(const plan::Scenario& scenario, const Profile& profile,
                     const SimulateOptions& options) {
    return step_on(scenario.cluster.made_even(), scenario, profile, options,
                   /*part_waiting=*/true);
}

void part_bubbles(const Prediction& even, const plan::Scenario& scenario, Prediction& prediction) {
    const std::vector<std::size_t> tracks = tracks_of(even.trace, scenario.layout.ranks());
    for (std::size_t t = 0; t < prediction.sums.accounts.size(); ++t) {
        const auto rank = static_cast<std::size_t>(prediction.trace.tracks[t].rank);
        leave_to_schedule(even.sums.accounts[tracks[rank]][kBubble], prediction.sums.accounts[t]);
    }
    prediction.step.heaviest_chunk = even.step.heaviest_chunk;
}

SlowestAlone slowest_alone(const plan::Scenario& scenario, const Profile& profile,
                           const SimulateOptions& options) {
    using plan::StragglerOf;
    const plan::Cluster cluster = drawn_cluster(scenario.cluster);
    const std::int64_t per_node = cluster.devices_per_node, ranks = scenario.layout.ranks();
    Slowest devices, nodes, inside, networks;
    for (const plan::SlowDevice& slow : cluster.slow_devices)
        devices.consider({StragglerOf::device, slow.device, -1, slow.device, slow.factor}, ranks);
    for (const plan::SlowNode& slow : cluster.slow_nodes)
        nodes.consider({StragglerOf::node, -1, slow.node, slow.node * per_node, slow.factor},
                       ranks);
    for (const plan::SlowLink& slow : cluster.slow_links) {
        const bool within = slow.link == plan::LinkOf::intra_node;
        (within ? inside : networks)
            .consider(
                {within ? StragglerOf::intra_node : StragglerOf::inter_node, slow.device, slow.node,
                 slow.device >= 0 ? slow.device : slow.node * per_node, slow.factor},
                ranks);
    }
    SlowestAlone alone;
    alone.counted.slow_devices = devices.count;
    alone.counted.slow_nodes = nodes.count;
    alone.counted.slow_intra_links = inside.count;
    alone.counted.slow_networks = networks.count;
    const std::int64_t all = devices.count + nodes.count + inside.count + networks.count;
    const bool nothing_else = !cluster.jitter.any() && cluster.all_slow_factor == 1;
    for (const std::optional<StragglerCost::Worst>& one :
         {devices.worst, nodes.worst, inside.worst, networks.worst}) {
        if (!one) continue;
        std::optional<double> step_s;
        if (all > 1 || !nothing_else)
            step_s =
                step_on(with_alone(cluster.made_even(), *one), scenario, profile, options, false)
                    .step.time_s;
        alone.steps_s.emplace_back(*one, step_s);
    }
    return alone;
}

StragglerCost straggler_cost(const Prediction& even, const SlowestAlone& alone,
                             const StepPrediction& step) {
    StragglerCost cost = alone.counted;
    cost.even_s = even.step.time_s;
    for (std::size_t account = 0; account < trace::kAccounts; ++account)
        cost.added_s[account] = step.breakdown_s[account] - even.step.breakdown_s[account];
    for (auto [one, step_s] : alone.steps_s) {
        one.alone_added_s = step_s.value_or(step.time_s) - cost.even_s;
        if (!cost.worst || one.alone_added_s > cost.worst->alone_added_s) cost.worst = one;
    }
    return cost;
}

StepDraws draw_steps(const plan::Scenario& scenario, const Profile& profile,
                     const SimulateOptions& options, std::int64_t draws) {
    std::vector<plan::Cluster> clusters;  // that differ
    std::vector<std::size_t> cluster_of;  // by draw
    for (std::int64_t draw = 0; draw < draws; ++draw) {
        plan::Cluster drawn = drawn_cluster(with_draw(scenario.cluster, draw));
        if (!drawn.jitter.any()) drawn.jitter = {};  // a seed that nothing draws from
        const auto same = std::find(clusters.begin(), clusters.end(), drawn);
        cluster_of.push_back(static_cast<std::size_t>(same - clusters.begin()));
        if (same == clusters.end()) clusters.push_back(std::move(drawn));
    }
    std::vector<double> times(clusters.size());
    tbb::parallel_for(std::size_t{0}, clusters.size(), [&](std::size_t i) {
        times[i] = step_on(clusters[i], scenario, profile, options, false).step.time_s;
    });
    StepDraws result;
    for (const std::size_t i : cluster_of)
        result.times_s.push_back(times[i]);
    return result;
}

double StepDraws::mean_s() const {
    return std::accumulate(times_s.begin(), times_s.end(), 0.0) /
           static_cast<double>(times_s.size());
}

double StepDraws::quantile_s(double share) const {
    std::vector<double> sorted = times_s;
    std::sort(sorted.begin(), sorted.end());
    const double place = std::ceil(share * static_cast<double>(sorted.size()) - 1e-9);
    return sorted[static_cast<std::size_t>(std::max(1.0, place)) - 1];
}

}  // namespace orrery::sim
