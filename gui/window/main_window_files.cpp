// What the window opens, saves and exports.
#include <QCloseEvent>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QLabel>
#include <QLocale>
#include <QMessageBox>
#include <QMimeData>
#include <QThread>

#include "cli/output_kinds.hpp"
#include "gui/window/export_file.hpp"
#include "gui/window/export_picture.hpp"
#include "gui/window/main_window.hpp"
#include "trace/formats/kineto.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::gui {
namespace {

bool is_trace(const QString& path) {
    using trace::TraceFormat;
    for (const TraceFormat format :
         {TraceFormat::native, TraceFormat::perfetto, TraceFormat::chrome})
        if (trace::begins_as_trace(path.toStdString(), format)) return true;
    if (trace::begins_as_kineto(path.toStdString())) return true;
    // So that a damaged one is told of as a trace.
    for (const char* ending : {".orrery", ".pftrace", ".trace.json", ".json.gz"})
        if (path.endsWith(QLatin1String(ending))) return true;
    return false;
}

std::shared_ptr<const Timeline> read_timeline(const std::string& path) {
    if (trace::begins_as_kineto(path) || path.ends_with(".json.gz"))
        return std::make_shared<const Timeline>(
            std::make_shared<const trace::RecordedTrace>(trace::read_kineto(path)));
    return std::make_shared<const Timeline>(
        std::make_shared<const trace::Trace>(trace::read_trace(path)));
}

}  // namespace

bool MainWindow::open(const QString& path) {
    if (!may_go()) return false;
    if (!is_trace(path)) return open_scenario(path);
    open_trace(path);
    return true;
}

bool MainWindow::open_scenario(const QString& path) {
    trace_path_.clear();
    first_answer_ = true;
    unfolds_->setChecked(false);
    const QString why = document_->open(path);
    if (!why.isEmpty()) {
        say(tr("%1 cannot be opened: %2").arg(path, why));
        return false;
    }
    quiet();
    scenario_dock_->show();
    overview_dock_->show();
    ask_soon_.stop();
    resimulate();
    return true;
}

// Reading may take seconds: on a thread of its own.
void MainWindow::open_trace(const QString& path) {
    if (reader_ != nullptr) return say(tr("A trace is being read already."));
    state_->setText(tr("reading %1 …").arg(path));
    timeline_->set_empty_text(tr("The trace is being read …"));
    auto timeline = std::make_shared<std::shared_ptr<const Timeline>>();
    auto why = std::make_shared<QString>();
    reader_ = QThread::create([path, timeline, why] {
        try {
            *timeline = read_timeline(path.toStdString());
        } catch (const std::exception& error) {
            *why = QString::fromStdString(error.what());
        }
    });
    connect(reader_, &QThread::finished, this, [this, path, timeline, why] {
        reader_->deleteLater();
        reader_ = nullptr;
        state_->clear();
        if (why->isEmpty())
            show_trace(path, *timeline);
        else
            say(tr("The trace cannot be read: %1").arg(*why));
        timeline_->set_empty_text(tr("No timeline yet: open a scenario or a trace."));
    });
    reader_->start();
}

void MainWindow::show_trace(const QString& path, std::shared_ptr<const Timeline> timeline) {
    resimulation_->cancel();
    ask_soon_.stop();
    trace_path_ = path;
    document_->forget_unsaved();
    quiet();
    // A file says what happened; there is nothing to edit.
    scenario_dock_->hide();
    overview_dock_->hide();
    days_pane_->show_answer(nullptr);
    if (timeline->recorded() != nullptr) return show_recorded(std::move(timeline));
    const bool measured = timeline->trace().origin == trace::Origin::measured;
    if (held_ && measured) timeline_->set_title(tr("B: measured"));
    timeline_->show_timeline(std::move(timeline), false);
    timeline_->set_marks(marks_.of(trace_path_));
    align();
    state_->setText(measured ? tr("a measured step") : tr("a predicted step"));
    show_title();
}

// It has no ops of ours: nothing can be held against it.
void MainWindow::show_recorded(std::shared_ptr<const Timeline> timeline) {
    let_go();
    const std::uint64_t left_out = timeline->recorded()->left_out;
    timeline_->show_timeline(std::move(timeline), false);
    timeline_->set_marks(marks_.of(trace_path_));
    state_->setText(
        left_out == 0
            ? tr("a recorded trace")
            : tr("a recorded trace; %1 counters and instants are not shown").arg(left_out));
    show_title();
}

void MainWindow::offer_unsaved() {
    const std::vector<Unsaved> left = Recovery::left_behind(Recovery::default_folder());
    if (left.empty()) return offer_run();
    const Unsaved unsaved = left.front();
    const QString name = unsaved.path.isEmpty() ? tr("an untitled scenario") : unsaved.path;
    say(tr("Unsaved changes of %1 from %2 are there, of a program that ended without saving them.")
            .arg(name, QLocale().toString(unsaved.time, QLocale::ShortFormat)),
        {{tr("Recover"),
          [this, unsaved] {
              recover(unsaved);
              offer_run();
          }},
         {tr("Discard"),
          [this, unsaved] {
              Recovery::discard(unsaved);
              offer_unsaved();
          }},
         {tr("Later"), [this] { offer_run(); }}});
}

