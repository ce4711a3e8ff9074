// Which layout: prices every combination of a space (layout_pricer.hpp), and simulates the best in
// full until no other can be among them. The same result for any number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "plan/scenario/reader.hpp"
#include "sim/prediction.hpp"
#include "sim/search/layout_pricer.hpp"
#include "sim/search/layout_space.hpp"

namespace orrery::sim {

// What a layout is searched for: the least of these.
enum class Objective : std::uint8_t {
    step_time,
    tokens_per_s_per_gpu,  // the most
    cost_per_token,        // of the whole cluster, by its price
    energy                 // of a token, of the devices that the layout uses
};
inline constexpr std::size_t kObjectives = 4;
std::string_view name(Objective objective);
// What a layout costs by it; smaller is better.
double objective_of(Objective objective, const plan::Scenario& scenario, double step_s);

// One scenario of the search: what does not vary in it, and the layouts that are tried.
struct SearchBase {
    plan::UnsettledScenario read;   // sound
    std::vector<std::string> sets;  // what makes it this one of several: "cluster.nodes=4"
    const Profile* profile = nullptr;
    LayoutSpace space;

    bool varies(std::string_view key) const;
    // Then layers are dealt out anew, and data-parallel ranks are what the cluster has left.
    bool varies_stages() const;
    bool varies_ranks() const;
};

struct SearchOptions {
    Objective objective = Objective::step_time;
    std::size_t top = 10;       // 0: none is simulated
    bool of_each_base = false;  // so many of each, base by base
    double least_fit_probability = 0.5;
    double memory_margin = 0;  // share of a device's memory that what fits leaves free
    // Shares of what is to be priced, and then of what is at most to be planned and simulated; may
    // be null.
    std::function<void(double done)> progress;
    std::function<void(double done)> simulating;
    const std::atomic<bool>* stop = nullptr;  // becomes true: end with what there is
};

// A layout that breaks no rule, and its price.
struct PricedLayout {
    std::uint32_t base = 0;    // of the search's
    std::uint64_t number = 0;  // in its space
    double step_s = 0;
    double peak_bytes = 0;
    double fit_probability = 0;
    double objective = 0;
    double cost = 0;  // per token
};

struct FoundLayout {
    PricedLayout price;
    std::vector<std::string> sets;  // what makes this scenario of the file, complete
    plan::Scenario scenario;
    Prediction prediction;  // of a full simulation
};

struct SearchResult {
    std::uint64_t evaluated = 0;  // combinations looked at, each once
    std::uint64_t priced = 0;     // of these, layouts that break no rule
    struct Broken {
        std::uint64_t layouts = 0;
        std::string message;  // of one of them
    };
    std::map<std::string, Broken> infeasible;  // by rule (S014); "memory": what breaks none
    std::vector<FoundLayout> layouts;          // best first; of_each_base: within each
    // By estimate; what was simulated and does not fit is not among these two.
    std::vector<double> objectives;     // of what may fit, ascending
    std::vector<PricedLayout> pareto;   // of step time, memory and cost; fastest first
    std::vector<PricedLayout> nearest;  // where nothing fits: those that need least memory
    std::optional<PricedLayout> without_memory_limit;  // the best if everything fitted
    bool stopped = false;
};

SearchResult search(const std::vector<SearchBase>& bases, const SearchOptions& options);

// The scenario of a combination, settled; nothing where it breaks a rule, whose code then is in
// `broken`. Not for two threads at once with the same `rules`.
std::optional<plan::Scenario> scenario_of(const SearchBase& base, std::uint64_t number,
                                          plan::RuleCheck& rules, std::string& broken);

}  // namespace orrery::sim
