#include "gui/window/sweep_chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <QtCharts/QAreaSeries>
#include <QtCharts/QLegendMarker>
#include <QtCharts/QLineSeries>
#include <QtCharts/QLogValueAxis>
#include <QtCharts/QValueAxis>

#include "gui/window/charts.hpp"

namespace orrery::gui {
namespace {

// A colour for each line.
constexpr std::array kLines = {Kind::forward, Kind::backward, Kind::optimizer,
                               Kind::weight_gradient, Kind::recompute};

// As wide as the points, and wider where there is only one place.
QAbstractAxis* axis_across(const std::vector<cli::ChartPoint>& points, bool log) {
    const auto [least, most] = std::minmax_element(
        points.begin(), points.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
    const double first = least->x, last = most->x;
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
    chart()->legend()->setVisible(shown.lines.size() > 1);
    chart()->legend()->setLabelColor(look.ink);
    std::vector<cli::ChartPoint> points;
    for (const cli::ChartLine& line : shown.lines)
        points.insert(points.end(), line.points.begin(), line.points.end());
    if (points.empty()) return set_points({});
    double least = points.front().low, most = points.front().high;
    for (const cli::ChartPoint& point : points) {
        least = std::min(least, point.low);
        most = std::max(most, point.high);
    }
    for (std::size_t i = 0; i < shown.lines.size(); ++i)
        add_line(shown.lines[i], look.fill(kLines[i % kLines.size()]));
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
        for (QAbstractSeries* series : chart()->series())
            series->attachAxis(axis);
    }
    QList<QPointF> places;
    for (const cli::ChartPoint& point : points)
        places << QPointF(point.x, point.y);
    set_points(places);
}

// Its points, and the band of their intervals behind it.
void SweepChart::add_line(const cli::ChartLine& shown, const QColor& colour) {
    auto* low = new QLineSeries(this);
    auto* high = new QLineSeries(this);
    auto* line = new QLineSeries;
    for (const cli::ChartPoint& point : shown.points) {
        low->append(point.x, point.low);
        high->append(point.x, point.high);
        line->append(point.x, point.y);
    }
    auto* band = new QAreaSeries(high, low);
    low->setParent(band);
    high->setParent(band);
    QColor veil = colour;
    veil.setAlpha(70);
    band->setColor(veil);
    band->setPen(Qt::NoPen);
    line->setName(QString::fromStdString(shown.name));
    line->setPen(QPen(colour, 2.5));
    line->setPointsVisible(true);
    chart()->addSeries(band);
    chart()->addSeries(line);
    for (QLegendMarker* marker : chart()->legend()->markers(band))
        marker->setVisible(false);
}

}  // namespace orrery::gui
