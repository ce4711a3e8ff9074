// Devices and links that are not alike: what is slow, and what it costs a step.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/quantity.hpp"
#include "cli/report_sections.hpp"
#include "plan/scenario/spellings.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;
using plan::StragglerOf;

constexpr std::size_t kMostNamed = 6;

std::string link_words(const plan::SlowLink& slow) {
    const bool network = slow.link == plan::LinkOf::inter_node;
    const std::string whose = slow.device >= 0 ? fmt::format("device {}", slow.device)
                                               : fmt::format("node {}", slow.node);
    return fmt::format(
        "{} of {} {} 1/{:g} of {} bandwidth",
        network ? (slow.device >= 0 ? "the adapter" : "the adapters") : "links within the node",
        whose, network && slow.device >= 0 ? "has" : "have", slow.factor,
        network && slow.device >= 0 ? "its" : "their");
}

std::string drawn_words(const plan::Stragglers& stragglers) {
    std::vector<std::string> parts;
    for (const plan::StragglerShare& slow : stragglers.slow)
        parts.push_back(fmt::format("{} of {} {:g} x", percent_text(slow.share),
                                    slow.of == StragglerOf::device       ? "devices"
                                    : slow.of == StragglerOf::node       ? "nodes"
                                    : slow.of == StragglerOf::intra_node ? "links within nodes"
                                                                         : "nodes' adapters",
                                    slow.factor));
    if (stragglers.common_sd > 0)
        parts.push_back(fmt::format("all kernels by {}", percent_text(stragglers.common_sd)));
    return fmt::format("drawn with seed {}{}{}: {}", stragglers.seed,
                       stragglers.name.empty() ? "" : ", ", stragglers.name,
                       fmt::join(parts, ", "));
}

// "Device 12 (rank 12, 1.3 x)".
std::string worst_words(const sim::StragglerCost::Worst& worst) {
    const bool device = worst.device >= 0;
    const std::string whose =
        device ? fmt::format("device {}", worst.device) : fmt::format("node {}", worst.node);
    const std::string rank =
        device ? fmt::format("rank {}", worst.rank) : fmt::format("ranks from {} on", worst.rank);
    switch (worst.of) {
        case StragglerOf::device:
        case StragglerOf::node:
            return fmt::format("{} ({}), whose kernels take {:g} x as long,", whose, rank,
                               worst.factor);
        case StragglerOf::intra_node:
            return fmt::format(
                "{} ({}), whose links within the node have 1/{:g} of their "
                "bandwidth,",
                whose, rank, worst.factor);
        case StragglerOf::inter_node:
            return fmt::format("{} ({}), whose network has 1/{:g} of its bandwidth,", whose, rank,
                               worst.factor);
    }
    return whose;
}

// The accounts that changed most, the largest first.
std::string accounts_words(const sim::StragglerCost& cost, double step_s) {
    std::vector<std::pair<double, trace::Account>> parts;
    for (std::size_t a = 0; a < trace::kAccounts; ++a)
        parts.emplace_back(cost.added_s[a], static_cast<trace::Account>(a));
    std::stable_sort(parts.begin(), parts.end(), [](const auto& one, const auto& other) {
        return std::abs(one.first) > std::abs(other.first);
    });
    constexpr double kWorthSaying = 0.0005;
    constexpr std::size_t kMost = 4;
    std::vector<std::string> words;
    for (const auto& [seconds, account] : parts) {
        if (words.size() == kMost || std::abs(seconds) < kWorthSaying * step_s) break;
        words.push_back(fmt::format("{} {}{}", account_text(account), seconds < 0 ? "−" : "+",
                                    seconds_text(std::abs(seconds))));
    }
    return words.empty() ? "" : fmt::format("; {}", fmt::join(words, ", "));
}

std::string counts_words(const sim::StragglerCost& cost) {
    std::vector<std::string> parts;
    const auto add = [&](std::int64_t count, const char* one, const char* several) {
        if (count > 0) parts.push_back(whole_text(count) + ' ' + (count == 1 ? one : several));
    };
    add(cost.slow_devices, "slow device", "slow devices");
    add(cost.slow_nodes, "slow node", "slow nodes");
    add(cost.slow_intra_links, "slow link within a node", "slow links within nodes");
    add(cost.slow_networks, "slow adapter or node's network", "slow adapters or nodes' networks");
    return parts.empty() ? "" : fmt::format("{}; ", fmt::join(parts, ", "));
}

std::string draws_text(const sim::StepDraws& draws) {
    return labelled(
        "draws",
        fmt::format("of {}: median {}, from {} (5 %) to {} (95 %), mean {}, longest {}",
                    draws.times_s.size(), seconds_text(draws.quantile_s(0.5)),
                    seconds_text(draws.quantile_s(0.05)), seconds_text(draws.quantile_s(0.95)),
                    seconds_text(draws.mean_s()), seconds_text(draws.quantile_s(1))));
}

}  // namespace

