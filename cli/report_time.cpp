// Where the time of a step goes, and what is communicated.
#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "cli/quantity.hpp"
#include "cli/report_sections.hpp"
#include "cli/text_table.hpp"

namespace orrery::cli {
namespace {

constexpr int kStepCells = 50;

// What moves between tiers of memory; waiting for it is part of "other".
std::string copies_text(const ReportInput& input, const Console& console) {
    constexpr std::array<std::string_view, trace::kCopyKinds> kNames = {
        "host → device", "device → host", "disk → host", "host → disk"};
    TextTable table({Align::left, Align::right, Align::right, Align::right, Align::right});
    table.add({"copies", "moved", "busy", "exposed", "hidden"});
    bool any = false;
    for (std::size_t kind = 0; kind < trace::kCopyKinds; ++kind) {
        const trace::CommunicationSums& sums = input.prediction.copies[kind];
        if (sums.bytes_per_rank == 0) continue;
        any = true;
        table.add({std::string(kNames[kind]), bytes_text(sums.bytes_per_rank),
                   seconds_text(sums.busy_s), seconds_text(sums.exposed_s),
                   percent_text(std::max(0.0, 1 - sums.exposed_s / sums.busy_s))});
    }
    if (!any) return "";
    return heading("copies between tiers of memory per rank; exposed: part of other", console) +
           table.text();
}

}  // namespace

std::string account_text(trace::Account account) {
    switch (account) {
        case trace::Account::exposed_tensor:
            return "exposed tensor communication";
        case trace::Account::exposed_context:
            return "exposed context communication";
        case trace::Account::exposed_expert:
            return "exposed expert communication";
        case trace::Account::exposed_data:
            return "exposed data communication";
        case trace::Account::exposed_pipeline:
            return "exposed pipeline transfers";
        case trace::Account::bubble:
            return "pipeline bubble";
        case trace::Account::launch:
            return "waiting for the host";
        case trace::Account::imbalance:
            return "imbalance, waiting for others";
        case trace::Account::compute:
        case trace::Account::recompute:
        case trace::Account::optimizer:
        case trace::Account::other:
            break;
    }
    return std::string(trace::name(account));
}

// Why ranks wait beyond what the schedule leaves.
std::string heaviest_text(const sim::StepPrediction& step) {
    if (!step.heaviest_chunk) return "";
    const sim::HeaviestChunk& chunk = *step.heaviest_chunk;
    std::string text = fmt::format(
        "stage {} on pipeline rank {}: {} a micro-batch, {:.2f} x the mean", chunk.stage,
        chunk.pipeline_rank, seconds_text(chunk.time_s), chunk.time_s / chunk.mean_s);
    if (!chunk.op.empty())
        text += fmt::format("; above all {}, {} more", chunk.op, seconds_text(chunk.op_excess_s));
    return labelled("longest", text);
}

// What unequal numbers of experts' rows cost; part of the imbalance.
std::string routing_text(const sim::StepPrediction& step) {
    std::string text;
    if (step.routing)
        text = labelled("routing",
                        fmt::format("the fullest rank of an expert group has {:.2f} x the rows of "
                                    "the mean one, which takes {} of the step",
                                    step.routing->fullest, seconds_text(step.routing->added_s)));
    if (step.dropped_share > 0)
        text += labelled("dropped", fmt::format("{} of the rows that tokens choose experts for",
                                                percent_text(step.dropped_share)));
    return text;
}

std::string time_text(const ReportInput& input, const Console& console) {
    const sim::StepPrediction& step = input.prediction.step;
    const double most = *std::max_element(step.breakdown_s.begin(), step.breakdown_s.end());
    TextTable table({Align::left, Align::right, Align::right, Align::left});
    for (std::size_t a = 0; a < trace::kAccounts; ++a) {
        const double seconds = step.breakdown_s[a];
        if (seconds <= 0) continue;
        table.add({account_text(static_cast<trace::Account>(a)), seconds_text(seconds),
                   percent_text(seconds / step.time_s), bar_text(seconds / most, kStepCells)});
    }
    table.add({"step", seconds_text(step.time_s), "100 %", ""});
    return heading("where the time goes, mean over ranks", console) + table.text() +
           heaviest_text(step) + routing_text(step) + stragglers_text(input);
}

std::string communication_text(const ReportInput& input, const Console& console) {
    TextTable table(
        {Align::left, Align::right, Align::right, Align::right, Align::right, Align::right});
    table.add({"group", "size", "sent", "busy", "exposed", "hidden"});
    bool any = false;
    for (const CommunicationGroup& group : communication_groups(input.scenario.layout)) {
        const trace::CommunicationSums& sums =
            input.prediction.communication[static_cast<std::size_t>(group.account)];
        if (group.ranks < 2 && sums.bytes_per_rank == 0) continue;
        any = true;
        const double hidden = std::max(0.0, sums.busy_s - sums.exposed_s);
        table.add({group.name, whole_text(group.ranks) + (group.ranks == 1 ? " rank" : " ranks"),
                   bytes_text(sums.bytes_per_rank), seconds_text(sums.busy_s),
                   seconds_text(sums.exposed_s),
                   percent_text(sums.busy_s > 0 ? hidden / sums.busy_s : 0)});
    }
    if (!any) return copies_text(input, console);
    return heading("communication per rank, mean over ranks; exposed: compute waits for it",
                   console) +
           table.text() + copies_text(input, console);
}

}  // namespace orrery::cli
