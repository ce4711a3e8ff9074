#include "cli/goodput_text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cli/json_values.hpp"
#include "cli/quantity.hpp"
#include "cli/report_sections.hpp"
#include "cli/run_days.hpp"
#include "cli/run_parts.hpp"
#include "cli/scenario_lines.hpp"
#include "cli/text_table.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;
using sim::RunAccount;

constexpr int kCells = 50;

std::string where_text(const GoodputReport& report, const Console& console) {
    const sim::Goodput& goodput = report.goodput;
    TextTable table({Align::left, Align::right, Align::right, Align::left});
    const double wall = goodput.days * kDay;
    const auto row = [&](const std::string& what, double seconds) {
        if (seconds <= 0) return;
        table.add({what, span_text(seconds), percent_text(seconds / wall),
                   bar_text(seconds / wall, kCells)});
    };
    for (std::size_t a = 0; a < sim::kRunAccounts; ++a) {
        const auto account = static_cast<RunAccount>(a);
        row(words_of(account), goodput.seconds[a]);
    }
    table.add({"the run", span_text(wall), "100 %"});
    return heading("where the wall clock goes, mean over " +
                       whole_text(static_cast<std::int64_t>(report.options.runs)) + " drawn runs",
                   console) +
           table.text();
}

std::string failures_text(const GoodputReport& report, const Console& console) {
    const sim::Goodput& goodput = report.goodput;
    std::vector<const sim::RunCause*> causes;
    for (const sim::RunCause& cause : goodput.model.causes)
        causes.push_back(&cause);
    std::stable_sort(causes.begin(), causes.end(),
                     [](const auto* a, const auto* b) { return a->per_s > b->per_s; });
    const double all = goodput.model.failures_per_s();
    if (all <= 0) return "";
    TextTable table({Align::left, Align::right, Align::right, Align::right});
    table.add({"cause", "every", "share", "noticed after"});
    for (const sim::RunCause* cause : causes)
        table.add({cause->name, span_text(1 / cause->per_s), percent_text(cause->per_s / all),
                   span_text(cause->detection_s)});
    return heading(fmt::format("failures: {} a run, one every {} of training",
                               digits_text(goodput.failures), span_text(1 / all)),
                   console) +
           table.text();
}

std::string interval_text(const GoodputReport& report) {
    const sim::Goodput& goodput = report.goodput;
    const double step_s = goodput.model.work_s / static_cast<double>(goodput.steps);
    const auto steps = [&](double interval) {
        return whole_text(static_cast<std::int64_t>(std::lround(interval / step_s)));
    };
    const double interval = goodput.model.interval_s;
    std::string text = fmt::format("every {} = {} steps, ", span_text(interval), steps(interval));
    if (goodput.interval_given)
        return text + fmt::format("as run.checkpoint.every_steps says; best by the model: {} steps",
                                  steps(goodput.best_interval_s));
    return text + fmt::format("the best by the model (Young and Daly: {})",
                              span_text(goodput.young_daly_s));
}

std::string checkpoint_text(const GoodputReport& report, const Console& console) {
    const sim::Goodput& goodput = report.goodput;
    const sim::CheckpointCost& cost = goodput.checkpoint;
    const bool beside = report.scenario.reliability->saving == plan::Saving::asynchronous;
    std::string text =
        heading("checkpoints", console) + labelled("interval", interval_text(report)) +
        labelled("size", fmt::format("{}, written at {} GB/s{}", bytes_text(cost.bytes),
                                     digits_text(cost.storage_GBps),
                                     report.scenario.storage ? "" : " (assumed: 1 GB/s a node)")) +
        labelled("stall",
                 beside ? fmt::format("{} to host memory; written beside training in {}",
                                      seconds_text(goodput.model.stall_s), span_text(cost.write_s))
                        : fmt::format("{}: training waits for the write",
                                      span_text(goodput.model.stall_s)));
    if (goodput.model.memory_interval_s > 0)
        text += labelled("in memory", fmt::format("every {}, {} each",
                                                  span_text(goodput.model.memory_interval_s),
                                                  seconds_text(goodput.model.memory_stall_s)));
    text += labelled("load", span_text(cost.load_s));
    return text;
}

const char* words_of(sim::FeedLimit limit) {
    switch (limit) {
        case sim::FeedLimit::node_links:
            return "the nodes' links";
        case sim::FeedLimit::store_bandwidth:
            return "its bandwidth";
        case sim::FeedLimit::store_reads:
            return "reads a second";
        case sim::FeedLimit::reads_in_flight:
            return "reads in flight";
    }
    return "";
}

std::string cache_text(const GoodputReport& report) {
    const sim::DataFeed& feed = report.goodput.feed;
    if (feed.as_read_s <= 0) return "";
    std::string text =
        labelled("disks", fmt::format("give {} of the first epoch and {} of the last of {}",
                                      percent_text(feed.cold_hits), percent_text(feed.warm_hits),
                                      digits_text(feed.epochs)));
    std::string ways = fmt::format("{} as they are read, {} from storage before training",
                                   span_text(feed.as_read_s), span_text(feed.from_store_s));
    if (feed.chain_s > 0)
        ways += fmt::format(", {} along a chain of nodes", span_text(feed.chain_s));
    text += labelled("warming", ways);
    return text + labelled("new node", fmt::format("training waits {} until its disk is filled",
                                                   span_text(feed.rewarm_s)));
}

