// What changes with one key of the scenario that the editor shows: progress, a line with its
// interval, and a table of which a click opens a value in the editor.
#pragma once

#include <functional>

#include <QTableWidget>
#include <QWidget>

#include "gui/scenario/sweep_run.hpp"
#include "sim/whatif/fixes.hpp"

class QComboBox;
class QLabel;
class QLineEdit;
class QProgressBar;
class QPushButton;

namespace orrery::gui {

class SweepChart;

class SweepPane : public QWidget {
    Q_OBJECT

  public:
    // `scenario`: what the editor shows; without text where there is none.
    explicit SweepPane(std::function<ScenarioText()> scenario, QWidget* parent = nullptr);

    void refresh();
    bool is_running() const { return run_.is_running(); }
    QLineEdit& vary() { return *vary_; }  // "KEY=VALUES"
    QComboBox& metric_box() { return *metric_; }
    QTableWidget& table() { return *table_; }
    SweepChart& chart() { return *chart_; }
    const SweepFoundPtr& found() const { return found_; }
    QString state() const;

  Q_SIGNALS:
    void wanted(const std::vector<orrery::sim::Setting>& settings);

  private:
    void start();
    void lay_out();
    void show_found(const SweepFoundPtr& found);
    void add_row(const cli::SweepPoint& point);
    void show_chart();
    std::optional<cli::Sweep> sweep() const;  // of what was found, by the chosen metric
    QString words_of(int point) const;
    void try_point(int point);
    void try_row(int row);

    std::function<ScenarioText()> scenario_;
    SweepRun run_;
    SweepFoundPtr found_;
    std::vector<int> rows_;  // of the table, by point of the chart
    QLineEdit* vary_;
    QComboBox* metric_;
    QPushButton *start_, *stop_, *try_;
    QProgressBar* progress_;
    QLabel* state_;
    SweepChart* chart_;
    QTableWidget* table_;
};

}  // namespace orrery::gui
