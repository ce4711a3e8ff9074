#include "sim/search/search.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include <tbb/parallel_for.h>

#include "plan/assemble/build_plan.hpp"
#include "plan/blocks/dims.hpp"
#include "plan/check.hpp"
#include "plan/schedule/schedule.hpp"
#include "sim/search/few_micro_batches.hpp"
#include "sim/search/layout_estimate.hpp"
#include "sim/search/layout_sets.hpp"

namespace orrery::sim {
namespace {

constexpr const char* kMemory = "memory";
constexpr const char* kIdle = "idle devices";
constexpr std::uint64_t kBlock = 256;     // combinations of a thread at once, groups of ZeRO apart
constexpr std::size_t kTimedAtOnce = 64;  // of those that exceed memory
constexpr std::size_t kMostPareto = 24;
constexpr std::size_t kNearest = 3;
constexpr std::size_t kLeastBatch = 8;   // layouts that are simulated side by side; more where …
constexpr std::size_t kMostBatch = 64;   // … none of them was any good
constexpr std::size_t kMostUnknown = 2;  // of a kind of which none has been simulated
constexpr std::size_t kMostAfterEnough = 4;  // at once: each may rule out others
constexpr std::size_t kMostUnparted = 16;    // that are kept, each with its plan and ops
// Once as many are there as are asked for: times these, and no fewer than.
constexpr std::size_t kMostSimulated = 2, kFewestSimulated = 16;

double cost_of(const plan::Scenario& scenario, double step_s) {
    return objective_of(Objective::cost_per_token, scenario, step_s);
}

bool before(const PricedLayout& a, const PricedLayout& b) {
    return std::tie(a.objective, a.step_s, a.peak_bytes, a.base, a.number) <
           std::tie(b.objective, b.step_s, b.peak_bytes, b.base, b.number);
}

// Why combinations are no layouts, with the message of the first of them.
class Infeasible {
  public:
    void add(const std::string& why, const std::string& message, std::uint64_t number,
             std::uint64_t layouts = 1) {
        auto [entry, is_new] = all_.try_emplace(why);
        auto& [broken, first] = entry->second;
        if (is_new || number < first) {
            broken.message = message;
            first = number;
        }
        broken.layouts += layouts;
    }
    void add(const Infeasible& others) {
        for (const auto& [why, of] : others.all_)
            add(why, of.broken.message, of.first, of.broken.layouts);
    }
    void add_to(std::map<std::string, SearchResult::Broken>& result) const {
        for (const auto& [why, of] : all_) {
            SearchResult::Broken& entry = result[why];
            if (entry.layouts == 0) entry.message = of.broken.message;
            entry.layouts += of.broken.layouts;
        }
    }

  private:
    struct Broken {
        SearchResult::Broken broken;
        std::uint64_t first = 0;
    };
    std::map<std::string, Broken> all_;
};

// What one thread has found in one block of combinations.
struct Block {
    std::uint64_t evaluated = 0, priced = 0;
    Infeasible infeasible;
    std::vector<PricedLayout> fitting;
    std::vector<PricedLayout> exceeding;  // memory; of their steps what is the least
};

// A simulation whose waiting has not been parted, with what it is of.
struct Unparted {
    explicit Unparted(plan::Scenario of) : scenario(std::move(of)) {}

    Prediction finish() {
        plan::complete_plan(plan, scenario);
        return step->finish();
    }

    plan::Scenario scenario;
    plan::Plan plan;
    std::optional<SimulatedStep> step;
};

// A layout simulated in full.
struct Simulated {
    FoundLayout found;
    // Of the step before its waiting was parted: what layouts are told apart by.
    std::array<double, trace::kAccounts> breakdown_s{};
    bool parted = false;
    std::unique_ptr<Unparted> unparted;  // kept where it may be listed
};

class Pricing {
  public:
    Pricing(const std::vector<SearchBase>& bases, const SearchOptions& options)
        : bases_(bases), options_(options) {
        for (const SearchBase& base : bases) {
            pricers_.push_back(std::make_unique<LayoutPricer>(*base.read.scenario, *base.profile,
                                                              costs_for(base)));
            stages_.push_back(stages_of(base));
            size_ += base.space.size();
        }
    }

