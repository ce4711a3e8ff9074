#include "gui/scenario/training_run.hpp"

#include <csignal>

#include <nlohmann/json.hpp>

#include <QCoreApplication>
#include <QRegularExpression>

#include "plan/exit_code.hpp"
#include "trace/trace_file_error.hpp"

namespace orrery::gui {
namespace {

using nlohmann::json;

constexpr int kSignalled = 128;  // of an exit code: ended by a signal

double number(const json& event, const char* key) {
    const auto found = event.find(key);
    return found != event.end() && found->is_number() ? found->get<double>() : 0;
}

std::vector<double> numbers(const json& event, const char* key) {
    std::vector<double> all;
    if (const auto found = event.find(key); found != event.end() && found->is_array())
        for (const json& one : *found)
            all.push_back(one.is_number() ? one.get<double>() : 0);
    return all;
}

QString words_of(const json& event, const char* key) {
    const auto found = event.find(key);
    return found != event.end() && found->is_string()
               ? QString::fromStdString(found->get<std::string>())
               : QString();
}

QString verdict_of(int exit_code) {
    const auto say = [](const char* text) {
        return QCoreApplication::translate("TrainingRun", text);
    };
    switch (exit_code) {
        case kExitOk:
            return say(QT_TRANSLATE_NOOP("TrainingRun", "done"));
        case kExitInterrupted:
            return say(QT_TRANSLATE_NOOP("TrainingRun", "stopped"));
        case kExitInvalidScenario:
            return say(QT_TRANSLATE_NOOP("TrainingRun", "the scenario cannot be trained"));
        case kExitDevice:
            return say(QT_TRANSLATE_NOOP("TrainingRun", "a device or rank failed"));
        case kExitStorage:
            return say(QT_TRANSLATE_NOOP("TrainingRun", "a file could not be written"));
        case kSignalled + SIGKILL:
            return say(QT_TRANSLATE_NOOP("TrainingRun", "the process was killed"));
        default:
            break;
    }
    if (exit_code > kSignalled)
        return say(QT_TRANSLATE_NOOP("TrainingRun", "the process was killed by signal %1"))
            .arg(exit_code - kSignalled);
    return say(QT_TRANSLATE_NOOP("TrainingRun", "exit code %1")).arg(exit_code);
}

}  // namespace

QList<QByteArray> GrowingFile::lines() {
    more_ = false;
    if (!file_.isOpen() && !file_.open(QIODevice::ReadOnly)) return {};
    const QByteArray read = file_.read(kMostBytes);
    more_ = read.size() == kMostBytes;
    partial_ += read;
    QList<QByteArray> lines = partial_.split('\n');
    partial_ = lines.takeLast();
    return lines;
}

TrainingRun::TrainingRun(QObject* parent) : QObject(parent) {
    timer_.setInterval(kLookMs);
    connect(&timer_, &QTimer::timeout, this, &TrainingRun::look);
}

TrainingRun::~TrainingRun() = default;

void TrainingRun::start(RunRecord record) {
    let_go();
    if (const QString why = start_process(record); !why.isEmpty()) return Q_EMIT ended(why, false);
    QString not_kept;
    try {
        record.keep();
    } catch (const trace::TraceFileError& error) {
        not_kept = tr("The run cannot be found again when this window is closed: %1")
                       .arg(QString::fromLocal8Bit(error.what()));
    }
    follow(record);
    if (!not_kept.isEmpty()) Q_EMIT said(not_kept);
}

void TrainingRun::follow(const RunRecord& record) {
    let_go();
    record_ = record;
    events_.emplace(record.events);
    words_.reset();
    if (!record.words.isEmpty()) words_.emplace(record.words);
    last_words_.clear();
    said_its_end_ = interrupted_ = false;
    exit_code_.reset();
    following_ = true;
    timer_.start();
}

void TrainingRun::let_go() {
    timer_.stop();
    following_ = false;
}

void TrainingRun::stop() {
    if (can_be_stopped())
        kill(static_cast<pid_t>(record_.process.id),
             record_.stop_signal > 0 ? record_.stop_signal : SIGINT);
}

// Whether it has ended is asked first: what it has said is then there to be read.
void TrainingRun::look() {
    bool over = said_its_end_;
    if (record_.process.id > 0) {
        if (const std::optional<int> code = gui::exit_code_of(record_.process)) exit_code_ = code;
        over = exit_code_ || !record_.process.is_alive();
    }
    do {
        read();
        if (!following_) return;  // who heard something has let go
    } while (over && (events_->has_more() || (words_ && words_->has_more())));
    if (over) finish();
}

void TrainingRun::read() {
    for (const QByteArray& line : events_->lines()) {
        read_event(line);
        if (!following_) return;
    }
    if (!words_) return;
    for (const QByteArray& line : words_->lines())
        read_words(line);
}

void TrainingRun::read_event(const QByteArray& line) {
    if (line.trimmed().isEmpty()) return;
    const json event = json::parse(line.begin(), line.end(), nullptr, false);
    if (!event.is_object() || !event.contains("event") || !event["event"].is_string())
        return Q_EMIT said(QString::fromUtf8(line).trimmed());
    const std::string kind = event["event"].get<std::string>();
    if (kind == "step")
        return Q_EMIT stepped({static_cast<int>(number(event, "step")), number(event, "loss"),
                               number(event, "grad_norm"), number(event, "time_s"),
                               number(event, "tokens_per_s"), number(event, "mfu")});
    if (kind == "start") {
        Q_EMIT remembered({numbers(event, "arena_bytes_by_rank"), {}, {}});
        return Q_EMIT began(static_cast<int>(number(event, "steps")));
    }
    if (kind == "health") {
        const auto begins = event.find("begins");
        return Q_EMIT ailed(words_of(event, "message"),
                            begins == event.end() || *begins != json(false));
    }
    if (kind == "end") {
        said_its_end_ = true;
        const auto cut = event.find("interrupted");
        interrupted_ = cut != event.end() && *cut == json(true);
        const TrainedMemory memory{numbers(event, "arena_bytes_by_rank"),
                                   numbers(event, "high_water_bytes_by_rank"),
                                   numbers(event, "other_bytes_by_rank")};
        if (!memory.high_water.empty()) Q_EMIT remembered(memory);
        return;
    }
    if (kind == "error") {
        said_its_end_ = true;
        last_words_ = words_of(event, "message");
        if (event.contains("exit_code") && !exit_code_)
            exit_code_ = static_cast<int>(number(event, "exit_code"));
    }
    Q_EMIT said(QString::fromUtf8(line).trimmed());
}

void TrainingRun::read_words(const QByteArray& line) {
    static const QRegularExpression ends(QStringLiteral("[\r\n]+"));
    for (const QString& words : QString::fromUtf8(line).split(ends)) {
        if (words.trimmed().isEmpty()) continue;
        last_words_ = words.trimmed();
        Q_EMIT said(words);
    }
}

void TrainingRun::finish() {
    // Cut off where the process died.
    if (const QByteArray rest = events_->rest(); !rest.trimmed().isEmpty()) read_event(rest);
    if (words_) read_words(words_->rest());
    let_go();
    // Of a process that another program has started only its own words say how it ended.
    if (!exit_code_ && !said_its_end_)
        return Q_EMIT ended(
            tr("the process is gone and did not say why: it was killed, or its computer went. %1")
                .arg(last_words_),
            false);
    const int code = exit_code_.value_or(kExitOk);
    const bool well = code == kExitOk || code == kExitInterrupted;
    QString verdict = well && interrupted_ ? verdict_of(kExitInterrupted) : verdict_of(code);
    if (!well) verdict += QStringLiteral(": ") + last_words_;
    Q_EMIT ended(verdict, well);
}

}  // namespace orrery::gui
