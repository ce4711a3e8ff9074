#include "cli/search_report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/json_values.hpp"
#include "cli/quantity.hpp"
#include "cli/scenario_lines.hpp"
#include "cli/text_table.hpp"
#include "plan/check.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShownFront = 8;
constexpr std::size_t kShownRules = 12;

std::string interval_text(const sim::StepPrediction& step) {
    return fmt::format("{} to {}", seconds_text(step.low_s), seconds_text(step.high_s));
}

const sim::SearchBase& base_of(const SearchReport& report, const sim::PricedLayout& priced) {
    return report.search.bases[priced.base];
}

std::string varied_text(const sim::SearchBase& base) {
    return fmt::format("{}", fmt::join(base.sets, " "));
}

bool several_bases(const SearchReport& report) {
    return report.search.bases.size() > 1;
}

std::vector<Align> aligns(std::size_t columns) {
    std::vector<Align> all(columns, Align::right);
    return all;
}

// Layouts that cannot be told from the best: their intervals overlap with its.
std::size_t tied(const SearchReport& report) {
    const auto& layouts = report.result.layouts;
    std::size_t count = 0;
    for (const sim::FoundLayout& found : layouts)
        if (found.prediction.step.low_s <= layouts.front().prediction.step.high_s) ++count;
    return count;
}

// How many layouts that may fit are better than the file's own, by estimate.
std::size_t better_than_own(const SearchReport& report) {
    const auto& all = report.result.objectives;
    const double own =
        sim::objective_of(report.options.objective, report.own->scenario, report.own->price.step_s);
    // Its own estimate is among them, where it is one of the space.
    return static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), own * (1 - 1e-9)) -
                                    all.begin());
}

std::string place_text(const SearchReport& report) {
    const auto all = static_cast<std::int64_t>(report.result.objectives.size());
    const auto better = static_cast<std::int64_t>(better_than_own(report));
    return fmt::format(
        "  place       of {} that may fit {} ({}) are better than the file's own, by "
        "estimate\n",
        whole_text(all), whole_text(better),
        percent_text(static_cast<double>(better) / static_cast<double>(all)));
}

std::string found_table(const SearchReport& report) {
    const bool several = several_bases(report);
    std::vector<std::string> head = {"#", "step time", "90 % interval", "MFU", "peak", "fits"};
    if (several) head.push_back("with");
    for (std::string& cell : layout_heads())
        head.push_back(std::move(cell));
    TextTable table(aligns(head.size()));
    const std::size_t columns = head.size();
    table.add(std::move(head));
    const auto add = [&](const std::string& number, const sim::FoundLayout& found) {
        const sim::Prediction& prediction = found.prediction;
        std::vector<std::string> row = {
            number,
            seconds_text(prediction.step.time_s),
            interval_text(prediction.step),
            percent_text(prediction.throughput.mfu),
            bytes_text(static_cast<double>(prediction.memory.worst().peak_bytes)),
            percent_text(prediction.memory.fit_probability)};
        if (several) row.push_back(varied_text(base_of(report, found.price)));
        for (std::string& cell : layout_cells(found.scenario.layout))
            row.push_back(std::move(cell));
        row.resize(columns);
        table.add(std::move(row));
    };
    for (std::size_t i = 0; i < report.result.layouts.size(); ++i)
        add(std::to_string(i + 1), report.result.layouts[i]);
    if (report.own) add("file", *report.own);
    return table.text();
}

std::string broken_table(const SearchReport& report) {
    std::vector<std::pair<std::string, sim::SearchResult::Broken>> all(
        report.result.infeasible.begin(), report.result.infeasible.end());
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
        return a.second.layouts > b.second.layouts;
    });
    TextTable table({Align::left, Align::right, Align::left});
    for (std::size_t i = 0; i < all.size() && i < kShownRules; ++i)
        table.add({all[i].first, whole_text(static_cast<std::int64_t>(all[i].second.layouts)),
                   all[i].second.message});
    return table.text();
}

