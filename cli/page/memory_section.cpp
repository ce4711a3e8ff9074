// Memory: a waterfall of the fullest pipeline rank, its live bytes over the step, and every rank.
#include <algorithm>

#include <fmt/format.h>

#include "cli/chart.hpp"
#include "cli/page/page_sections.hpp"
#include "cli/quantity.hpp"
#include "trace/memory_over_time.hpp"

namespace orrery::cli {
namespace {

constexpr int kSlices = 600;  // of the step
constexpr double kStripHeight = 90;
constexpr std::size_t kManyRanks = 16;  // for rows of full height

// Name and bytes of each part of a peak, in the order of the report.
std::vector<std::pair<std::string, std::int64_t>> parts_of(const sim::StageMemory& stage) {
    std::vector<std::pair<std::string, std::int64_t>> parts;
    for (std::size_t c = 0; c < plan::kMemoryCategories; ++c)
        parts.emplace_back(plan::name(static_cast<plan::MemoryCategory>(c)), stage.bytes[c]);
    parts.emplace_back("other", stage.other_bytes);
    return parts;
}

std::string waterfall_html(const sim::StageMemory& stage, double capacity) {
    const double peak = static_cast<double>(stage.peak_bytes);
    const double scale = std::max(capacity, peak);
    std::string html = "<table class=\"bars\">\n";
    double before = 0;
    for (const auto& [name, bytes] : parts_of(stage)) {
        const double amount = static_cast<double>(bytes);
        html += bar_row(name, {bytes_text(amount), percent_text(amount / capacity)}, before / scale,
                        (before + amount) / scale, "memory " + name);
        before += amount;
    }
    html += bar_row("peak", {bytes_text(peak), percent_text(peak / capacity)}, 0, peak / scale,
                    peak > capacity ? "whole over" : "whole");
    return html +
           bar_row("capacity", {bytes_text(capacity), "100 %"}, 0, capacity / scale, "capacity") +
           "</table>\n";
}

std::string over_time_html(const trace::Trace& trace, std::ptrdiff_t pipeline_rank) {
    const auto track =
        std::find_if(trace.tracks.begin(), trace.tracks.end(), [&](const trace::Track& candidate) {
            return trace.programs[static_cast<std::size_t>(candidate.program)].pipeline_rank ==
                   pipeline_rank;
        });
    if (track == trace.tracks.end() || trace.step_end <= trace.step_start) return "";
    const auto live = trace::memory_over_time(trace, *track, kSlices);
    const auto [least, most] = std::minmax_element(live.begin(), live.end());
    if (*most == 0) return "";
    std::string points = fmt::format("0,{}", kStripHeight);
    for (std::size_t i = 0; i < live.size(); ++i) {
        const double y =
            kStripHeight * (1 - 0.95 * static_cast<double>(live[i]) / static_cast<double>(*most));
        points += fmt::format(" {},{:.1f} {},{:.1f}", i, y, i + 1, y);
    }
    points += fmt::format(" {},{}", kSlices, kStripHeight);
    return fmt::format(
        "<svg class=\"over-time\" viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" role=\"img\" "
        "aria-label=\"live memory over the step\"><polygon points=\"{}\"/></svg>\n"
        "<p class=\"note\">Of the plan's memory {} to {} are alive during the step (from left to "
        "right; from 0 upwards).</p>\n",
        kSlices, kStripHeight, points, bytes_text(static_cast<double>(*least)),
        bytes_text(static_cast<double>(*most)));
}

}  // namespace

std::string memory_of_ranks_html(const ReportInput& input) {
    const sim::MemoryPrediction& memory = input.prediction.memory;
    const double capacity = static_cast<double>(memory.capacity_bytes);
    const double scale = std::max(capacity, static_cast<double>(memory.worst().peak_bytes));
    std::string html = fmt::format("<table class=\"bars ranks{}\">\n",
                                   memory.stages.size() > kManyRanks ? " dense" : "");
    html += "<tr><th></th><td>peak</td><td>at</td><td class=\"key\">";
    for (const auto& [name, bytes] : parts_of(memory.worst()))
        html += fmt::format("<span><i class=\"memory {0}\"></i>{0}</span>", escaped(name));
    html += "</td></tr>\n";
    for (std::size_t rank = 0; rank < memory.stages.size(); ++rank) {
        const sim::StageMemory& stage = memory.stages[rank];
        html +=
            fmt::format("<tr><th>{}</th><td>{}</td><td>{}</td><td class=\"bar\">", rank,
                        bytes_text(static_cast<double>(stage.peak_bytes)), escaped(stage.peak_at));
        double before = 0;
        for (const auto& [name, bytes] : parts_of(stage)) {
            const double amount = static_cast<double>(bytes);
            html += fmt::format(
                "<i class=\"memory {}\" style=\"left:{:.2f}%;width:{:.2f}%\" title=\"{} {}\"></i>",
                name, 100 * before / scale, 100 * amount / scale, name, bytes_text(amount));
            before += amount;
        }
        html += fmt::format("<u style=\"left:{:.2f}%\"></u></td></tr>\n", 100 * capacity / scale);
    }
    return html + "</table>\n";
}

std::string memory_html(const ReportInput& input) {
    const sim::MemoryPrediction& memory = input.prediction.memory;
    const sim::StageMemory& worst = memory.worst();
    const auto rank = &worst - memory.stages.data();
    std::string html = memory.stages.size() > 1
                           ? fmt::format("<p>Pipeline rank {}, the fullest, at its peak: {}</p>\n",
                                         rank, escaped(worst.peak_at))
                           : fmt::format("<p>At its peak: {}</p>\n", escaped(worst.peak_at));
    html += waterfall_html(worst, static_cast<double>(memory.capacity_bytes));
    return html + over_time_html(input.prediction.trace, rank);
}

}  // namespace orrery::cli
