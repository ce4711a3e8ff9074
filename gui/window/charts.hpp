// The small charts beside the timeline, by Qt Charts: bars of the same figures that the report
// prints.
#pragma once

#include <QtCharts/QChartView>
#include <QtCharts/QLineSeries>
#include <QtCharts/QValueAxis>

#include "gui/window/look.hpp"
#include "sim/prediction.hpp"

namespace orrery::gui {

// An empty chart in the colours of its surroundings; an axis of one.
void clear_chart(QChartView& view, const Look& look);
void dress_axis(QAbstractAxis& axis, const Look& look, const QFont& font);

// Where the time of a step goes: a bar for each account that has any.
class BreakdownChart : public QChartView {
    Q_OBJECT

  public:
    explicit BreakdownChart(QWidget* parent = nullptr);
    void show_step(const sim::StepPrediction& step);

  protected:
    void resizeEvent(QResizeEvent* event) override;

  private:
    void make_room();

    int names_width_ = 0;
};

// What each pipeline rank holds at its peak, by category, and the device's capacity as a line.
class MemoryChart : public QChartView {
    Q_OBJECT

  public:
    explicit MemoryChart(QWidget* parent = nullptr);
    void show_memory(const sim::MemoryPrediction& memory);
    // What its colours mean, as rich text that can be broken into lines.
    QString legend() const;
};

// A value by step, as it comes; the axes grow with it.
class LiveChart : public QChartView {
    Q_OBJECT

  public:
    // `format` of the values, as printf has it.
    LiveChart(const QString& name, const QString& format, QWidget* parent = nullptr);
    void add_point(int step, double value);
    void clear_points();
    int points() const;

  private:
    QLineSeries* line_;
    QValueAxis *across_, *up_;
};

}  // namespace orrery::gui