// Priced layouts, by their estimates.
std::string priced_table(const SearchReport& report, const std::vector<sim::PricedLayout>& some,
                         std::size_t most) {
    const bool several = several_bases(report);
    std::vector<std::string> head = {"step time", "peak"};
    if (several) head.push_back("with");
    for (std::string& cell : layout_heads())
        head.push_back(std::move(cell));
    TextTable table(aligns(head.size()));
    table.add(std::move(head));
    const std::size_t shown = std::min(most, some.size());
    for (std::size_t i = 0; i < shown; ++i) {
        const sim::PricedLayout& one = some[shown < 2 ? 0 : i * (some.size() - 1) / (shown - 1)];
        std::vector<std::string> row = {seconds_text(one.step_s), bytes_text(one.peak_bytes)};
        if (several) row.push_back(varied_text(base_of(report, one)));
        for (std::string& cell : layout_cells(scenario_of(report.search, one).layout))
            row.push_back(std::move(cell));
        table.add(std::move(row));
    }
    return table.text();
}

// Where the time goes in the best layout, the next one and the file's own.
std::string accounts_table(const SearchReport& report) {
    std::vector<std::pair<std::string, const sim::FoundLayout*>> columns;
    for (std::size_t i = 0; i < std::min<std::size_t>(2, report.result.layouts.size()); ++i)
        columns.emplace_back(fmt::format("#{}", i + 1), &report.result.layouts[i]);
    if (report.own) columns.emplace_back("file", &*report.own);
    std::vector<Align> align = {Align::left};
    std::vector<std::string> head = {"account"};
    for (std::size_t c = 0; c < columns.size(); ++c) {
        head.push_back(columns[c].first);
        align.push_back(Align::right);
        if (c == 0) continue;
        head.push_back("less #1");
        align.push_back(Align::right);
    }
    TextTable table(std::move(align));
    table.add(std::move(head));
    const auto row = [&](const std::string& name, auto&& value) {
        std::vector<std::string> cells = {name};
        const double first = value(columns[0].second->prediction.step);
        bool any = first > 0;
        for (std::size_t c = 0; c < columns.size(); ++c) {
            const double of = value(columns[c].second->prediction.step);
            any = any || of > 0;
            cells.push_back(seconds_text(of));
            if (c > 0)
                cells.push_back((of < first ? "-" : "+") + seconds_text(std::abs(of - first)));
        }
        if (any) table.add(std::move(cells));
    };
    for (std::size_t a = 0; a < trace::kAccounts; ++a)
        row(std::string(trace::name(static_cast<trace::Account>(a))),
            [&](const sim::StepPrediction& step) { return step.breakdown_s[a]; });
    row("step", [](const sim::StepPrediction& step) { return step.time_s; });
    return table.text();
}

std::string explanation(const SearchReport& report, const Console& console) {
    std::string text =
        '\n' + console.bold("why: where the time goes") + '\n' + accounts_table(report);
    const auto& without = report.result.without_memory_limit;
    if (!without) return text + "  No layout that memory excludes would be faster.\n";
    const double best = report.result.layouts.front().prediction.step.time_s;
    const plan::Scenario scenario = scenario_of(report.search, *without);
    text += fmt::format(
        "  Memory binds: with {} per device instead of {} about {} would be possible, {} less.\n",
        bytes_text(without->peak_bytes),
        bytes_text(base_of(report, *without).profile->hardware.capacity_bytes.value),
        seconds_text(without->step_s), seconds_text(std::max(0.0, best - without->step_s)));
    return text + priced_table(report, {*without}, 1);
}

