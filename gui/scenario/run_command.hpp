// How a scenario is trained: the command that starts it here or on hosts, and the script that has
// Slurm start it. Both are shown as they are: what a person would type (docs/train.md).
#pragma once

#include <cstdint>

#include <QStringList>

#include "plan/scenario/scenario.hpp"

namespace orrery::gui {

// Where ranks are: threads of a process of this computer, processes that Open MPI's mpirun starts
// on hosts, tasks of a job of Slurm's.
enum class RunPlace { here, hosts, slurm };

// What is to be trained: a scenario as it is saved.
struct Trainable {
    QString path;  // of its file; empty: it has none that holds what the editor shows
    std::int64_t ranks = 0;
    std::int64_t devices_per_node = 1;
    bool has_checkpoints = false;

    bool is_ready() const { return !path.isEmpty() && ranks > 0; }
};
Trainable trainable_of(const QString& path, const plan::Scenario& scenario);

struct RunChoice {
    RunPlace place = RunPlace::here;
    QString backend = QStringLiteral("cpu");
    QString hosts;           // of mpirun's --host: "node01:8,node02:8"; empty: this computer
    QString sbatch_options;  // further ones: "--partition=gpu --time=12:00:00"
    int steps = 0;           // 0: as the scenario says
    bool resume = false;
};

// The program and its arguments: orrery-run where one of this backend is built, else the wrapper,
// which builds it first. Of RunPlace::slurm what each task is. `trace`: where the measured step
// goes; empty: nowhere.
QStringList training_command(const RunChoice& choice, const Trainable& what, const QString& trace);

// For sbatch, by cli/launch_script. Its event lines are what TrainingRun::follow reads.
QString slurm_script(const RunChoice& choice, const Trainable& what);

// As a person would type it into a shell.
QString shell_text(const QStringList& command);

// NVIDIA's driver shows a device on this computer.
bool has_gpu();

}  // namespace orrery::gui
