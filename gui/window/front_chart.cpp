#include "gui/window/front_chart.hpp"

#include <QtCharts/QScatterSeries>
#include <QtCharts/QValueAxis>

#include "gui/window/charts.hpp"

namespace orrery::gui {

FrontChart::FrontChart(std::function<QString(int)> words, QWidget* parent)
    : PointChart(std::move(words), parent) {
    setAccessibleName(tr("Step time and memory of the layouts that nothing beats"));
}

void FrontChart::show_front(const sim::SearchResult& result) {
    constexpr double kGB = 1e9;
    const Look look = Look::of(palette());
    clear_chart(*this, look);
    const auto dots = [&](const QString& name, const QColor& colour, double size) {
        auto* series = new QScatterSeries;
        series->setName(name);
        series->setColor(colour);
        series->setBorderColor(look.ground);
        series->setMarkerSize(size);
        return series;
    };
    auto* front = dots(tr("priced, best of both"), look.fill(Kind::forward), 7);
    for (const sim::PricedLayout& layout : result.pareto)
        front->append(layout.step_s, layout.peak_bytes / kGB);
    auto* best = dots(tr("in the table"), look.fill(Kind::exposed_data), 9);
    for (const sim::FoundLayout& layout : result.layouts)
        best->append(layout.prediction.step.time_s,
                     static_cast<double>(layout.prediction.memory.worst().peak_bytes) / kGB);
    for (QScatterSeries* series : {front, best})
        chart()->addSeries(series);
    chart()->createDefaultAxes();
    for (QAbstractAxis* axis : chart()->axes()) {
        dress_axis(*axis, look, font());
        auto* value = qobject_cast<QValueAxis*>(axis);
        value->setTickCount(3);
        value->applyNiceNumbers();
        value->setLabelFormat(axis->orientation() == Qt::Horizontal ? QStringLiteral("%.3g s")
                                                                    : QStringLiteral("%.0f GB"));
    }
    set_points(front->points() + best->points());
}

}  // namespace orrery::gui