std::string headline(const SearchReport& report) {
    const sim::SearchResult& result = report.result;
    const plan::Scenario& scenario = *report.search.bases.front().read.scenario;
    std::string text = fmt::format("layouts of {} on {}\n", scenario.model.name,
                                   devices_line(scenario.cluster, scenario.cluster.devices()));
    std::uint64_t exceeding = 0;
    if (const auto found = result.infeasible.find("memory"); found != result.infeasible.end())
        exceeding = found->second.layouts;
    text += fmt::format(
        "  {} combinations looked at{}: {} break no rule, {} of them may fit; {:.1f} s\n",
        whole_text(static_cast<std::int64_t>(result.evaluated)),
        result.stopped ? ", then interrupted" : "",
        whole_text(static_cast<std::int64_t>(result.priced)),
        whole_text(static_cast<std::int64_t>(result.priced - std::min(result.priced, exceeding))),
        report.seconds);
    return text;
}

Json priced_json(const SearchReport& report, const sim::PricedLayout& priced) {
    Json json;
    const plan::Scenario scenario = scenario_of(report.search, priced);
    json["layout"] = Json::parse(plan::layout_text(scenario.layout));
    json["set"] = base_of(report, priced).sets;
    json["gpus"] = scenario.layout.ranks();
    json["step_time_s"] = priced.step_s;
    json["peak_bytes"] = static_cast<std::int64_t>(priced.peak_bytes);
    json["fit_probability"] = priced.fit_probability;
    json["simulated"] = false;
    return json;
}

Json found_json(const sim::FoundLayout& found) {
    const sim::Prediction& prediction = found.prediction;
    Json json;
    json["layout"] = Json::parse(plan::layout_text(found.scenario.layout));
    json["set"] = found.sets;
    json["gpus"] = found.scenario.layout.ranks();
    json["step_time_s"] = prediction.step.time_s;
    json["interval_s"] = {prediction.step.low_s, prediction.step.high_s};
    json["estimated_step_time_s"] = found.price.step_s;
    json["peak_bytes"] = prediction.memory.worst().peak_bytes;
    json["fit_probability"] = prediction.memory.fit_probability;
    json["verdict"] = sim::name(prediction.memory.verdict);
    json["mfu"] = prediction.throughput.mfu;
    json["tokens_per_s"] = prediction.throughput.tokens_per_s;
    json["tokens_per_s_per_gpu"] = prediction.throughput.tokens_per_s_per_gpu;
    json["days"] = or_null(prediction.run.days);
    json["cost_usd"] = or_null(prediction.run.cost_usd);
    json["energy_mwh"] = or_null(prediction.run.energy_mwh);
    for (std::size_t a = 0; a < trace::kAccounts; ++a)
        json["breakdown_s"][trace::name(static_cast<trace::Account>(a))] =
            prediction.step.breakdown_s[a];
    json["simulated"] = true;
    return json;
}

}  // namespace

plan::Scenario scenario_of(const LayoutSearch& search, const sim::PricedLayout& priced) {
    const sim::SearchBase& base = search.bases[priced.base];
    plan::RuleCheck rules(base.read.given);
    std::string broken;
    std::optional<plan::Scenario> scenario = sim::scenario_of(base, priced.number, rules, broken);
    ORRERY_CHECK(scenario.has_value(), broken);
    return std::move(*scenario);
}

namespace {

// With the ranks that experts are spread over, and that their matrices are cut among.
std::string data_text(const plan::Layout& layout) {
    std::string text = std::to_string(layout.data_parallel);
    if (layout.expert_parallel > 1) text += fmt::format(", ep {}", layout.expert_parallel);
    if (layout.expert_tensor_parallel > 1)
        text += fmt::format(", etp {}", layout.expert_tensor_parallel);
    return text;
}

// With the ranks that share out states, where these are not all that could.
std::string zero_text(const plan::Layout& layout) {
    return layout.zero_ranks() < layout.data_ranks() && layout.zero_stage > 0
               ? fmt::format("{} in {}", layout.zero_stage, layout.zero_ranks())
               : std::to_string(layout.zero_stage);
}

}  // namespace

std::vector<std::string> layout_heads() {
    return {"tp", "cp", "pp", "v", "dp", "mb", "m", "ZeRO", "sp", "recompute", "schedule"};
}

