#include "gui/window/sweep_chart.hpp"

#include <algorithm>
#include <cmath>

#include <QtCharts/QAreaSeries>
#include <QtCharts/QLineSeries>
#include <QtCharts/QLogValueAxis>
#include <QtCharts/QValueAxis>

#include "gui/window/charts.hpp"

namespace orrery::gui {
namespace {

// As wide as the points, and wider where there is only one.
QAbstractAxis* axis_across(const std::vector<cli::ChartPoint>& points, bool log) {
    const double first = points.front().x, last = points.back().x;
    if (log) {
        auto* axis = new QLogValueAxis;
        axis->setBase(2);
        axis->setRange(first / 1.1, last * 1.1);
        axis->setLabelFormat(QStringLiteral("%g"));
        return axis;
    }
    auto* axis = new QValueAxis;
    const double margin = last > first ? (last - first) * 0.04 : 1;
    axis->setRange(first - margin, last + margin);
    axis->setTickCount(std::clamp<int>(static_cast<int>(points.size()), 2, 5));
    axis->setLabelFormat(QStringLiteral("%.3g"));
    return axis;
}

}  // namespace

SweepChart::SweepChart(std::function<QString(int)> words, QWidget* parent)
    : PointChart(std::move(words), parent) {
    setAccessibleName(tr("The metric over the values of the key"));
    chart()->legend()->hide();
}

void SweepChart::show_chart(const cli::LineChart& shown) {
    const Look look = Look::of(palette());
    clear_chart(*this, look);
    chart()->setTitle(QString::fromStdString(shown.title));
    chart()->setTitleBrush(look.ink);
    const std::vector<cli::ChartPoint>& points = shown.lines.front().points;
    if (points.empty()) return set_points({});
    auto* low = new QLineSeries(this);
    auto* high = new QLineSeries(this);
    auto* line = new QLineSeries;
    double least = points.front().low, most = points.front().high;
    for (const cli::ChartPoint& point : points) {
        low->append(point.x, point.low);
        high->append(point.x, point.high);
        line->append(point.x, point.y);
        least = std::min(least, point.low);
        most = std::max(most, point.high);
    }
    auto* band = new QAreaSeries(high, low);
    low->setParent(band);
    high->setParent(band);
    QColor veil = look.fill(Kind::forward);
    veil.setAlpha(70);
    band->setColor(veil);
    band->setPen(Qt::NoPen);
    line->setPen(QPen(look.fill(Kind::forward), 2.5));
    line->setPointsVisible(true);
    chart()->addSeries(band);
    chart()->addSeries(line);
    QAbstractAxis* across = axis_across(points, shown.log_x);
    across->setTitleText(QString::fromStdString(shown.x_label));
    auto* up = new QValueAxis;
    const double margin = most > least ? (most - least) * 0.06 : std::abs(most) * 0.1 + 1e-12;
    up->setRange(least - margin, most + margin);
    up->setTickCount(4);
    up->setLabelFormat(QStringLiteral("%.3g"));
    for (QAbstractAxis* axis : {across, static_cast<QAbstractAxis*>(up)}) {
        dress_axis(*axis, look, font());
        axis->setTitleBrush(look.ink);
        chart()->addAxis(axis, axis == up ? Qt::AlignLeft : Qt::AlignBottom);
        band->attachAxis(axis);
        line->attachAxis(axis);
    }
    set_points(line->points());
}

}  // namespace orrery::gui
