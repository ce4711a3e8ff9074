// What a search has found: a table of the best, and step time against memory as a chart.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/chart.hpp"
#include "cli/page/page_sections.hpp"
#include "cli/quantity.hpp"

namespace orrery::cli {
namespace {

constexpr double kWidth = 900, kHeight = 420;
constexpr double kLeft = 80, kRight = 30, kTop = 20, kBottom = 56;

// Which layouts the chart shows, and between which axes.
class ParetoChart {
  public:
    explicit ParetoChart(const SearchReport& search) : search_(search) {
        for (const sim::PricedLayout& one : search.result.pareto)
            take(one.step_s, one.peak_bytes);
        for (const sim::FoundLayout& found : search.result.layouts) {
            take(found.prediction.step.low_s, peak_of(found));
            take(found.prediction.step.high_s, peak_of(found));
        }
        if (search.own) take(search.own->prediction.step.time_s, peak_of(*search.own));
        const double margin = 0.06 * (high_s_ - low_s_);
        low_s_ = std::max(0.0, low_s_ - margin);
        high_s_ += margin;
        most_bytes_ *= 1.06;
    }

    std::string svg() const {
        std::string out = fmt::format(
            "<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"step time and "
            "memory of layouts\">\n",
            kWidth, kHeight);
        return out + axes() + front() + best() + own() + "</svg>\n";
    }

  private:
    static double peak_of(const sim::FoundLayout& found) {
        return static_cast<double>(found.prediction.memory.worst().peak_bytes);
    }
    void take(double step_s, double bytes) {
        low_s_ = high_s_ == 0 ? step_s : std::min(low_s_, step_s);
        high_s_ = std::max(high_s_, step_s);
        most_bytes_ = std::max(most_bytes_, bytes);
    }
    double x(double step_s) const {
        return kLeft + (step_s - low_s_) / (high_s_ - low_s_) * (kWidth - kLeft - kRight);
    }
    double y(double bytes) const {
        return kHeight - kBottom - bytes / most_bytes_ * (kHeight - kTop - kBottom);
    }

    std::string axes() const {
        std::string out;
        const double bytes_step = round_step(most_bytes_, 5);
        for (double bytes = 0; bytes <= most_bytes_; bytes += bytes_step)
            out += fmt::format(
                "<line class=\"grid\" x1=\"{0}\" y1=\"{2:.1f}\" x2=\"{1}\" y2=\"{2:.1f}\"/>"
                "<text class=\"end\" x=\"{3}\" y=\"{4:.1f}\">{5}</text>\n",
                kLeft, kWidth - kRight, y(bytes), kLeft - 8, y(bytes) + 4,
                bytes == 0 ? "0" : bytes_text(bytes));
        const double time_step = round_step(high_s_ - low_s_, 8);
        for (double s = std::ceil(low_s_ / time_step) * time_step; s <= high_s_; s += time_step)
            out += fmt::format(
                "<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>"
                "<text class=\"middle\" x=\"{0:.1f}\" y=\"{3}\">{4}</text>\n",
                x(s), kHeight - kBottom, kHeight - kBottom + 5, kHeight - kBottom + 22,
                seconds_text(s));
        return out + fmt::format(
                         "<text class=\"middle\" x=\"{}\" y=\"{}\">step time, and up: peak memory "
                         "of the fullest rank</text>\n",
                         (kLeft + kWidth - kRight) / 2, kHeight - 10);
    }

    std::string front() const {
        std::string line, dots;
        for (const sim::PricedLayout& one : search_.result.pareto) {
            line += fmt::format("{:.1f},{:.1f} ", x(one.step_s), y(one.peak_bytes));
            dots += fmt::format(
                "<circle class=\"front\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4.5\"><title>{}, {}: {} "
                "(estimated)</title></circle>\n",
                x(one.step_s), y(one.peak_bytes), seconds_text(one.step_s),
                bytes_text(one.peak_bytes),
                escaped(layout_words(scenario_of(search_.search, one).layout)));
        }
        return "<polyline class=\"front\" points=\"" + line + "\"/>\n" + dots;
    }

