#include "cli/chart.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/quantity.hpp"

namespace orrery::cli {
namespace {

constexpr double kWidth = 760, kHeight = 440;
constexpr double kLeft = 84, kRight = 24, kTop = 68, kBottom = 64;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kPlotHeight = kHeight - kTop - kBottom;

// Colours that people with any colour vision tell apart, on white and on black (Okabe and Ito
// 2008).
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"};

std::string head(double width, double height, const std::string& title,
                 const std::string& subtitle) {
    return fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" )"
        R"(height="{1:.0f}" role="img" aria-label="{2}">
<style>
  svg {{ background: #ffffff; font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }}
  text {{ fill: #1c1c1c; }} .title {{ font-size: 17px; font-weight: 600; }}
  .note {{ fill: #5a5a5a; }} .axis {{ stroke: #8a8a8a; }} .grid {{ stroke: #e3e3e3; }}
  @media (prefers-color-scheme: dark) {{
    svg {{ background: #16181c; }} text {{ fill: #ececec; }} .note {{ fill: #a8a8a8; }}
    .axis {{ stroke: #8a8a8a; }} .grid {{ stroke: #31343a; }}
  }}
</style>
<title>{2}</title>
<text class="title" x="16" y="28">{2}</text>
<text class="note" x="16" y="48">{3}</text>
)",
        width, height, escaped(title), escaped(subtitle));
}

std::string label(double x, double y, const char* anchor, const std::string& text,
                  const char* more = "") {
    return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}"{}>{}</text>)", x, y, anchor,
                       more, escaped(text)) +
           '\n';
}

std::string tick_text(double value) {
    if (std::abs(value) >= 1e5) return scaled_text(value, "");
    return fmt::format("{:.6g}", value);
}

class Lines {
  public:
    explicit Lines(const LineChart& chart) : chart_(chart) {
        bool first = true;
        for (const ChartLine& line : chart.lines)
            for (const ChartPoint& point : line.points) {
                low_x_ = first ? at(point.x) : std::min(low_x_, at(point.x));
                high_x_ = first ? at(point.x) : std::max(high_x_, at(point.x));
                top_ = std::max(top_, point.high);
                first = false;
            }
        if (high_x_ <= low_x_) high_x_ = low_x_ + 1;
        step_ = round_step(top_ > 0 ? top_ : 1, 5);
        top_ = step_ * std::ceil(top_ / step_ + 1e-9);
    }

    std::string svg() const {
        std::string out = head(kWidth, kHeight, chart_.title, chart_.subtitle);
        for (double value = 0; value <= top_ * (1 + 1e-9); value += step_) {
            out += fmt::format(R"(<line class="grid" x1="{}" y1="{:.1f}" x2="{}" y2="{:.1f}"/>)",
                               kLeft, y(value), kWidth - kRight, y(value)) +
                   '\n';
            out += label(kLeft - 8, y(value) + 4, "end", tick_text(value));
        }
        for (const double value : x_ticks()) {
            out +=
                fmt::format(R"(<line class="axis" x1="{0:.1f}" y1="{1}" x2="{0:.1f}" y2="{2}"/>)",
                            x(value), kHeight - kBottom, kHeight - kBottom + 5) +
                '\n';
            out += label(x(value), kHeight - kBottom + 20, "middle", tick_text(value));
        }
        out += fmt::format(R"(<line class="axis" x1="{0}" y1="{1}" x2="{2}" y2="{1}"/>)", kLeft,
                           kHeight - kBottom, kWidth - kRight) +
               '\n';
        for (std::size_t i = 0; i < chart_.lines.size(); ++i)
            out += drawn(chart_.lines[i], kColours[i % std::size(kColours)]);
        if (chart_.lines.size() > 1) out += legend();
        out += label(kLeft + kPlotWidth / 2, kHeight - 16, "middle", chart_.x_label);
        out += label(0, 0, "middle", chart_.y_label,
                     fmt::format(R"x( transform="translate(20 {:.1f}) rotate(-90)")x",
                                 kTop + kPlotHeight / 2)
                         .c_str());
        return out + "</svg>\n";
    }

  private:
    double at(double value) const { return chart_.log_x ? std::log2(value) : value; }
    double x(double value) const {
        return kLeft + 16 + (at(value) - low_x_) / (high_x_ - low_x_) * (kPlotWidth - 32);
    }
    double y(double value) const { return kHeight - kBottom - value / top_ * kPlotHeight; }

    // The values themselves, where they are few; else every so many.
    std::vector<double> x_ticks() const {
        std::vector<double> all;
        for (const ChartLine& line : chart_.lines)
            for (const ChartPoint& point : line.points)
                all.push_back(point.x);
        std::sort(all.begin(), all.end());
        all.erase(std::unique(all.begin(), all.end()), all.end());
        std::vector<double> some;
        double last = -1e9;
        for (const double value : all) {
            if (x(value) - last < 48) continue;
            some.push_back(value);
            last = x(value);
        }
        return some;
    }

    std::string drawn(const ChartLine& line, const char* colour) const {
        std::string band, path, dots;
        for (const ChartPoint& point : line.points) {
            band += fmt::format("{:.1f},{:.1f} ", x(point.x), y(point.high));
            path += fmt::format("{:.1f},{:.1f} ", x(point.x), y(point.y));
            dots += fmt::format(
                R"(<circle cx="{:.1f}" cy="{:.1f}" r="3.5" fill="{}"><title>{}: {} ({} to {})</title></circle>)",
                x(point.x), y(point.y), colour, tick_text(point.x), tick_text(point.y),
                tick_text(point.low), tick_text(point.high));
            dots += '\n';
        }
        for (std::size_t i = line.points.size(); i-- > 0;)
            band += fmt::format("{:.1f},{:.1f} ", x(line.points[i].x), y(line.points[i].low));
        return fmt::format(R"(<polygon points="{}" fill="{}" fill-opacity="0.15"/>)", band,
                           colour) +
               '\n' +
               fmt::format(R"(<polyline points="{}" fill="none" stroke="{}" stroke-width="2"/>)",
                           path, colour) +
               '\n' + dots;
    }

    std::string legend() const {
        std::string out;
        double x = kLeft + 16;
        for (std::size_t i = 0; i < chart_.lines.size(); ++i) {
            out += fmt::format(R"(<rect x="{:.1f}" y="56" width="12" height="4" fill="{}"/>)", x,
                               kColours[i % std::size(kColours)]);
            out += label(x + 18, 62, "start", chart_.lines[i].name);
            x += 34 + 7.5 * static_cast<double>(chart_.lines[i].name.size());
        }
        return out;
    }

    const LineChart& chart_;
    double low_x_ = 0, high_x_ = 0, top_ = 0, step_ = 1;
};

// From dark to bright as values get better (the ends of cividis, which any colour vision reads).
std::string heat(double share) {
    const auto mix = [&](int from, int to) {
        return static_cast<int>(std::lround(from + (to - from) * share));
    };
    return fmt::format("#{:02x}{:02x}{:02x}", mix(0x12, 0xfd), mix(0x35, 0xe7), mix(0x70, 0x37));
}

}  // namespace

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '&')
            out += "&amp;";
        else if (c == '<')
            out += "&lt;";
        else if (c == '>')
            out += "&gt;";
        else if (c == '"')
            out += "&quot;";
        else
            out += c;
    }
    return out;
}

double round_step(double span, int steps) {
    const double rough = span / steps;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    for (const double times : {1.0, 2.0, 5.0})
        if (times * power >= rough) return times * power;
    return 10 * power;
}

std::string line_chart_svg(const LineChart& chart) {
    return Lines(chart).svg();
}

std::string heat_map_svg(const HeatMap& chart) {
    constexpr double kCell = 84, kCellHeight = 34;
    const double left = 120, top = 84;
    const double width =
        std::max(420.0, left + kCell * static_cast<double>(chart.columns.size()) + 24);
    const double height = top + kCellHeight * static_cast<double>(chart.rows.size()) + 84;
    double low = 0, high = 0;
    bool first = true;
    for (const auto& row : chart.values)
        for (const auto& value : row) {
            if (!value) continue;
            low = first ? *value : std::min(low, *value);
            high = first ? *value : std::max(high, *value);
            first = false;
        }
    std::string out = head(width, height, chart.title, chart.subtitle);
    for (std::size_t r = 0; r < chart.rows.size(); ++r) {
        const double y = top + kCellHeight * static_cast<double>(r);
        out += label(left - 10, y + kCellHeight / 2 + 5, "end", chart.rows[r]);
        for (std::size_t c = 0; c < chart.columns.size(); ++c) {
            const double x = left + kCell * static_cast<double>(c);
            const std::optional<double>& value = chart.values[r][c];
            double share = value && high > low ? (*value - low) / (high - low) : 0.5;
            if (chart.less_is_better) share = 1 - share;
            const std::string fill = value ? heat(share) : "none";
            out += fmt::format(
                R"(<rect class="grid" x="{:.1f}" y="{:.1f}" width="{}" height="{}" fill="{}"/>)", x,
                y, kCell - 2, kCellHeight - 2, fill);
            const char* ink = !value        ? ""
                              : share > 0.5 ? R"( style="fill:#111")"
                                            : R"( style="fill:#fff")";
            out +=
                label(x + kCell / 2 - 1, y + kCellHeight / 2 + 4, "middle", chart.texts[r][c], ink);
        }
    }
    const double below = top + kCellHeight * static_cast<double>(chart.rows.size());
    for (std::size_t c = 0; c < chart.columns.size(); ++c)
        out += label(left + kCell * static_cast<double>(c) + kCell / 2, below + 18, "middle",
                     chart.columns[c]);
    out += label(left + kCell * static_cast<double>(chart.columns.size()) / 2, below + 42, "middle",
                 chart.x_label);
    out += label(16, top - 12, "start", chart.y_label);
    out += label(width - 24, below + 66, "end", chart.value_label + "; bright is better",
                 R"( class="note")");
    return out + "</svg>\n";
}

}  // namespace orrery::cli
