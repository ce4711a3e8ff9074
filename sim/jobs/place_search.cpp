#include "sim/jobs/place_search.hpp"

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "sim/engine/drawn_cluster.hpp"
#include "sim/engine/splitmix.hpp"
#include "sim/jobs/job_on_nodes.hpp"
#include "sim/jobs/place_jobs.hpp"

namespace orrery::sim {
namespace {

class Draws {
  public:
    explicit Draws(std::uint64_t seed) : state_(split_mixed(seed)) {}
    std::size_t below(std::size_t count) {
        state_ = split_mixed(state_);
        return static_cast<std::size_t>(state_ % count);
    }

  private:
    std::uint64_t state_;
};

using Order = std::vector<std::size_t>;

class PlaceSearch {
  public:
    PlaceSearch(const plan::Cluster& cluster, const std::vector<Job>& jobs,
                const std::vector<NodeList>& given, const std::vector<bool>& pinned,
                const PlaceSearchOptions& options)
        : cluster_(drawn_cluster(cluster)),
          jobs_(jobs),
          given_(given),
          pinned_(pinned),
          options_(options),
          draws_(options.seed),
          nodes_differ_(nodes_differ(cluster_)),
          slowness_(slowness_of_nodes(cluster_)) {}

    PlaceSearchResult run() {
        measure_compact();
        consider("as given", given_);
        add_policies();
        estimate(0);
        improve();
        return simulate_best();
    }

  private:
    // --- candidates

    // Twice the same is once.
    void consider(std::string how, std::vector<NodeList> nodes) {
        if (seen_.insert(nodes).second)
            candidates_.push_back({std::move(how), std::move(nodes), 0});
    }

    void place(const std::string& how, PlacementPolicy policy, const Order& order,
               std::uint64_t seed) {
        place(how, order, [&](JobPlacing& placing, std::size_t j) {
            return placing.place(j, policy, seed + j);
        });
    }

    // `choose`: nodes for a job, of those that are free.
    template <typename Choose>
    void place(const std::string& how, const Order& order, const Choose& choose) {
        std::vector<NodeList> nodes = given_;
        JobPlacing placing(cluster_, jobs_);
        for (std::size_t j = 0; j < jobs_.size(); ++j)
            if (pinned_[j]) placing.take(j, nodes[j]);
        for (const std::size_t j : order)
            if (!pinned_[j]) nodes[j] = choose(placing, j);
        consider(how, std::move(nodes));
    }

    // By the policy among the nodes that its step alone is shortest on, of those choices that leave
    // it enough.
    void place_on_fastest(const std::string& how, PlacementPolicy policy, const Order& order) {
        place(how, order, [&](JobPlacing& placing, std::size_t j) {
            for (const Choice& choice : choices_[j]) {
                const std::optional<NodeSet> these =
                    nodes_of(choice, jobs_[j].nodes(),
                             [&](std::int64_t node) { return placing.is_free(node); });
                if (!these) continue;
                if (std::optional<NodeList> nodes = placing.place_among(*these, j, policy, 0))
                    return *std::move(nodes);
            }
            return placing.place(j, policy, 0);
        });
    }

    // --- where nodes differ

    // Among which nodes a job is placed: of some kinds, and if need be the least slow of them.
    struct Choice {
        NodeSet of_kinds;
        bool least_slow = false;
    };

    // Of those that are free; nothing where these are too few.
    template <typename IsFree>
    std::optional<NodeSet> nodes_of(const Choice& choice, std::int64_t count,
                                    const IsFree& is_free) const {
        std::vector<double> slowness;
        for (std::size_t node = 0; node < choice.of_kinds.size(); ++node)
            if (choice.of_kinds[node] && is_free(static_cast<std::int64_t>(node)))
                slowness.push_back(slowness_[node]);
        if (static_cast<std::int64_t>(slowness.size()) < count) return std::nullopt;
        if (!choice.least_slow) return choice.of_kinds;
        const auto slowest = slowness.begin() + (count - 1);
        std::nth_element(slowness.begin(), slowest, slowness.end());
        NodeSet these = choice.of_kinds;
        for (std::size_t node = 0; node < these.size(); ++node)
            these[node] = these[node] && slowness_[node] <= *slowest;
        return these;
    }

