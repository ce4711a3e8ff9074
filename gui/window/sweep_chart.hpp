// A metric over the values of one key: a line, and the interval around it as a band.
#pragma once

#include "cli/chart.hpp"
#include "gui/window/point_chart.hpp"

namespace orrery::gui {

class SweepChart : public PointChart {
    Q_OBJECT

  public:
    explicit SweepChart(std::function<QString(int point)> words, QWidget* parent = nullptr);
    // Its points are numbered as those of the first line are.
    void show_chart(const cli::LineChart& chart);
};

}  // namespace orrery::gui
