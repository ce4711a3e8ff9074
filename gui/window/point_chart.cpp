#include "gui/window/point_chart.hpp"

#include <algorithm>

#include <QKeyEvent>
#include <QMouseEvent>
#include <QToolTip>
#include <QtCharts/QLegendMarker>
#include <QtCharts/QScatterSeries>

#include "gui/window/charts.hpp"

namespace orrery::gui {
namespace {

constexpr int kReach = 9;  // pixels around a point that count as it

}  // namespace

PointChart::PointChart(std::function<QString(int)> words, QWidget* parent)
    : QChartView(parent), words_(std::move(words)) {
    setMinimumSize(160, 100);
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    clear_chart(*this, Look::of(palette()));
}

void PointChart::set_points(const QList<QPointF>& points) {
    points_ = points;
    pointed_ = -1;
    ring_ = new QScatterSeries;
    ring_->setColor(Qt::transparent);
    ring_->setBorderColor(Look::of(palette()).ink);
    ring_->setMarkerSize(13);
    chart()->addSeries(ring_);
    for (QAbstractAxis* axis : chart()->axes())
        ring_->attachAxis(axis);
    for (QLegendMarker* marker : chart()->legend()->markers(ring_))
        marker->setVisible(false);
}

QPoint PointChart::place_of(int point) const {
    return mapFromScene(chart()->mapToScene(chart()->mapToPosition(points_[point], ring_)));
}

// The nearest; of several at one place the last, which is drawn on top.
int PointChart::point_at(const QPoint& place) const {
    int nearest = -1, distance = kReach;
    for (int point = 0; point < points(); ++point) {
        const int away = (place_of(point) - place).manhattanLength();
        if (away > distance) continue;
        nearest = point;
        distance = away;
    }
    return nearest;
}

void PointChart::point_to(int point) {
    if (point == pointed_) return;
    pointed_ = point;
    if (ring_ != nullptr) ring_->clear();
    viewport()->setCursor(point < 0 ? Qt::ArrowCursor : Qt::PointingHandCursor);
    if (point < 0) return QToolTip::hideText();
    ring_->append(points_[point]);
    const QString words = words_(point);
    setAccessibleDescription(words);
    QToolTip::showText(viewport()->mapToGlobal(place_of(point) + QPoint(8, 8)), words, this);
}

void PointChart::mouseMoveEvent(QMouseEvent* event) {
    point_to(point_at(event->pos()));
}

void PointChart::mouseReleaseEvent(QMouseEvent* event) {
    const int point = point_at(event->pos());
    if (event->button() == Qt::LeftButton && point >= 0) Q_EMIT chosen(point);
}

void PointChart::keyPressEvent(QKeyEvent* event) {
    const bool onward = event->key() == Qt::Key_Right;
    if ((onward || event->key() == Qt::Key_Left) && points() > 0) {
        point_to(std::clamp(pointed_ + (onward ? 1 : -1), 0, points() - 1));
    } else if ((event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter) && pointed_ >= 0) {
        Q_EMIT chosen(pointed_);
    } else {
        QChartView::keyPressEvent(event);
    }
}

void PointChart::leaveEvent(QEvent* event) {
    point_to(-1);
    QChartView::leaveEvent(event);
}

}  // namespace orrery::gui
