#include "cli/jobs/jobs_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/quantity.hpp"
#include "cli/report_sections.hpp"
#include "cli/text_table.hpp"
#include "plan/scenario/spellings.hpp"
#include "sim/engine/drawn_cluster.hpp"
#include "sim/jobs/job_on_nodes.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostLinks = 12;

double tokens_per_step(const sim::Job& job) {
    return static_cast<double>(job.plan.conserved.tokens_per_step);
}

struct Throughput {
    double alone = 0, shared = 0;  // tokens a second
};

Throughput throughput_of(const JobsReport& report, std::size_t j) {
    const sim::JobOutcome& of = report.outcome.jobs[j];
    return {tokens_per_step(report.jobs[j]) / of.alone_mean_s,
            tokens_per_step(report.jobs[j]) / of.shared.mean_s};
}

Throughput throughput_of(const JobsReport& report) {
    Throughput all;
    for (std::size_t j = 0; j < report.jobs.size(); ++j) {
        const Throughput one = throughput_of(report, j);
        all.alone += one.alone;
        all.shared += one.shared;
    }
    return all;
}

std::string fabric_text(const plan::Cluster& cluster) {
    const plan::Fabric& fabric = cluster.inter_node.fabric;
    if (fabric.levels.empty()) return "one fabric: nothing is shared above the nodes";
    std::string text = fabric.kind == plan::FabricKind::rail ? "rails" : "fat tree";
    for (std::size_t level = 0; level < fabric.levels.size(); ++level)
        text += fmt::format(
            "{} {} of {} nodes, {}:1", level == 0 ? ":" : ",", level == 0 ? "leaves" : "switches",
            whole_text(fabric.levels[level].nodes), fabric.levels[level].oversubscription);
    return text;
}

std::int64_t ranks_of(const sim::Job& job) {
    return job.plan.mesh.ranks();
}

bool is_mixed(const JobsReport& report) {
    return !report.shared.cluster.other_nodes.empty();
}

bool draws_each_step(const JobsReport& report) {
    const plan::Jitter& jitter = report.shared.cluster.jitter;
    return jitter.any() && jitter.per == plan::JitterPer::kernel;
}

// "64 nodes of 8 x a100-80gb-sxm", "12 nodes, 8 of 8 x h100-sxm and 4 of 8 x a100-80gb-sxm".
std::string nodes_text(const plan::Cluster& cluster) {
    std::vector<std::string> kinds;
    for (std::size_t kind = 0; kind < cluster.node_kinds(); ++kind) {
        const plan::Cluster& of = cluster.node_kind(kind);
        kinds.push_back(
            fmt::format("{} of {} x {}", whole_text(of.nodes), of.devices_per_node, of.device));
    }
    if (kinds.size() > 1)
        return fmt::format("{} nodes, {}", whole_text(cluster.all_nodes()),
                           fmt::join(kinds, " and "));
    return fmt::format("{} nodes of {} x {}", whole_text(cluster.nodes), cluster.devices_per_node,
                       cluster.device);
}

// Of a job's nodes, so many of each kind.
struct NodesOfKind {
    std::size_t kind = 0;
    std::int64_t nodes = 0;
};

std::vector<NodesOfKind> nodes_by_kind(const JobsReport& report, std::size_t j) {
    const plan::Cluster& cluster = report.shared.cluster;
    std::vector<NodesOfKind> kinds;
    for (const std::int64_t node : report.nodes[j]) {
        const std::size_t kind = cluster.kind_of_device(node * cluster.devices_per_node);
        if (kinds.empty() || kinds.back().kind != kind) kinds.push_back({kind, 0});
        ++kinds.back().nodes;
    }
    return kinds;
}

