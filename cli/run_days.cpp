#include "cli/run_days.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/quantity.hpp"
#include "cli/report_sections.hpp"
#include "cli/text_table.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;
using sim::RunAccount;

constexpr double kHour = 3600;
constexpr std::size_t kCharacters = 48;  // of a line: a week's are three and a half hours each
constexpr double kMostLines = 14;
constexpr std::size_t kMostStops = 5;

double wall_of(const sim::RunSeconds& seconds) {
    return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

// In the unit that lines are counted in.
std::string moment_text(double at_s, double line_s, int decimals) {
    const bool in_days = line_s >= kDay;
    return fmt::format("{} {:.{}f}", in_days ? "day" : "hour", at_s / (in_days ? kDay : kHour),
                       decimals);
}

const std::string& cause_of(const GoodputReport& report, std::size_t failure) {
    return report.goodput.model.causes[report.goodput.middle->failures[failure].cause].name;
}

std::string character_of(const sim::RunCell& cell) {
    static constexpr std::array<const char*, 9> kHeights = {" ", "▁", "▂", "▃", "▄",
                                                            "▅", "▆", "▇", "█"};
    return kHeights[static_cast<std::size_t>(std::lround(8 * steps_share(cell)))];
}

std::string strip_text(const RunLines& lines) {
    TextTable table({Align::left, Align::left, Align::right, Align::left});
    for (std::size_t number = 0; number < lines.lines(); ++number) {
        const sim::RunCell whole = lines.line(number);
        std::string strip;
        for (std::size_t c = number * lines.cells;
             c < std::min(lines.of.size(), (number + 1) * lines.cells); ++c)
            strip += character_of(lines.of[c]);
        table.add({lines.name(number), strip, percent_text(steps_share(whole)),
                   counted_failures(whole.failures)});
    }
    return table.text();
}

// Of what a failure costs, the largest part.
std::string most_of(const sim::RunSeconds& cost) {
    const auto* most = std::max_element(cost.begin(), cost.end());
    return fmt::format("of it {} {}", span_text(*most),
                       cli::words_of(static_cast<RunAccount>(most - cost.begin())));
}

std::string stops_text(const GoodputReport& report, const RunLines& lines) {
    const sim::RunTimeline& run = *report.goodput.middle;
    TextTable table({Align::left, Align::left, Align::right, Align::left});
    for (const std::size_t failure : costliest(run, kMostStops)) {
        const sim::RunSeconds cost = run.cost_of(failure);
        table.add({lines.moment(run.failures[failure].at_s), cause_of(report, failure),
                   span_text(wall_of(cost)), most_of(cost)});
    }
    return table.text();
}

Json account_days(const sim::RunSeconds& seconds, bool all) {
    Json json = Json::object();
    for (std::size_t a = 0; a < sim::kRunAccounts; ++a)
        if (all || seconds[a] > 0)
            json[std::string(sim::name(static_cast<RunAccount>(a)))] = seconds[a] / kDay;
    return json;
}

}  // namespace

sim::RunCell RunLines::line(std::size_t number) const {
    sim::RunCell whole;
    for (std::size_t c = number * cells; c < std::min(of.size(), (number + 1) * cells); ++c) {
        for (std::size_t a = 0; a < sim::kRunAccounts; ++a)
            whole.seconds[a] += of[c].seconds[a];
        whole.failures += of[c].failures;
    }
    return whole;
}

std::string RunLines::name(std::size_t number) const {
    const double at_s = static_cast<double>(number) * line_s;
    return moment_text(at_s, line_s, line_s < kHour ? 2 : 0);
}

std::string RunLines::moment(double at_s) const {
    return moment_text(at_s, line_s, 2);
}

RunLines lines_of(const sim::RunTimeline& run, std::size_t cells) {
    const double least_s = run.outcome.wall_s() / kMostLines;
    double line_s = 364 * kDay;
    while (line_s < least_s)
        line_s *= 2;
    for (const double shorter_s : {28 * kDay, 7 * kDay, kDay, 6 * kHour, kHour, kHour / 6})
        if (shorter_s >= least_s) line_s = shorter_s;
    return {line_s, cells, sim::cells_of(run, line_s / static_cast<double>(cells))};
}

