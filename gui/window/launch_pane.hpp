// Trains the scenario on this computer: the command, its loss and speed as they come, what it says,
// stop and resume, and the measured step.
#pragma once

#include <functional>

#include <QTemporaryDir>
#include <QWidget>

#include "gui/scenario/training_run.hpp"

class QLabel;
class QLineEdit;
class QPlainTextEdit;
class QPushButton;
class QSpinBox;

namespace orrery::gui {

class LiveChart;

class LaunchPane : public QWidget {
    Q_OBJECT

  public:
    // `saved_path`: the file that holds what the editor shows; empty where none does.
    explicit LaunchPane(std::function<QString()> saved_path, QWidget* parent = nullptr);

    void refresh();  // the scenario, or whether it is saved, has changed
    bool is_running() const { return run_.is_running(); }
    int steps_seen() const { return steps_; }
    QString verdict() const;
    QString measured_trace() const;  // empty until there is one

  Q_SIGNALS:
    void measured(const QString& trace);  // to be shown

  private:
    void start(bool resume);
    void show_step(const TrainedStep& step);
    void show_end(const QString& verdict, bool well);
    QStringList command(bool resume) const;

    std::function<QString()> saved_path_;
    TrainingRun run_;
    QTemporaryDir folder_;
    int steps_ = 0;
    QLineEdit* command_;
    QSpinBox* wanted_;
    QPushButton *start_, *resume_, *stop_, *show_;
    QLabel* state_;
    LiveChart *loss_, *speed_;
    QPlainTextEdit* log_;
};

}  // namespace orrery::gui
