#include "cli/search_question.hpp"

#include <chrono>

#include <fmt/format.h>

#include "cli/subcommand.hpp"

namespace orrery::cli {
namespace {

sim::Objective objective_of_word(const std::string& word) {
    for (std::size_t i = 0; i < sim::kObjectives; ++i)
        if (const auto one = static_cast<sim::Objective>(i); sim::name(one) == word) return one;
    throw UsageError(fmt::format("--objective {}: one of {}", word, objective_words()));
}

void require_numbers(const SearchQuestion& question) {
    const auto require = [](bool sound, const char* option, double value, double low, double high) {
        if (!sound) throw UsageError(fmt::format("{} {}: from {} to {}", option, value, low, high));
    };
    const auto top = static_cast<double>(question.options.top);
    const double fit = question.options.least_fit_probability;
    const double margin = question.memory_margin_percent;
    require(top >= 1 && top <= kMostListed, "--top", top, 1, kMostListed);
    require(fit >= 0 && fit <= 1, "--fit-probability", fit, 0, 1);
    require(margin >= 0 && margin <= kMostMarginPercent, "--memory-margin", margin, 0,
            kMostMarginPercent);
}

// An objective that is the same for all layouts because nobody said a price is none.
void require_price(const LayoutSearch& search, sim::Objective objective) {
    for (const sim::SearchBase& base : search.bases) {
        const plan::Cluster& cluster = base.read.scenario->cluster;
        if (objective == sim::Objective::cost_per_token &&
            cluster.usd_per_hour(cluster.devices()) <= 0)
            throw UsageError(
                "--objective cost_per_token: the cluster has no price; --set "
                "cluster.price_usd_per_gpu_hour=USD says one");
        if (objective == sim::Objective::energy && cluster.site_power_w(cluster.devices()) <= 0)
            throw UsageError(
                "--objective energy: the cluster does not say what a device "
                "draws; --set cluster.power_w_per_gpu=WATTS does");
    }
}

}  // namespace

std::string objective_words() {
    std::string words;
    for (std::size_t i = 0; i < sim::kObjectives; ++i)
        words += (i > 0 ? ", " : "") + std::string(sim::name(static_cast<sim::Objective>(i)));
    return words;
}

SearchReport SearchAnswer::report(const ScenarioInput& input, bool explain) const {
    return {input, search, options, result, seconds, own_layout(input), explain};
}

SearchAnswer searched(const ScenarioInput& input, const SearchQuestion& question) {
    require_numbers(question);
    SearchAnswer answer;
    answer.options = question.options;
    answer.options.objective = objective_of_word(question.objective);
    answer.options.memory_margin = question.memory_margin_percent / 100;
    answer.search = layout_search(input, parse_all_varies(question.varies));
    if (!answer.search.errors.empty()) return answer;
    require_price(answer.search, answer.options.objective);
    const auto begin = std::chrono::steady_clock::now();
    answer.result = sim::search(answer.search.bases, answer.options);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    answer.seconds = took.count();
    return answer;
}

}  // namespace orrery::cli