// Where nodes are of several kinds: which each job has.
std::string devices_text(const JobsReport& report) {
    if (!is_mixed(report)) return "";
    const plan::Cluster& cluster = report.shared.cluster;
    std::vector<std::string> of_jobs;
    for (std::size_t j = 0; j < report.jobs.size(); ++j) {
        std::vector<std::string> kinds;
        for (const auto& [kind, nodes] : nodes_by_kind(report, j))
            kinds.push_back(fmt::format("{} {}", whole_text(nodes * cluster.devices_per_node),
                                        cluster.node_kind(kind).device));
        of_jobs.push_back(fmt::format("{} {}", report.jobs[j].name, fmt::join(kinds, " and ")));
    }
    return labelled("devices", fmt::format("{}", fmt::join(of_jobs, "; ")));
}

std::string title(const JobsReport& report) {
    std::int64_t ranks = 0;
    for (const sim::Job& job : report.jobs)
        ranks += ranks_of(job);
    const plan::Cluster& cluster = report.shared.cluster;
    return fmt::format("{} job{} of {} ranks on {}, {}", report.jobs.size(),
                       report.jobs.size() == 1 ? "" : "s", whole_text(ranks), nodes_text(cluster),
                       fabric_text(cluster));
}

std::string times_text(double factor) {
    return fmt::format("{:.3f} x", factor);
}

std::string jobs_table(const JobsReport& report) {
    using enum Align;
    TextTable table({left, left, right, right, right, right, right, right, right, right});
    table.add({"job", "placed", "ranks", "leaves", "alone", "shared", "slower", "exposed alone",
               "shared", "tokens/s"});
    for (std::size_t j = 0; j < report.jobs.size(); ++j) {
        const sim::JobOutcome& of = report.outcome.jobs[j];
        table.add({report.jobs[j].name, report.placed[j], whole_text(ranks_of(report.jobs[j])),
                   of.leaves > 0 ? whole_text(of.leaves) : "-", seconds_text(of.alone_mean_s),
                   seconds_text(of.shared.mean_s), times_text(of.slowdown()),
                   seconds_text(of.alone_exposed_s), seconds_text(of.shared.exposed_s),
                   digits_text(throughput_of(report, j).shared)});
    }
    return table.text();
}

struct SlowNode {
    std::int64_t node = 0;
    double slower = 1;
};

// Of a job, the slowest first.
std::vector<SlowNode> slow_nodes_of(const JobsReport& report, std::size_t j,
                                    const std::vector<double>& slowness) {
    std::vector<SlowNode> slow;
    for (const std::int64_t node : report.nodes[j])
        if (const double slower = slowness[static_cast<std::size_t>(node)]; slower > 1)
            slow.push_back({node, slower});
    std::stable_sort(slow.begin(), slow.end(),
                     [](const SlowNode& a, const SlowNode& b) { return a.slower > b.slower; });
    return slow;
}

std::string slow_nodes_text(const std::vector<SlowNode>& slow) {
    constexpr std::size_t kMostNamed = 3;
    std::string text;
    for (std::size_t i = 0; i < std::min(slow.size(), kMostNamed); ++i)
        text += fmt::format("{} {} ({:.3g} x)", i == 0 ? " with node" : ", node", slow[i].node,
                            slow[i].slower);
    if (slow.size() > kMostNamed) text += fmt::format(" and {} more", slow.size() - kMostNamed);
    return text;
}

// What is slow of the nodes, and what it costs whom.
std::string uneven_text(const JobsReport& report) {
    if (report.even_s.empty()) return "";
    const std::vector<double> slowness =
        sim::slowness_of_nodes(sim::drawn_cluster(report.shared.cluster));
    std::string costs;
    for (std::size_t j = 0; j < report.jobs.size(); ++j) {
        const double alone_s = report.outcome.jobs[j].alone_mean_s;
        if (alone_s == report.even_s[j]) continue;
        costs +=
            fmt::format("{}{}{} takes {} alone, not {}", costs.empty() ? "" : "; ",
                        report.jobs[j].name, slow_nodes_text(slow_nodes_of(report, j, slowness)),
                        seconds_text(alone_s), seconds_text(report.even_s[j]));
    }
    std::string text = labelled("uneven", uneven_line(report.shared.cluster)) +
                       labelled("costs", costs.empty() ? "no job has any of it" : costs);
    if (draws_each_step(report))
        text += labelled("jitter",
                         "each step draws its kernels' times anew; alone is the mean of the same "
                         "steps");
    return text;
}

