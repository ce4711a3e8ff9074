#include "gui/scenario/run_command.hpp"

#include <algorithm>

#include <QCoreApplication>
#include <QDir>
#include <QFileInfo>
#include <QRegularExpression>

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

// As many of a node's devices as there are ranks, where these need no whole one.
std::int64_t ranks_per_node(const Trainable& what) {
    return std::clamp<std::int64_t>(what.devices_per_node, 1,
                                    std::max<std::int64_t>(1, what.ranks));
}

QString quoted(QString word) {
    word.replace(QLatin1Char('\''), QStringLiteral("'\\''"));
    return QLatin1Char('\'') + word + QLatin1Char('\'');
}

}  // namespace

Trainable trainable_of(const QString& path, const plan::Scenario& scenario) {
    const QString whole = path.isEmpty() ? path : QFileInfo(path).absoluteFilePath();
    return {whole, scenario.layout.ranks(), scenario.cluster.devices_per_node,
            !scenario.run.checkpoint_path.empty()};
}

QStringList training_command(const RunChoice& choice, const Trainable& what, const QString& trace) {
    QStringList command;
    if (choice.place == RunPlace::hosts) {
        command << QStringLiteral("mpirun") << QStringLiteral("-n") << QString::number(what.ranks);
        if (!choice.hosts.isEmpty()) {
            const QString first = choice.hosts.section(QLatin1Char(','), 0, 0);
            // Where the first rank is, for ranks that speak over TCP.
            command << QStringLiteral("--host") << choice.hosts << QStringLiteral("-x")
                    << QStringLiteral("MASTER_ADDR=") + first.section(QLatin1Char(':'), 0, 0);
        }
    }
    command << program_of(choice.backend) << QStringLiteral("train") << what.path
            << QStringLiteral("--json");
    if (choice.backend != QLatin1String("cpu"))
        command << QStringLiteral("--backend") << choice.backend;
    if (choice.steps > 0) command << QStringLiteral("--steps") << QString::number(choice.steps);
    if (choice.resume) command << QStringLiteral("--resume");
    if (!trace.isEmpty()) command << QStringLiteral("--trace") << trace;
    return command;
}

QString slurm_script(const RunChoice& choice, const Trainable& what) {
    // A job's name is part of names of files, and of a line that no shell reads.
    static const QRegularExpression odd(QStringLiteral("[^A-Za-z0-9._-]"));
    const QString job = QFileInfo(what.path).completeBaseName().replace(odd, QStringLiteral("_"));
    const std::int64_t per_node = ranks_per_node(what);
    const std::int64_t nodes = (what.ranks + per_node - 1) / per_node;
    QStringList lines;
    const auto option = [&](const QString& text) { lines << QStringLiteral("#SBATCH ") + text; };
    lines << QStringLiteral("#!/bin/bash");
    option(QStringLiteral("--job-name=%1").arg(job));
    option(QStringLiteral("--nodes=%1").arg(nodes));
    option(QStringLiteral("--ntasks=%1").arg(what.ranks));
    option(QStringLiteral("--ntasks-per-node=%1").arg(per_node));
    if (choice.backend == kCuda) option(QStringLiteral("--gpus-per-node=%1").arg(per_node));
    option(QStringLiteral("--output=%1-%j.log").arg(job));
    lines << QStringLiteral(
        "# A minute before its time is up the run ends after its step, with a "
        "checkpoint where there are any.");
    option(QStringLiteral("--signal=USR1@60"));
    for (const QString& further : choice.sbatch_options.split(QLatin1Char(' '), Qt::SkipEmptyParts))
        option(further);
    RunChoice task = choice;
    task.place = RunPlace::slurm;
    task.resume = choice.resume || what.has_checkpoints;
    QString command;
    for (const QString& word : training_command(task, what, {}))
        command += QLatin1Char(' ') + shell_text({word});
    lines << QString() << QStringLiteral("set -euo pipefail")
          << QStringLiteral("srun%1 --trace \"%2-$SLURM_JOB_ID.orrery\" \\").arg(command, job)
          << QStringLiteral("    >\"%1-$SLURM_JOB_ID.jsonl\"").arg(job);
    return lines.join(QLatin1Char('\n')) + QLatin1Char('\n');
}

QString shell_text(const QStringList& command) {
    static const QRegularExpression plain(QStringLiteral("^[A-Za-z0-9_\\-./=,:+@%]+$"));
    QStringList words;
    for (const QString& word : command)
        words << (plain.match(word).hasMatch() ? word : quoted(word));
    return words.join(QLatin1Char(' '));
}

bool has_gpu() {
    return !QDir(QStringLiteral("/proc/driver/nvidia/gpus"))
                .entryList(QDir::Dirs | QDir::NoDotAndDotDot)
                .isEmpty();
}

}  // namespace orrery::gui