std::string uneven_line(const plan::Cluster& cluster) {
    std::vector<std::string> parts;
    for (const plan::SlowDevice& slow : cluster.slow_devices)
        parts.push_back(fmt::format("device {} takes {:g} x as long", slow.device, slow.factor));
    for (const plan::SlowNode& slow : cluster.slow_nodes)
        parts.push_back(
            fmt::format("devices of node {} take {:g} x as long", slow.node, slow.factor));
    for (const plan::SlowLink& slow : cluster.slow_links)
        parts.push_back(link_words(slow));
    if (parts.size() > kMostNamed) {
        const std::size_t more = parts.size() - kMostNamed;
        parts.resize(kMostNamed);
        parts.push_back(fmt::format("and {} more", more));
    }
    std::string line = fmt::format("{}", fmt::join(parts, ", "));
    if (cluster.stragglers.any())
        line += (line.empty() ? "" : "; ") + drawn_words(cluster.stragglers);
    const plan::Jitter& jitter = cluster.jitter;
    if (!jitter.any()) return line;
    return fmt::format(
        "{}{}{} vary by {} ({}, seed {}), so each rank is simulated", line,
        line.empty() ? "" : "; ", jitter.per == plan::JitterPer::kernel ? "kernels" : "devices",
        percent_text(jitter.relative_sd),
        jitter.distribution == plan::JitterDistribution::normal ? "normal" : "lognormal",
        jitter.seed);
}

std::string stragglers_text(const ReportInput& input) {
    const sim::StepPrediction& step = input.prediction.step;
    std::string text;
    if (step.stragglers) {
        const sim::StragglerCost& cost = *step.stragglers;
        const double added = step.time_s - cost.even_s;
        text = labelled("stragglers",
                        fmt::format("{}{} of the step ({}), which takes {} without them{}",
                                    added < 0 ? "−" : "", seconds_text(std::abs(added)),
                                    percent_text(std::abs(added) / step.time_s),
                                    seconds_text(cost.even_s), accounts_words(cost, step.time_s)));
        if (cost.worst)
            text +=
                labelled("", fmt::format("{}worst is {} alone +{}", counts_words(cost),
                                         worst_words(*cost.worst),
                                         seconds_text(std::max(0.0, cost.worst->alone_added_s))));
    }
    if (step.draws) return text + draws_text(*step.draws);
    const plan::Cluster& cluster = input.scenario.cluster;
    if (cluster.stragglers.any() || cluster.jitter.any())
        text += labelled("", "one draw; --draws 32 tells how steps of other draws are spread");
    return text;
}

Json stragglers_json(const sim::StragglerCost& cost) {
    Json added;
    double all = 0;
    for (std::size_t a = 0; a < trace::kAccounts; ++a) {
        added[std::string(trace::name(static_cast<trace::Account>(a)))] = cost.added_s[a];
        all += cost.added_s[a];
    }
    Json json = {{"even_s", cost.even_s},
                 {"added_s", all},
                 {"added_breakdown_s", std::move(added)},
                 {"slow",
                  {{"device", cost.slow_devices},
                   {"node", cost.slow_nodes},
                   {"intra_node", cost.slow_intra_links},
                   {"inter_node", cost.slow_networks}}},
                 {"worst", nullptr}};
    if (!cost.worst) return json;
    Json worst = {{"of", plan::spelling(cost.worst->of)}};
    if (cost.worst->device >= 0)
        worst["device"] = cost.worst->device;
    else
        worst["node"] = cost.worst->node;
    worst["rank"] = cost.worst->rank;
    worst["factor"] = cost.worst->factor;
    worst["alone_added_s"] = cost.worst->alone_added_s;
    json["worst"] = std::move(worst);
    return json;
}

Json draws_json(const sim::StepDraws& draws) {
    Json quantiles;
    constexpr std::array<std::pair<const char*, double>, 7> kShares = {{{"min", 0.0},
                                                                        {"p05", 0.05},
                                                                        {"p25", 0.25},
                                                                        {"p50", 0.5},
                                                                        {"p75", 0.75},
                                                                        {"p95", 0.95},
                                                                        {"max", 1.0}}};
    for (const auto& [name, share] : kShares)
        quantiles[name] = draws.quantile_s(share);
    return {{"count", draws.times_s.size()},
            {"mean_s", draws.mean_s()},
            {"quantiles_s", std::move(quantiles)},
            {"times_s", draws.times_s}};
}

}  // namespace orrery::cli