    // All nodes that it fits; where nodes differ those of each kind, too, and the least slow.
    std::vector<Choice> choices_of(std::size_t j) const {
        const NodeSet fitting = JobPlacing(cluster_, jobs_).fitting(j);
        std::vector<Choice> choices = {{fitting, false}};
        if (!nodes_differ_) return choices;
        for (std::size_t kind = 0; cluster_.node_kinds() > 1 && kind < cluster_.node_kinds();
             ++kind) {
            Choice choice{fitting, false};
            for (std::size_t node = 0; node < fitting.size(); ++node)
                choice.of_kinds[node] =
                    fitting[node] && cluster_.kind_of_device(static_cast<std::int64_t>(node) *
                                                             cluster_.devices_per_node) == kind;
            choices.push_back(std::move(choice));
        }
        const std::size_t any = choices.size();
        for (std::size_t c = 0; c < any; ++c)
            choices.push_back({choices[c].of_kinds, true});
        return choices;
    }

    // On a cluster that has no other job.
    std::optional<NodeList> compact_alone(const Choice& choice, std::int64_t count) const {
        const auto any = [](std::int64_t /*node*/) { return true; };
        const std::optional<NodeSet> these = nodes_of(choice, count, any);
        if (!these) return std::nullopt;
        FreeNodes free(cluster_);
        for (std::size_t node = 0; node < these->size(); ++node)
            if (!(*these)[node]) free.take({static_cast<std::int64_t>(node)});
        return free.place(PlacementPolicy::compact, count, 0, 0);
    }

