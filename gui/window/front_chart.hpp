// Step time against memory: the layouts that nothing beats in both, and those that were simulated.
#pragma once

#include "gui/window/point_chart.hpp"
#include "sim/search/search.hpp"

namespace orrery::gui {

class FrontChart : public PointChart {
    Q_OBJECT

  public:
    explicit FrontChart(std::function<QString(int point)> words, QWidget* parent = nullptr);
    // Points are numbered: those of the front (SearchResult::pareto), then those of its layouts.
    void show_front(const sim::SearchResult& result);
};

}  // namespace orrery::gui
