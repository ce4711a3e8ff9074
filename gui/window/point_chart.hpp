// A chart whose points say what they are under the mouse, and are chosen by a click; Left, Right
// and Enter do so by the keyboard.
#pragma once

#include <functional>

#include <QtCharts/QChartView>

class QScatterSeries;

namespace orrery::gui {

class PointChart : public QChartView {
    Q_OBJECT

  public:
    // `words`: what a point is, for a tooltip.
    explicit PointChart(std::function<QString(int point)> words, QWidget* parent = nullptr);
    int points() const { return static_cast<int>(points_.size()); }
    // In the viewport.
    QPoint place_of(int point) const;
    int pointed() const { return pointed_; }  // −1: none

  Q_SIGNALS:
    void chosen(int point);

  protected:
    // In the units of the axes, which all series share. After them: the chart has been cleared.
    void set_points(const QList<QPointF>& points);

    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void leaveEvent(QEvent* event) override;

  private:
    int point_at(const QPoint& place) const;
    void point_to(int point);

    std::function<QString(int)> words_;
    QList<QPointF> points_;
    int pointed_ = -1;
    QScatterSeries* ring_ = nullptr;  // around the one that is pointed at
};

}  // namespace orrery::gui