    std::vector<std::pair<std::string, Order>> orders() {
        Order listed(jobs_.size());
        std::iota(listed.begin(), listed.end(), std::size_t{0});
        std::vector<std::pair<std::string, Order>> all = {{"in order", listed}};
        Order by_size = listed;
        std::stable_sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) {
            return jobs_[a].nodes() > jobs_[b].nodes();
        });
        all.emplace_back("largest first", by_size);
        std::stable_sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) {
            return jobs_[a].nodes() < jobs_[b].nodes();
        });
        all.emplace_back("smallest first", by_size);
        for (int i = 0; i < options_.random_orders; ++i) {
            for (std::size_t k = listed.size(); k > 1; --k)
                std::swap(listed[k - 1], listed[draws_.below(k)]);
            all.emplace_back("in a drawn order", listed);
        }
        return all;
    }

    void add_policies() {
        const auto by_order = orders();
        for (const auto& [how, order] : by_order) {
            place("compact, " + how, PlacementPolicy::compact, order, 0);
            place("whole stages below a leaf, " + how, PlacementPolicy::rail_aligned, order, 0);
            if (!nodes_differ_) continue;
            place_on_fastest("compact on the fastest nodes, " + how, PlacementPolicy::compact,
                             order);
            place_on_fastest("whole stages on the fastest nodes, " + how,
                             PlacementPolicy::rail_aligned, order);
        }
        place("scattered", PlacementPolicy::scattered, by_order.front().second, 0);
        for (int i = 0; i < options_.random_places; ++i)
            place("random", PlacementPolicy::random, by_order.front().second,
                  split_mixed(options_.seed + static_cast<std::uint64_t>(i)));
    }

    // --- estimates

    // Steps alone of all that candidates from this one on need, each simulated once.
    void estimate(std::size_t first) {
        std::vector<std::pair<std::size_t, NodeList>> missing;
        for (std::size_t c = first; c < candidates_.size(); ++c)
            for (std::size_t j = 0; j < jobs_.size(); ++j)
                if (alone_.try_emplace({j, candidates_[c].nodes[j]}).second)
                    missing.emplace_back(j, candidates_[c].nodes[j]);
        simulate_alone(missing);
        for (std::size_t c = first; c < candidates_.size(); ++c)
            candidates_[c].estimate = estimate_of(candidates_[c].nodes);
    }

    void simulate_alone(const std::vector<std::pair<std::size_t, NodeList>>& missing) {
        std::vector<AloneStep> steps(missing.size());
        oneapi::tbb::parallel_for(std::size_t{0}, missing.size(), [&](std::size_t i) {
            steps[i] = run_alone(cluster_, jobs_[missing[i].first], missing[i].second);
        });
        for (std::size_t i = 0; i < missing.size(); ++i)
            alone_[missing[i]] = std::move(steps[i]);
        if (options_.run.stop != nullptr && options_.run.stop->load()) throw Stopped();
    }

    void measure_compact() {
        std::set<std::pair<std::size_t, NodeList>> wanted;
        std::vector<std::vector<NodeList>> nodes(jobs_.size());  // by job and choice
        for (std::size_t j = 0; j < jobs_.size(); ++j) {
            choices_.emplace_back();
            for (Choice& choice : choices_of(j)) {
                std::optional<NodeList> compact = compact_alone(choice, jobs_[j].nodes());
                if (!compact) continue;
                wanted.emplace(j, *compact);
                nodes[j].push_back(*std::move(compact));
                choices_[j].push_back(std::move(choice));
            }
        }
        simulate_alone({wanted.begin(), wanted.end()});
        for (std::size_t j = 0; j < jobs_.size(); ++j) {
            const auto length = [&](std::size_t c) { return alone_[{j, nodes[j][c]}].step.length; };
            Order by_length(choices_[j].size());
            std::iota(by_length.begin(), by_length.end(), std::size_t{0});
            std::stable_sort(by_length.begin(), by_length.end(),
                             [&](std::size_t a, std::size_t b) { return length(a) < length(b); });
            compact_s_.push_back(to_seconds(length(by_length.front())));
            std::vector<Choice> sorted;
            for (const std::size_t c : by_length)
                sorted.push_back(std::move(choices_[j][c]));
            choices_[j] = std::move(sorted);
        }
    }

    // While job j passes a link, another passes it too with the share of its step that it is busy
    // there; together they take longer by what both ask for beyond what the link has.
    double estimate_of(const std::vector<NodeList>& nodes) const {
        std::vector<const AloneStep*> alone;
        for (std::size_t j = 0; j < jobs_.size(); ++j)
            alone.push_back(&alone_.at({j, nodes[j]}));
        std::vector<double> slowdowns;
        for (std::size_t j = 0; j < jobs_.size(); ++j) {
            double worst = 0;
            for (const auto& [link, own] : alone[j]->links) {
                double added = 0;
                for (std::size_t other = 0; other < jobs_.size(); ++other) {
                    if (other == j) continue;
                    const auto met = alone[other]->links.find(link);
                    if (met == alone[other]->links.end()) continue;
                    const double beyond = own.demand + met->second.demand - 1;
                    added += own.busy * met->second.busy * std::max(0.0, beyond);
                }
                worst = std::max(worst, added);
            }
            slowdowns.push_back(to_seconds(alone[j]->step.length) * (1 + worst) / compact_s_[j]);
        }
        return objective(slowdowns);
    }

    double objective(const std::vector<double>& slowdowns) const {
        return score_of(options_.objective, slowdowns);
    }

    std::size_t best() const {
        const auto least =
            std::min_element(candidates_.begin(), candidates_.end(),
                             [](const auto& a, const auto& b) { return a.estimate < b.estimate; });
        return static_cast<std::size_t>(least - candidates_.begin());
    }

    // --- swaps

    void improve() {
        if (cluster_.inter_node.fabric.levels.empty() && !nodes_differ_) return;
        for (int round = 0; round < options_.rounds; ++round) {
            const PlaceCandidate from = candidates_[best()];
            const std::size_t first = candidates_.size();
            for (int i = 0; i < options_.swaps; ++i)
                if (auto swapped = nodes_differ_ && draws_.below(2) == 0 ? faster_in(from.nodes)
                                                                         : swap_in(from.nodes))
                    consider(fmt::format("{}, then {} exchange{} of nodes", base_of(from.how),
                                         round + 1, round > 0 ? "s" : ""),
                             std::move(*swapped));
            estimate(first);
            if (candidates_[best()].estimate >= from.estimate) return;
        }
    }

    static std::string base_of(const std::string& how) {
        return how.substr(0, how.find(", then "));
    }

    // Some of a job's nodes below one leaf for as many below another that some other job has, or
    // nobody.
    std::optional<std::vector<NodeList>> swap_in(const std::vector<NodeList>& nodes) {
        std::vector<std::size_t> movable;
        for (std::size_t j = 0; j < jobs_.size(); ++j)
            if (!pinned_[j]) movable.push_back(j);
        if (movable.empty()) return std::nullopt;
        std::vector<NodeList> out = nodes;
        NodeList free;
        std::set<std::int64_t> taken;
        for (const NodeList& of : nodes)
            taken.insert(of.begin(), of.end());
        for (std::int64_t node = 0; node < cluster_.all_nodes(); ++node)
            if (taken.count(node) == 0) free.push_back(node);
        const std::size_t a = movable[draws_.below(movable.size())];
        const std::size_t other = draws_.below(movable.size() + (free.empty() ? 0 : 1));
        const bool with_free = other == movable.size();
        if (!with_free && movable[other] == a) return std::nullopt;
        NodeList& mine = out[a];
        NodeList& theirs = with_free ? free : out[movable[other]];
        const auto& levels = cluster_.inter_node.fabric.levels;
        const std::int64_t leaf = levels.empty() ? 1 : levels.front().nodes;
        const std::int64_t from = mine[draws_.below(mine.size())] / leaf;
        const std::int64_t to = theirs[draws_.below(theirs.size())] / leaf;
        if (from == to) return std::nullopt;
        const auto below = [&](const NodeList& list, std::int64_t unit) {
            std::vector<std::size_t> at;
            for (std::size_t i = 0; i < list.size(); ++i)
                if (list[i] / leaf == unit) at.push_back(i);
            return at;
        };
        const std::vector<std::size_t> own = below(mine, from), others = below(theirs, to);
        const std::size_t most = std::min(own.size(), others.size());
        const std::size_t count = draws_.below(2) == 0 ? most : 1 + draws_.below(most);
        for (std::size_t i = 0; i < count; ++i)
            std::swap(mine[own[i]], theirs[others[i]]);
        return sorted_if_fitting(std::move(out));
    }

    std::optional<std::vector<NodeList>> sorted_if_fitting(std::vector<NodeList> nodes) const {
        for (std::size_t j = 0; j < jobs_.size(); ++j) {
            std::sort(nodes[j].begin(), nodes[j].end());
            if (!fits(cluster_, jobs_[j], nodes[j])) return std::nullopt;
        }
        return nodes;
    }

    // A job's slowest node for a faster one that is free or another job's.
    std::optional<std::vector<NodeList>> faster_in(const std::vector<NodeList>& nodes) {
        std::vector<std::size_t> movable;
        for (std::size_t j = 0; j < jobs_.size(); ++j)
            if (!pinned_[j]) movable.push_back(j);
        if (movable.empty()) return std::nullopt;
        std::vector<std::int64_t> owner(slowness_.size(), -1);
        for (std::size_t j = 0; j < jobs_.size(); ++j)
            for (const std::int64_t node : nodes[j])
                owner[static_cast<std::size_t>(node)] = static_cast<std::int64_t>(j);
        const std::size_t a = movable[draws_.below(movable.size())];
        const auto slower = [&](std::int64_t one, std::int64_t other) {
            return slowness_[static_cast<std::size_t>(one)] <
                   slowness_[static_cast<std::size_t>(other)];
        };
        const std::int64_t slow = *std::max_element(nodes[a].begin(), nodes[a].end(), slower);
        NodeList faster;
        for (std::size_t node = 0; node < owner.size(); ++node) {
            const bool stays = owner[node] >= 0 && pinned_[static_cast<std::size_t>(owner[node])];
            if (!stays && slower(static_cast<std::int64_t>(node), slow))
                faster.push_back(static_cast<std::int64_t>(node));
        }
        if (faster.empty()) return std::nullopt;
        const std::int64_t taken = faster[draws_.below(faster.size())];
        const std::int64_t from = owner[static_cast<std::size_t>(taken)];
        std::vector<NodeList> out = nodes;
        std::replace(out[a].begin(), out[a].end(), slow, taken);
        if (from >= 0) {
            NodeList& theirs = out[static_cast<std::size_t>(from)];
            std::replace(theirs.begin(), theirs.end(), taken, slow);
        }
        return sorted_if_fitting(std::move(out));
    }

    // --- the best in full

    PlaceSearchResult simulate_best() {
        PlaceSearchResult result;
        result.estimated = static_cast<std::int64_t>(candidates_.size());
        result.compact_s = compact_s_;
        std::vector<std::size_t> order(candidates_.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::stable_sort(order.begin() + 1, order.end(), [&](std::size_t a, std::size_t b) {
            return candidates_[a].estimate < candidates_[b].estimate;
        });
        // The first is what was given: what others are held against.
        order.resize(std::min(order.size(), static_cast<std::size_t>(options_.simulated) + 1));
        result.simulated.resize(order.size());
        oneapi::tbb::parallel_for(std::size_t{0}, order.size(), [&](std::size_t i) {
            SimulatedPlaces& one = result.simulated[i];
            one.candidate = candidates_[order[i]];
            simulate(one);
            if (!one.outcome.stuck.empty()) return;
            for (std::size_t j = 0; j < jobs_.size(); ++j)
                one.slowdowns.push_back(one.outcome.jobs[j].slowdown_against(compact_s_[j]));
            one.score = objective(one.slowdowns);
        });
        std::stable_sort(result.simulated.begin(), result.simulated.end(),
                         [](const auto& a, const auto& b) { return a.score < b.score; });
        return result;
    }

    void simulate(SimulatedPlaces& one) const {
        if (!options_.shifts) {
            one.outcome = run_jobs(cluster_, jobs_, one.candidate.nodes, options_.run);
            return;
        }
        one.shifts =
            search_shifts(cluster_, jobs_, one.candidate.nodes,
                          {options_.objective, options_.simulated, compact_s_, options_.run});
        one.outcome = one.shifts->simulated.front().outcome;
    }

    const plan::Cluster cluster_;
    const std::vector<Job>& jobs_;
    const std::vector<NodeList>& given_;
    const std::vector<bool>& pinned_;
    const PlaceSearchOptions& options_;
    Draws draws_;
    bool nodes_differ_;
    std::vector<double> slowness_;              // by node
    std::vector<std::vector<Choice>> choices_;  // by job, that of the shortest step first
    std::vector<PlaceCandidate> candidates_;
    std::set<std::vector<NodeList>> seen_;
    std::map<std::pair<std::size_t, NodeList>, AloneStep> alone_;
    std::vector<double> compact_s_;
};

}  // namespace

PlaceSearchResult search_places(const plan::Cluster& cluster, const std::vector<Job>& jobs,
                                const std::vector<NodeList>& given, const std::vector<bool>& pinned,
                                const PlaceSearchOptions& options) {
    return PlaceSearch(cluster, jobs, given, pinned, options).run();
}

}  // namespace orrery::sim