    SearchResult run() {
        SearchResult result;
        std::vector<PricedLayout> fitting, exceeding;
        for (std::uint32_t b = 0; b < bases_.size(); ++b) {
            Infeasible infeasible;
            std::vector<Block> blocks = blocks_of(b, infeasible, result.evaluated);
            for (Block& block : blocks) {
                result.evaluated += block.evaluated;
                result.priced += block.priced;
                infeasible.add(block.infeasible);
                fitting.insert(fitting.end(), block.fitting.begin(), block.fitting.end());
                exceeding.insert(exceeding.end(), block.exceeding.begin(), block.exceeding.end());
            }
            infeasible.add_to(result.infeasible);
        }
        std::sort(fitting.begin(), fitting.end(), before);
        Places too_large;
        if (options_.of_each_base)
            simulate_best_of_each(fitting, result, too_large);
        else
            result.layouts = simulate_best(fitting, result, too_large);
        std::erase_if(fitting, [&](const PricedLayout& one) {
            return too_large.contains({one.base, one.number});
        });
        for (const PricedLayout& one : fitting)
            result.objectives.push_back(one.objective);
        result.pareto = pareto_of(fitting);
        // Not where it ended before those were simulated that may fit.
        if (result.objectives.empty()) result.nearest = nearest_of(exceeding);
        result.without_memory_limit =
            best_of(std::move(exceeding), fitting.empty() ? nullptr : &fitting.front());
        result.stopped = stopped();
        return result;
    }

  private:
    // Base and number of layouts.
    using Places = std::set<std::pair<std::uint32_t, std::uint64_t>>;

    // Bases that differ in layout and nodes alone share the costs of stages.
    SharedStageCosts& costs_for(const SearchBase& base) {
        for (const auto& [first, costs] : costs_)
            if (first->profile == base.profile && shares_costs(*first, base)) return *costs;
        std::int64_t nodes = 0;
        for (const SearchBase& other : bases_)
            if (other.profile == base.profile && shares_costs(base, other))
                nodes = std::max(nodes, other.read.scenario->cluster.all_nodes());
        costs_.emplace_back(&base, std::make_unique<SharedStageCosts>(
                                       nodes, base.read.scenario->cluster.node_kinds()));
        return *costs_.back().second;
    }
    static bool shares_costs(const SearchBase& a, const SearchBase& b) {
        plan::Scenario one = *a.read.scenario;
        const plan::Scenario& other = *b.read.scenario;
        one.cluster.nodes = other.cluster.nodes;
        one.layout = other.layout;
        return one == other;
    }

    // What the rules of stages say of the keys that change fastest, which are all that they ask
    // for: most combinations break one of them.
    struct Stages {
        std::string broken, message;
    };
    static std::vector<Stages> stages_of(const SearchBase& base) {
        plan::RuleCheck rules(base.read.given);
        plan::Scenario scenario = *base.read.scenario;
        std::vector<Stages> all(base.space.stage_combinations());
        for (std::uint64_t number = 0; number < all.size(); ++number) {
            scenario.layout = base.space.layout(number);
            all[number].broken = rules.first_broken(scenario, deal_layers(base, scenario),
                                                    plan::RuleCheck::Asked::of_stages);
            if (!all[number].broken.empty()) all[number].message = rules.message();
        }
        return all;
    }

    bool stopped() const { return options_.stop != nullptr && options_.stop->load(); }

    void report(std::uint64_t combinations) {
        if (!options_.progress) return;
        const std::lock_guard lock(progress_);
        done_ += combinations;
        options_.progress(static_cast<double>(done_) / static_cast<double>(size_));
    }

    // Combinations that differ in the keys that change slowest: they share schedule, chunks and
    // pipeline, and so have few skeletons between them.
    struct Range {
        std::uint64_t stages = 0;          // of all that there are of the keys that change fastest
        std::uint64_t first = 0, end = 0;  // of the others, groups of ZeRO apart
    };

    std::vector<Block> blocks_of(std::uint32_t b, Infeasible& infeasible,
                                 std::uint64_t& evaluated) {
        const std::uint64_t groups = bases_[b].space.zero_groups();
        const std::uint64_t others = bases_[b].space.size() / stages_[b].size() / groups;
        std::vector<Range> ranges;
        for (std::uint64_t at = 0; at < stages_[b].size(); ++at) {
            const Stages& stages = stages_[b][at];
            if (!stages.broken.empty()) {
                if (stopped()) continue;
                infeasible.add(stages.broken, stages.message, at, others);
                evaluated += others;
                report(others * groups);
                continue;
            }
            for (std::uint64_t first = 0; first < others; first += kBlock)
                ranges.push_back({at, first, std::min(others, first + kBlock)});
        }
        std::vector<Block> blocks(ranges.size());
        tbb::parallel_for(std::size_t{0}, blocks.size(), [&](std::size_t i) {
            if (stopped()) return;
            blocks[i] = price(b, ranges[i], i);
            report((ranges[i].end - ranges[i].first) * groups);
        });
        return blocks;
    }

    // Those that may fit, until they are timed together.
    struct Untimed {
        std::vector<PricedLayout> priced;
        std::vector<plan::Layout> layouts;
        std::vector<UnwalkedEstimate> estimates;
    };

