#include "gui/scenario/training_run.hpp"

#include <csignal>

#include <nlohmann/json.hpp>

#include <QCoreApplication>
#include <QDir>
#include <QFileInfo>
#include <QRegularExpression>

#include "cli/scenario_input.hpp"
#include "plan/exit_code.hpp"

namespace orrery::gui {
namespace {

using nlohmann::json;

double number(const json& event, const char* key) {
    const auto found = event.find(key);
    return found != event.end() && found->is_number() ? found->get<double>() : 0;
}

QString verdict_of(int exit_code) {
    switch (exit_code) {
        case kExitOk:
            return QCoreApplication::translate("TrainingRun", "done");
        case kExitInterrupted:
            return QCoreApplication::translate("TrainingRun", "stopped");
        case kExitInvalidScenario:
            return QCoreApplication::translate("TrainingRun", "the scenario cannot be trained");
        case kExitDevice:
            return QCoreApplication::translate("TrainingRun", "a device or rank failed");
        case kExitStorage:
            return QCoreApplication::translate("TrainingRun", "a file could not be written");
        default:
            return QCoreApplication::translate("TrainingRun", "exit code %1").arg(exit_code);
    }
}

}  // namespace

TrainingRun::TrainingRun(QObject* parent) : QObject(parent) {
    connect(&process_, &QProcess::readyReadStandardOutput, this, &TrainingRun::read_events);
    connect(&process_, &QProcess::readyReadStandardError, this, &TrainingRun::read_words);
    connect(&process_, &QProcess::finished, this, &TrainingRun::finish);
    connect(&process_, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
        if (error == QProcess::FailedToStart) Q_EMIT ended(process_.errorString(), false);
    });
}

TrainingRun::~TrainingRun() {
    process_.disconnect(this);
    if (!is_running()) return;
    constexpr int kPatienceMs = 10'000;
    stop();
    if (!process_.waitForFinished(kPatienceMs)) process_.kill();
    process_.waitForFinished();
}

QStringList TrainingRun::command(const QString& scenario, int steps, bool resume,
                                 const QString& trace) {
    QStringList command;
    const QString beside = QCoreApplication::applicationDirPath() + QStringLiteral("/orrery-run");
    if (QFileInfo(beside).isExecutable())
        command << beside;
    else
        command << QDir::cleanPath(QString::fromStdString(cli::library_folder()) +
                                   QStringLiteral("/../orrery"));
    command << QStringLiteral("train") << scenario << QStringLiteral("--json");
    if (steps > 0) command << QStringLiteral("--steps") << QString::number(steps);
    if (resume) command << QStringLiteral("--resume");
    if (!trace.isEmpty()) command << QStringLiteral("--trace") << trace;
    return command;
}

void TrainingRun::start(const QStringList& command) {
    last_words_.clear();
    interrupted_ = false;
    process_.start(command.front(), command.mid(1));
}

void TrainingRun::stop() {
    if (is_running() && process_.processId() > 0)
        kill(static_cast<pid_t>(process_.processId()), SIGINT);
}

void TrainingRun::read_events() {
    while (process_.canReadLine())
        read_event(process_.readLine());
}

void TrainingRun::read_event(const QByteArray& line) {
    const json event = json::parse(line.begin(), line.end(), nullptr, false);
    if (!event.is_object() || !event.contains("event") || !event["event"].is_string())
        return Q_EMIT said(QString::fromUtf8(line).trimmed());
    const std::string kind = event["event"].get<std::string>();
    if (kind == "step")
        return Q_EMIT stepped({static_cast<int>(number(event, "step")), number(event, "loss"),
                               number(event, "grad_norm"), number(event, "time_s"),
                               number(event, "tokens_per_s"), number(event, "mfu")});
    if (kind == "start") return Q_EMIT began(static_cast<int>(number(event, "steps")));
    if (kind == "end") {
        interrupted_ = event.value("interrupted", false);
        return;
    }
    if (kind == "error") last_words_ = QString::fromStdString(event.value("message", ""));
    Q_EMIT said(QString::fromUtf8(line).trimmed());
}

void TrainingRun::read_words() {
    const QString words = QString::fromUtf8(process_.readAllStandardError());
    for (const QString& line : words.split(QRegularExpression(QStringLiteral("[\r\n]+")))) {
        if (line.trimmed().isEmpty()) continue;
        last_words_ = line.trimmed();
        Q_EMIT said(line);
    }
}

void TrainingRun::finish() {
    read_events();
    if (const QByteArray rest = process_.readAllStandardOutput(); !rest.trimmed().isEmpty())
        read_event(rest);  // cut off where the process died
    read_words();
    if (process_.exitStatus() == QProcess::CrashExit)
        return Q_EMIT ended(tr("the process was killed. %1").arg(last_words_), false);
    const int code = process_.exitCode();
    const bool well = code == kExitOk || code == kExitInterrupted;
    QString verdict = well && interrupted_ ? verdict_of(kExitInterrupted) : verdict_of(code);
    if (!well) verdict += QStringLiteral(": ") + last_words_;
    Q_EMIT ended(verdict, well);
}

QString shell_text(const QStringList& command) {
    static const QRegularExpression plain(QStringLiteral("^[A-Za-z0-9_\\-./=,:+@%]+$"));
    QStringList words;
    for (QString word : command) {
        if (plain.match(word).hasMatch()) {
            words << word;
            continue;
        }
        word.replace(QLatin1Char('\''), QStringLiteral("'\\''"));
        words << QLatin1Char('\'') + word + QLatin1Char('\'');
    }
    return words.join(QLatin1Char(' '));
}

}  // namespace orrery::gui
