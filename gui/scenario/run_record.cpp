#include "gui/scenario/run_record.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <system_error>

#include <nlohmann/json.hpp>

#include <QCoreApplication>
#include <QDir>
#include <QFile>
#include <QFileInfo>

#include "trace/atomic_file.hpp"
#include "trace/trace_file_error.hpp"

namespace orrery::gui {
namespace {

using nlohmann::json;

const QString kRecord = QStringLiteral("run.json");

// The state and the start of a process, from /proc/ID/stat: "ID (name) S …", where the name may
// hold anything.
std::optional<std::pair<char, std::uint64_t>> state_of(std::int64_t id) {
    QFile stat(QStringLiteral("/proc/%1/stat").arg(id));
    if (!stat.open(QIODevice::ReadOnly)) return std::nullopt;
    const QByteArray text = stat.readAll();
    const QList<QByteArray> fields = text.mid(text.lastIndexOf(')') + 2).split(' ');
    constexpr int kStart = 22 - 3;  // the third field, the state, is the first behind the name
    if (fields.size() <= kStart || fields[0].isEmpty()) return std::nullopt;
    return std::pair(fields[0][0], fields[kStart].toULongLong());
}

void place_files(RunRecord& record) {
    record.events = record.folder + QStringLiteral("/events.jsonl");
    record.words = record.folder + QStringLiteral("/log.txt");
    record.trace = record.folder + QStringLiteral("/measured.orrery");
}

std::optional<RunRecord> read_record(const QString& folder) {
    QFile in(folder + QLatin1Char('/') + kRecord);
    if (!in.open(QIODevice::ReadOnly)) return std::nullopt;
    const QByteArray bytes = in.readAll();
    const json content = json::parse(bytes.begin(), bytes.end(), nullptr, false);
    if (!content.is_object()) return std::nullopt;
    RunRecord record;
    record.folder = folder;
    place_files(record);
    try {
        record.scenario = QString::fromStdString(content.at("scenario").get<std::string>());
        for (const json& word : content.at("command"))
            record.command << QString::fromStdString(word.get<std::string>());
        record.begun = QDateTime::fromMSecsSinceEpoch(content.at("begun_ms").get<std::int64_t>());
        record.stop_signal = content.at("stop_signal").get<int>();
        record.process.id = content.at("process").get<std::int64_t>();
        record.process.since = content.at("process_since").get<std::uint64_t>();
    } catch (const json::exception&) {
        return std::nullopt;
    }
    return record;
}

void drop_old(const QString& runs) {
    std::size_t ended = 0;
    for (const RunRecord& record : RunRecord::all_in(runs))
        if (!record.process.is_alive() && ++ended > RunRecord::kKept)
            QDir(record.folder).removeRecursively();
}

struct FileActions {
    FileActions() { ::posix_spawn_file_actions_init(&actions); }
    ~FileActions() { ::posix_spawn_file_actions_destroy(&actions); }
    FileActions(const FileActions&) = delete;
    FileActions& operator=(const FileActions&) = delete;
    void open(int descriptor, const QByteArray& path, int flags) {
        constexpr mode_t kMode = 0644;
        ::posix_spawn_file_actions_addopen(&actions, descriptor, path.constData(), flags, kMode);
    }

