#include "gui/window/launch_pane.hpp"

#include <algorithm>
#include <csignal>

#include <QComboBox>
#include <QFile>
#include <QFileDialog>
#include <QFileInfo>
#include <QFontDatabase>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QLocale>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QStandardItemModel>
#include <QVBoxLayout>

#include "cli/quantity.hpp"
#include "gui/window/attach_dialog.hpp"
#include "gui/window/charts.hpp"
#include "gui/window/export_file.hpp"
#include "trace/trace_file_error.hpp"

namespace orrery::gui {
namespace {

QString bytes_text(const std::vector<double>& by_rank) {
    const auto [least, most] = std::minmax_element(by_rank.begin(), by_rank.end());
    const QString text = QString::fromStdString(cli::bytes_text(*most));
    if (*least == *most) return text;
    return QString::fromStdString(cli::bytes_text(*least)) + QStringLiteral(" to ") + text;
}

}  // namespace

LaunchPane::LaunchPane(std::function<Trainable()> trainable, QString runs_folder, QWidget* parent)
    : QWidget(parent),
      trainable_(std::move(trainable)),
      runs_folder_(std::move(runs_folder)),
      place_(new QComboBox),
      backend_(new QComboBox),
      hosts_(new QLineEdit),
      sbatch_(new QLineEdit),
      command_(new QLineEdit),
      wanted_(new QSpinBox),
      state_(new QLabel),
      memory_(new QLabel),
      loss_(new LiveChart(tr("loss"), QStringLiteral("%.3f"))),
      norm_(new LiveChart(tr("gradient norm"), QStringLiteral("%.3f"))),
      speed_(new LiveChart(tr("tokens/s"), QStringLiteral("%.0f"))),
      log_(new QPlainTextEdit) {
    make_choices();
    make_actions();
    log_->setReadOnly(true);
    log_->setMaximumBlockCount(5000);
    log_->setTabChangesFocus(true);
    log_->setAccessibleName(tr("What the run says"));
    log_->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    auto* choices = new QHBoxLayout;
    for (QWidget* widget : {static_cast<QWidget*>(place_), static_cast<QWidget*>(backend_),
                            static_cast<QWidget*>(wanted_)})
        choices->addWidget(widget);
    choices->addWidget(hosts_, 1);
    choices->addWidget(sbatch_, 1);
    choices->addWidget(command_, 2);
    auto* buttons = new QHBoxLayout;
    add_buttons(*buttons);
    state_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    buttons->addWidget(state_, 1);
    buttons->addWidget(memory_);
    auto* charts = new QHBoxLayout;
    for (LiveChart* chart : {loss_, norm_, speed_})
        charts->addWidget(chart, 1);
    charts->addWidget(log_, 1);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(4, 2, 4, 2);
    layout->setSpacing(3);
    layout->addLayout(choices);
    layout->addLayout(buttons);
    layout->addLayout(charts, 1);
    watch_run();
    refresh();
}

void LaunchPane::make_choices() {
    place_->addItem(tr("on this computer"), static_cast<int>(RunPlace::here));
    place_->addItem(tr("on hosts, by mpirun"), static_cast<int>(RunPlace::hosts));
    place_->addItem(tr("as a job of Slurm"), static_cast<int>(RunPlace::slurm));
    place_->setAccessibleName(tr("Where ranks are"));
    backend_->addItem(tr("on CPUs"), QStringLiteral("cpu"));
    backend_->addItem(tr("on GPUs"), QStringLiteral("cuda"));
    backend_->setAccessibleName(tr("What performs the run"));
    hosts_->setPlaceholderText(tr("node01:8,node02:8; empty: this computer"));
    hosts_->setAccessibleName(tr("Hosts, with the ranks of each"));
    sbatch_->setPlaceholderText(tr("--partition=gpu --time=12:00:00"));
    sbatch_->setAccessibleName(tr("Further options of the job"));
    command_->setReadOnly(true);
    command_->setAccessibleName(tr("Command that is started"));
    wanted_->setAccessibleName(tr("Steps"));
    wanted_->setRange(0, 1'000'000);
    wanted_->setSpecialValueText(tr("steps as in run"));
    wanted_->setSuffix(tr(" steps"));
    connect(wanted_, &QSpinBox::valueChanged, this, &LaunchPane::refresh);
    connect(place_, &QComboBox::currentIndexChanged, this, &LaunchPane::refresh);
    connect(backend_, &QComboBox::currentIndexChanged, this, &LaunchPane::refresh);
    connect(hosts_, &QLineEdit::textChanged, this, &LaunchPane::refresh);
    connect(sbatch_, &QLineEdit::textChanged, this, &LaunchPane::refresh);
}

QAction* LaunchPane::add_action(const QString& text, const QKeySequence& key,
                                void (LaunchPane::*does)()) {
    auto* action = new QAction(text, this);
    action->setShortcut(key);
    connect(action, &QAction::triggered, this, does);
    actions_.push_back(action);
    return action;
}

void LaunchPane::make_actions() {
    constexpr auto kControl = Qt::ControlModifier;
    constexpr auto kBoth = Qt::ControlModifier | Qt::ShiftModifier;
    start_ = add_action(tr("Start"), QKeySequence(kControl | Qt::Key_R), &LaunchPane::start);
    resume_ = add_action(tr("Resume"), QKeySequence(kBoth | Qt::Key_R), &LaunchPane::resume);
    resume_->setToolTip(tr("From the last checkpoint of run.checkpoint, else from the start"));
    stop_ = add_action(tr("Stop"), QKeySequence(kControl | Qt::Key_Period), &LaunchPane::stop);
    stop_->setToolTip(tr("After the step in work, with a checkpoint where there are any"));
    attach_ = add_action(tr("Attach…"), QKeySequence(kBoth | Qt::Key_A), &LaunchPane::ask_attach);
    attach_->setToolTip(tr("Follow a run that goes on, or look at one that has ended"));
    let_go_ = add_action(tr("Detach"), QKeySequence(kBoth | Qt::Key_D), &LaunchPane::let_go);
    let_go_->setToolTip(tr("The run goes on, and is not followed any more"));
    script_ = add_action(tr("Save the script…"), QKeySequence(kBoth | Qt::Key_L),
                         &LaunchPane::ask_script);
    script_->setToolTip(tr("For sbatch, as it stands in the field of the command"));
    show_ = add_action(tr("Show the measured step"), QKeySequence(kControl | Qt::Key_M),
                       &LaunchPane::show_measured);
}

// A button for each action, pressed as the action is, and grey when it is.
void LaunchPane::add_buttons(QBoxLayout& row) {
    for (QAction* action : actions_) {
        auto* button = new QPushButton(action->text());
        button->setToolTip(action->toolTip());
        connect(button, &QPushButton::clicked, action, &QAction::trigger);
        connect(action, &QAction::changed, button, [action, button] {
            button->setEnabled(action->isEnabled());
            button->setVisible(action->isVisible());
        });
        row.addWidget(button);
    }
}

void LaunchPane::watch_run() {
    connect(&run_, &TrainingRun::began, this,
            [this](int steps) { state_->setText(tr("running, %1 steps").arg(steps)); });
    connect(&run_, &TrainingRun::stepped, this, &LaunchPane::show_step);
    connect(&run_, &TrainingRun::remembered, this, &LaunchPane::show_memory);
    connect(&run_, &TrainingRun::ailed, this, [this](const QString& message, bool begins) {
        log_->appendHtml(begins ? QStringLiteral("<b>%1</b>").arg(message.toHtmlEscaped())
                                : tr("over: %1").arg(message.toHtmlEscaped()));
    });
    connect(&run_, &TrainingRun::said, log_, &QPlainTextEdit::appendPlainText);
    connect(&run_, &TrainingRun::ended, this, &LaunchPane::show_end);
}

RunChoice LaunchPane::choice(bool resume) const {
    return {static_cast<RunPlace>(place_->currentData().toInt()),
            backend_->currentData().toString(),
            hosts_->text().trimmed(),
            sbatch_->text(),
            wanted_->value(),
            resume};
}

void LaunchPane::refresh() {
    const Trainable what = trainable_();
    const RunPlace place = choice(false).place;
    const bool by_slurm = place == RunPlace::slurm;
    // A backend that this computer has not is for others.
    const bool may_cuda = place != RunPlace::here || has_gpu();
    auto* backends = qobject_cast<QStandardItemModel*>(backend_->model());
    QStandardItem* cuda = backends->item(1);
    cuda->setEnabled(may_cuda);
    cuda->setToolTip(may_cuda ? QString() : tr("This computer has no GPU of NVIDIA's."));
    if (!may_cuda && backend_->currentIndex() == 1) backend_->setCurrentIndex(0);
    hosts_->setVisible(place == RunPlace::hosts);
    sbatch_->setVisible(by_slurm);
    const bool ready = what.is_ready();
    start_->setEnabled(ready && !by_slurm && !run_.is_running());
    resume_->setEnabled(start_->isEnabled());
    script_->setVisible(by_slurm);
    script_->setEnabled(ready && by_slurm);
    stop_->setEnabled(run_.can_be_stopped());
    let_go_->setEnabled(run_.is_running());
    attach_->setEnabled(!run_.is_running());
    show_->setEnabled(!measured_trace().isEmpty());
    command_->setText(what.path.isEmpty() ? tr("Save the scenario: what is trained is its file.")
                      : !ready            ? tr("This scenario cannot be trained: it has errors.")
                      : by_slurm          ? slurm_script(choice(false), what)
                                          : shell_text(training_command(choice(false), what, {})));
    command_->setToolTip(command_->text());
    command_->setCursorPosition(0);
}

void LaunchPane::start() {
    begin(false);
}
void LaunchPane::resume() {
    begin(true);
}

void LaunchPane::clear_run() {
    steps_ = 0;
    for (LiveChart* chart : {loss_, norm_, speed_})
        chart->clear_points();
    memory_->clear();
    log_->clear();
}

void LaunchPane::begin(bool resume) {
    const RunChoice chosen = choice(resume);
    const Trainable what = trainable_();
    clear_run();
    try {
        RunRecord record = RunRecord::fresh(runs_folder_);
        record.scenario = what.path;
        record.command = training_command(chosen, what, record.trace);
        // mpirun hands this one on; upon Ctrl+C it would end the ranks itself.
        record.stop_signal = chosen.place == RunPlace::hosts ? SIGUSR1 : SIGINT;
        log_->appendPlainText(QStringLiteral("$ ") + shell_text(record.command));
        state_->setText(tr("starting …"));
        run_.start(std::move(record));
    } catch (const trace::TraceFileError& error) {
        show_end(QString::fromLocal8Bit(error.what()), false);
    }
    refresh();
}

void LaunchPane::stop() {
    run_.stop();
    state_->setText(tr("stopping after this step …"));
}

void LaunchPane::let_go() {
    run_.let_go();
    state_->setText(tr("detached: the run goes on"));
    refresh();
}

void LaunchPane::attach(const RunRecord& record) {
    clear_run();
    log_->appendPlainText(record.command.isEmpty()
                              ? record.events
                              : QStringLiteral("$ ") + shell_text(record.command));
    state_->setText(tr("attached"));
    run_.follow(record);
    refresh();
    if (!record.scenario.isEmpty()) Q_EMIT attached(record.scenario);
}

std::optional<RunRecord> LaunchPane::going_on() const {
    if (run_.is_running()) return std::nullopt;
    for (const RunRecord& record : RunRecord::all_in(runs_folder_))
        if (record.process.is_alive()) return record;
    return std::nullopt;
}

void LaunchPane::ask_attach() {
    auto* dialog = new AttachDialog(RunRecord::all_in(runs_folder_), this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    connect(dialog, &AttachDialog::chosen, this, &LaunchPane::attach);
    connect(dialog, &AttachDialog::wants_file, this, &LaunchPane::ask_file);
    dialog->open();
}

void LaunchPane::ask_file() {
    const QString file = QFileDialog::getOpenFileName(
        this, tr("Attach to a run by the lines of JSON that it writes"), {},
        tr("Lines of orrery train --json (*.jsonl);;All files (*)"));
    if (!file.isEmpty()) attach(RunRecord::of_events(file));
}

void LaunchPane::ask_script() {
    const QString stem = QFileInfo(trainable_().path).completeBaseName();
    const QString path = QFileDialog::getSaveFileName(
        this, tr("Save the script for sbatch"), stem + QStringLiteral(".sbatch"),
        tr("Scripts (*.sbatch *.sh)"), nullptr, QFileDialog::DontConfirmOverwrite);
    if (path.isEmpty()) return;
    const QString why = save_script(path);
    if (!why.isEmpty()) Q_EMIT failed(tr("Not saved: %1").arg(why));
}

QString LaunchPane::save_script(const QString& path) const {
    const Trainable what = trainable_();
    if (!what.is_ready()) return tr("there is no saved scenario that can be trained");
    RunChoice chosen = choice(false);
    chosen.place = RunPlace::slurm;
    return write_export(path, batch_script_file(), slurm_script(chosen, what).toUtf8());
}

void LaunchPane::show_measured() {
    Q_EMIT measured(measured_trace());
}

void LaunchPane::show_step(const TrainedStep& step) {
    ++steps_;
    loss_->add_point(step.step, step.loss);
    norm_->add_point(step.step, step.grad_norm);
    speed_->add_point(step.step, step.tokens_per_s);
    const auto text = [](double value) { return QString::fromStdString(cli::digits_text(value)); };
    state_->setText(tr("step %1: loss %2, gradient norm %3, %4, %5 tokens/s")
                        .arg(step.step)
                        .arg(step.loss, 0, 'g', 5)
                        .arg(text(step.grad_norm),
                             QString::fromStdString(cli::seconds_text(step.time_s)),
                             text(step.tokens_per_s)));
}

// All is taken when a run begins, and nothing while it goes on: one figure tells what it is.
void LaunchPane::show_memory(const TrainedMemory& memory) {
    if (memory.arena.empty()) return;
    QString text = tr("memory of a rank: %1 planned").arg(bytes_text(memory.arena));
    if (!memory.high_water.empty()) text += tr(", %1 used").arg(bytes_text(memory.high_water));
    if (!memory.other.empty()) text += tr(", %1 besides").arg(bytes_text(memory.other));
    memory_->setText(text);
}

void LaunchPane::show_end(const QString& verdict, bool well) {
    state_->setText(
        well ? tr("%1 after %2 steps").arg(verdict).arg(steps_)
             : tr("<b>failed</b> after %1 steps: %2").arg(steps_).arg(verdict.toHtmlEscaped()));
    refresh();
}

QString LaunchPane::verdict() const {
    return state_->text();
}

QString LaunchPane::measured_trace() const {
    const QString& path = run_.record().trace;
    return !run_.is_running() && !path.isEmpty() && QFile::exists(path) ? path : QString();
}

}  // namespace orrery::gui
