#include "gui/scenario/run_command.hpp"

#include <string>
#include <vector>

#include <QCoreApplication>
#include <QDir>
#include <QFileInfo>

#include "cli/launch_script.hpp"
#include "cli/scenario_input.hpp"

namespace orrery::gui {
namespace {

const QString kCuda = QStringLiteral("cuda");

// The program that performs runs on a backend: beside this one, or where the preset of its name
// builds it; else the wrapper.
QString program_of(const QString& backend) {
    const QString root =
        QDir::cleanPath(QString::fromStdString(cli::library_folder()) + QStringLiteral("/.."));
    const QString built =
        backend == kCuda ? root + QStringLiteral("/build/cuda/bin/orrery-run")
                         : QCoreApplication::applicationDirPath() + QStringLiteral("/orrery-run");
    return QFileInfo(built).isExecutable() ? built : root + QStringLiteral("/orrery");
}

cli::LaunchedRun launched(const RunChoice& choice, const Trainable& what) {
    cli::LaunchedRun run;
    run.program = program_of(choice.backend).toStdString();
    run.scenario = what.path.toStdString();
    run.ranks = what.ranks;
    run.devices_per_node = what.devices_per_node;
    run.backend = choice.backend.toStdString();
    run.steps = choice.steps;
    run.resume = choice.resume;
    run.hosts = choice.hosts.toStdString();
    run.sbatch_options = choice.sbatch_options.toStdString();
    run.has_checkpoints = what.has_checkpoints;
    return run;
}

cli::Launcher launcher_of(RunPlace place) {
    if (place == RunPlace::hosts) return cli::Launcher::mpirun;
    return place == RunPlace::slurm ? cli::Launcher::slurm : cli::Launcher::threads;
}

}  // namespace

Trainable trainable_of(const QString& path, const plan::Scenario& scenario) {
    const QString whole = path.isEmpty() ? path : QFileInfo(path).absoluteFilePath();
    return {whole, scenario.layout.ranks(), scenario.cluster.devices_per_node,
            !scenario.run.checkpoint_path.empty()};
}

QStringList training_command(const RunChoice& choice, const Trainable& what, const QString& trace) {
    QStringList command;
    for (const std::string& word : cli::training_command(
             launched(choice, what), launcher_of(choice.place), trace.toStdString()))
        command << QString::fromStdString(word);
    return command;
}

QString slurm_script(const RunChoice& choice, const Trainable& what) {
    return QString::fromStdString(cli::slurm_script(launched(choice, what)));
}

QString shell_text(const QStringList& command) {
    std::vector<std::string> words;
    for (const QString& word : command)
        words.push_back(word.toStdString());
    return QString::fromStdString(cli::shell_text(words));
}

bool has_gpu() {
    return !QDir(QStringLiteral("/proc/driver/nvidia/gpus"))
                .entryList(QDir::Dirs | QDir::NoDotAndDotDot)
                .isEmpty();
}

}  // namespace orrery::gui
