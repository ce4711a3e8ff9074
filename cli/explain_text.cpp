#include <algorithm>

#include <fmt/format.h>

#include "cli/explain.hpp"
#include "cli/quantity.hpp"
#include "cli/report_sections.hpp"
#include "cli/text_table.hpp"

namespace orrery::cli {
namespace {

constexpr int kBarCells = 16;
constexpr double kLeastGain = 0.001;   // of the step, for a line of its own
constexpr double kLeastSpoken = 0.03;  // of the step, for a place in the paragraph
constexpr std::size_t kMostRanks = 8;  // in the table of ranks

std::string spoken(trace::Account account) {
    switch (account) {
        case trace::Account::compute:
            return "compute";
        case trace::Account::recompute:
            return "recomputation";
        case trace::Account::exposed_tensor:
            return "tensor communication";
        case trace::Account::exposed_context:
            return "context communication";
        case trace::Account::exposed_expert:
            return "expert communication";
        case trace::Account::exposed_data:
            return "data communication";
        case trace::Account::exposed_pipeline:
            return "pipeline transfers";
        case trace::Account::launch:
            return "the host's launches";
        case trace::Account::optimizer:
            return "the optimizer";
        case trace::Account::bubble:
        case trace::Account::imbalance:
        case trace::Account::other:
            break;
    }
    return "other work";
}

// "pipeline rank 3"; "rank 17 (pipeline rank 3)" where a pipeline rank has ranks that differ.
std::string place_of(const trace::Trace& trace, std::int32_t index) {
    const trace::Track& track = trace.tracks[static_cast<std::size_t>(index)];
    if (trace.tracks.size() == 1) return track.represents() > 1 ? "every rank" : "the one rank";
    const auto pipeline_rank =
        trace.programs[static_cast<std::size_t>(track.program)].pipeline_rank;
    std::string pipeline = fmt::format("pipeline rank {}", pipeline_rank);
    if (trace.tracks.size() == trace.programs.size()) return pipeline;
    const std::string rank = fmt::format("rank {}", track.rank);
    return trace.programs.size() == 1 ? rank : fmt::format("{} ({})", rank, pipeline);
}

// A sum over parts of the path, named.
struct Sum {
    std::string name;
    trace::Picoseconds time = 0;
};

void add_to(std::vector<Sum>& sums, const std::string& name, trace::Picoseconds time) {
    const auto same =
        std::find_if(sums.begin(), sums.end(), [&](const Sum& sum) { return sum.name == name; });
    if (same == sums.end())
        sums.push_back({name, time});
    else
        same->time += time;
}

std::vector<Sum> sorted(std::vector<Sum> sums) {
    std::stable_sort(sums.begin(), sums.end(),
                     [](const Sum& a, const Sum& b) { return a.time > b.time; });
    return sums;
}

std::vector<Sum> by_work(const Explanation& explanation) {
    std::vector<Sum> sums;
    for (const trace::PathPart& part : explanation.parts)
        add_to(sums, spoken(part.account), part.time);
    return sorted(std::move(sums));
}

std::vector<Sum> by_rank(const Explanation& explanation) {
    std::vector<Sum> sums;
    for (const trace::PathPart& part : explanation.parts)
        add_to(sums, place_of(explanation.report.prediction.trace, part.track), part.time);
    return sorted(std::move(sums));
}

std::string with_spaces(std::string_view name) {
    std::string text(name);
    std::replace(text.begin(), text.end(), '_', ' ');
    return text;
}

// "gemm 83 %, attention backward 10 %": the kinds of op that make up most of a line.
std::string kinds_text(const Explanation& explanation, const Sum& work) {
    constexpr std::size_t kMost = 3;
    std::vector<Sum> kinds;
    for (const trace::PathPart& part : explanation.parts)
        if (part.account != trace::Account::launch && spoken(part.account) == work.name)
            add_to(kinds, with_spaces(plan::name(part.kind)), part.time);
    kinds = sorted(std::move(kinds));
    std::string text;
    for (std::size_t i = 0; i < kinds.size() && i < kMost; ++i) {
        const double share = static_cast<double>(kinds[i].time) / static_cast<double>(work.time);
        if (i > 0 && share < 0.015) break;
        text += fmt::format("{}{} {:.0f} %", i == 0 ? "" : ", ", kinds[i].name, 100 * share);
    }
    return text;
}

std::string work_table(const Explanation& explanation) {
    const double step = explanation.report.prediction.step.time_s;
    TextTable table({Align::left, Align::right, Align::right, Align::left});
    for (const PathWork& work : works_of(explanation))
        table.add(
            {work.name, seconds_text(work.seconds), percent_text(work.seconds / step), work.kinds});
    table.add({"step", seconds_text(step), "100 %", ""});
    return table.text();
}

// Nothing where all ranks do the same.
std::string rank_table(const Explanation& explanation, const Console& console) {
    const double step = explanation.report.prediction.step.time_s;
    const std::vector<Sum> sums = by_rank(explanation);
    if (sums.size() < 2) return "";
    TextTable table({Align::left, Align::right, Align::right, Align::left});
    double rest = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) {
        const double seconds = sim::to_seconds(sums[i].time);
        if (i < kMostRanks)
            table.add({sums[i].name, seconds_text(seconds), percent_text(seconds / step),
                       bar_text(sim::to_seconds(sums[i].time) / sim::to_seconds(sums[0].time),
                                kBarCells)});
        else
            rest += seconds;
    }
    if (sums.size() > kMostRanks)
        table.add({fmt::format("{} more", sums.size() - kMostRanks), seconds_text(rest),
                   percent_text(rest / step), ""});
    return heading("where the critical path runs", console) + table.text();
}

std::string answers_text(const Explanation& explanation, const Console& console) {
    const double step = explanation.report.prediction.step.time_s;
    TextTable table({Align::left, Align::right, Align::right, Align::right, Align::left});
    table.add({"if …", "step time", "gain", "", ""});
    double most = 0;
    for (const sim::Answer& answer : explanation.answers)
        most = std::max(most, answer.gain_s);
    bool any = false;
    for (const sim::Answer& answer : explanation.answers) {
        if (answer.gain_s < kLeastGain * step) continue;
        any = true;
        table.add({std::string(answer.what->sentence), seconds_text(answer.step_time_s),
                   seconds_text(answer.gain_s), percent_text(answer.gain_s / step),
                   bar_text(answer.gain_s / most, kBarCells)});
    }
    std::string text =
        heading("what if: each alone, simulated again; gains do not add up", console);
    if (!any) return text + labelled("", "nothing that was asked gains 0.1 % or more");
    text += table.text();
    if (explanation.by_means_s == 0) return text;
    return text +
           labelled("of", fmt::format("a step in which each op takes the mean of its like: {}",
                                      seconds_text(explanation.by_means_s)));
}

// What of the balance whole layers can bring.
std::string balanced_text(const Explanation& explanation) {
    if (!explanation.report.prediction.step.heaviest_chunk) return "";
    if (!explanation.balanced)
        return labelled("layers", "dealt out by their time, whole ones gain nothing");
    const sim::BalancedLayers& balanced = *explanation.balanced;
    const double step = explanation.report.prediction.step.time_s;
    return labelled("layers",
                    fmt::format("{} less ({}) with --set {}={}", seconds_text(balanced.gain_s),
                                percent_text(balanced.gain_s / step), balanced.setting.key,
                                balanced.setting.value));
}

}  // namespace