    // Threads that price one range after another begin at different places, so that they do not
    // wait for each other to make the costs of the same stages.
    Block price(std::uint32_t b, const Range& range, std::uint64_t place) const {
        const SearchBase& base = bases_[b];
        plan::RuleCheck rules(base.read.given);
        plan::Scenario scenario = *base.read.scenario;
        Block block;
        Untimed untimed;
        constexpr std::uint64_t kApart = 37;
        const std::uint64_t count = range.end - range.first, groups = base.space.zero_groups();
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::uint64_t other = range.first + (i + kApart * place) % count;
            const auto number = [&](std::uint64_t group) {
                return (other * groups + group) * stages_[b].size() + range.stages;
            };
            scenario.layout = base.space.layout(number(0));
            scenario.training.fp8 = base.read.scenario->training.fp8;
            if (!price_one(b, number(0), settle(base, rules, scenario), rules, scenario, block,
                           untimed) ||
                scenario.layout.zero_stage == 0)
                continue;
            for (std::uint64_t group = 1; group < groups; ++group) {
                scenario.layout.zero_group_size = base.space.zero_group(group);
                scenario.training.fp8 = base.read.scenario->training.fp8;
                const bool repeats = base.space.repeats(scenario, scenario.layout.data_parallel);
                const std::string broken =
                    repeats
                        ? kRepeats
                        : rules.first_broken(scenario, {}, plan::RuleCheck::Asked::of_zero_groups);
                price_one(b, number(group), broken, rules, scenario, block, untimed);
            }
        }
        walk(untimed.estimates);
        for (std::size_t i = 0; i < untimed.priced.size(); ++i) {
            scenario.layout = std::move(untimed.layouts[i]);
            set_step(untimed.priced[i], scenario, untimed.estimates[i].layout.step_s);
        }
        block.fitting = std::move(untimed.priced);
        return block;
    }

    // A combination, which the scenario has, and what it breaks; whether it is a layout.
    bool price_one(std::uint32_t b, std::uint64_t number, const std::string& broken,
                   const plan::RuleCheck& rules, const plan::Scenario& scenario, Block& block,
                   Untimed& untimed) const {
        if (broken == kRepeats) return false;
        ++block.evaluated;
        if (!broken.empty()) {
            block.infeasible.add(broken,
                                 broken == kIdle ? "the layout leaves devices of the "
                                                   "cluster without work"
                                                 : rules.message(),
                                 number);
            return false;
        }
        UnwalkedEstimate estimate = pricers_[b]->price_memory(scenario);
        if (!estimate.layout.error.empty()) {
            block.infeasible.add(estimate.layout.error, "the device cannot compute so", number);
            return false;
        }
        ++block.priced;
        PricedLayout priced{
            b, number, 0, estimate.layout.peak_bytes, estimate.layout.fit_probability, 0, 0};
        if (may_fit(estimate.layout, *bases_[b].profile, scenario)) {
            untimed.priced.push_back(priced);
            untimed.layouts.push_back(scenario.layout);
            untimed.estimates.push_back(std::move(estimate));
            return true;
        }
        block.infeasible.add(kMemory, "needs more memory than the device, or the node, has",
                             number);
        set_step(priced, scenario, estimate.step.least_seconds());
        block.exceeding.push_back(priced);
        return true;
    }

    void set_step(PricedLayout& priced, const plan::Scenario& scenario, double step_s) const {
        priced.step_s = step_s;
        priced.objective = sim::objective_of(options_.objective, scenario, step_s);
        priced.cost = cost_of(scenario, step_s);
    }

    // With the step itself in place of what is the least that it takes.
    PricedLayout timed(PricedLayout priced) const {
        const SearchBase& base = bases_[priced.base];
        plan::RuleCheck rules(base.read.given);
        std::string broken;
        const std::optional<plan::Scenario> scenario =
            scenario_of(base, priced.number, rules, broken);
        ORRERY_CHECK(scenario.has_value(), "a layout that was priced breaks no rule");
        set_step(priced, *scenario, pricers_[priced.base]->price(*scenario).step_s);
        return priced;
    }
    void time(std::span<PricedLayout> some) const {
        tbb::parallel_for(std::size_t{0}, some.size(),
                          [&](std::size_t i) { some[i] = timed(some[i]); });
    }

    // The best of those that exceed, if it comes before `limit`: they are timed as long as one
    // that has not been might be it.
    std::optional<PricedLayout> best_of(std::vector<PricedLayout> exceeding,
                                        const PricedLayout* limit) const {
        std::sort(exceeding.begin(), exceeding.end(), before);
        std::optional<PricedLayout> best;
        for (std::size_t first = 0, end = 0; first < exceeding.size(); first = end) {
            while (end < exceeding.size() && end - first < kTimedAtOnce &&
                   (limit == nullptr || exceeding[end].objective <= limit->objective))
                ++end;
            if (end == first) break;
            time(std::span(exceeding).subspan(first, end - first));
            for (std::size_t i = first; i < end; ++i) {
                if (limit != nullptr && !before(exceeding[i], *limit)) continue;
                best = exceeding[i];
                limit = &*best;
            }
        }
        return best;
    }

