// The run as a whole: from what computes to the wall clock, and what would help.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "cli/page/page_sections.hpp"
#include "cli/quantity.hpp"

namespace orrery::cli {
namespace {

constexpr double kDay = 86400;

struct Part {
    std::string name;
    double seconds;
    std::string colour;  // a class of page.css
};

// Seconds of the wall clock, in the order in which they add to what computes. Steps that count are
// parted as the accounts of one step are.
std::vector<Part> parts_of(const GoodputReport& run) {
    const sim::StepPrediction& step = run.prediction.step;
    const auto seconds = [&](sim::RunAccount account) {
        return run.goodput.seconds[static_cast<std::size_t>(account)];
    };
    const double steps = seconds(sim::RunAccount::steps);
    double computing = 0, exposed = 0, bubble = 0;
    for (std::size_t a = 0; a < trace::kAccounts; ++a) {
        const auto account = static_cast<trace::Account>(a);
        const double share = step.breakdown_s[a] / step.time_s;
        if (account == trace::Account::compute || account == trace::Account::recompute ||
            account == trace::Account::optimizer)
            computing += share;
        else if (account == trace::Account::bubble)
            bubble += share;
        else if (trace::is_exposed(account))
            exposed += share;
    }
    std::vector<Part> parts = {
        {"steps: computing", steps * computing, "forward"},
        {"steps: exposed communication", steps * exposed, "exposed"},
        {"steps: pipeline bubble", steps * bubble, "bubble"},
        {"steps: the rest", steps * std::max(0.0, 1 - computing - exposed - bubble), "idle"},
        {words_of(sim::RunAccount::data), seconds(sim::RunAccount::data), "exposed"}};
    for (const sim::RunAccount account :
         {sim::RunAccount::saving, sim::RunAccount::lost_work, sim::RunAccount::detection,
          sim::RunAccount::diagnosis, sim::RunAccount::restart, sim::RunAccount::waiting,
          sim::RunAccount::degraded})
        parts.push_back({words_of(account), seconds(account),
                         account == sim::RunAccount::saving ? "recompute" : "over"});
    return parts;
}

std::string waterfall_html(const GoodputReport& run) {
    const double wall = run.goodput.days * kDay;
    std::string html = "<table class=\"bars\">\n";
    double before = 0;
    for (const Part& part : parts_of(run)) {
        if (part.seconds <= 0) continue;
        html += bar_row(part.name, {span_text(part.seconds), percent_text(part.seconds / wall)},
                        before / wall, (before + part.seconds) / wall, part.colour);
        before += part.seconds;
    }
    return html + bar_row("the run", {length_text(run.goodput.days), "100 %"}, 0, 1, "whole") +
           "</table>\n";
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
           waterfall_html(run) + changes_html(run);
}

}  // namespace orrery::cli
