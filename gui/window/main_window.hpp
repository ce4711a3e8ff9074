// The window: the scenario at the left, its timeline in the middle, the overview at the right, what
// is selected below. A trace file has a timeline alone.
#pragma once

#include <functional>
#include <optional>

#include <QElapsedTimer>
#include <QMainWindow>

#include "gui/scenario/comparison_run.hpp"
#include "gui/scenario/marks.hpp"
#include "gui/scenario/resimulation.hpp"
#include "gui/window/days_pane.hpp"
#include "gui/window/details_pane.hpp"
#include "gui/window/document.hpp"
#include "gui/window/form_pane.hpp"
#include "gui/window/json_editor.hpp"
#include "gui/window/launch_pane.hpp"
#include "gui/window/overview_pane.hpp"
#include "gui/window/problems_pane.hpp"
#include "gui/window/search_pane.hpp"
#include "gui/window/size_pane.hpp"
#include "gui/window/sweep_pane.hpp"
#include "gui/window/timeline_view.hpp"

class QBoxLayout;
class QDockWidget;
class QLabel;
class QLineEdit;
class QSplitter;
class QTabWidget;

namespace orrery::gui {

class MainWindow : public QMainWindow {
    Q_OBJECT

  public:
    // `recovery_folder`: where unsaved text is kept.
    explicit MainWindow(const QString& recovery_folder);
    ~MainWindow() override;

    // A scenario, or a trace of ours in any format; says what is wrong with it in a message that
    // stays. False where nothing was opened.
    bool open(const QString& path);
    // Offers what programs have left that were killed, then a run that goes on; none: says nothing.
    void offer_unsaved();
    void offer_run();
    // A trace is being read.
    bool is_reading() const { return reader_ != nullptr; }
    void recover(const Unsaved& unsaved);

    JsonEditor& editor() { return *editor_; }
    FormPane& form() { return *form_; }
    QTabWidget& ways_to_edit() { return *ways_to_edit_; }  // the text, the form
    TimelineView& timeline() { return *timeline_; }
    OverviewPane& overview() { return *overview_; }
    ProblemsPane& problems() { return *problems_; }
    DetailsPane& details() { return *details_; }
    // Of a step that is held for comparison; hidden where none is.
    TimelineView& held_timeline() { return *held_timeline_; }
    QPlainTextEdit& comparison() { return *comparison_; }
    SearchPane& search_pane() { return *search_pane_; }
    SweepPane& sweep_pane() { return *sweep_pane_; }
    SizePane& size_pane() { return *size_pane_; }
    DaysPane& days_pane() { return *days_pane_; }
    LaunchPane& launch() { return *launch_; }
    Document& document() { return *document_; }
    // What was edited is not all answered yet.
    bool is_simulating() const { return ask_soon_.isActive() || resimulation_->is_working(); }
    // The held step and the one above it are being aligned.
    bool is_comparing() const { return comparison_run_->is_asked(); }
    // Where a message stands that stays until it is closed; empty: none.
    QString message() const;
    std::vector<QAction*> all_actions() const;  // with a shortcut or in a menu

    // Empty, or why not. By the ending: .png or .svg.
    QString export_timeline(const QString& path) const;
    // The view that has the keyboard, or had it last, as it stands: a pane, or the timeline.
    QString export_view(const QString& path) const;
    // The page of `orrery report`; there is one once the step is explained.
    bool has_page() const { return reasons_ != nullptr; }
    QString export_page(const QString& path) const;

  protected:
    void closeEvent(QCloseEvent* event) override;
    void dragEnterEvent(QDragEnterEvent* event) override;
    void dropEvent(QDropEvent* event) override;

  private:
    void make_panes();
    QDockWidget* add_dock(Qt::DockWidgetArea area, const QString& name, const QString& title,
                          QWidget* widget);
    void make_menus();
    QAction* add(QMenu* menu, const QString& text, const QKeySequence& key,
                 void (MainWindow::*does)());
    void say(const QString& text,
             const QList<std::pair<QString, std::function<void()>>>& ways = {});
    void quiet();

    void ask_open();
    void save();
    void save_as();
    void ask_export();
    void ask_export_view();
    void ask_export_page();
    void undo();
    void redo();
    void copy_csv();
    void save_csv();
    void find();
    void find_next();
    void find_previous();
    void find_by(int direction);
    void show_days();
    void show_shortcuts();
    void about();
    void hold();
    void let_go();
    void back_to_scenario();
    void align();
    void show_aligned(const AlignedSteps& aligned);
    void unfold();

    void open_trace(const QString& path);
    void show_trace(const QString& path, std::shared_ptr<const Timeline> timeline);
    void show_recorded(std::shared_ptr<const Timeline> timeline);
    bool open_scenario(const QString& path);
    bool save_to(const QString& path);
    bool may_go();  // nothing unsaved is lost by what comes
    void resimulate();
    Trainable trainable(const QString& path) const;
    void keep_marks();
    void follow_scenario(const QString& path);
    void show_estimate(const Estimate& estimate);
    void show_estimate_instead();
    void show_answer(const AnswerPtr& answer);
    void show_reasons(const ReasonsPtr& reasons);
    void show_title();
    void apply(const std::vector<sim::Setting>& settings);
    std::optional<std::string> content_of(const std::string& reference) const;
    void take_out(const QString& path);
    void show_in_text(const QString& path);

    JsonEditor* editor_ = nullptr;
    FormPane* form_ = nullptr;
    QTabWidget* ways_to_edit_ = nullptr;
    TimelineView* timeline_ = nullptr;
    OverviewPane* overview_ = nullptr;
    ProblemsPane* problems_ = nullptr;
    DetailsPane* details_ = nullptr;
    QPlainTextEdit* report_ = nullptr;
    LaunchPane* launch_ = nullptr;
    SearchPane* search_pane_ = nullptr;
    SweepPane* sweep_pane_ = nullptr;
    SizePane* size_pane_ = nullptr;
    DaysPane* days_pane_ = nullptr;
    TimelineView* held_timeline_ = nullptr;
    QPlainTextEdit* comparison_ = nullptr;
    AnswerPtr shown_, held_;
    AnswerPtr answered_;  // the last one, sound or not
    ComparisonRun* comparison_run_ = nullptr;
    QString runs_folder_;
    Marks marks_;
    Document* document_ = nullptr;
    Resimulation* resimulation_ = nullptr;
    QSplitter* scenario_ = nullptr;
    QTimer ask_soon_;
    QElapsedTimer since_asked_;
    QTimer show_estimate_soon_;
    std::optional<Estimate> estimate_;  // that shows where the answer takes longer
    QDockWidget *scenario_dock_ = nullptr, *overview_dock_ = nullptr, *details_dock_ = nullptr,
                *report_dock_ = nullptr, *run_dock_ = nullptr, *compare_dock_ = nullptr,
                *search_dock_ = nullptr, *sweep_dock_ = nullptr, *size_dock_ = nullptr,
                *days_dock_ = nullptr;
    QThread* reader_ = nullptr;
    QWidget* message_bar_ = nullptr;
    QBoxLayout* message_buttons_ = nullptr;
    QLabel* message_ = nullptr;
    QLineEdit* search_ = nullptr;
    QLabel* state_ = nullptr;
    QString trace_path_;  // of a trace that is shown instead of a scenario
    bool first_answer_ = true;
    QAction* unfolds_ = nullptr;  // checked: every rank is simulated
    ReasonsPtr reasons_;          // of the step that is shown; null: not yet
};

}  // namespace orrery::gui
