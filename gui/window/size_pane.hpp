// How many GPUs of which kind a run needs: the answers of `orrery size`, with deadline and budget
// as sliders that judge what has been found; a click opens an option in the editor.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include <QSlider>
#include <QTableWidget>
#include <QWidget>

#include "gui/scenario/size_run.hpp"
#include "sim/whatif/fixes.hpp"

class QHBoxLayout;
class QLabel;
class QLineEdit;
class QProgressBar;
class QPushButton;

namespace orrery::gui {

class SweepChart;

// A bound between the least and the most of what there is, in equal ratios; at its end: none.
class BoundSlider : public QSlider {
    Q_OBJECT

  public:
    explicit BoundSlider(QWidget* parent = nullptr);
    // A little wider than these; empty: there is nothing to bound.
    void span(const std::vector<double>& values);
    std::optional<double> bound() const;

  private:
    static constexpr int kNone = 200;

    double least_ = 0, most_ = 0;
};

class SizePane : public QWidget {
    Q_OBJECT

  public:
    // `scenario`: what the editor shows, saved or not; without text where there is none.
    explicit SizePane(std::function<ScenarioText()> scenario, QWidget* parent = nullptr);

    void refresh();  // the scenario has changed
    bool is_running() const { return run_.is_running(); }
    const SizeFoundPtr& found() const { return found_; }
    QLineEdit& gpus() { return *gpus_; }
    QTableWidget& table() { return *table_; }
    SweepChart& chart() { return *chart_; }
    BoundSlider& deadline() { return *deadline_; }
    BoundSlider& budget() { return *budget_; }
    QString state() const;
    QString verdict() const;

  Q_SIGNALS:
    void wanted(const std::vector<orrery::sim::Setting>& settings);

  private:
    void dress();
    void lay_out();
    void start();
    void show_found(const SizeFoundPtr& found);
    void show_options();
    void judge();
    void try_option(int option);
    QString words_of(int point) const;

    std::function<ScenarioText()> scenario_;
    SizeRun run_;
    SizeFoundPtr found_;
    std::vector<int> options_;  // by point of the chart
    QLineEdit *gpus_, *clusters_, *tokens_;
    BoundSlider *deadline_, *budget_;
    QLabel *deadline_text_, *budget_text_;
    QPushButton *start_, *stop_, *try_;
    QProgressBar* progress_;
    QLabel *state_, *verdict_;
    SweepChart* chart_;
    QTableWidget* table_;
};

}  // namespace orrery::gui