    std::string best() const {
        std::string out;
        for (const sim::FoundLayout& found : search_.result.layouts) {
            const sim::StepPrediction& step = found.prediction.step;
            out += fmt::format(
                "<line class=\"interval\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>"
                "<circle class=\"best\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"><title>{} ({} to {}), "
                "{}: {}</title></circle>\n",
                x(step.low_s), y(peak_of(found)), x(step.high_s), y(peak_of(found)), x(step.time_s),
                y(peak_of(found)), seconds_text(step.time_s), seconds_text(step.low_s),
                seconds_text(step.high_s), bytes_text(peak_of(found)),
                escaped(layout_words(found.scenario.layout)));
        }
        return out;
    }

    std::string own() const {
        if (!search_.own) return "";
        const double at = x(search_.own->prediction.step.time_s), up = y(peak_of(*search_.own));
        return fmt::format(
            "<path class=\"own\" d=\"M{:.1f} {:.1f}l7 7l-7 7l-7 -7z\"><title>the file's own: {}, {}"
            "</title></path>\n",
            at, up - 7, seconds_text(search_.own->prediction.step.time_s),
            bytes_text(peak_of(*search_.own)));
    }

    static std::string layout_words(const plan::Layout& layout) {
        const std::vector<std::string> heads = layout_heads(), cells = layout_cells(layout);
        std::string words;
        for (std::size_t i = 0; i < heads.size(); ++i)
            words += fmt::format("{}{} {}", i > 0 ? ", " : "", heads[i], cells[i]);
        return words;
    }

    const SearchReport& search_;
    double low_s_ = 0, high_s_ = 0, most_bytes_ = 0;
};

std::string table_row(const std::string& name, const sim::FoundLayout& found) {
    const sim::Prediction& prediction = found.prediction;
    std::vector<std::string> cells = {
        seconds_text(prediction.step.time_s),
        fmt::format("{} to {}", seconds_text(prediction.step.low_s),
                    seconds_text(prediction.step.high_s)),
        percent_text(prediction.throughput.mfu),
        bytes_text(static_cast<double>(prediction.memory.worst().peak_bytes)),
        percent_text(prediction.memory.fit_probability)};
    for (const std::string& cell : layout_cells(found.scenario.layout))
        cells.push_back(cell);
    std::string html = fmt::format("<tr><th>{}</th>", escaped(name));
    for (const std::string& cell : cells)
        html += fmt::format("<td>{}</td>", escaped(cell));
    return html + "</tr>\n";
}

}  // namespace

std::string layouts_html(const SearchReport& search) {
    const sim::SearchResult& result = search.result;
    std::string html = fmt::format(
        "<p class=\"text\">{} combinations were looked at; {} break no rule of the plan. The best "
        "are simulated in full; those of the front are estimates.</p>\n",
        whole_text(static_cast<std::int64_t>(result.evaluated)),
        whole_text(static_cast<std::int64_t>(result.priced)));
    if (result.layouts.empty()) return html + "<p>None of them fits.</p>\n";
    html += ParetoChart(search).svg();
    html +=
        "<p class=\"note\"><span class=\"key\"><span><i class=\"best\"></i>the best, with their "
        "90 % intervals</span><span><i class=\"front\"></i>what no other layout beats in step "
        "time, "
        "memory and cost</span><span><i class=\"own\"></i>the file's own "
        "layout</span></span></p>\n";
    html +=
        "<div class=\"scroll\"><table class=\"layouts\">\n<tr><th>#</th><td>step time</td>"
        "<td>90 % interval</td><td>MFU</td><td>peak</td><td>fits</td>";
    for (const std::string& head : layout_heads())
        html += fmt::format("<td>{}</td>", escaped(head));
    html += "</tr>\n";
    for (std::size_t i = 0; i < result.layouts.size(); ++i)
        html += table_row(std::to_string(i + 1), result.layouts[i]);
    if (search.own) html += table_row("file", *search.own);
    return html + "</table></div>\n";
}

}  // namespace orrery::cli
