#include "gui/window/launch_pane.hpp"

#include <QFile>
#include <QFontDatabase>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QVBoxLayout>

#include "cli/quantity.hpp"
#include "gui/window/charts.hpp"

namespace orrery::gui {

LaunchPane::LaunchPane(std::function<QString()> saved_path, QWidget* parent)
    : QWidget(parent),
      saved_path_(std::move(saved_path)),
      command_(new QLineEdit),
      wanted_(new QSpinBox),
      start_(new QPushButton(tr("Start"))),
      resume_(new QPushButton(tr("Resume"))),
      stop_(new QPushButton(tr("Stop"))),
      show_(new QPushButton(tr("Show the measured step"))),
      state_(new QLabel),
      loss_(new LiveChart(tr("loss"), QStringLiteral("%.3f"))),
      speed_(new LiveChart(tr("tokens/s"), QStringLiteral("%.0f"))),
      log_(new QPlainTextEdit) {
    command_->setReadOnly(true);
    command_->setAccessibleName(tr("Command that is started"));
    wanted_->setAccessibleName(tr("Steps"));
    wanted_->setRange(0, 1'000'000);
    wanted_->setSpecialValueText(tr("steps as in run"));
    wanted_->setSuffix(tr(" steps"));
    log_->setReadOnly(true);
    log_->setMaximumBlockCount(5000);
    log_->setTabChangesFocus(true);
    log_->setAccessibleName(tr("What the run says"));
    log_->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    resume_->setToolTip(tr("From the last checkpoint of run.checkpoint, else from the start"));
    auto* buttons = new QHBoxLayout;
    for (QWidget* widget : {static_cast<QWidget*>(wanted_), static_cast<QWidget*>(start_),
                            static_cast<QWidget*>(resume_), static_cast<QWidget*>(stop_),
                            static_cast<QWidget*>(show_)})
        buttons->addWidget(widget);
    buttons->addStretch(1);
    state_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    auto* charts = new QHBoxLayout;
    charts->addWidget(loss_, 1);
    charts->addWidget(speed_, 1);
    charts->addWidget(log_, 1);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(4, 2, 4, 2);
    layout->setSpacing(3);
    layout->addWidget(command_);
    layout->addLayout(buttons);
    layout->addWidget(state_);
    layout->addLayout(charts, 1);
    connect(wanted_, &QSpinBox::valueChanged, this, &LaunchPane::refresh);
    connect(start_, &QPushButton::clicked, this, [this] { start(false); });
    connect(resume_, &QPushButton::clicked, this, [this] { start(true); });
    connect(stop_, &QPushButton::clicked, &run_, &TrainingRun::stop);
    connect(show_, &QPushButton::clicked, this, [this] { Q_EMIT measured(measured_trace()); });
    connect(&run_, &TrainingRun::began, this,
            [this](int steps) { state_->setText(tr("running, %1 steps").arg(steps)); });
    connect(&run_, &TrainingRun::stepped, this, &LaunchPane::show_step);
    connect(&run_, &TrainingRun::said, log_, &QPlainTextEdit::appendPlainText);
    connect(&run_, &TrainingRun::ended, this, &LaunchPane::show_end);
    refresh();
}

QStringList LaunchPane::command(bool resume) const {
    return TrainingRun::command(saved_path_(), wanted_->value(), resume,
                                folder_.filePath(QStringLiteral("measured.orrery")));
}

void LaunchPane::refresh() {
    const QString path = saved_path_();
    const bool ready = !path.isEmpty() && !run_.is_running();
    start_->setEnabled(ready);
    resume_->setEnabled(ready);
    stop_->setEnabled(run_.is_running());
    show_->setEnabled(!measured_trace().isEmpty());
    command_->setText(path.isEmpty() ? tr("Save the scenario: what is trained is its file.")
                                     : shell_text(command(false)));
    command_->setCursorPosition(0);
}

void LaunchPane::start(bool resume) {
    QFile::remove(folder_.filePath(QStringLiteral("measured.orrery")));
    steps_ = 0;
    loss_->clear_points();
    speed_->clear_points();
    log_->clear();
    const QStringList words = command(resume);
    log_->appendPlainText(QStringLiteral("$ ") + shell_text(words));
    state_->setText(tr("starting …"));
    run_.start(words);
    refresh();
}

void LaunchPane::show_step(const TrainedStep& step) {
    ++steps_;
    loss_->add_point(step.step, step.loss);
    speed_->add_point(step.step, step.tokens_per_s);
    const auto text = [](double value) { return QString::fromStdString(cli::digits_text(value)); };
    state_->setText(tr("step %1: loss %2, gradient norm %3, %4, %5 tokens/s")
                        .arg(step.step)
                        .arg(step.loss, 0, 'g', 5)
                        .arg(text(step.grad_norm),
                             QString::fromStdString(cli::seconds_text(step.time_s)),
                             text(step.tokens_per_s)));
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
    const QString path = folder_.filePath(QStringLiteral("measured.orrery"));
    return !run_.is_running() && QFile::exists(path) ? path : QString();
}

}  // namespace orrery::gui
