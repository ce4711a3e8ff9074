// Charts as SVG: lines with their intervals, and heat maps. One file that any browser and word
// processor opens, with the colours of the page that it is on: dark where that is dark.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace orrery::cli {

// Text within SVG and HTML.
std::string escaped(const std::string& text);
// Between the marks of an axis: 1, 2 or 5 times a power of ten, so that about `steps` are in
// `span`.
double round_step(double span, int steps);

struct ChartPoint {
    double x = 0;
    double y = 0;
    double low = 0, high = 0;  // of y; equal to it where nothing is known
};

struct ChartLine {
    std::string name;
    std::vector<ChartPoint> points;  // ascending x
};

struct LineChart {
    std::string title, subtitle;
    std::string x_label, y_label;  // with units
    bool log_x = false;            // positions by powers of 2
    std::vector<ChartLine> lines;
};
std::string line_chart_svg(const LineChart& chart);

struct HeatMap {
    std::string title, subtitle;
    std::string x_label, y_label;
    std::string value_label;  // with its unit
    bool less_is_better = true;
    std::vector<std::string> columns, rows;
    // By row, then column; nothing where there is no such point.
    std::vector<std::vector<std::optional<double>>> values;
    std::vector<std::vector<std::string>> texts;  // what stands in a cell
};
std::string heat_map_svg(const HeatMap& chart);

}  // namespace orrery::cli