    // Within the bound of the estimate the simulation decides.
    bool may_fit(const LayoutEstimate& estimate, const Profile& profile,
                 const plan::Scenario& scenario) const {
        const double capacity = estimate.capacity_bytes;
        const double least = estimate.peak_bytes / (1 + estimate_bounds(scenario).peak);
        if (!leaves_margin(least, capacity)) return false;
        if (estimate.fit_probability >= options_.least_fit_probability) return true;
        if (estimate.fit_probability == 0) return false;  // the node's memory
        return fit_probability(least, capacity,
                               stack_prior(scenario.training.framework, profile)) >=
               options_.least_fit_probability;
    }

    // In batches, until there are as many as are asked for and the others cannot be among them; of
    // what then might be, a few times as many. Adds those to `too_large` that the simulation says
    // do not fit.
    std::vector<FoundLayout> simulate_best(const std::vector<PricedLayout>& fitting,
                                           SearchResult& result, Places& too_large) {
        std::vector<Simulated> layouts;
        if (options_.top == 0) return {};
        Estimated estimated;
        std::vector<bool> taken(fitting.size());
        const std::vector<std::size_t> kin = kin_of(fitting);
        std::size_t after_enough = 0, done = 0, most_at_once = std::max(options_.top, kLeastBatch);
        const std::size_t most_after_enough =
            std::max(kFewestSimulated, kMostSimulated * options_.top);
        while (!stopped()) {
            std::vector<std::size_t> batch = candidates(fitting, kin, taken, layouts, estimated);
            if (batch.empty()) break;
            batch.resize(std::min(batch.size(),
                                  layouts.size() < options_.top ? most_at_once : kMostAfterEnough));
            if (layouts.size() >= options_.top) after_enough += batch.size();
            if (after_enough > most_after_enough) break;
            std::vector<std::optional<Simulated>> found(batch.size());
            const double most = layouts.size() < options_.top
                                    ? std::numeric_limits<double>::infinity()
                                    : objective_of(layouts[options_.top - 1]);
            std::vector<std::int64_t> passes;
            for (const std::size_t i : batch)
                passes.push_back(
                    passes_of(bases_[fitting[i].base].space.layout(fitting[i].number)));
            side_by_side(passes, [&](std::size_t i) {
                if (!stopped()) found[i] = simulated(fitting[batch[i]], most);
            });
            const std::size_t before = layouts.size();
            for (std::size_t i = 0; i < batch.size(); ++i) {
                taken[batch[i]] = true;
                std::optional<Simulated>& one = found[i];
                if (!one) continue;
                if (one->found.prediction.step.time_s > 0)
                    estimated.add(*one, objective_of(*one) / one->found.price.objective);
                if (is_listed(*one, layouts)) continue;
                if (fits(one->found.prediction.memory)) {
                    layouts.push_back(std::move(*one));
                    for (std::size_t other = 0; other < fitting.size(); ++other)
                        taken[other] = taken[other] || kin[other] == kin[batch[i]];
                    continue;
                }
                ++result.infeasible[kMemory].layouts;
                too_large.emplace(one->found.price.base, one->found.price.number);
            }
            done += batch.size();
            most_at_once = layouts.size() > before ? std::max(options_.top, kLeastBatch)
                                                   : std::min(kMostBatch, 2 * most_at_once);
            std::stable_sort(layouts.begin(), layouts.end(),
                             [&](const Simulated& a, const Simulated& b) {
                                 return objective_of(a) < objective_of(b);
                             });
            for (std::size_t i = options_.top; i < layouts.size(); ++i)
                layouts[i].unparted.reset();  // not among them any more
            if (options_.simulating) {
                std::size_t left = candidates(fitting, kin, taken, layouts, estimated).size();
                if (layouts.size() >= options_.top) left = std::min(left, most_after_enough);
                options_.simulating(static_cast<double>(done) / static_cast<double>(done + left));
            }
        }
        if (layouts.size() > options_.top) layouts.resize(options_.top);
        part_waiting_of(layouts);
        std::vector<FoundLayout> best;
        for (Simulated& one : layouts)
            best.push_back(std::move(one.found));
        return best;
    }

    // What simulations were of their estimates, which err alike within a schedule: the more of one
    // have been simulated, the less do the others surprise.
    class Estimated {
      public:
        using Kind = std::tuple<std::uint32_t, std::string, bool>;
        static Kind kind_of(std::uint32_t base, const plan::Layout& layout) {
            // From ZeRO-2 on passes contend with what is shared out.
            return {base, layout.schedule, layout.zero_stage >= 2};
        }

