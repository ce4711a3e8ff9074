#include "cli/sizing.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "cli/quantity.hpp"
#include "cli/search_report.hpp"
#include "cli/subcommand.hpp"

namespace orrery::cli {
namespace {

// Of the cluster's own kind, where all are to have so many devices and those of other kinds stay.
std::int64_t own_nodes(const plan::Cluster& cluster, std::int64_t gpus) {
    return gpus / cluster.devices_per_node - (cluster.all_nodes() - cluster.nodes);
}

// Whole nodes.
std::vector<std::int64_t> counts_of(const plan::Scenario& scenario, const std::string& gpus) {
    const std::int64_t per_node = scenario.cluster.devices_per_node;
    std::vector<std::int64_t> counts;
    if (gpus.empty()) {
        const std::int64_t now = scenario.cluster.devices();
        for (const std::int64_t count : {now / 4, now / 2, now, 2 * now, 4 * now})
            if (count % per_node == 0 && own_nodes(scenario.cluster, count) > 0)
                counts.push_back(count);
        return counts;
    }
    for (const std::string& text : parse_vary("--gpus=" + gpus).values) {
        std::int64_t count = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
        if (error != std::errc() || end != text.data() + text.size() || count <= 0)
            throw UsageError(fmt::format("--gpus {}: whole numbers above 0", gpus));
        if (count % per_node != 0)
            throw UsageError(fmt::format("--gpus {}: {} is no whole number of nodes of {}", gpus,
                                         count, per_node));
        if (own_nodes(scenario.cluster, count) < 1)
            throw UsageError(
                fmt::format("--gpus {}: {} leaves no node beside other_nodes", gpus, count));
        counts.push_back(count);
    }
    std::sort(counts.begin(), counts.end());
    return counts;
}

// Of the step's accounts but compute, whose share has grown most.
std::string grown_most(const SizeOption& before, const SizeOption& now) {
    double most = 0.002;  // less is nothing
    std::string account;
    for (std::size_t a = 1; a < trace::kAccounts; ++a) {
        const auto share = [&](const SizeOption& option) {
            const sim::StepPrediction& step = option.best->prediction.step;
            return step.breakdown_s[a] / step.time_s;
        };
        const double more = share(now) - share(before);
        if (more <= most) continue;
        most = more;
        account = trace::name(static_cast<trace::Account>(a));
    }
    return account;
}

double by_gpus(const SizeOption& option) {
    return static_cast<double>(option.gpus);
}
double by_cost(const SizeOption& option) {
    return option.run().cost_usd.value_or(std::numeric_limits<double>::infinity());
}
double by_days(const SizeOption& option) {
    return option.days();
}

// Of those that meet what was asked for.
std::optional<std::size_t> best_of(const std::vector<SizeOption>& options,
                                   double (*value)(const SizeOption&)) {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < options.size(); ++i)
        if (options[i].meets && (!found || value(options[i]) < value(options[*found]))) found = i;
    if (found && std::isinf(value(options[*found]))) return std::nullopt;
    return found;
}

std::vector<std::string> of_cluster(const std::string& cluster, const SizeQuestion& question) {
    std::vector<std::string> sets;
    if (!cluster.empty()) sets.push_back("cluster=" + cluster);
    if (question.tokens) sets.push_back(fmt::format("training.tokens={}", *question.tokens));
    return sets;
}

// The clusters that are to be tried, and what makes each of the file; none where it cannot be read.
std::vector<std::vector<std::string>> combinations_of(const ScenarioInput& input,
                                                      const SizeQuestion& question,
                                                      Sizing& sizing) {
    std::vector<std::vector<std::string>> combinations;
    const std::vector<std::string> own = {""};
    for (const std::string& cluster : question.clusters.empty() ? own : question.clusters) {
        const std::vector<std::string> sets = of_cluster(cluster, question);
        const plan::UnsettledScenario read = input.read_unsettled(sets);
        if (!read.scenario) {
            sizing.errors = read.errors;
            sizing.unreadable = read.unreadable;
            return {};
        }
        if (!question.tokens && read.scenario->training.tokens <= 0)
            throw UsageError("--tokens N: the scenario does not say how many the run has");
        for (const std::int64_t gpus : counts_of(*read.scenario, question.gpus)) {
            sizing.options.push_back({cluster, gpus, {}, {}, 1, {}, false});
            combinations.push_back(sets);
            combinations.back().push_back(
                fmt::format("cluster.nodes={}", own_nodes(read.scenario->cluster, gpus)));
        }
    }
    return combinations;
}

}  // namespace