double steps_share(const sim::RunCell& cell) {
    const double all = wall_of(cell.seconds);
    return all > 0 ? cell.seconds[static_cast<std::size_t>(RunAccount::steps)] / all : 0;
}

std::string counted_failures(std::size_t failures) {
    return fmt::format("{} failure{}", whole_text(static_cast<std::int64_t>(failures)),
                       failures == 1 ? "" : "s");
}

std::string stop_text(const sim::RunTimeline& run, std::size_t failure) {
    const sim::RunSeconds cost = run.cost_of(failure);
    std::string parts;
    for (std::size_t a = 0; a < sim::kRunAccounts; ++a)
        if (cost[a] > 0)
            parts += (parts.empty() ? "" : ", ") + words_of(static_cast<RunAccount>(a)) + ' ' +
                     span_text(cost[a]);
    return span_text(wall_of(cost)) + ": " + parts;
}

std::string failure_text(const GoodputReport& report, const RunLines& lines, std::size_t failure) {
    const sim::RunTimeline& run = *report.goodput.middle;
    return fmt::format("{}, {}: {}", lines.moment(run.failures[failure].at_s),
                       cause_of(report, failure), stop_text(run, failure));
}

std::string middle_text(const GoodputReport& report) {
    const sim::RunTimeline& run = *report.goodput.middle;
    return fmt::format("of the {} runs number {}, of middle length: {}, {}",
                       whole_text(static_cast<std::int64_t>(report.options.runs)),
                       whole_text(static_cast<std::int64_t>(run.run)),
                       length_text(run.outcome.wall_s() / kDay),
                       counted_failures(run.failures.size()));
}

std::vector<std::size_t> costliest(const sim::RunTimeline& run, std::size_t count) {
    std::vector<std::pair<double, std::size_t>> costs;
    for (std::size_t failure = 0; failure < run.failures.size(); ++failure)
        costs.emplace_back(-wall_of(run.cost_of(failure)), failure);
    const auto end = costs.begin() + static_cast<std::ptrdiff_t>(std::min(count, costs.size()));
    std::partial_sort(costs.begin(), end, costs.end());
    std::vector<std::size_t> failures;
    for (auto cost = costs.begin(); cost != end; ++cost)
        failures.push_back(cost->second);
    return failures;
}

std::string run_days_text(const GoodputReport& report, const Console& console) {
    if (!report.goodput.middle) return "";
    const RunLines lines = lines_of(*report.goodput.middle, kCharacters);
    std::string text =
        heading("day by day, " + middle_text(report), console) +
        fmt::format("  each character is {}, as high as its share of steps that count\n",
                    span_text(lines.line_s / kCharacters)) +
        strip_text(lines);
    const std::string stops = stops_text(report, lines);
    return stops.empty() ? text : text + "  the longest stops\n" + stops;
}

Json run_days_json(const GoodputReport& report) {
    if (!report.goodput.middle) return nullptr;
    const sim::RunTimeline& run = *report.goodput.middle;
    Json failures = Json::array();
    for (std::size_t i = 0; i < run.failures.size(); ++i)
        failures.push_back({{"at_days", run.failures[i].at_s / kDay},
                            {"cause", cause_of(report, i)},
                            {"cost_days", account_days(run.cost_of(i), false)}});
    Json stretches = Json::array();
    for (const sim::RunStretch& stretch : run.stretches)
        stretches.push_back({{"does", sim::name(stretch.does)},
                             {"begin_days", stretch.begin_s / kDay},
                             {"end_days", stretch.end_s / kDay},
                             {"breakdown_days", account_days(stretch.seconds, false)},
                             {"failure", stretch.failure < 0 ? Json() : Json(stretch.failure)}});
    return {{"run", run.run},
            {"days", run.outcome.wall_s() / kDay},
            {"breakdown_days", account_days(run.outcome.seconds, true)},
            {"failures", std::move(failures)},
            {"stretches", std::move(stretches)}};
}

}  // namespace orrery::cli