        void add(const Simulated& one, double ratio) {
            Ratios& of = kinds_[kind_of(one.found.price.base, one.found.scenario.layout)];
            of.least = std::min(of.least, ratio);
            ++of.count;
        }
        bool knows(const Kind& kind) const { return kinds_.contains(kind); }
        // The least that a simulation is of its estimate, which errs by no more than `bound`.
        double least(const Kind& kind, double bound) const {
            const auto found = kinds_.find(kind);
            if (found == kinds_.end()) return 1 - bound;
            const auto& [ratio, count] = found->second;
            return std::max(1 - bound, ratio - bound / static_cast<double>(count + 1));
        }

      private:
        struct Ratios {
            double least = std::numeric_limits<double>::infinity();
            std::size_t count = 0;
        };
        std::map<Kind, Ratios> kinds_;
    };

    // Of the ranks that are simulated, up to a factor: the fewer copies of the model there are, the
    // more micro-batches each has.
    static std::int64_t passes_of(const plan::Layout& layout) {
        const std::int64_t of_copy =
            layout.tensor_parallel * layout.context_parallel * layout.pipeline_parallel;
        return layout.stages() * of_copy / layout.micro_batch_size;
    }

    // Calls simulate(i) for each i, on all cores, those first that take longest, so that none is
    // waited for at the end.
    template <typename Simulate>
    static void side_by_side(const std::vector<std::int64_t>& passes, const Simulate& simulate) {
        std::vector<std::size_t> order(passes.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return passes[a] > passes[b]; });
        std::atomic<std::size_t> next = 0;
        tbb::parallel_for(
            std::size_t{0}, order.size(), [&](std::size_t) { simulate(order[next++]); },
            tbb::simple_partitioner());
    }

    // Of each the first that differs from it by no more than the group in which ZeRO shares out:
    // of such layouts one is listed.
    std::vector<std::size_t> kin_of(const std::vector<PricedLayout>& fitting) const {
        std::map<std::pair<std::uint32_t, std::uint64_t>, std::size_t> first;
        std::vector<std::size_t> kin;
        for (const PricedLayout& one : fitting) {
            const std::uint64_t of = bases_[one.base].space.with_first_zero_group(one.number);
            kin.push_back(first.try_emplace({one.base, of}, kin.size()).first->second);
        }
        return kin;
    }

    // Those not taken yet that may be among the best by what simulations have been of such
    // estimates, the most promising first; of a kind that nothing is known of, a few that take
    // least to simulate. All in order, where there are too few. Of kin only the first.
    std::vector<std::size_t> candidates(const std::vector<PricedLayout>& fitting,
                                        const std::vector<std::size_t>& kin,
                                        const std::vector<bool>& taken,
                                        const std::vector<Simulated>& layouts,
                                        const Estimated& estimated) const {
        std::vector<std::size_t> found;
        std::vector<bool> seen(fitting.size());  // one of the kin
        const auto is_first = [&](std::size_t i) {
            const bool first = !taken[i] && !seen[kin[i]];
            seen[kin[i]] = seen[kin[i]] || first;
            return first;
        };
        if (layouts.size() < options_.top) {
            for (std::size_t i = 0; i < fitting.size(); ++i)
                if (is_first(i)) found.push_back(i);
            return found;
        }
        const double last = objective_of(layouts[options_.top - 1]);
        std::vector<std::pair<double, std::size_t>> promising;
        std::map<Estimated::Kind, std::multimap<std::int64_t, std::pair<double, std::size_t>>>
            unknown;  // by passes of all ranks
        for (std::size_t i = 0; i < fitting.size(); ++i) {
            const PricedLayout& one = fitting[i];
            const SearchBase& base = bases_[one.base];
            const double bound = estimate_bounds(*base.read.scenario).step;
            if (!is_first(i) || one.objective * (1 - bound) > last) continue;
            const plan::Layout layout = base.space.layout(one.number);
            const auto kind = Estimated::kind_of(one.base, layout);
            const double least = one.objective * estimated.least(kind, bound);
            if (least > last) continue;
            if (estimated.knows(kind)) {
                promising.emplace_back(least, i);
                continue;
            }
            unknown[kind].emplace(passes_of(layout), std::pair(least, i));
        }
        for (const auto& [kind, by_passes] : unknown) {
            std::size_t kept = 0;
            for (const auto& [passes, one] : by_passes)
                if (kept++ < kMostUnknown) promising.push_back(one);
        }
        std::sort(promising.begin(), promising.end());
        for (const auto& [least, i] : promising)
            found.push_back(i);
        return found;
    }