void MainWindow::offer_run() {
    const std::optional<RunRecord> run = launch_->going_on();
    if (!run) return;
    say(tr("A run of %1 goes on that was started here on %2.")
            .arg(run->scenario.section(QLatin1Char('/'), -1),
                 QLocale().toString(run->begun, QLocale::ShortFormat)),
        {{tr("Attach"),
          [this, run] {
              run_dock_->show();
              run_dock_->raise();
              launch_->attach(*run);
          }},
         {tr("Later"), nullptr}});
}

void MainWindow::recover(const Unsaved& unsaved) {
    if (!may_go()) return;
    trace_path_.clear();
    first_answer_ = true;
    scenario_dock_->show();
    overview_dock_->show();
    document_->recover(unsaved);
}

bool MainWindow::may_go() {
    if (!trace_path_.isEmpty() || document_->is_saved()) return true;
    const auto answer = QMessageBox::question(
        this, tr("Orrery"), tr("The scenario has changes that are not saved."),
        QMessageBox::Save | QMessageBox::Discard | QMessageBox::Cancel, QMessageBox::Save);
    if (answer == QMessageBox::Cancel) return false;
    if (answer == QMessageBox::Save) {
        save();
        return document_->is_saved();
    }
    document_->forget_unsaved();
    return true;
}

void MainWindow::closeEvent(QCloseEvent* event) {
    event->setAccepted(may_go());
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
    if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
    for (const QUrl& url : event->mimeData()->urls())
        if (url.isLocalFile()) {
            open(url.toLocalFile());
            return;
        }
}

void MainWindow::ask_open() {
    const QString path = QFileDialog::getOpenFileName(
        this, tr("Open a scenario or a trace"), document_->path(),
        tr("Scenarios and traces (*.json *.orrery *.pftrace *.json.gz);;All files (*)"));
    if (!path.isEmpty()) open(path);
}

bool MainWindow::save_to(const QString& path) {
    const QString objection = document_->objection(path);
    if (!objection.isEmpty() &&
        QMessageBox::question(this, tr("Orrery"),
                              tr("%1: %2.\nReplace it all the same?").arg(path, objection)) !=
            QMessageBox::Yes)
        return false;
    const QString why = document_->save(path);
    if (!why.isEmpty()) say(tr("Not saved: %1").arg(why));
    return why.isEmpty();
}

void MainWindow::save() {
    if (!trace_path_.isEmpty()) return;
    if (document_->path().isEmpty()) return save_as();
    save_to(document_->path());
}

void MainWindow::save_as() {
    if (!trace_path_.isEmpty()) return;
    const QString path = QFileDialog::getSaveFileName(this, tr("Save the scenario"),
                                                      document_->path(), tr("Scenarios (*.json)"));
    if (!path.isEmpty()) save_to(path);
}

void MainWindow::ask_export_page() {
    const QString path = QFileDialog::getSaveFileName(this, tr("Export the report as a page"), {},
                                                      tr("Pages (*.html)"));
    if (path.isEmpty()) return;
    const QString why = export_page(path);
    if (!why.isEmpty()) say(tr("Not exported: %1").arg(why));
}

QString MainWindow::export_page(const QString& path) const {
    if (!has_page()) return tr("the step is not explained yet");
    return write_export(path, cli::page_output(), QByteArray::fromStdString(page_of(*reasons_)));
}

void MainWindow::ask_export() {
    const QString path = QFileDialog::getSaveFileName(this, tr("Export the timeline"), {},
                                                      tr("Pictures (*.png *.svg)"));
    if (path.isEmpty()) return;
    const QString why = export_timeline(path);
    if (!why.isEmpty()) say(tr("Not exported: %1").arg(why));
}

void MainWindow::ask_export_view() {
    const QString path =
        QFileDialog::getSaveFileName(this, tr("Export the view"), {}, tr("Pictures (*.png *.svg)"));
    if (path.isEmpty()) return;
    const QString why = export_view(path);
    if (!why.isEmpty()) say(tr("Not exported: %1").arg(why));
}

QString MainWindow::export_view(const QString& path) const {
    const QWidget* with_keyboard = focusWidget();
    for (const QDockWidget* dock : findChildren<QDockWidget*>()) {
        QWidget* view = dock->widget();
        if (with_keyboard == nullptr ||
            (view != with_keyboard && !view->isAncestorOf(with_keyboard)))
            continue;
        return export_picture(path, view->size(), dock->windowTitle(),
                              [view](QPainter& painter, const QRect& whole) {
                                  painter.fillRect(whole, view->palette().window());
                                  view->render(&painter);
                              });
    }
    return export_timeline(path);
}

QString MainWindow::export_timeline(const QString& path) const {
    if (timeline_->timeline() == nullptr) return tr("there is no timeline");
    return export_picture(
        path, timeline_->viewport()->size(), tr("Pipeline timeline"),
        [this](QPainter& painter, const QRect& whole) { timeline_->paint_scene(painter, whole); });
}

}  // namespace orrery::gui
