#include "gui/window/main_window.hpp"

#include <algorithm>

#include <QApplication>
#include <QDir>
#include <QDockWidget>
#include <QFileInfo>
#include <QFontDatabase>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSplitter>
#include <QStatusBar>
#include <QTabBar>
#include <QTabWidget>
#include <QThread>
#include <QVBoxLayout>

#include "cli/quantity.hpp"
#include "cli/scenario_input.hpp"
#include "gui/scenario/json_places.hpp"
#include "plan/scenario/files.hpp"

namespace orrery::gui {
namespace {

constexpr int kAskAfterMs = 40;  // so that a burst of keys asks once
// From then on; so that nothing flickers where the answer is as soon there.
constexpr qint64 kShowEstimateAfterMs = 80;

}  // namespace

MainWindow::MainWindow(const QString& recovery_folder)
    : runs_folder_(QFileInfo(recovery_folder).path() + QStringLiteral("/runs")),
      marks_(QFileInfo(recovery_folder).path() + QStringLiteral("/marks.json")) {
    setObjectName(QStringLiteral("main"));
    make_panes();
    document_ = new Document(editor_, recovery_folder, this);
    resimulation_ = new Resimulation(this);
    comparison_run_ = new ComparisonRun(this);
    make_menus();
    ask_soon_.setSingleShot(true);
    ask_soon_.setInterval(kAskAfterMs);
    connect(&ask_soon_, &QTimer::timeout, this, &MainWindow::resimulate);
    show_estimate_soon_.setSingleShot(true);
    connect(&show_estimate_soon_, &QTimer::timeout, this, &MainWindow::show_estimate_instead);
    connect(document_, &Document::edited, this, [this] {
        overview_->set_stale(true);
        days_pane_->set_stale();
        ask_soon_.start();
    });
    connect(document_, &Document::state_changed, this, &MainWindow::show_title);
    connect(document_, &Document::keeping_failed, this, [this](const QString& why) {
        say(tr("What you type cannot be kept for the case that the program is killed: %1")
                .arg(why));
    });
    connect(resimulation_, &Resimulation::begun, this, [this] {
        show_estimate_soon_.stop();
        since_asked_.start();
        state_->setText(tr("simulating …"));
        timeline_->set_empty_text(tr("The step is being simulated …"));
    });
    connect(resimulation_, &Resimulation::estimated, this, &MainWindow::show_estimate);
    connect(resimulation_, &Resimulation::idle, this, [this] {
        show_estimate_soon_.stop();
        state_->clear();
    });
    connect(resimulation_, &Resimulation::answered, this, &MainWindow::show_answer);
    connect(resimulation_, &Resimulation::explained, this, &MainWindow::show_reasons);
    connect(comparison_run_, &ComparisonRun::compared, this, &MainWindow::show_aligned);
    connect(problems_, &ProblemsPane::chosen, editor_, &JsonEditor::go_to);
    connect(problems_, &ProblemsPane::offered, this,
            [this](const QString& text) { editor_->replace_text(text); });
    connect(overview_, &OverviewPane::wanted, this, &MainWindow::apply);
    connect(form_, &FormPane::wanted, this, [this](const QString& path, const QString& json) {
        apply({{path.toStdString(), json.toStdString()}});
    });
    connect(form_, &FormPane::unwanted, this, &MainWindow::take_out);
    connect(form_, &FormPane::to_show, this, &MainWindow::show_in_text);
    connect(timeline_, &TimelineView::hovered, statusBar(),
            [this](const QString& text) { statusBar()->showMessage(text); });
    connect(timeline_, &TimelineView::marks_changed, this, &MainWindow::keep_marks);
    connect(launch_, &LaunchPane::failed, this, [this](const QString& message) { say(message); });
    connect(launch_, &LaunchPane::attached, this, &MainWindow::follow_scenario);
    // The prediction stays in sight, on the same scale of time.
    connect(launch_, &LaunchPane::measured, this, [this](const QString& trace) {
        hold();
        open_trace(trace);
    });
    setAcceptDrops(true);
    show_title();
    timeline_->setFocus();
}

MainWindow::~MainWindow() {
    if (reader_ != nullptr) reader_->wait();
}

void MainWindow::make_panes() {
    editor_ = new JsonEditor;
    problems_ = new ProblemsPane;
    scenario_ = new QSplitter(Qt::Vertical);
    form_ = new FormPane;
    ways_to_edit_ = new QTabWidget;
    ways_to_edit_->setDocumentMode(true);
    ways_to_edit_->addTab(form_, tr("Form"));
    ways_to_edit_->addTab(editor_, tr("Text"));
    scenario_->addWidget(ways_to_edit_);
    scenario_->addWidget(problems_);
    scenario_->setStretchFactor(0, 1);
    scenario_->setStretchFactor(1, 0);
    scenario_->setChildrenCollapsible(false);

    timeline_ = new TimelineView;
    auto* middle = new QWidget;
    auto* layout = new QVBoxLayout(middle);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    message_bar_ = new QWidget;
    message_bar_->setObjectName(QStringLiteral("message"));
    auto* bar = new QHBoxLayout(message_bar_);
    bar->setContentsMargins(8, 4, 8, 4);
    message_ = new QLabel;
    message_->setWordWrap(true);
    message_->setTextInteractionFlags(Qt::TextSelectableByMouse);
    bar->addWidget(message_, 1);
    message_buttons_ = new QHBoxLayout;
    bar->addLayout(message_buttons_);
    message_bar_->hide();
    layout->addWidget(message_bar_);
    search_ = new QLineEdit;
    search_->setPlaceholderText(
        tr("Find an action (2F5), an op, a kind; Enter: next, Shift+Enter: previous, Esc: close"));
    search_->setAccessibleName(tr("Find in the timeline"));
    search_->hide();
    layout->addWidget(search_);
    auto* timelines = new QSplitter(Qt::Vertical);
    timelines->addWidget(timeline_);
    held_timeline_ = new TimelineView;
    held_timeline_->setAccessibleName(tr("Timeline of the held step"));
    held_timeline_->hide();
    timelines->addWidget(held_timeline_);
    layout->addWidget(timelines, 1);
    // Both to one scale of time, whichever is moved.
    connect(timeline_, &TimelineView::view_changed, held_timeline_,
            [this] { held_timeline_->show_of_step(timeline_->shown_of_step()); });
    connect(held_timeline_, &TimelineView::view_changed, timeline_, [this] {
        if (held_timeline_->underMouse() || held_timeline_->hasFocus())
            timeline_->show_of_step(held_timeline_->shown_of_step());
    });
    // What is selected in one is shown in the other, and found there.
    const auto leads = [](TimelineView* from, TimelineView* to) {
        connect(from, &TimelineView::selection_changed, to,
                [from, to] { to->point_at(from->counterpart()); });
        connect(from, &TimelineView::counterpart_wanted, to, [to](const OpPlace& op) {
            to->setFocus();  // so that the other view goes along
            to->go_to(op);
        });
        connect(from, &TimelineView::coloured_by_difference, to,
                &TimelineView::colour_by_difference);
        connect(from, &TimelineView::laid_over, to, &TimelineView::lay_over);
    };
    leads(timeline_, held_timeline_);
    leads(held_timeline_, timeline_);
    setCentralWidget(middle);

    overview_ = new OverviewPane;
    details_ = new DetailsPane(timeline_);
    details_->follow(held_timeline_);
    report_ = new QPlainTextEdit;
    report_->setReadOnly(true);
    report_->setLineWrapMode(QPlainTextEdit::NoWrap);
    report_->setTabChangesFocus(true);
    report_->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    report_->setAccessibleName(tr("Report, as orrery simulate prints it"));
    const auto saved_path = [this] {
        const bool saved = document_ != nullptr && trace_path_.isEmpty() && document_->is_saved();
        return saved ? document_->path() : QString();
    };
    launch_ = new LaunchPane([this, saved_path] { return trainable(saved_path()); }, runs_folder_);
    search_pane_ = new SearchPane(saved_path);
    connect(search_pane_, &SearchPane::wanted, this, &MainWindow::apply);
    const auto edited = [this] {
        if (document_ == nullptr || !trace_path_.isEmpty()) return ScenarioText{};
        return ScenarioText{document_->text().toStdString(), document_->path().toStdString()};
    };
    sweep_pane_ = new SweepPane(edited);
    connect(sweep_pane_, &SweepPane::wanted, this, &MainWindow::apply);
    size_pane_ = new SizePane(edited);
    connect(size_pane_, &SizePane::wanted, this, &MainWindow::apply);
    days_pane_ = new DaysPane;
    connect(days_pane_, &DaysPane::wanted, this, &MainWindow::apply);
    setCorner(Qt::BottomLeftCorner, Qt::LeftDockWidgetArea);
    setCorner(Qt::BottomRightCorner, Qt::RightDockWidgetArea);
    scenario_dock_ =
        add_dock(Qt::LeftDockWidgetArea, QStringLiteral("scenario"), tr("Scenario"), scenario_);
    overview_dock_ =
        add_dock(Qt::RightDockWidgetArea, QStringLiteral("overview"), tr("Overview"), overview_);
    details_dock_ =
        add_dock(Qt::BottomDockWidgetArea, QStringLiteral("details"), tr("Details"), details_);
    report_dock_ =
        add_dock(Qt::BottomDockWidgetArea, QStringLiteral("report"), tr("Report"), report_);
    run_dock_ = add_dock(Qt::BottomDockWidgetArea, QStringLiteral("run"), tr("Run"), launch_);
    tabifyDockWidget(details_dock_, report_dock_);
    tabifyDockWidget(report_dock_, run_dock_);
    comparison_ = new QPlainTextEdit;
    comparison_->setReadOnly(true);
    comparison_->setLineWrapMode(QPlainTextEdit::NoWrap);
    comparison_->setTabChangesFocus(true);
    comparison_->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    comparison_->setAccessibleName(tr("Comparison, as orrery diff prints it"));
    comparison_->setPlainText(
        tr("Hold a step (Ctrl+H), then change the scenario or open another."));
    compare_dock_ =
        add_dock(Qt::BottomDockWidgetArea, QStringLiteral("compare"), tr("Compare"), comparison_);
    tabifyDockWidget(run_dock_, compare_dock_);
    search_dock_ =
        add_dock(Qt::BottomDockWidgetArea, QStringLiteral("search"), tr("Search"), search_pane_);
    tabifyDockWidget(compare_dock_, search_dock_);
    sweep_dock_ =
        add_dock(Qt::BottomDockWidgetArea, QStringLiteral("sweep"), tr("Sweep"), sweep_pane_);
    tabifyDockWidget(search_dock_, sweep_dock_);
    size_dock_ = add_dock(Qt::BottomDockWidgetArea, QStringLiteral("size"), tr("Size"), size_pane_);
    tabifyDockWidget(sweep_dock_, size_dock_);
    days_dock_ = add_dock(Qt::BottomDockWidgetArea, QStringLiteral("days"), tr("Days"), days_pane_);
    tabifyDockWidget(size_dock_, days_dock_);
    connect(days_dock_, &QDockWidget::visibilityChanged, days_pane_, &DaysPane::set_seen);
    details_dock_->raise();
    for (auto* tabs : findChildren<QTabBar*>())
        tabs->setAccessibleName(
            tr("Details, report, run, comparison, search, sweep, size or days"));
    state_ = new QLabel;
    statusBar()->addPermanentWidget(state_);
    resize(1440, 860);
    resizeDocks({scenario_dock_, overview_dock_}, {310, 370}, Qt::Horizontal);
    resizeDocks({details_dock_}, {256}, Qt::Vertical);
}

QDockWidget* MainWindow::add_dock(Qt::DockWidgetArea area, const QString& name,
                                  const QString& title, QWidget* widget) {
    auto* dock = new QDockWidget(title);
    dock->setObjectName(name);
    dock->setWidget(widget);
    addDockWidget(area, dock);
    return dock;
}

void MainWindow::say(const QString& text,
                     const QList<std::pair<QString, std::function<void()>>>& ways) {
    quiet();
    message_->setText(text);
    const auto add = [this](const QString& name, const std::function<void()>& does) {
        auto* button = new QPushButton(name);
        connect(button, &QPushButton::clicked, this, [this, does] {
            quiet();
            if (does) does();
        });
        message_buttons_->addWidget(button);
    };
    for (const auto& [name, does] : ways)
        add(name, does);
    if (ways.empty()) add(tr("Close"), nullptr);
    QPalette palette = QApplication::palette();
    palette.setColor(QPalette::Window, QColor(255, 236, 179));
    palette.setColor(QPalette::WindowText, Qt::black);
    message_bar_->setPalette(palette);
    message_bar_->setAutoFillBackground(true);
    message_bar_->show();
}

void MainWindow::quiet() {
    message_bar_->hide();
    message_->clear();
    while (QLayoutItem* item = message_buttons_->takeAt(0)) {
        item->widget()->deleteLater();
        delete item;
    }
}

QString MainWindow::message() const {
    return message_->text();
}

// What is trained is a file, with the layout that was read of its text.
Trainable MainWindow::trainable(const QString& path) const {
    const bool known = answered_ && answered_->read.scenario && answered_->errors.empty() &&
                       QString::fromStdString(answered_->asked.text) == document_->text();
    return known && !path.isEmpty() ? trainable_of(path, *answered_->read.scenario)
                                    : Trainable{path, 0, 1, false};
}

void MainWindow::keep_marks() {
    try {
        marks_.keep(trace_path_.isEmpty() ? document_->path() : trace_path_, timeline_->marks());
    } catch (const std::exception& error) {
        say(tr("The marks cannot be kept: %1").arg(QString::fromLocal8Bit(error.what())));
    }
}

// The scenario of a run that is attached to comes into view, where nothing is lost by it.
void MainWindow::follow_scenario(const QString& path) {
    if (path == document_->path() || !document_->is_saved() || !QFileInfo::exists(path)) return;
    open_scenario(path);
}

void MainWindow::resimulate() {
    if (!trace_path_.isEmpty()) return;
    resimulation_->ask(
        {document_->text().toStdString(), document_->path().toStdString(), unfolds_->isChecked()});
}

// What is seen of an edit at once, where the step takes seconds to simulate.
void MainWindow::show_estimate(const Estimate& estimate) {
    form_->show(document_->text(), estimate.read);
    state_->setText(
        tr("simulating … about %1 a step (±%2 %), %3 of %4 on the fullest rank")
            .arg(QString::fromStdString(cli::seconds_text(estimate.layout.step_s)),
                 QString::number(100 * estimate.bounds.step, 'f', 0),
                 QString::fromStdString(cli::bytes_text(estimate.layout.peak_bytes)),
                 QString::fromStdString(cli::bytes_text(estimate.layout.capacity_bytes))));
    estimate_ = estimate;
    const qint64 left = kShowEstimateAfterMs - since_asked_.elapsed();
    show_estimate_soon_.start(static_cast<int>(std::max<qint64>(0, left)));
}

void MainWindow::show_estimate_instead() {
    if (!trace_path_.isEmpty()) return;
    overview_->show_estimate(*estimate_);
    timeline_->show_timeline(estimate_->timeline, !first_answer_);
    align();
}

void MainWindow::show_answer(const AnswerPtr& answer) {
    show_estimate_soon_.stop();
    const bool had_errors = problems_->model().rowCount() > 0;
    problems_->show_answer(answer);
    const bool has_errors = problems_->model().rowCount() > 0;
    // Errors get room when the first comes, and give it back with the last.
    const int height = scenario_->height();
    if (has_errors != had_errors)
        scenario_->setSizes(has_errors ? QList<int>{height * 11 / 20, height * 9 / 20}
                                       : QList<int>{height, 0});
    editor_->mark(answer->errors, QString::fromStdString(name_of(answer->asked)));
    form_->show(document_->text(), answer);
    answered_ = answer;
    launch_->refresh();
    // What was true of the last sound text stays in sight, marked as such.
    overview_->set_stale(!answer->predicted());
    const bool shows_estimate =
        timeline_->timeline() != nullptr && timeline_->timeline()->is_estimate();
    if (!answer->predicted()) {
        if (shows_estimate) {
            timeline_->show_timeline(shown_ ? shown_->timeline : nullptr, true);
            overview_->show_answer(shown_);
            overview_->set_stale(true);
            align();
        }
        return timeline_->set_empty_text(tr("No timeline: the scenario has errors."));
    }
    state_->setText(tr("looking for what the step hangs on …"));
    overview_->show_answer(answer);
    days_pane_->show_answer(answer);
    shown_ = answer;
    timeline_->show_timeline(answer->timeline, !first_answer_ || shows_estimate);
    if (first_answer_) timeline_->set_marks(marks_.of(document_->path()));
    align();
    first_answer_ = false;
    report_->clear();
    reasons_ = nullptr;
}

// Refused where the events of all ranks would fill the memory, by those of the ranks that stand for
// them.
void MainWindow::unfold() {
    constexpr double kBytesPerEvent = 32;  // docs/gui.md, Measured
    constexpr double kMostBytes = 2e9;  // they are simulated, too, which takes seconds and memory
    double bytes = 0;
    if (shown_ && unfolds_->isChecked())
        for (const trace::Track& track : shown_->prediction->trace.tracks)
            bytes += kBytesPerEvent * static_cast<double>(track.events.size()) *
                     static_cast<double>(track.represents());
    if (bytes > kMostBytes) {
        unfolds_->setChecked(false);
        return say(tr("The ops of all ranks would take %1 of memory: they stay folded.")
                       .arg(QString::fromStdString(cli::bytes_text(bytes))));
    }
    if (trace_path_.isEmpty()) resimulate();
}

void MainWindow::hold() {
    if (!shown_) return;
    held_ = shown_;
    held_timeline_->show_timeline(held_->timeline, false);
    held_timeline_->set_path(timeline_->path());
    held_timeline_->set_title(tr("A: held"));
    timeline_->set_title(tr("B: shown now"));
    align();
    held_timeline_->show();
    compare_dock_->raise();
}

void MainWindow::back_to_scenario() {
    if (trace_path_.isEmpty() || document_->text().isEmpty()) return;
    trace_path_.clear();
    first_answer_ = true;
    scenario_dock_->show();
    overview_dock_->show();
    state_->clear();
    show_title();
    resimulate();
}

// Both show the same time, the shorter step with nothing behind its end, and will know each other's
// ops; of an estimate, which has none of a step's, only once the step is there.
void MainWindow::align() {
    if (!held_ || timeline_->timeline() == nullptr) return;
    const Picoseconds reach =
        std::max(timeline_->timeline()->window().length(), held_->timeline->window().length());
    timeline_->set_reach(reach);
    held_timeline_->set_reach(reach);
    held_timeline_->show_of_step(timeline_->shown_of_step());
    held_timeline_->set_counterparts(nullptr, timeline_->title());
    timeline_->set_counterparts(nullptr, held_timeline_->title());
    if (timeline_->timeline()->is_estimate()) {
        comparison_run_->cancel();
        return comparison_->setPlainText(tr("The step is being simulated …"));
    }
    comparison_->setPlainText(tr("aligning the two steps op by op …"));
    const bool from_file = !trace_path_.isEmpty();
    comparison_run_->ask({held_, timeline_->shared_timeline(), from_file ? nullptr : shown_,
                          trace_path_.toStdString()});
}

// A is the held step, B what the editor holds now, or a trace.
void MainWindow::show_aligned(const AlignedSteps& aligned) {
    comparison_->setPlainText(QString::fromStdString(aligned.text));
    if (!aligned.alignment) return;
    const auto counterparts = [&](const auto& own, const auto& others, trace::Side side) {
        return std::make_shared<const Counterparts>(own, others, aligned.alignment, side);
    };
    const std::shared_ptr<const Timeline> a = aligned.steps->held->timeline;
    const std::shared_ptr<const Timeline> b = aligned.steps->shown;
    held_timeline_->set_counterparts(counterparts(a, b, trace::Side::a), timeline_->title());
    timeline_->set_counterparts(counterparts(b, a, trace::Side::b), held_timeline_->title());
}

void MainWindow::let_go() {
    held_.reset();
    comparison_run_->cancel();
    timeline_->set_counterparts(nullptr);
    held_timeline_->hide();
    held_timeline_->show_timeline(nullptr, false);
    timeline_->set_title({});
    comparison_->clear();
}

void MainWindow::show_reasons(const ReasonsPtr& reasons) {
    reasons_ = reasons->failure.empty() ? reasons : nullptr;
    overview_->show_reasons(reasons);
    if (reasons_)
        timeline_->set_path(std::make_shared<const std::vector<cli::PathStay>>(
            cli::stays_of(reasons->explanation->path)));
    report_->setPlainText(QString::fromStdString(reasons->report));
}

// A file that a scenario refers to is looked for beside it, then in the library, as the reader
// does.
std::optional<std::string> MainWindow::content_of(const std::string& reference) const {
    const QString own = QFileInfo(document_->path()).path();
    for (const QString& folder : {own, QString::fromStdString(cli::library_folder())}) {
        std::string why;
        const QString path = QDir(folder).filePath(QString::fromStdString(reference));
        if (auto content = plan::disk().read(path.toStdString(), why)) return content;
    }
    return std::nullopt;
}

void MainWindow::apply(const std::vector<sim::Setting>& settings) {
    std::string text = document_->text().toStdString();
    for (const sim::Setting& setting : settings) {
        std::optional<std::string> changed = with_setting(text, setting.key, setting.value);
        if (!changed) {
            // Its file is another one, which is not changed: its content then stands in this one.
            const auto whole = with_content_of_reference(
                text, setting.key,
                [this](const std::string& reference) { return content_of(reference); });
            if (whole) changed = with_setting(*whole, setting.key, setting.value);
        }
        if (!changed)
            return say(
                tr("%1 is not in this file, but in one that it refers to; nothing was changed.")
                    .arg(QString::fromStdString(setting.key)));
        text = *changed;
    }
    editor_->replace_text(QString::fromStdString(text));
}

void MainWindow::take_out(const QString& path) {
    const auto changed = without_setting(document_->text().toStdString(), path.toStdString());
    if (changed) editor_->replace_text(QString::fromStdString(*changed));
}

void MainWindow::show_in_text(const QString& path) {
    plan::Diagnostic place;
    place.pointer = '/' + path.toStdString();
    std::replace(place.pointer.begin(), place.pointer.end(), '.', '/');
    ways_to_edit_->setCurrentWidget(editor_);
    editor_->go_to(place);
    editor_->setFocus();
}

void MainWindow::show_title() {
    const QString path = trace_path_.isEmpty() ? document_->path() : trace_path_;
    const QString name = path.isEmpty() ? tr("untitled") : path.section(QLatin1Char('/'), -1);
    setWindowTitle(tr("%1[*] - Orrery").arg(name));
    launch_->refresh();
    search_pane_->refresh();
    sweep_pane_->refresh();
    size_pane_->refresh();
    setWindowModified(trace_path_.isEmpty() && !document_->is_saved());
}

}  // namespace orrery::gui
