// Which cluster for a run of so many tokens, by a deadline, within a budget: what `orrery size`
// prints, and what the desktop application shows.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/chart.hpp"
#include "cli/layout_search.hpp"
#include "sim/search/search.hpp"

namespace orrery::cli {

struct SizeQuestion {
    std::optional<double> tokens;  // else those of the scenario
    std::optional<double> deadline_days, budget_usd;
    std::string gpus;                   // "64..4096*2"; empty: ¼ to 4 × those of the scenario
    std::vector<std::string> clusters;  // of the library; empty: the scenario's own
    double grams_per_kwh = 0;           // CO2 of the grid; 0: not known

    // Throws UsageError: a number that is none of its kind.
    void require_sense() const;
};

// "30d", "72h", "6w"; a number alone is days. Throws UsageError.
double days_of(const std::string& text);

// One cluster of so many devices, with its best layout.
struct SizeOption {
    std::string cluster;  // as it was asked for; empty: the file's own
    std::int64_t gpus = 0;
    std::optional<sim::FoundLayout> best;
    std::string why;             // there is none
    double gpu_hours_ratio = 1;  // over those of the fewest devices of this cluster
    std::string lost_to;         // the account that grew most since
    bool meets = false;          // deadline and budget

    const sim::RunPrediction& run() const { return best->prediction.run; }
    double days() const { return *run().days; }
    double days_at(double step_s) const { return days() * step_s / best->prediction.step.time_s; }
    std::optional<double> carbon_t(double grams_per_kwh) const;
    std::string cluster_name() const;  // for people
};

struct Sizing {
    LayoutSearch search;  // its bases and profiles, which the options refer to
    std::vector<SizeOption> options;
    std::vector<plan::Diagnostic> errors;  // not empty: there are no options
    bool unreadable = false;
    bool stopped = false;
};

// Searches the best layout of each cluster, and judges them. `how` says when to stop and whom to
// tell. Throws UsageError and what load_profile() throws.
Sizing size_clusters(const ScenarioInput& input, const SizeQuestion& question,
                     sim::SearchOptions how);

// Whether each meets the deadline and the budget, which may have changed since the search.
void judge(std::vector<SizeOption>& options, const SizeQuestion& question);

// Of those that meet what was asked for; nothing where none does, or no price is known.
std::optional<std::size_t> smallest(const std::vector<SizeOption>& options);
std::optional<std::size_t> cheapest(const std::vector<SizeOption>& options);
std::optional<std::size_t> fastest(const std::vector<SizeOption>& options);

// "smallest  256 x h100-sxm: 31 days, $1,234,567", a line each of those that there are.
std::string size_verdicts(const std::vector<SizeOption>& options);
// Why none meets what was asked for, and what is nearest to it.
std::string why_none(std::vector<SizeOption> options, const SizeQuestion& question);

// A table: a row for each option. Without a layout the row has three cells.
std::vector<std::string> size_heads();
std::vector<std::string> size_cells(const SizeOption& option, const SizeQuestion& question);
// Days over GPUs, a line for each cluster with its options that have a layout, in their order.
LineChart size_chart(const std::vector<SizeOption>& options);
// What the table leaves open.
extern const char* const kSizeRemarks;

}  // namespace orrery::cli