    // Takes as long as the simulation, and on uneven clusters many times that: of those alone that
    // are listed.
    void part_waiting_of(std::vector<Simulated>& layouts) const {
        std::vector<std::int64_t> passes;
        for (const Simulated& one : layouts)
            passes.push_back(passes_of(one.found.scenario.layout));
        side_by_side(passes, [&](std::size_t i) {
            if (layouts[i].parted) return;
            FoundLayout& found = layouts[i].found;
            if (layouts[i].unparted) {
                found.prediction = layouts[i].unparted->finish();
                layouts[i].unparted.reset();
                return;
            }
            SimulateOptions options;
            options.keep_trace = false;
            found.prediction =
                simulate(found.scenario, *bases_[found.price.base].profile, options, "");
        });
    }

    // Of a step with fewer micro-batches.
    bool may_fit_with_more(const MemoryPrediction& memory, const plan::Scenario& scenario,
                           const Profile& profile) const {
        const auto least = static_cast<double>(least_bytes(memory, scenario.training.framework));
        const auto capacity = static_cast<double>(memory.capacity_bytes);
        return leaves_margin(least, capacity) &&
               fit_probability(least, capacity,
                               stack_prior(scenario.training.framework, profile)) >=
                   options_.least_fit_probability;
    }

    bool fits(const MemoryPrediction& memory) const {
        return memory.fit_probability >= options_.least_fit_probability &&
               leaves_margin(static_cast<double>(memory.worst().peak_bytes),
                             static_cast<double>(memory.capacity_bytes));
    }
    bool leaves_margin(double peak, double capacity) const {
        return options_.memory_margin == 0 || peak <= (1 - options_.memory_margin) * capacity;
    }

    void simulate_best_of_each(const std::vector<PricedLayout>& fitting, SearchResult& result,
                               Places& too_large) {
        for (std::uint32_t base = 0; base < bases_.size(); ++base) {
            std::vector<PricedLayout> own;
            for (const PricedLayout& one : fitting)
                if (one.base == base) own.push_back(one);
            for (FoundLayout& found : simulate_best(own, result, too_large))
                result.layouts.push_back(std::move(found));
        }
    }

    // To the picosecond and the byte: a key that changes nothing makes no other layout.
    static bool is_listed(const Simulated& one, const std::vector<Simulated>& listed) {
        const Prediction& of_one = one.found.prediction;
        return std::any_of(listed.begin(), listed.end(), [&](const Simulated& other) {
            const Prediction& of_other = other.found.prediction;
            return other.found.price.base == one.found.price.base &&
                   of_other.step.time_s == of_one.step.time_s &&
                   other.breakdown_s == one.breakdown_s &&
                   of_other.memory.worst().peak_bytes == of_one.memory.worst().peak_bytes;
        });
    }

    double objective_of(const Simulated& one) const {
        return sim::objective_of(options_.objective, one.found.scenario,
                                 one.found.prediction.step.time_s);
    }

    // Ready to have its waiting parted where its objective is at most `most`, as the list's last
    // has it.
    std::optional<Simulated> simulated(const PricedLayout& priced, double most) const {
        const SearchBase& base = bases_[priced.base];
        plan::RuleCheck rules(base.read.given);
        std::string broken;
        std::optional<plan::Scenario> scenario = scenario_of(base, priced.number, rules, broken);
        ORRERY_CHECK(scenario.has_value(), "a layout that was priced breaks no rule");
        Prediction prediction;
        if (const auto shorter = with_few_micro_batches(*scenario)) {
            prediction.memory =
                predict_memory(plan::assemble_plan(*shorter), *shorter, *base.profile);
            if (!may_fit_with_more(prediction.memory, *scenario, *base.profile))
                return unlisted(priced, std::move(*scenario), std::move(prediction));
        }
        // What does not fit need not be timed, and what is not listed need not be checked.
        auto unparted = std::make_unique<Unparted>(*scenario);
        unparted->plan = plan::assemble_plan(*scenario);
        prediction.memory = predict_memory(unparted->plan, *scenario, *base.profile);
        if (!fits(prediction.memory))
            return unlisted(priced, std::move(*scenario), std::move(prediction));
        SimulateOptions options;
        options.keep_trace = false;
        options.plan = &unparted->plan;
        options.part_waiting = scenario->cluster.even();
        const SimulatedStep& step =
            unparted->step.emplace(unparted->scenario, *base.profile, options, "");
        if (!step.so_far().stuck.empty()) return std::nullopt;
        prediction.step.time_s = to_seconds(step.length());
        Simulated one;
        one.breakdown_s = trace::mean_accounts(step.so_far().trace, step.so_far().sums);
        const bool may_be_listed =
            sim::objective_of(options_.objective, *scenario, prediction.step.time_s) <= most;
        if (options.part_waiting && may_be_listed) {
            one.parted = options_.top > kMostUnparted;
            if (one.parted)
                prediction = unparted->finish();
            else
                one.unparted = std::move(unparted);
        }
        std::vector<std::string> sets = layout_sets(base, priced.number, scenario->layout);
        one.found = {priced, std::move(sets), std::move(*scenario), std::move(prediction)};
        return one;
    }

