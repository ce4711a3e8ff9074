// The menus of the window. Whatever a key does is an action here, and so on the sheet of shortcuts.
#include <algorithm>

#include <QApplication>
#include <QDir>
#include <QDockWidget>
#include <QKeyEvent>
#include <QLineEdit>
#include <QMenuBar>
#include <QMessageBox>
#include <QStatusBar>

#include "cli/scenario_input.hpp"
#include "gui/timeline/find.hpp"
#include "gui/window/main_window.hpp"
#include "gui/window/shortcuts_sheet.hpp"
#include "gui/window/table_csv.hpp"

namespace orrery::gui {

QAction* MainWindow::add(QMenu* menu, const QString& text, const QKeySequence& key,
                         void (MainWindow::*does)()) {
    QAction* action = menu->addAction(text);
    action->setShortcut(key);
    connect(action, &QAction::triggered, this, does);
    return action;
}

void MainWindow::make_menus() {
    QMenu* file = menuBar()->addMenu(tr("&File"));
    add(file, tr("&Open…"), QKeySequence::Open, &MainWindow::ask_open);
    QMenu* shipped = file->addMenu(tr("Open a shipped &run"));
    const QDir runs(QString::fromStdString(cli::library_folder()) + QStringLiteral("/runs"));
    for (const QFileInfo& run : runs.entryInfoList({QStringLiteral("*.json")}, QDir::Files)) {
        QAction* action = shipped->addAction(run.completeBaseName());
        connect(action, &QAction::triggered, this, [this, run] { open(run.filePath()); });
    }
    add(file, tr("&Save"), QKeySequence::Save, &MainWindow::save);
    add(file, tr("Save &as…"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_S),
        &MainWindow::save_as);
    add(file, tr("&Export the timeline…"), QKeySequence(Qt::CTRL | Qt::Key_E),
        &MainWindow::ask_export);
    add(file, tr("Export the &view with the keyboard…"),
        QKeySequence(Qt::CTRL | Qt::ALT | Qt::Key_E), &MainWindow::ask_export_view);
    add(file, tr("Export the report as a &page…"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_E),
        &MainWindow::ask_export_page);
    file->addSeparator();
    QAction* quit = file->addAction(tr("&Quit"));
    quit->setShortcut(QKeySequence(Qt::CTRL | Qt::Key_Q));
    connect(quit, &QAction::triggered, this, &QWidget::close);

    QMenu* edit = menuBar()->addMenu(tr("&Edit"));
    add(edit, tr("&Undo"), QKeySequence::Undo, &MainWindow::undo);
    add(edit, tr("&Redo"), QKeySequence::Redo, &MainWindow::redo);

    edit->addSeparator();
    add(edit, tr("&Copy the table as CSV"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_C),
        &MainWindow::copy_csv);
    add(edit, tr("Save the &table as CSV…"), {}, &MainWindow::save_csv);

    QMenu* view = menuBar()->addMenu(tr("&Timeline"));
    for (QAction* action : timeline_->timeline_actions())
        view->addAction(action);
    view->addSeparator();
    // Letters and signs do this in the timeline, the other keys everywhere.
    const auto with_letter = [&](QAction* action, const QKeySequence& letter,
                                 const QKeySequence& key) {
        action->setShortcuts({key});
        auto* there = new QAction(action->text(), timeline_);
        there->setShortcut(letter);
        there->setShortcutContext(Qt::WidgetWithChildrenShortcut);
        connect(there, &QAction::triggered, action, &QAction::trigger);
        timeline_->addAction(there);
    };
    with_letter(add(view, tr("&Find…"), {}, &MainWindow::find), Qt::Key_Slash, QKeySequence::Find);
    add(view, tr("Find &next"), QKeySequence::FindNext, &MainWindow::find_next);
    add(view, tr("Find &previous"), QKeySequence::FindPrevious, &MainWindow::find_previous);

    QMenu* step = menuBar()->addMenu(tr("&Step"));
    add(step, tr("&Hold this step and compare with it"), QKeySequence(Qt::CTRL | Qt::Key_H),
        &MainWindow::hold);
    add(step, tr("&Let go of the held step"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_H),
        &MainWindow::let_go);
    add(step, tr("&Back to the scenario"), QKeySequence(Qt::CTRL | Qt::Key_B),
        &MainWindow::back_to_scenario);

    unfolds_ = add(step, tr("&Unfold ranks: simulate each for itself"),
                   QKeySequence(Qt::CTRL | Qt::Key_U), &MainWindow::unfold);
    unfolds_->setCheckable(true);

    QMenu* run = menuBar()->addMenu(tr("&Run"));
    for (QAction* action : launch_->run_actions())
        run->addAction(action);

    QMenu* window = menuBar()->addMenu(tr("&Window"));
    const auto add_focus = [&](const QString& text, Qt::Key key, QDockWidget* dock,
                               QWidget* widget) {
        QAction* action = window->addAction(text);
        action->setShortcut(QKeySequence(Qt::CTRL | key));
        connect(action, &QAction::triggered, this, [dock, widget] {
            if (dock != nullptr) {
                dock->show();
                dock->raise();
            }
            widget->setFocus();
            if (!widget->hasFocus() && widget->nextInFocusChain() != nullptr)
                widget->nextInFocusChain()->setFocus();
        });
    };
    add_focus(tr("Go to the scenario"), Qt::Key_1, scenario_dock_, editor_);
    add_focus(tr("Go to the errors"), Qt::Key_2, scenario_dock_, &problems_->table());
    add_focus(tr("Go to the timeline"), Qt::Key_3, nullptr, timeline_);
    add_focus(tr("Go to the details"), Qt::Key_4, details_dock_, &details_->table());
    add_focus(tr("Go to the report"), Qt::Key_5, report_dock_, report_);
    add_focus(tr("Go to the overview"), Qt::Key_6, overview_dock_, overview_);
    add_focus(tr("Go to the comparison"), Qt::Key_8, compare_dock_, comparison_);
    add_focus(tr("Go to the search"), Qt::Key_9, search_dock_, search_pane_);
    add_focus(tr("Go to the sweep"), Qt::Key_0, sweep_dock_, &sweep_pane_->vary());
    add_focus(tr("Go to the sizing"), Qt::Key_G, size_dock_, &size_pane_->gpus());
    add_focus(tr("Go to the run"), Qt::Key_7, run_dock_, launch_);
    add(window, tr("Go to the days of the run"), QKeySequence(Qt::CTRL | Qt::Key_T),
        &MainWindow::show_days);
    window->addSeparator();
    QAction* details = details_dock_->toggleViewAction();
    for (QDockWidget* dock :
         {scenario_dock_, overview_dock_, details_dock_, report_dock_, run_dock_, compare_dock_,
          search_dock_, sweep_dock_, size_dock_, days_dock_})
        window->addAction(dock->toggleViewAction());
    with_letter(details, Qt::Key_Q, QKeySequence(Qt::CTRL | Qt::Key_D));

    QMenu* help = menuBar()->addMenu(tr("&Help"));
    with_letter(add(help, tr("&Shortcuts"), {}, &MainWindow::show_shortcuts), Qt::Key_Question,
                QKeySequence::HelpContents);
    add(help, tr("&About Orrery"), {}, &MainWindow::about);

    connect(search_, &QLineEdit::returnPressed, this, &MainWindow::find_next);
    auto* previous = new QAction(tr("Find previous"), search_);
    previous->setShortcut(QKeySequence(Qt::SHIFT | Qt::Key_Return));
    previous->setShortcutContext(Qt::WidgetShortcut);
    connect(previous, &QAction::triggered, this, &MainWindow::find_previous);
    search_->addAction(previous);
    auto* close = new QAction(tr("Close the search"), search_);
    close->setShortcut(Qt::Key_Escape);
    close->setShortcutContext(Qt::WidgetShortcut);
    connect(close, &QAction::triggered, this, [this] {
        search_->hide();
        timeline_->setFocus();
    });
    search_->addAction(close);
}

std::vector<QAction*> MainWindow::all_actions() const {
    std::vector<QAction*> actions;
    for (const QAction* menu : menuBar()->actions())
        for (QAction* action : menu->menu()->actions())
            if (!action->isSeparator()) actions.push_back(action);
    for (QAction* action : timeline_->actions())
        if (std::find(actions.begin(), actions.end(), action) == actions.end())
            actions.push_back(action);
    for (QAction* action : search_->actions())
        actions.push_back(action);
    return actions;
}

void MainWindow::undo() {
    editor_->undo();
}
void MainWindow::redo() {
    editor_->redo();
}

void MainWindow::copy_csv() {
    if (!copy_csv_of_focused())
        statusBar()->showMessage(tr("Click a table first: no table has the keyboard."));
}

void MainWindow::save_csv() {
    if (!save_csv_of_focused())
        statusBar()->showMessage(tr("Click a table first: no table has the keyboard."));
}

void MainWindow::find() {
    search_->show();
    search_->setFocus();
    search_->selectAll();
}

void MainWindow::find_next() {
    find_by(+1);
}
void MainWindow::find_previous() {
    find_by(-1);
}

void MainWindow::find_by(int direction) {
    if (timeline_->timeline() == nullptr) return;
    const std::optional<OpPlace> found =
        find_op(*timeline_->timeline(), search_->text().toStdString(), timeline_->selected_op(),
                direction > 0 ? Direction::forward : Direction::backward);
    if (found)
        timeline_->go_to(*found);
    else
        statusBar()->showMessage(
            tr("Nothing in this timeline is called “%1”.").arg(search_->text()));
}

// With room for the waterfall and the lines of a run below each other.
void MainWindow::show_days() {
    days_dock_->show();
    days_dock_->raise();
    if (!days_dock_->isFloating() && days_dock_->height() < height() / 2)
        resizeDocks({days_dock_}, {height() * 2 / 3}, Qt::Vertical);
    days_pane_->setFocus();
}

void MainWindow::show_shortcuts() {
    auto* sheet = new ShortcutsSheet(all_actions(), this);
    sheet->setAttribute(Qt::WA_DeleteOnClose);
    sheet->show();
}

void MainWindow::about() {
    QMessageBox::about(this, tr("About Orrery"),
                       tr("<b>Orrery</b><p>What every GPU of a cluster does in a training step.</p>"
                          "<p>Apache-2.0; this program draws its charts with Qt Charts, under "
                          "GPL-3.</p>"));
}

}  // namespace orrery::gui