std::vector<PathWork> works_of(const Explanation& explanation) {
    std::vector<PathWork> works;
    for (const Sum& sum : by_work(explanation))
        works.push_back({sum.name, sim::to_seconds(sum.time), kinds_text(explanation, sum)});
    return works;
}

std::vector<PathStay> stays_of(const std::vector<trace::PathSegment>& path) {
    std::vector<PathStay> stays;
    for (const trace::PathSegment& segment : path) {
        if (stays.empty() || stays.back().track != segment.track)
            stays.push_back({segment.track, segment.from, segment.to});
        stays.back().to = segment.to;
    }
    return stays;
}

std::string path_paragraph(const Explanation& explanation) {
    const trace::Trace& trace = explanation.report.prediction.trace;
    const double step = explanation.report.prediction.step.time_s;
    const auto share = [&](trace::Picoseconds time) {
        return percent_text(sim::to_seconds(time) / step);
    };
    const std::vector<Sum> works = by_work(explanation);
    std::string text = fmt::format("Of {}, {} of the critical path is {} ({})", seconds_text(step),
                                   share(works[0].time), works[0].name,
                                   seconds_text(sim::to_seconds(works[0].time)));
    for (std::size_t i = 1; i < works.size(); ++i) {
        if (sim::to_seconds(works[i].time) < kLeastSpoken * step) break;
        text += fmt::format(", {} {} ({})", share(works[i].time), works[i].name,
                            seconds_text(sim::to_seconds(works[i].time)));
    }
    if (trace.tracks.size() == 1)
        return text + (trace.tracks[0].represents() > 1
                           ? ". All ranks do the same at the same time; none waits for another."
                           : ".");
    const std::vector<Sum> ranks = by_rank(explanation);
    text += fmt::format(". {} of it lies on {}", share(ranks[0].time), ranks[0].name);
    const std::vector<PathStay> stays = stays_of(explanation.path);
    if (stays.size() == 1) return text + ", which waits for no other rank.";
    const PathStay& longest = *std::max_element(
        stays.begin(), stays.end(),
        [](const PathStay& a, const PathStay& b) { return a.to - a.from < b.to - b.from; });
    const auto moment = [&](trace::Picoseconds time) {
        return seconds_text(sim::to_seconds(time - trace.step_start));
    };
    return text + fmt::format(
                      ". The path begins on {}, passes from rank to rank {} and ends on {}; its "
                      "longest stay is on {}, from {} to {}.",
                      place_of(trace, stays.front().track),
                      stays.size() == 2
                          ? "once"
                          : whole_text(static_cast<std::int64_t>(stays.size()) - 1) + " times",
                      place_of(trace, stays.back().track), place_of(trace, longest.track),
                      moment(longest.from), moment(longest.to));
}

std::string explanation_text(const Explanation& explanation, const Console& console) {
    return headline_text(explanation.report, console) +
           heading("why: the critical path, the chain of work that the step hangs on", console) +
           "  " + wrapped(path_paragraph(explanation), kReportColumns, 2, 2) + "\n\n" +
           work_table(explanation) + rank_table(explanation, console) +
           answers_text(explanation, console) + balanced_text(explanation) +
           (explanation.report.prediction.prices ? sources_text(explanation.report, console) : "");
}

}  // namespace orrery::cli