std::string spread_text(const JobsReport& report) {
    std::string text;
    for (std::size_t j = 0; j < report.jobs.size(); ++j) {
        const sim::SharedStep& step = report.outcome.jobs[j].shared;
        if (step.least_s == step.most_s) continue;
        text += fmt::format(
            "{}{} {} to {} over {} steps{}", text.empty() ? "" : "; ", report.jobs[j].name,
            seconds_text(step.least_s), seconds_text(step.most_s), step.steps,
            std::abs(step.drift) > 0.01 && !draws_each_step(report)
                ? fmt::format(", still {} by {}", step.drift > 0 ? "growing" : "falling",
                              percent_text(std::abs(step.drift)))
                : "");
    }
    return text.empty() ? text : labelled("spread", text);
}

// Links by how long they kept flows back.
std::vector<std::size_t> worst_links(const sim::JobsOutcome& outcome) {
    std::vector<std::size_t> order;
    for (std::size_t l = 0; l < outcome.links.size(); ++l)
        if (outcome.links[l].full > 0) order.push_back(l);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return outcome.links[a].full > outcome.links[b].full;
    });
    return order;
}

// Links that fared alike are one row.
struct LinkRow {
    std::vector<std::string> cells;  // without the name and what was lost
    std::string first;
    std::size_t links = 0;
    std::map<std::int32_t, double> held_s;  // by job
};

std::vector<LinkRow> link_rows(const JobsReport& report) {
    std::vector<LinkRow> rows;
    for (const std::size_t l : worst_links(report.outcome)) {
        const sim::LinkOutcome& link = report.outcome.links[l];
        std::vector<std::string> cells = {digits_text(link.GBps) + " GB/s",
                                          percent_text(link.carried), percent_text(link.met),
                                          percent_text(link.full)};
        auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const LinkRow& one) { return one.cells == cells; });
        if (row == rows.end())
            row = rows.insert(
                rows.end(),
                {std::move(cells), sim::name_of(link.link, report.shared.cluster), 0, {}});
        ++row->links;
        for (std::size_t i = 0; i < link.jobs.size(); ++i)
            row->held_s[link.jobs[i]] += link.held_s[i];
    }
    return rows;
}

std::string held_text(const JobsReport& report, const LinkRow& row) {
    std::string text;
    for (const auto& [job, held_s] : row.held_s)
        if (held_s > 0)
            text +=
                fmt::format("{}{} {}", text.empty() ? "" : ", ",
                            report.jobs[static_cast<std::size_t>(job)].name, seconds_text(held_s));
    return text;
}

std::string links_text(const JobsReport& report, const Console& console) {
    const sim::JobsOutcome& outcome = report.outcome;
    if (outcome.links.empty())
        return "\nno link that several jobs pass can be filled by them: each runs as alone\n";
    const std::vector<LinkRow> rows = link_rows(report);
    if (rows.empty())
        return fmt::format("\nof {} links that several jobs could fill none kept anything back\n",
                           outcome.links.size());
    using enum Align;
    TextTable table({left, right, right, right, right, left});
    table.add({"link", "carries", "used", "several", "full", "lost by a job's flows"});
    for (std::size_t i = 0; i < std::min(rows.size(), kMostLinks); ++i) {
        std::vector<std::string> cells = rows[i].cells;
        cells.insert(cells.begin(), rows[i].links == 1 ? rows[i].first
                                                       : fmt::format("{}, {} alike", rows[i].first,
                                                                     rows[i].links - 1));
        cells.push_back(held_text(report, rows[i]));
        table.add(std::move(cells));
    }
    std::string text = heading(fmt::format("contended links, of {} that several jobs could fill, "
                                           "over {}",
                                           outcome.links.size(), seconds_text(outcome.window_s)),
                               console) +
                       table.text();
    if (rows.size() > kMostLinks)
        text += fmt::format("  and {} kinds more, less long\n", rows.size() - kMostLinks);
    return text;
}