    static Simulated unlisted(const PricedLayout& priced, plan::Scenario scenario,
                              Prediction prediction) {
        return {{priced, {}, std::move(scenario), std::move(prediction)}, {}, false, nullptr};
    }

    // What no other beats in all of step time, memory and cost.
    static std::vector<PricedLayout> pareto_of(std::vector<PricedLayout> fitting) {
        std::sort(fitting.begin(), fitting.end(), [](const PricedLayout& a, const PricedLayout& b) {
            return std::tie(a.step_s, a.peak_bytes, a.base, a.number) <
                   std::tie(b.step_s, b.peak_bytes, b.base, b.number);
        });
        std::vector<PricedLayout> front;
        for (const PricedLayout& one : fitting) {
            const bool beaten =
                std::any_of(front.begin(), front.end(), [&](const PricedLayout& other) {
                    return other.peak_bytes <= one.peak_bytes && other.cost <= one.cost;
                });
            if (!beaten) front.push_back(one);
        }
        // Of many the ends, and others at equal steps between them.
        if (front.size() <= kMostPareto) return front;
        std::vector<PricedLayout> some;
        for (std::size_t i = 0; i < kMostPareto; ++i)
            some.push_back(front[i * (front.size() - 1) / (kMostPareto - 1)]);
        return some;
    }

    // Those of as much memory as the last of them go by their steps.
    std::vector<PricedLayout> nearest_of(std::vector<PricedLayout> exceeding) const {
        std::sort(exceeding.begin(), exceeding.end(),
                  [](const PricedLayout& a, const PricedLayout& b) {
                      return a.peak_bytes < b.peak_bytes;
                  });
        if (exceeding.size() > kNearest) {
            const double most = exceeding[kNearest - 1].peak_bytes;
            exceeding.erase(
                std::find_if(exceeding.begin(), exceeding.end(),
                             [&](const PricedLayout& one) { return one.peak_bytes > most; }),
                exceeding.end());
        }
        time(exceeding);
        std::sort(exceeding.begin(), exceeding.end(),
                  [](const PricedLayout& a, const PricedLayout& b) {
                      return std::tie(a.peak_bytes, a.step_s, a.base, a.number) <
                             std::tie(b.peak_bytes, b.step_s, b.base, b.number);
                  });
        if (exceeding.size() > kNearest) exceeding.resize(kNearest);
        return exceeding;
    }

    static constexpr const char* kRepeats = "repeats";

  public:
    // Where the number of stages varies, layers are dealt out anew. What is left to the rules.
    static plan::LeftToSettle deal_layers(const SearchBase& base, plan::Scenario& scenario) {
        plan::LeftToSettle left = base.read.left;
        if (!base.varies_stages()) return left;
        plan::Layout& layout = scenario.layout;
        const std::int64_t layers = scenario.model.layers;
        layout.layers_per_stage.clear();
        if (!scenario.cluster.other_nodes.empty() && layout.pipeline_parallel > 1 &&
            layers >= layout.stages())
            layout.layers_per_stage = dealt_by_rate(base, scenario);
        else if (layers % layout.stages() != 0)
            layout.layers_per_stage = with_ends_lighter(layers, layout.stages());
        left.layers_per_stage = layout.layers_per_stage.empty();
        return left;
    }