std::string feed_text(const GoodputReport& report, const Console& console) {
    const sim::DataFeed& feed = report.goodput.feed;
    std::string text =
        heading("data", console) +
        labelled("feed", fmt::format("{} needed, {} of it from shared storage, which gives {} GB/s",
                                     scaled_text(feed.needed_GBps * 1e9, "B/s"),
                                     scaled_text(feed.from_storage_GBps * 1e9, "B/s"),
                                     digits_text(feed.available_GBps)));
    if (feed.stretch > 1)
        text += labelled(
            "starved",
            fmt::format("{} of the time; steps take {} x as long in the first epoch, {} "
                        "x in the last; storage ends at {}",
                        percent_text(feed.starved_fraction()), digits_text(feed.cold_stretch),
                        digits_text(feed.warm_stretch), words_of(feed.limit)));
    text += cache_text(report);
    if (const auto& storm = report.goodput.storm; storm && storm->starved_s > 0)
        text += labelled(
            "storm",
            fmt::format("a checkpoint leaves {} for data: training waits {} each time",
                        scaled_text(storm->feed_GBps * 1e9, "B/s"), span_text(storm->starved_s)));
    return text +
           labelled("size", fmt::format("{} {}", bytes_text(feed.dataset_bytes),
                                        feed.epochs == 1 ? "for the run's tokens" : "an epoch"));
}

std::string changes_text(const GoodputReport& report, const Console& console) {
    TextTable table({Align::left, Align::right, Align::right, Align::right});
    table.add({"if …", "time", "gain", "effective"});
    for (const sim::GoodputChange& change : report.goodput.changes)
        table.add({change.what, length_text(change.days),
                   span_text(std::max(0.0, report.goodput.days - change.days) * kDay),
                   percent_text(change.effective_fraction)});
    return heading("what would help: each alone, drawn again", console) + table.text();
}

std::string spares_text(const GoodputReport& report) {
    const sim::Goodput& goodput = report.goodput;
    return fmt::format("{} nodes{}, repaired in {} on average",
                       whole_text(goodput.model.spare_nodes),
                       goodput.spares_assumed ? " (assumed: as many as are rarely short)" : "",
                       span_text(goodput.model.repair_s));
}

}  // namespace

std::string span_text(double seconds) {
    if (seconds >= 2 * kDay) return digits_text(seconds / kDay) + " d";
    if (seconds >= 3600) return digits_text(seconds / 3600) + " h";
    if (seconds >= 120) return digits_text(seconds / 60) + " min";
    return seconds_text(seconds);
}

std::string length_text(double days) {
    return days < 1 ? digits_text(days * 24) + " hours" : digits_text(days) + " days";
}

std::string words_of(RunAccount account) {
    switch (account) {
        case RunAccount::steps:
            return "steps that count";
        case RunAccount::data:
            return "waiting for data";
        case RunAccount::lost_work:
            return "work lost and done again";
        case RunAccount::saving:
            return "waiting for checkpoints";
        case RunAccount::detection:
            return "until failures are noticed";
        case RunAccount::diagnosis:
            return "until the node is found";
        case RunAccount::restart:
            return "replacing, restarting, loading";
        case RunAccount::waiting:
            return "waiting for a spare node";
        case RunAccount::degraded:
            return "steps on fewer nodes";
    }
    return "";
}

std::string goodput_text(const GoodputReport& report, const Console& console) {
    const sim::Goodput& goodput = report.goodput;
    const plan::Reliability& reliability = *report.scenario.reliability;
    std::string text = console.bold(fmt::format(
        "{}, a run of {} tokens on {}\n", report.scenario.model.name, counted_text(goodput.tokens),
        devices_line(report.scenario.cluster, report.scenario.layout.ranks())));
    text += labelled("steps", fmt::format("{} of {}, {}", whole_text(goodput.steps),
                                          seconds_text(report.prediction.step.time_s),
                                          report.step_measured ? "measured" : "simulated"));
    text += labelled(
        "failures",
        fmt::format("{}{}", reliability.name.empty() ? "as said" : reliability.name,
                    report.assumed.empty() ? ""
                                           : " (assumed: the scenario has no reliability; --set "
                                             "reliability=NAME)"));
    text += labelled("spares", spares_text(report)) + '\n';
    text += labelled("time",
                     fmt::format("{}   90 % interval {} to {}", length_text(goodput.days),
                                 length_text(goodput.low_days), length_text(goodput.high_days)));
    text += labelled("effective", fmt::format("{} of the wall clock (ETTR): {} without failures "
                                              "and checkpoints",
                                              percent_text(goodput.effective_fraction),
                                              length_text(goodput.ideal_days)));
    text += labelled("expected", fmt::format("{} by the closed form, without spread and with a "
                                             "spare always there",
                                             length_text(goodput.analytic_days)));
    text += labelled("failure", goodput.hours_between_failures == 0
                                    ? "none"
                                    : fmt::format("one every {} of training; {} in the run",
                                                  span_text(goodput.hours_between_failures * 3600),
                                                  digits_text(goodput.failures)));
    text += labelled("GPU-hours", counted_text(goodput.gpu_hours) + ", of the GPUs in use");
    text += labelled("cost", goodput.cost_usd
                                 ? counted_text(*goodput.cost_usd) + " USD for the whole cluster"
                                 : "unknown: the cluster has no price");
    text += labelled("energy", goodput.energy_mwh ? digits_text(*goodput.energy_mwh) + " MWh"
                                                  : "unknown: the cluster has no power_w_per_gpu");
    return text + where_text(report, console) + failures_text(report, console) +
           checkpoint_text(report, console) + feed_text(report, console) +
           changes_text(report, console) + (report.timeline ? run_days_text(report, console) : "");
}