    posix_spawn_file_actions_t actions{};
};

struct SpawnAttributes {
    SpawnAttributes() {
        ::posix_spawnattr_init(&attributes);
        // A session of its own: what ends this program's terminal does not reach it. Signals that
        // this program blocks or ignores mean to it what they mean to any other.
        sigset_t none, all;
        ::sigemptyset(&none);
        ::sigfillset(&all);
        ::posix_spawnattr_setsigmask(&attributes, &none);
        ::posix_spawnattr_setsigdefault(&attributes, &all);
        ::posix_spawnattr_setflags(
            &attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    ~SpawnAttributes() { ::posix_spawnattr_destroy(&attributes); }
    SpawnAttributes(const SpawnAttributes&) = delete;
    SpawnAttributes& operator=(const SpawnAttributes&) = delete;

    posix_spawnattr_t attributes{};
};

}  // namespace

bool RunProcess::is_alive() const {
    if (id <= 0) return false;
    const auto state = state_of(id);
    if (!state || state->second != since) return false;
    if (state->first != 'Z') return true;
    // Its first thread has ended; what it holds is free once all have.
    const QDir threads(QStringLiteral("/proc/%1/task").arg(id));
    return threads.entryList(QDir::Dirs | QDir::NoDotAndDotDot).size() > 1;
}

RunProcess RunProcess::of(std::int64_t id) {
    const auto state = state_of(id);
    return {id, state ? state->second : 0};
}

RunRecord RunRecord::fresh(const QString& runs) {
    drop_old(runs);
    RunRecord record;
    record.begun = QDateTime::currentDateTime();
    const QString stem = QStringLiteral("%1/%2-%3")
                             .arg(runs, record.begun.toString(QStringLiteral("yyyyMMdd-hhmmss")))
                             .arg(QCoreApplication::applicationPid());
    QDir().mkpath(runs);
    // mkdir tells of one that is there already: no two runs have one folder.
    for (int number = 0;; ++number) {
        record.folder = QStringLiteral("%1-%2").arg(stem).arg(number);
        if (QDir().mkdir(record.folder)) break;
        if (!QFileInfo::exists(record.folder))
            throw trace::TraceFileError(trace::TraceFault::storage, record.folder.toStdString(),
                                        "cannot be made");
    }
    place_files(record);
    return record;
}

RunRecord RunRecord::of_events(const QString& file) {
    RunRecord record;
    record.events = file;
    record.begun = QFileInfo(file).birthTime();
    // Where a script for Slurm has the measured step go (run_command.hpp).
    record.trace = QFileInfo(file).path() + QLatin1Char('/') + QFileInfo(file).completeBaseName() +
                   QStringLiteral(".orrery");
    return record;
}

std::vector<RunRecord> RunRecord::all_in(const QString& runs) {
    std::vector<RunRecord> found;
    for (const QFileInfo& folder :
         QDir(runs).entryInfoList(QDir::Dirs | QDir::NoDotAndDotDot, QDir::Name | QDir::Reversed))
        if (std::optional<RunRecord> record = read_record(folder.filePath()))
            found.push_back(std::move(*record));
    return found;
}

void RunRecord::keep() const {
    json typed = json::array();
    for (const QString& word : command)
        typed.push_back(word.toStdString());
    const json content = {{"scenario", scenario.toStdString()},
                          {"command", std::move(typed)},
                          {"begun_ms", begun.toMSecsSinceEpoch()},
                          {"stop_signal", stop_signal},
                          {"process", process.id},
                          {"process_since", process.since}};
    trace::write_file((folder + QLatin1Char('/') + kRecord).toStdString(), content.dump() + '\n');
}

QString start_process(RunRecord& record) {
    std::vector<QByteArray> words;
    for (const QString& word : record.command)
        words.push_back(QFile::encodeName(word));
    std::vector<char*> arguments;
    for (QByteArray& word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    FileActions files;
    files.open(STDIN_FILENO, "/dev/null", O_RDONLY);
    files.open(STDOUT_FILENO, QFile::encodeName(record.events), O_WRONLY | O_CREAT | O_TRUNC);
    files.open(STDERR_FILENO, QFile::encodeName(record.words), O_WRONLY | O_CREAT | O_TRUNC);
    const SpawnAttributes attributes;
    pid_t id = 0;
    const int failed = ::posix_spawnp(&id, arguments.front(), &files.actions,
                                      &attributes.attributes, arguments.data(), ::environ);
    if (failed != 0)
        return record.command.front() + QStringLiteral(": ") +
               QString::fromStdString(std::generic_category().message(failed));
    record.process = RunProcess::of(id);
    return {};
}

std::optional<int> exit_code_of(const RunProcess& process) {
    if (process.id <= 0) return std::nullopt;
    int status = 0;
    pid_t got = 0;
    do
        got = ::waitpid(static_cast<pid_t>(process.id), &status, WNOHANG);
    while (got < 0 && errno == EINTR);
    if (got != static_cast<pid_t>(process.id)) return std::nullopt;
    constexpr int kSignalled = 128;
    return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace orrery::gui
