// Trains the scenario: the command, its loss, gradient norm and speed as they come, what it says,
// stop and resume, and the measured step; here, on hosts, or by a script for Slurm. A run goes on
// when the window closes, and is attached to again.
#pragma once

#include <functional>
#include <vector>

#include <QAction>
#include <QWidget>

#include "gui/scenario/run_command.hpp"
#include "gui/scenario/training_run.hpp"

class QBoxLayout;
class QComboBox;
class QLabel;
class QLineEdit;
class QPlainTextEdit;
class QSpinBox;

namespace orrery::gui {

class LiveChart;

class LaunchPane : public QWidget {
    Q_OBJECT

  public:
    // `trainable`: what the editor shows, where a file holds it. `runs_folder`: where runs keep
    // what they say.
    LaunchPane(std::function<Trainable()> trainable, QString runs_folder,
               QWidget* parent = nullptr);

    void refresh();  // the scenario, or whether it is saved, has changed
    bool is_running() const { return run_.is_running(); }
    int steps_seen() const { return steps_; }
    QString verdict() const;
    QString measured_trace() const;  // empty until there is one
    const RunRecord& record() const { return run_.record(); }
    // In the order of the menu.
    const std::vector<QAction*>& run_actions() const { return actions_; }
    const QString& runs_folder() const { return runs_folder_; }

    void attach(const RunRecord& record);
    // Of those that this program's user has started, the newest that goes on and is not followed.
    std::optional<RunRecord> going_on() const;
    // Empty, or why not.
    QString save_script(const QString& path) const;

  Q_SIGNALS:
    void measured(const QString& trace);     // to be shown
    void attached(const QString& scenario);  // of the run
    void failed(const QString& message);

  private:
    void make_choices();
    void make_actions();
    QAction* add_action(const QString& text, const QKeySequence& key, void (LaunchPane::*does)());
    void add_buttons(QBoxLayout& row);
    void watch_run();
    void clear_run();

    void start();
    void resume();
    void stop();
    void let_go();
    void ask_attach();
    void ask_file();
    void ask_script();
    void show_measured();

    void begin(bool resume);
    void show_step(const TrainedStep& step);
    void show_memory(const TrainedMemory& memory);
    void show_end(const QString& verdict, bool well);
    RunChoice choice(bool resume) const;

    std::function<Trainable()> trainable_;
    QString runs_folder_;
    TrainingRun run_;
    int steps_ = 0;
    QComboBox *place_, *backend_;
    QLineEdit *hosts_, *sbatch_, *command_;
    QSpinBox* wanted_;
    QAction *start_ = nullptr, *resume_ = nullptr, *stop_ = nullptr, *let_go_ = nullptr,
            *attach_ = nullptr, *script_ = nullptr, *show_ = nullptr;
    std::vector<QAction*> actions_;
    QLabel *state_, *memory_;
    LiveChart *loss_, *norm_, *speed_;
    QPlainTextEdit* log_;
};

}  // namespace orrery::gui
