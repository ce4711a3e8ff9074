// The critical path, and what would shorten the step.
#include <algorithm>

#include <fmt/format.h>

#include "cli/chart.hpp"
#include "cli/page/page_sections.hpp"
#include "cli/quantity.hpp"

namespace orrery::cli {
namespace {

constexpr double kLeastGain = 0.001;  // of the step, for a row

std::string works_html(const Explanation& explanation) {
    const double step = explanation.report.prediction.step.time_s;
    std::string html = "<h3>What the critical path is made of</h3>\n<table class=\"bars works\">\n";
    double before = 0;
    for (const PathWork& work : works_of(explanation)) {
        html += bar_row(work.name, {seconds_text(work.seconds), percent_text(work.seconds / step)},
                        before / step, (before + work.seconds) / step, "path", work.kinds);
        before += work.seconds;
    }
    return html + "</table>\n";
}

std::string answers_html(const Explanation& explanation) {
    const double step = explanation.report.prediction.step.time_s;
    double most = 0;
    for (const sim::Answer& answer : explanation.answers)
        most = std::max(most, answer.gain_s);
    std::string rows;
    for (const sim::Answer& answer : explanation.answers)
        if (answer.gain_s >= kLeastGain * step)
            rows += bar_row(std::string(answer.what->sentence),
                            {seconds_text(answer.step_time_s), seconds_text(answer.gain_s),
                             percent_text(answer.gain_s / step)},
                            0, answer.gain_s / most, "gain");
    if (rows.empty()) return "<p>Nothing that was asked would gain 0.1 % or more.</p>\n";
    return "<h3>If …: each alone, simulated again; gains do not add up</h3>\n"
           "<table class=\"bars answers\">\n<tr><th></th><td>step time</td><td>gain</td><td></td>"
           "<td></td></tr>\n" +
           rows + "</table>\n";
}

}  // namespace

std::string path_html(const Explanation& explanation) {
    return fmt::format(
        "<p class=\"text\">{}</p>\n<div class=\"pair\"><div>{}</div><div>{}</div>"
        "</div>\n",
        escaped(path_paragraph(explanation)), works_html(explanation), answers_html(explanation));
}

}  // namespace orrery::cli