    // Where nodes are of several kinds: each layer to the stage that is then done first, by the
    // rate at which the slowest of its devices multiplies.
    static std::vector<std::int64_t> dealt_by_rate(const SearchBase& base,
                                                   const plan::Scenario& scenario) {
        const plan::Layout& layout = scenario.layout;
        const std::int64_t copy =
            layout.tensor_parallel * layout.context_parallel * layout.pipeline_parallel;
        const std::int64_t of_rank =  // devices of a pipeline rank
            std::max<std::int64_t>(1, scenario.cluster.devices() / copy) * layout.tensor_parallel *
            layout.context_parallel;
        std::vector<double> rates;  // by pipeline rank
        for (std::int64_t rank = 0; rank < layout.pipeline_parallel; ++rank) {
            const auto kind = [&](std::int64_t device) {
                return scenario.cluster.kind_of_device(
                    std::min(device, scenario.cluster.devices() - 1));
            };
            double least = std::numeric_limits<double>::infinity();
            for (std::size_t k = kind(rank * of_rank); k <= kind((rank + 1) * of_rank - 1); ++k)
                if (const GemmCurve* curve =
                        base.profile->of_kind(k).gemm_curve(plan::dims_of(scenario).dtype))
                    least = std::min(least, curve->rate_tflops * curve->sustained);
            rates.push_back(least);
        }
        const plan::ScheduleKind* schedule = plan::find_schedule(layout.schedule);
        const plan::StagePlacement placement =
            plan::place(schedule == nullptr ? plan::Placement::wrap : schedule->placement,
                        static_cast<std::int32_t>(layout.pipeline_parallel),
                        static_cast<std::int32_t>(layout.virtual_pipeline));
        std::vector<std::int64_t> dealt(static_cast<std::size_t>(layout.stages()), 1);
        const auto with_one_more = [&](std::size_t stage) {
            return static_cast<double>(dealt[stage] + 1) /
                   rates[static_cast<std::size_t>(
                       placement.rank_of(static_cast<std::int32_t>(stage)))];
        };
        for (std::int64_t left = scenario.model.layers - layout.stages(); left > 0; --left) {
            std::size_t first = 0;
            for (std::size_t stage = 1; stage < dealt.size(); ++stage)
                if (with_one_more(stage) < with_one_more(first)) first = stage;
            ++dealt[first];
        }
        return dealt;
    }

    // Settles the scenario's layout and says what it breaks; empty: nothing.
    static std::string settle(const SearchBase& base, plan::RuleCheck& rules,
                              plan::Scenario& scenario) {
        const plan::Layout& layout = scenario.layout;
        plan::LeftToSettle left = deal_layers(base, scenario);
        if (base.varies_ranks()) left.data_parallel = true;
        const std::int64_t copy =
            layout.tensor_parallel * layout.context_parallel * layout.pipeline_parallel;
        const std::int64_t data = left.data_parallel
                                      ? std::max<std::int64_t>(1, scenario.cluster.devices() / copy)
                                      : layout.data_parallel;
        if (base.space.repeats(scenario, data)) return kRepeats;
        std::string broken = rules.first_broken(scenario, left);
        if (broken.empty() && left.data_parallel && layout.ranks() != scenario.cluster.devices())
            return kIdle;
        return broken;
    }

  private:
    const std::vector<SearchBase>& bases_;
    const SearchOptions& options_;
    std::vector<std::pair<const SearchBase*, std::unique_ptr<SharedStageCosts>>> costs_;
    std::vector<std::unique_ptr<LayoutPricer>> pricers_;
    std::vector<std::vector<Stages>> stages_;  // by base
    std::uint64_t size_ = 0;
    std::uint64_t done_ = 0;
    std::mutex progress_;
};

}  // namespace

// Of a step, which has the same tokens for all layouts of a scenario.
double objective_of(Objective objective, const plan::Scenario& scenario, double step_s) {
    const double tokens = static_cast<double>(scenario.layout.global_batch_size) *
                          static_cast<double>(scenario.training.sequence_length);
    const auto ranks = static_cast<double>(scenario.layout.ranks());
    const plan::Cluster& cluster = scenario.cluster;
    switch (objective) {
        case Objective::step_time:
            return step_s;
        case Objective::tokens_per_s_per_gpu:
            return step_s * ranks / tokens;
        case Objective::cost_per_token:
            return step_s * cluster.usd_per_hour(cluster.devices()) / 3600 / tokens;
        case Objective::energy:
            return step_s * cluster.site_power_w(scenario.layout.ranks()) / tokens;
    }
    return step_s;
}

std::string_view name(Objective objective) {
    switch (objective) {
        case Objective::step_time:
            return "step_time";
        case Objective::tokens_per_s_per_gpu:
            return "tokens_per_s_per_gpu";
        case Objective::cost_per_token:
            return "cost_per_token";
        case Objective::energy:
            return "energy";
    }
    return "";
}

bool SearchBase::varies(std::string_view key) const {
    const auto& axes = space.axes();
    return std::any_of(axes.begin(), axes.end(),
                       [&](const LayoutAxis& axis) { return axis.key == key; });
}

bool SearchBase::varies_stages() const {
    return varies("pipeline_parallel") || varies("virtual_pipeline");
}

bool SearchBase::varies_ranks() const {
    return varies("tensor_parallel") || varies("context_parallel") || varies("pipeline_parallel");
}

std::optional<plan::Scenario> scenario_of(const SearchBase& base, std::uint64_t number,
                                          plan::RuleCheck& rules, std::string& broken) {
    plan::Scenario scenario = *base.read.scenario;
    scenario.layout = base.space.layout(number);
    broken = Pricing::settle(base, rules, scenario);
    if (!broken.empty()) return std::nullopt;
    return scenario;
}

SearchResult search(const std::vector<SearchBase>& bases, const SearchOptions& options) {
    return Pricing(bases, options).run();
}

}  // namespace orrery::sim