std::string search_text(const JobsReport& report, const Console& console) {
    const sim::PlaceSearchResult& search = *report.search;
    using enum Align;
    TextTable table({left, right, right, right});
    table.add({"places", "slow-downs", "worst", "estimate"});
    for (const sim::SimulatedPlaces& one : search.simulated) {
        double sum = 0;
        for (const double slowdown : one.slowdowns)
            sum += slowdown;
        table.add({one.candidate.how, fmt::format("{:.3f}", sum),
                   times_text(*std::max_element(one.slowdowns.begin(), one.slowdowns.end())),
                   fmt::format("{:.3f}", one.candidate.estimate)});
    }
    return heading(
               fmt::format("places, best first: {} estimated, {} simulated; against each job "
                           "alone, compact{}",
                           search.estimated, search.simulated.size(),
                           sim::nodes_differ(report.shared.cluster) ? " where it is fastest" : ""),
               console) +
           table.text();
}

std::string starts_table(const sim::ShiftSearchResult& search) {
    using enum Align;
    TextTable table({left, right, right, right});
    table.add({"starts", "slow-downs", "worst", "estimate"});
    for (const sim::SimulatedShifts& one : search.simulated)
        table.add({one.candidate.how,
                   fmt::format("{:.3f}", sim::score_of(sim::JobsObjective::sum, one.slowdowns)),
                   times_text(sim::score_of(sim::JobsObjective::worst, one.slowdowns)),
                   fmt::format("{:.3f}", one.candidate.estimate)});
    return table.text();
}

std::string later_table(const JobsReport& report) {
    const sim::SimulatedShifts& best = report.shifts->simulated.front();
    const sim::SimulatedShifts& given = report.shifts->given();
    using enum Align;
    TextTable table({left, right, right, right, right});
    table.add({"job", "starts later by", "step as given", "then", "gains"});
    for (std::size_t j = 0; j < report.jobs.size(); ++j) {
        const double before = given.outcome.jobs[j].shared.mean_s;
        const double then = best.outcome.jobs[j].shared.mean_s;
        table.add({report.jobs[j].name, seconds_text(best.candidate.later_s[j]),
                   seconds_text(before), seconds_text(then), percent_text(1 - then / before)});
    }
    return table.text();
}

// The pair that drifts fastest stands for all.
std::string drift_text(const JobsReport& report) {
    const std::vector<sim::PhaseDrift>& drifts = report.shifts->drifts;
    if (draws_each_step(report))
        return labelled("lasting",
                        "steps vary with their kernels: phases wander, and shifts wear off");
    if (drifts.empty())
        return labelled("lasting", "steps of jobs that meet are alike: phases stay as they begin");
    const sim::PhaseDrift& drift = *std::min_element(
        drifts.begin(), drifts.end(),
        [](const sim::PhaseDrift& a, const sim::PhaseDrift& b) { return a.runs < b.runs; });
    const std::string& slow = report.jobs[static_cast<std::size_t>(drift.slow)].name;
    const std::string& fast = report.jobs[static_cast<std::size_t>(drift.fast)].name;
    std::string text = fmt::format(
        "steps are unlike, so that shifts do not last: {} moves against {} by {} in each of {}'s "
        "steps, through all its phases in {} of them",
        fast, slow, seconds_text(drift.drift_s), slow,
        whole_text(static_cast<std::int64_t>(drift.runs + 0.5)));
    if (drifts.size() > 1)
        text += fmt::format("; {} pairs more drift, not faster", drifts.size() - 1);
    return labelled("lasting", text);
}

std::string shifts_text(const JobsReport& report, const Console& console) {
    const sim::ShiftSearchResult& search = *report.shifts;
    if (search.simulated.size() == 1)
        return "\nno link is filled by jobs together: when they start makes no difference\n";
    return heading(fmt::format("starts, best first: {} estimated, {} simulated; against each job "
                               "alone{}",
                               whole_text(search.estimated), search.simulated.size(),
                               report.search != nullptr ? ", compact" : ""),
                   console) +
           starts_table(search) + '\n' + later_table(report) + '\n' + drift_text(report);
}