// "30d", "72h", "6w"; a number alone is days.
double days_of(const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    if (error == std::errc() && value > 0) {
        if (unit.empty() || unit == "d") return value;
        if (unit == "h") return value / 24;
        if (unit == "w") return value * 7;
    }
    throw UsageError(
        fmt::format("--deadline {}: a time above 0 is expected, e.g. 30d, 72h or 6w", text));
}

void SizeQuestion::require_sense() const {
    if (tokens && !(*tokens > 0))
        throw UsageError(fmt::format("--tokens {:g}: a number above 0 is expected", *tokens));
    if (budget_usd && !(*budget_usd >= 0))
        throw UsageError(fmt::format("--budget {:g}: money is 0 or more", *budget_usd));
    if (!(grams_per_kwh >= 0))
        throw UsageError(
            fmt::format("--carbon-intensity {:g}: grams are 0 or more", grams_per_kwh));
}

std::optional<double> SizeOption::carbon_t(double grams_per_kwh) const {
    if (!run().energy_mwh || grams_per_kwh <= 0) return std::nullopt;
    return *run().energy_mwh * grams_per_kwh * 1e-3;  // MWh × g/kWh = kg
}

std::string SizeOption::cluster_name() const {
    if (!cluster.empty()) {
        const std::string name = file_name(cluster);
        return name.substr(0, name.rfind(".json"));
    }
    return best ? best->scenario.cluster.device : "the scenario's";
}

Sizing size_clusters(const ScenarioInput& input, const SizeQuestion& question,
                     sim::SearchOptions how) {
    Sizing sizing;
    const auto combinations = combinations_of(input, question, sizing);
    if (!sizing.errors.empty()) return sizing;
    sizing.search = layout_search_of_each(input, combinations);
    if (sizing.search.bases.empty()) {
        sizing.errors = sizing.search.errors_of_each.front();
        return sizing;
    }
    how.top = 1;
    how.of_each_base = true;
    sim::SearchResult result = sim::search(sizing.search.bases, how);
    sizing.stopped = result.stopped;
    std::vector<SizeOption>& options = sizing.options;
    for (std::size_t i = 0; i < options.size(); ++i)
        options[i].why = sizing.search.errors_of_each[i].empty()
                             ? "no layout fits"
                             : sizing.search.errors_of_each[i].front().message;
    for (sim::FoundLayout& found : result.layouts)
        options[sizing.search.number_of_base[found.price.base]].best = std::move(found);
    judge(options, question);
    return sizing;
}

void judge(std::vector<SizeOption>& options, const SizeQuestion& question) {
    const SizeOption* fewest = nullptr;
    for (SizeOption& option : options) {
        option.meets = false;
        if (!option.best) continue;
        if (fewest == nullptr || fewest->cluster != option.cluster) fewest = &option;
        option.gpu_hours_ratio = *option.run().gpu_hours / *fewest->run().gpu_hours;
        option.lost_to = grown_most(*fewest, option);
        option.meets = (!question.deadline_days || option.days() <= *question.deadline_days) &&
                       (!question.budget_usd ||
                        (option.run().cost_usd && *option.run().cost_usd <= *question.budget_usd));
    }
}

std::optional<std::size_t> smallest(const std::vector<SizeOption>& options) {
    return best_of(options, by_gpus);
}
std::optional<std::size_t> cheapest(const std::vector<SizeOption>& options) {
    return best_of(options, by_cost);
}
std::optional<std::size_t> fastest(const std::vector<SizeOption>& options) {
    return best_of(options, by_days);
}

