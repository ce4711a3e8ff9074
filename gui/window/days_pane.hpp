// The run as `orrery goodput` has it: where its wall clock goes, what would help, and one of the
// runs that are drawn, day by day. What the scenario does not say stands there with what is
// assumed, and a button that says it. Runs are drawn while the pane is in sight.
#pragma once

#include <QScrollArea>

#include "gui/scenario/run_tables.hpp"
#include "sim/whatif/fixes.hpp"

class QGridLayout;
class QHBoxLayout;
class QLabel;
class QTableView;

namespace orrery::gui {

class DaysStrip;
class WrappedLabel;

class DaysPane : public QScrollArea {
    Q_OBJECT

  public:
    explicit DaysPane(QWidget* parent = nullptr);

    // Null: no scenario is shown. What is drawn for an earlier answer is stopped.
    void show_answer(const AnswerPtr& answer);
    // The text is another one now: what is shown stays in sight, and nothing is drawn for it.
    void set_stale();
    // Its tab is, or is not, the one in front.
    void set_seen(bool seen);
    // Runs are drawn, or will be.
    bool is_running() const { return run_.is_asked() || run_.is_running(); }
    const DaysPtr& days() const { return days_; }
    QTableView& parts() { return *parts_view_; }
    QTableView& changes() { return *changes_view_; }
    DaysStrip& strip() { return *strip_; }
    QString headline() const;
    QString notes() const;

  Q_SIGNALS:
    void wanted(const std::vector<orrery::sim::Setting>& settings);  // to be set in the scenario

  protected:
    void resizeEvent(QResizeEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void changeEvent(QEvent* event) override;

  private:
    void draw_if_seen();
    void show_days(const DaysPtr& days);
    void show_what_is_assumed();
    void offer(const QString& text, const std::string& key, const std::string& value);
    void show_legend();
    void arrange();

    DaysRun run_;
    bool seen_ = false;
    AnswerPtr answer_;  // null: nothing to draw for
    DaysPtr days_;      // the last that was found
    RunPartsTable parts_;
    RunChangesTable changes_;
    WrappedLabel *headline_, *notes_;
    QHBoxLayout* ways_;
    QGridLayout* views_;
    QTableView *parts_view_, *changes_view_;
    QWidget* run_view_;  // the strip, and what it says
    WrappedLabel *strip_title_, *legend_;
    DaysStrip* strip_;
    WrappedLabel* failure_;
};

}  // namespace orrery::gui
