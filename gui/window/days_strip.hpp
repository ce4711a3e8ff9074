// One run of those drawn, line by line: colours are as high as their share of the time, marks below
// are failures. The pointer, or the arrow keys, say what a failure was and what it cost.
#pragma once

#include <optional>

#include <QWidget>

#include "gui/scenario/days_places.hpp"
#include "gui/scenario/days_run.hpp"

namespace orrery::gui {

class DaysStrip : public QWidget {
    Q_OBJECT

  public:
    explicit DaysStrip(QWidget* parent = nullptr);

    void show_days(const DaysPtr& days);  // null, or without such a run: nothing
    const DaysPlaces& places() const { return places_; }
    std::optional<std::size_t> selected() const { return selected_; }
    QString text_of(std::size_t failure) const;

  Q_SIGNALS:
    void chosen(const QString& text);  // what the selected failure was; empty: none

  protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    bool event(QEvent* event) override;  // tooltips
    void changeEvent(QEvent* event) override;

  private:
    void lay_out();
    void select(std::optional<std::size_t> failure);
    void paint_line(QPainter& painter, std::size_t line) const;

    DaysPtr days_;  // with a run of middle length, or null
    cli::RunLines lines_;
    DaysPlaces places_;
    std::optional<std::size_t> selected_;
};

}  // namespace orrery::gui
