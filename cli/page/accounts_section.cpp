// The figures that one asks for first, and where the time goes.
#include <algorithm>

#include <fmt/format.h>

#include "cli/chart.hpp"
#include "cli/page/page_sections.hpp"
#include "cli/quantity.hpp"
#include "cli/report_sections.hpp"

namespace orrery::cli {
namespace {

std::string tile(const std::string& name, const std::string& figure, const std::string& note) {
    return fmt::format("<div class=\"tile\"><b>{}</b><strong>{}</strong><span>{}</span></div>\n",
                       escaped(name), escaped(figure), escaped(note));
}

const char* verdict_words(sim::Verdict verdict) {
    if (verdict == sim::Verdict::exceeds) return "does not fit";
    return verdict == sim::Verdict::tight ? "fits tightly" : "fits";
}

}  // namespace

std::string colour_of(trace::Account account) {
    switch (account) {
        case trace::Account::compute:
            return "forward";
        case trace::Account::recompute:
            return "recompute";
        case trace::Account::exposed_tensor:
        case trace::Account::exposed_context:
        case trace::Account::exposed_expert:
        case trace::Account::exposed_data:
        case trace::Account::exposed_pipeline:
            return "exposed";
        case trace::Account::bubble:
            return "bubble";
        case trace::Account::optimizer:
            return "optimizer";
        case trace::Account::imbalance:
        case trace::Account::launch:
        case trace::Account::other:
            break;
    }
    return "idle";
}

std::string tiles_html(const ReportInput& input) {
    const sim::Prediction& prediction = input.prediction;
    const sim::StepPrediction& step = prediction.step;
    const sim::StageMemory& worst = prediction.memory.worst();
    const double peak = static_cast<double>(worst.peak_bytes);
    const double capacity = static_cast<double>(prediction.memory.capacity_bytes);
    std::string html = "<div class=\"tiles\">\n";
    html += tile(
        "step time", seconds_text(step.time_s),
        fmt::format("90 % interval {} to {}", seconds_text(step.low_s), seconds_text(step.high_s)));
    html += tile(
        "MFU", percent_text(prediction.throughput.mfu),
        fmt::format("{} model TFLOP/s per {}",
                    digits_text(prediction.throughput.model_tflops_per_gpu), input.device_word()));
    html += tile(
        "throughput", digits_text(prediction.throughput.tokens_per_s),
        fmt::format("tokens/s; {} per {}", digits_text(prediction.throughput.tokens_per_s_per_gpu),
                    input.device_word()));
    html += tile("peak memory", bytes_text(peak),
                 fmt::format("{} of {}: {} ({})", percent_text(peak / capacity),
                             bytes_text(capacity), verdict_words(prediction.memory.verdict),
                             percent_text(prediction.memory.fit_probability)));
    if (prediction.run.days)
        html += tile("the run", digits_text(*prediction.run.days) + " days",
                     prediction.run.cost_usd ? counted_text(*prediction.run.cost_usd) + " USD"
                                             : std::string("no price is known"));
    return html + "</div>\n";
}

std::string bar_row(const std::string& name, const std::vector<std::string>& numbers, double begin,
                    double end, const std::string& colour, const std::string& note) {
    std::string html = "<tr><th>" + escaped(name);
    if (!note.empty()) html += "<small>" + escaped(note) + "</small>";
    html += "</th>";
    for (const std::string& number : numbers)
        html += fmt::format("<td>{}</td>", escaped(number));
    return html + fmt::format(
                      "<td class=\"bar\"><i class=\"{}\" style=\"left:{:.2f}%;width:{:.2f}"
                      "%\"></i></td></tr>\n",
                      colour, 100 * begin, 100 * std::max(0.0, end - begin));
}

std::string accounts_html(const ReportInput& input) {
    const sim::StepPrediction& step = input.prediction.step;
    std::string html = "<table class=\"bars\">\n";
    double before = 0;
    for (std::size_t a = 0; a < trace::kAccounts; ++a) {
        const double seconds = step.breakdown_s[a];
        if (seconds <= 0) continue;
        const auto account = static_cast<trace::Account>(a);
        html += bar_row(account_text(account),
                        {seconds_text(seconds), percent_text(seconds / step.time_s)},
                        before / step.time_s, (before + seconds) / step.time_s, colour_of(account));
        before += seconds;
    }
    html += bar_row("step", {seconds_text(step.time_s), "100 %"}, 0, 1, "whole");
    html += "</table>\n";
    if (!step.heaviest_chunk) return html;
    const sim::HeaviestChunk& chunk = *step.heaviest_chunk;
    return html + fmt::format(
                      "<p class=\"note\">The longest stage is {} on pipeline rank {}: {} a "
                      "micro-batch, {:.2f} times the mean.</p>\n",
                      chunk.stage, chunk.pipeline_rank, seconds_text(chunk.time_s),
                      chunk.time_s / chunk.mean_s);
}

}  // namespace orrery::cli