std::string goodput_json(const GoodputReport& report) {
    const sim::Goodput& goodput = report.goodput;
    const double step_s = goodput.model.work_s / static_cast<double>(goodput.steps);
    const auto some = [](double value) { return value == 0 ? Json(nullptr) : Json(value); };
    Json json = {
        {"hours_between_failures", some(goodput.hours_between_failures)},
        {"effective_fraction", goodput.effective_fraction},
        {"days", goodput.days},
        {"interval_days", {goodput.low_days, goodput.high_days}},
        {"gpu_hours", goodput.gpu_hours},
        {"cost_usd", or_null(goodput.cost_usd)},
        {"energy_mwh", or_null(goodput.energy_mwh)},
        {"ideal_days", goodput.ideal_days},
        {"analytic_days", goodput.analytic_days},
        {"steps", goodput.steps},
        {"tokens", goodput.tokens},
        {"step_time_s", report.prediction.step.time_s},
        {"failures", goodput.failures},
        {"spare_nodes", goodput.model.spare_nodes},
        {"assumed_reliability", report.assumed.empty() ? Json(nullptr) : Json(report.assumed)},
        {"runs", report.options.runs},
        {"runs_that_do_not_end", goodput.unended},
        {"seed", report.options.seed}};
    Json days;
    for (std::size_t a = 0; a < sim::kRunAccounts; ++a)
        days[std::string(sim::name(static_cast<RunAccount>(a)))] = goodput.seconds[a] / kDay;
    json["breakdown_days"] = std::move(days);
    json["waterfall"] = run_parts_json(report);
    const sim::CheckpointCost& cost = goodput.checkpoint;
    json["checkpoint"] = {{"bytes", cost.bytes},
                          {"interval_s", goodput.model.interval_s},
                          {"interval_steps", std::lround(goodput.model.interval_s / step_s)},
                          {"interval_given", goodput.interval_given},
                          {"best_interval_s", goodput.best_interval_s},
                          {"young_daly_s", goodput.young_daly_s},
                          {"stall_s", goodput.model.stall_s},
                          {"write_s", cost.write_s},
                          {"load_s", cost.load_s}};
    const sim::DataFeed& feed = goodput.feed;
    json["data"] = {{"needed_GBps", feed.needed_GBps},
                    {"from_storage_GBps", feed.from_storage_GBps},
                    {"available_GBps", feed.available_GBps},
                    {"dataset_bytes", feed.dataset_bytes},
                    {"stretch", feed.stretch}};
    json["feed"] = {{"samples_per_s", feed.samples_per_s},
                    {"reads_per_s", feed.reads_per_s},
                    {"storage_limit", sim::name(feed.limit)},
                    {"epochs", feed.epochs},
                    {"starved_fraction", feed.starved_fraction()},
                    {"cold", {{"hits", feed.cold_hits}, {"stretch", feed.cold_stretch}}},
                    {"warm", {{"hits", feed.warm_hits}, {"stretch", feed.warm_stretch}}},
                    {"warming_s", feed.warming_s},
                    {"as_read_s", some(feed.as_read_s)},
                    {"from_store_s", some(feed.from_store_s)},
                    {"chain_s", some(feed.chain_s)},
                    {"rewarm_s", feed.rewarm_s},
                    {"storm", nullptr}};
    if (const auto& storm = goodput.storm)
        json["feed"]["storm"] = {{"feed_GBps", storm->feed_GBps},
                                 {"write_s", storm->write_s},
                                 {"starved_s", storm->starved_s}};
    json["causes"] = Json::array();
    for (const sim::RunCause& cause : goodput.model.causes)
        json["causes"].push_back({{"cause", cause.name},
                                  {"hours_between", 1 / (cause.per_s * 3600)},
                                  {"detection_s", cause.detection_s},
                                  {"silent", cause.silent}});
    json["changes"] = Json::array();
    for (const sim::GoodputChange& change : goodput.changes)
        json["changes"].push_back({{"change", change.what},
                                   {"days", change.days},
                                   {"effective_fraction", change.effective_fraction}});
    if (report.timeline) json["middle_run"] = run_days_json(report);
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace orrery::cli
