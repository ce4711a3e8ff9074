// A prediction at a glance: the figures of `orrery simulate`, where the time of a step goes, what
// each pipeline rank holds at its peak against the device's capacity, and why.
#pragma once

#include <QScrollArea>

#include "gui/scenario/answer.hpp"

class QFormLayout;
class QLabel;
class QVBoxLayout;
class QTableWidget;

namespace orrery::gui {

class BreakdownChart;
class MemoryChart;
class WrappedLabel;

class OverviewPane : public QScrollArea {
    Q_OBJECT

  public:
    explicit OverviewPane(QWidget* parent = nullptr);

    // Null: nothing is known. `stale`: it is of an earlier text than the editor has.
    void show_answer(const AnswerPtr& answer);
    // What is known of a step that is still simulated; the charts stay as they are, and say so.
    void show_estimate(const Estimate& estimate);
    void show_reasons(const ReasonsPtr& reasons);
    void set_stale(bool stale);
    // As it is shown, for tests: "25.6 s".
    QString step_time() const;

  Q_SIGNALS:
    void wanted(const std::vector<orrery::sim::Setting>& settings);  // to be set in the scenario

  protected:
    void changeEvent(QEvent* event) override;

  private:
    WrappedLabel* add_figure(QFormLayout* form, const QString& name);
    void show_figures(const Answer& answer);
    void show_headline(const plan::Scenario& scenario);
    void mark_charts(bool simulating);
    void clear_reasons(const QString& instead);
    void add_setting(const std::vector<sim::Setting>& settings, const QString& effect);

    AnswerPtr answer_;
    QWidget* inside_;
    WrappedLabel* headline_;
    WrappedLabel *step_, *throughput_, *mfu_, *bubble_, *memory_, *run_;
    QLabel *breakdown_title_, *stages_title_;
    BreakdownChart* breakdown_;
    MemoryChart* stages_;
    WrappedLabel* memory_legend_;
    WrappedLabel* why_;
    QTableWidget* what_ifs_;
    QVBoxLayout* settings_;
    QLabel* settings_title_;
};

}  // namespace orrery::gui