std::vector<std::string> layout_cells(const plan::Layout& layout) {
    const Json json = Json::parse(plan::layout_text(layout));
    return {std::to_string(layout.tensor_parallel),
            std::to_string(layout.context_parallel),
            std::to_string(layout.pipeline_parallel),
            std::to_string(layout.virtual_pipeline),
            data_text(layout),
            std::to_string(layout.micro_batch_size),
            std::to_string(layout.micro_batches()),
            zero_text(layout),
            layout.sequence_parallel ? "yes" : "-",
            json.at("recompute").get<std::string>(),
            layout.pipeline_parallel > 1 ? layout.schedule : "-"};
}

std::string search_text(const SearchReport& report, const Console& console) {
    const sim::SearchResult& result = report.result;
    std::string text = headline(report);
    if (result.layouts.empty() && !result.pareto.empty()) {
        text += '\n' +
                console.bold(
                    "none was simulated yet; what no other layout beats in step time, memory and "
                    "cost, by estimate") +
                '\n' + priced_table(report, result.pareto, kShownFront);
    } else if (result.layouts.empty()) {
        text += '\n' + console.bold("nothing fits; the nearest, by estimate") + '\n' +
                priced_table(report, result.nearest, result.nearest.size());
    } else {
        text += '\n' +
                console.bold(fmt::format("the best by {}, each simulated in full",
                                         sim::name(report.options.objective))) +
                '\n' + found_table(report);
        if (const std::size_t same = tied(report); same > 1)
            text += fmt::format(
                "  tied        the first {} cannot be told apart: their 90 % "
                "intervals overlap\n",
                same);
        if (report.own) text += place_text(report);
        text += "  repeat      orrery simulate " +
                report.input.arguments(result.layouts.front().sets) + '\n';
        if (report.explain) text += explanation(report, console);
        text += '\n' +
                console.bold(
                    "faster or smaller: what no other layout beats in step time, "
                    "memory and cost, by estimate") +
                '\n' + priced_table(report, result.pareto, kShownFront);
    }
    text += '\n' + console.bold("what the others break") + '\n' + broken_table(report);
    return text;
}

std::string search_json(const SearchReport& report) {
    const sim::SearchResult& result = report.result;
    Json json;
    json["evaluated"] = result.evaluated;
    json["priced"] = result.priced;
    json["infeasible"] = Json::object();
    for (const auto& [why, broken] : result.infeasible)
        json["infeasible"][why] = broken.layouts;
    json["seconds"] = report.seconds;
    json["interrupted"] = result.stopped;
    json["objective"] = sim::name(report.options.objective);
    json["layouts"] = Json::array();
    for (const sim::FoundLayout& found : result.layouts)
        json["layouts"].push_back(found_json(found));
    json["tied"] = result.layouts.empty() ? 0 : tied(report);
    json["own"] = report.own ? found_json(*report.own) : Json(nullptr);
    if (report.own) json["own"]["better_by_estimate"] = better_than_own(report);
    json["may_fit"] = result.objectives.size();
    json["pareto"] = Json::array();
    for (const sim::PricedLayout& priced : result.pareto)
        json["pareto"].push_back(priced_json(report, priced));
    json["nearest"] = Json::array();
    for (const sim::PricedLayout& priced : result.nearest)
        json["nearest"].push_back(priced_json(report, priced));
    json["without_memory_limit"] = result.without_memory_limit
                                       ? priced_json(report, *result.without_memory_limit)
                                       : Json(nullptr);
    sim::EstimateBounds widest;
    for (const sim::SearchBase& base : report.search.bases) {
        const sim::EstimateBounds bounds = sim::estimate_bounds(*base.read.scenario);
        widest = {std::max(widest.step, bounds.step), std::max(widest.peak, bounds.peak)};
    }
    json["bounds"] = {{"step_time", widest.step}, {"peak_bytes", widest.peak}};
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace orrery::cli