std::string size_verdicts(const std::vector<SizeOption>& options) {
    std::string text;
    const auto say = [&](const char* what, std::optional<std::size_t> index) {
        if (!index) return;
        const SizeOption& option = options[*index];
        text += fmt::format("  {:<10}{} x {}: {} days", what, whole_text(option.gpus),
                            option.cluster_name(), digits_text(option.days()));
        if (option.run().cost_usd)
            text += fmt::format(", ${}", whole_text(std::llround(*option.run().cost_usd)));
        text += '\n';
    };
    say("smallest", smallest(options));
    say("cheapest", cheapest(options));
    say("fastest", fastest(options));
    return text;
}

std::string why_none(std::vector<SizeOption> options, const SizeQuestion& question) {
    const bool any = std::any_of(options.begin(), options.end(),
                                 [](const SizeOption& option) { return option.best.has_value(); });
    if (!any) return "has a layout that fits";
    for (SizeOption& option : options)
        option.meets = option.best.has_value();
    std::string why = "meets the deadline and the budget";
    if (question.deadline_days)
        why += fmt::format("; the fastest takes {} days, the deadline is {}",
                           digits_text(options[*fastest(options)].days()),
                           digits_text(*question.deadline_days));
    const std::optional<std::size_t> least = cheapest(options);
    if (question.budget_usd && least)
        why += fmt::format("; the cheapest costs {} USD, the budget is {}",
                           counted_text(*options[*least].run().cost_usd),
                           counted_text(*question.budget_usd));
    if (question.budget_usd && !least)
        why += "; no price is known: --set cluster.price_usd_per_gpu_hour=USD says one";
    return why;
}

std::vector<std::string> size_heads() {
    std::vector<std::string> heads = {"cluster", "GPUs",      "days",    "90 % interval",
                                      "cost",    "MWh",       "t CO2",   "MFU",
                                      "fits",    "GPU-hours", "lost to", "in bounds"};
    for (std::string& cell : layout_heads())
        heads.push_back(std::move(cell));
    return heads;
}

std::vector<std::string> size_cells(const SizeOption& option, const SizeQuestion& question) {
    if (!option.best) return {option.cluster_name(), whole_text(option.gpus), "-"};
    const sim::Prediction& prediction = option.best->prediction;
    const auto or_empty = [](const std::optional<double>& value) {
        return value ? digits_text(*value) : std::string();
    };
    std::vector<std::string> cells = {
        option.cluster_name(),
        whole_text(option.gpus),
        digits_text(option.days()),
        fmt::format("{} to {}", digits_text(option.days_at(prediction.step.low_s)),
                    digits_text(option.days_at(prediction.step.high_s))),
        option.run().cost_usd ? "$" + whole_text(std::llround(*option.run().cost_usd)) : "",
        or_empty(option.run().energy_mwh),
        or_empty(option.carbon_t(question.grams_per_kwh)),
        percent_text(prediction.throughput.mfu),
        percent_text(prediction.memory.fit_probability),
        fmt::format("x {:.2f}", option.gpu_hours_ratio),
        option.lost_to,
        option.meets ? "yes" : "no"};
    for (std::string& cell : layout_cells(option.best->scenario.layout))
        cells.push_back(std::move(cell));
    return cells;
}

LineChart size_chart(const std::vector<SizeOption>& options) {
    LineChart chart;
    chart.title = "Days of the run over GPUs";
    chart.x_label = "GPUs";
    chart.y_label = "days";
    chart.log_x = true;
    std::string last;
    for (const SizeOption& option : options) {
        if (!option.best) continue;
        if (chart.lines.empty() || option.cluster != last)
            chart.lines.push_back({option.cluster_name(), {}});
        last = option.cluster;
        const sim::StepPrediction& step = option.best->prediction.step;
        chart.lines.back().points.push_back({static_cast<double>(option.gpus), option.days(),
                                             option.days_at(step.low_s),
                                             option.days_at(step.high_s)});
        chart.subtitle = fmt::format(
            "{}, {} tokens, the best layout at each point; predicted "
            "by orrery",
            option.best->scenario.model.name, counted_text(option.best->scenario.training.tokens));
    }
    return chart;
}

const char* const kSizeRemarks =
    "  GPU-hours: over those of the fewest GPUs of the cluster; lost to: the account of "
    "the step whose share\n  has grown most since. Days are without failures and "
    "checkpoints.\n";

}  // namespace orrery::cli