std::string ranges_text(const sim::NodeList& nodes) {
    std::string text;
    for (std::size_t i = 0; i < nodes.size();) {
        std::size_t end = i + 1;
        while (end < nodes.size() && nodes[end] == nodes[end - 1] + 1)
            ++end;
        text += fmt::format("{}{}", text.empty() ? "" : ",", nodes[i]);
        if (end > i + 1) text += fmt::format("-{}", nodes[end - 1]);
        i = end;
    }
    return text;
}

std::string nodes_text(const JobsReport& report, const Console& console) {
    std::string text = heading("nodes", console);
    for (std::size_t j = 0; j < report.jobs.size(); ++j)
        text += labelled(report.jobs[j].name, ranges_text(report.nodes[j]));
    return text;
}

// `slowness`: by node, where the cluster is uneven.
Json job_json(const JobsReport& report, std::size_t j, const std::vector<double>& slowness) {
    const sim::JobOutcome& of = report.outcome.jobs[j];
    const Throughput throughput = throughput_of(report, j);
    const double alone_s = sim::to_seconds(of.alone.length);
    Json breakdown = Json::object();
    for (std::size_t a = 0; a < trace::kAccounts; ++a)
        breakdown[std::string(trace::name(static_cast<trace::Account>(a)))] = of.alone.accounts[a];
    Json json = {{"name", report.jobs[j].name},
                 {"placed", report.placed[j]},
                 {"ranks", ranks_of(report.jobs[j])},
                 {"nodes", report.nodes[j]},
                 {"leaves", of.leaves},
                 {"alone_s", alone_s},
                 {"shared_s", of.shared.mean_s},
                 {"slowdown", of.slowdown()},
                 {"least_s", of.shared.least_s},
                 {"most_s", of.shared.most_s},
                 {"deviation_s", of.shared.deviation_s},
                 {"steps", of.shared.steps},
                 {"drift", of.shared.drift},
                 {"exposed_alone_s", of.alone_exposed_s},
                 {"exposed_shared_s", of.shared.exposed_s},
                 {"breakdown_alone_s", std::move(breakdown)},
                 {"tokens_per_s_alone", throughput.alone},
                 {"tokens_per_s", throughput.shared},
                 {"tracks", of.tracks}};
    if (draws_each_step(report)) json["alone_mean_s"] = of.alone_mean_s;
    if (is_mixed(report)) {
        Json devices = Json::array();
        for (const auto& [kind, nodes] : nodes_by_kind(report, j))
            devices.push_back(
                {{"device", report.shared.cluster.node_kind(kind).device}, {"nodes", nodes}});
        json["devices"] = std::move(devices);
    }
    if (!report.even_s.empty()) {
        json["even_s"] = report.even_s[j];
        Json slow = Json::array();
        for (const SlowNode& one : slow_nodes_of(report, j, slowness))
            slow.push_back({{"node", one.node}, {"slower", one.slower}});
        json["slow_nodes"] = std::move(slow);
    }
    return json;
}

Json link_json(const JobsReport& report, const sim::LinkOutcome& link) {
    Json jobs = Json::array();
    for (std::size_t i = 0; i < link.jobs.size(); ++i)
        jobs.push_back({{"name", report.jobs[static_cast<std::size_t>(link.jobs[i])].name},
                        {"bytes", link.bytes[i]},
                        {"held_s", link.held_s[i]}});
    return {{"link", sim::name_of(link.link, report.shared.cluster)},
            {"level", link.link.level},
            {"switch", link.link.unit},
            {"rail", link.link.rail},
            {"direction", link.link.up ? "up" : "down"},
            {"capacity_GBps", link.GBps},
            {"carried", link.carried},
            {"busy", link.busy},
            {"met", link.met},
            {"full", link.full},
            {"jobs", std::move(jobs)}};
}

