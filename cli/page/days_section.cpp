// The run as a whole: from what computes to the wall clock, and what would help.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "cli/chart.hpp"
#include "cli/page/page_sections.hpp"
#include "cli/quantity.hpp"
#include "cli/run_days.hpp"
#include "cli/run_parts.hpp"

namespace orrery::cli {
namespace {

// A class of page.css.
std::string class_of(sim::RunAccount account) {
    return "run-" + std::string(sim::name(account));
}

// As the page's other bars have it; a run's other accounts have colours of their own.
std::string class_of(const RunPart& part) {
    return part.of == sim::RunAccount::steps ? colour_of(part.within) : class_of(part.of);
}

std::string waterfall_html(const GoodputReport& run) {
    const double wall = run.goodput.days * kDay;
    std::string html = "<table class=\"bars\">\n";
    double before = 0;
    for (const RunPart& part : run_parts(run)) {
        html += bar_row(part.name, {span_text(part.seconds), percent_text(part.seconds / wall)},
                        before / wall, (before + part.seconds) / wall, class_of(part));
        before += part.seconds;
    }
    return html + bar_row("the run", {length_text(run.goodput.days), "100 %"}, 0, 1, "whole") +
           "</table>\n";
}

constexpr std::size_t kPieces = 336;  // of a line: of a week half an hour each
// A run with more failures has half as many pieces, and tells one failure of each, so that the page
// stays small.
constexpr std::size_t kManyFailures = 2000;
constexpr int kBarHeight = 1000;  // of a bar

// A bar of the line's cells, account upon account; cells that are alike are one box.
std::string line_svg(const RunLines& lines, std::size_t number) {
    const std::size_t first = number * lines.cells;
    const std::size_t end = std::min(lines.of.size(), first + lines.cells);
    std::array<std::string, sim::kRunAccounts> paths;
    using Heights = std::array<int, sim::kRunAccounts>;
    const auto heights_of = [&](std::size_t c) {
        Heights heights{};
        const sim::RunSeconds& seconds = lines.of[c].seconds;
        const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
        // What is rounded is where each ends, so that together they fill the bar.
        double sum = 0;
        int below = 0;
        for (std::size_t a = 0; a < heights.size(); ++a) {
            sum += seconds[a];
            const auto end_of = static_cast<int>(std::lround(kBarHeight * sum / all));
            heights[a] = end_of - std::exchange(below, end_of);
        }
        return heights;
    };
    for (std::size_t from = first; from < end;) {
        const Heights heights = heights_of(from);
        std::size_t to = from + 1;
        while (to < end && heights_of(to) == heights)
            ++to;
        int top = kBarHeight;
        for (std::size_t a = 0; a < heights.size(); ++a) {
            if (heights[a] == 0) continue;
            top -= heights[a];
            paths[a] += fmt::format("M{} {}h{}v{}h-{}z", from - first, top, to - from, heights[a],
                                    to - from);
        }
        from = to;
    }
    std::string svg = fmt::format("<svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\">",
                                  lines.cells, kBarHeight);
    for (std::size_t a = 0; a < paths.size(); ++a)
        if (!paths[a].empty())
            svg += fmt::format("<path class=\"{}\" d=\"{}\"/>",
                               class_of(static_cast<sim::RunAccount>(a)), paths[a]);
    return svg + "</svg>";
}

// A mark below the bar for each cell with failures, wider than it for the pointer, and what they
// are for whoever stays there.
std::string marks_html(const GoodputReport& run, const RunLines& lines, std::size_t number) {
    const std::size_t most = run.goodput.middle->failures.size() > kManyFailures ? 1 : 3;
    std::string html;
    for (std::size_t c = 0; c < lines.cells && number * lines.cells + c < lines.of.size(); ++c) {
        const sim::RunCell& cell = lines.of[number * lines.cells + c];
        if (cell.failures == 0) continue;
        std::string told;
        for (std::size_t i = 0; i < std::min(most, cell.failures); ++i)
            told += failure_text(run, lines, cell.first_failure + i) + '\n';
        if (cell.failures > most) told += fmt::format("{} more", cell.failures - most);
        html += fmt::format("<i style=\"left:{:.2f}%\" title=\"{}\"></i>",
                            100 * (static_cast<double>(c) + 0.5) / static_cast<double>(lines.cells),
                            escaped(told));
    }
    return html;
}

std::string legend_html(const sim::RunTimeline& run) {
    std::string html = "<p class=\"key\">";
    for (std::size_t a = 0; a < sim::kRunAccounts; ++a) {
        const auto account = static_cast<sim::RunAccount>(a);
        if (run.outcome.seconds[a] > 0)
            html += fmt::format("<span><i class=\"{}\"></i>{}</span>", class_of(account),
                                escaped(words_of(account)));
    }
    return html + "<span><b>╵</b> a failure: point at it</span></p>\n";
}

std::string lines_html(const GoodputReport& run) {
    if (!run.goodput.middle) return "";
    const bool many = run.goodput.middle->failures.size() > kManyFailures;
    const RunLines lines = lines_of(*run.goodput.middle, many ? kPieces / 2 : kPieces);
    std::string html = "<h3>Day by day, " + escaped(middle_text(run)) + "</h3>\n" +
                       legend_html(*run.goodput.middle) + "<table class=\"days\">\n";
    for (std::size_t number = 0; number < lines.lines(); ++number) {
        const sim::RunCell whole = lines.line(number);
        html +=
            fmt::format("<tr><th>{}</th><td class=\"strip\">{}{}</td><td>{}</td><td>{}</td></tr>\n",
                        lines.name(number), line_svg(lines, number), marks_html(run, lines, number),
                        percent_text(steps_share(whole)), counted_failures(whole.failures));
    }
    return html + fmt::format(
                      "</table>\n<p class=\"note\">A piece is {}: a colour is as high as "
                      "its share of it. At the right the share of steps that count.</p>\n",
                      span_text(lines.line_s / static_cast<double>(lines.cells)));
}

// Gains, relative to the largest.
std::string changes_html(const GoodputReport& run) {
    const auto gain = [&](const sim::GoodputChange& change) {
        return std::max(0.0, run.goodput.days - change.days);
    };
    double most = 0;
    for (const sim::GoodputChange& change : run.goodput.changes)
        most = std::max(most, gain(change));
    if (most <= 0) return "";
    std::string html =
        "<h3>If …: each alone, drawn again; gains do not add up</h3>\n<table class=\"bars\">\n"
        "<tr><th></th><td>gain</td><td>steps that count</td><td></td></tr>\n";
    for (const sim::GoodputChange& change : run.goodput.changes)
        html += bar_row(change.what,
                        {span_text(gain(change) * kDay), percent_text(change.effective_fraction)},
                        0, gain(change) / most, "gain");
    return html + "</table>\n";
}

}  // namespace

std::string days_html(const GoodputReport& run) {
    const sim::Goodput& goodput = run.goodput;
    const std::string failures = goodput.hours_between_failures == 0
                                     ? "No failures"
                                     : fmt::format("A failure every {}, {} in all",
                                                   span_text(goodput.hours_between_failures * 3600),
                                                   digits_text(goodput.failures));
    return fmt::format(
               "<p>{} steps in {} (nine runs in ten: {} to {}), {} without failures and "
               "checkpoints: {} of the wall clock is steps that count. {}.</p>\n",
               whole_text(goodput.steps), length_text(goodput.days), length_text(goodput.low_days),
               length_text(goodput.high_days), length_text(goodput.ideal_days),
               percent_text(goodput.effective_fraction), failures) +
           waterfall_html(run) + lines_html(run) + changes_html(run);
}

}  // namespace orrery::cli
