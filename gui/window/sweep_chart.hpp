// A metric over numbers: lines, and the interval around each as a band.
#pragma once

#include "cli/chart.hpp"
#include "gui/window/point_chart.hpp"

namespace orrery::gui {

class SweepChart : public PointChart {
    Q_OBJECT

  public:
    explicit SweepChart(std::function<QString(int point)> words, QWidget* parent = nullptr);
    // Its points are numbered line by line.
    void show_chart(const cli::LineChart& chart);

  private:
    void add_line(const cli::ChartLine& line, const QColor& colour);
};

}  // namespace orrery::gui