Json search_json(const JobsReport& report) {
    Json places = Json::array();
    for (const sim::SimulatedPlaces& one : report.search->simulated)
        places.push_back({{"how", one.candidate.how},
                          {"score", one.score},
                          {"estimate", one.candidate.estimate},
                          {"slowdowns", one.slowdowns},
                          {"nodes", one.candidate.nodes}});
    return {{"objective", report.objective == sim::JobsObjective::sum ? "sum" : "worst"},
            {"estimated", report.search->estimated},
            {"compact_s", report.search->compact_s},
            {"places", std::move(places)}};
}

Json shifts_json(const JobsReport& report) {
    const sim::ShiftSearchResult& search = *report.shifts;
    Json starts = Json::array();
    for (const sim::SimulatedShifts& one : search.simulated) {
        Json steps = Json::array();
        for (const sim::JobOutcome& job : one.outcome.jobs)
            steps.push_back(job.shared.mean_s);
        starts.push_back({{"how", one.candidate.how},
                          {"score", one.score},
                          {"estimate", one.candidate.estimate},
                          {"later_s", one.candidate.later_s},
                          {"shared_s", std::move(steps)},
                          {"slowdowns", one.slowdowns}});
    }
    Json drifts = Json::array();
    for (const sim::PhaseDrift& drift : search.drifts)
        drifts.push_back({{"slow", report.jobs[static_cast<std::size_t>(drift.slow)].name},
                          {"fast", report.jobs[static_cast<std::size_t>(drift.fast)].name},
                          {"drift_s", drift.drift_s},
                          {"runs", drift.runs}});
    return {{"objective", report.objective == sim::JobsObjective::sum ? "sum" : "worst"},
            {"estimated", search.estimated},
            {"lasting", search.drifts.empty() && !draws_each_step(report)},
            {"starts", std::move(starts)},
            {"drifts", std::move(drifts)}};
}

}  // namespace

std::string jobs_text(const JobsReport& report, const Console& console) {
    const Throughput all = throughput_of(report);
    std::string text = console.bold(wrapped(title(report), kReportColumns, 2, 0)) + "\n\n" +
                       jobs_table(report) + '\n' + devices_text(report) + spread_text(report) +
                       uneven_text(report);
    text += labelled("cluster",
                     fmt::format("{} tokens/s of {} alone, {}; fairness {:.3f} (Jain)",
                                 digits_text(all.shared), digits_text(all.alone),
                                 percent_text(all.shared / all.alone), report.outcome.fairness()));
    text += links_text(report, console);
    if (report.search != nullptr) text += search_text(report, console);
    if (report.shifts != nullptr) text += shifts_text(report, console);
    if (report.search != nullptr) text += nodes_text(report, console);
    return text;
}

std::string jobs_json(const JobsReport& report) {
    const plan::Cluster& cluster = report.shared.cluster;
    const Throughput all = throughput_of(report);
    Json out = {{"cluster",
                 {{"name", cluster.name},
                  {"nodes", cluster.all_nodes()},
                  {"devices_per_node", cluster.devices_per_node},
                  {"device", cluster.device},
                  {"fabric", plan::spelling(cluster.inter_node.fabric.kind)}}}};
    for (const plan::Cluster& others : cluster.other_nodes)
        out["cluster"]["other_nodes"].push_back(
            {{"nodes", others.nodes}, {"device", others.device}});
    const std::vector<double> slowness = report.even_s.empty()
                                             ? std::vector<double>{}
                                             : sim::slowness_of_nodes(sim::drawn_cluster(cluster));
    Json jobs = Json::array();
    for (std::size_t j = 0; j < report.jobs.size(); ++j)
        jobs.push_back(job_json(report, j, slowness));
    out["jobs"] = std::move(jobs);
    Json links = Json::array();
    for (const sim::LinkOutcome& link : report.outcome.links)
        links.push_back(link_json(report, link));
    out["links"] = std::move(links);
    out["throughput"] = {{"tokens_per_s", all.shared},
                         {"tokens_per_s_alone", all.alone},
                         {"share", all.shared / all.alone}};
    out["fairness"] = report.outcome.fairness();
    out["window_s"] = report.outcome.window_s;
    if (report.search != nullptr) out["search"] = search_json(report);
    if (report.shifts != nullptr) out["shifts"] = shifts_json(report);
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace orrery::cli
