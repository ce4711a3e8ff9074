#include "gui/scenario/recovery.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

#include <QCoreApplication>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QStandardPaths>

#include "trace/atomic_file.hpp"

namespace orrery::gui {
namespace {

using nlohmann::json;

constexpr const char* kEnding = ".unsaved";

std::unique_ptr<QLockFile> lock_of(const QString& file) {
    auto lock = std::make_unique<QLockFile>(file + QStringLiteral(".lock"));
    lock->setStaleLockTime(0);  // stale when its process is gone, however long ago it began
    return lock;
}

std::optional<Unsaved> read(const QString& file) {
    QFile in(file);
    if (!in.open(QIODevice::ReadOnly)) return std::nullopt;
    const QByteArray bytes = in.readAll();
    const json content = json::parse(bytes.begin(), bytes.end(), nullptr, false);
    if (!content.is_object() || !content.contains("path") || !content.contains("text") ||
        !content["path"].is_string() || !content["text"].is_string())
        return std::nullopt;
    return Unsaved{QString::fromStdString(content["path"].get<std::string>()),
                   QString::fromStdString(content["text"].get<std::string>()),
                   QFileInfo(file).lastModified(), file};
}

}  // namespace

Recovery::Recovery(QString folder) : folder_(std::move(folder)) {}

Recovery::~Recovery() {
    forget();
}

void Recovery::keep(const QString& path, const QString& text) {
    if (!lock_) {
        QDir().mkpath(folder_);
        for (int number = 0;; ++number) {
            file_ = QStringLiteral("%1/%2-%3%4")
                        .arg(folder_)
                        .arg(QCoreApplication::applicationPid())
                        .arg(number)
                        .arg(QLatin1String(kEnding));
            lock_ = lock_of(file_);
            if (!QFile::exists(file_) && lock_->tryLock(0)) break;
            // No lock to be had for another reason: the file is kept all the same.
            if (!QFile::exists(file_) && lock_->error() != QLockFile::LockFailedError) break;
        }
    }
    const json content = {{"path", path.toStdString()}, {"text", text.toStdString()}};
    trace::write_file(file_.toStdString(), content.dump() + '\n');
}

void Recovery::forget() {
    if (!lock_) return;
    QFile::remove(file_);
    lock_.reset();
}

std::vector<Unsaved> Recovery::left_behind(const QString& folder) {
    std::vector<Unsaved> found;
    const QStringList pattern{QStringLiteral("*%1").arg(QLatin1String(kEnding))};
    for (const QFileInfo& file : QDir(folder).entryInfoList(pattern, QDir::Files)) {
        const std::unique_ptr<QLockFile> lock = lock_of(file.filePath());
        if (!lock->tryLock(0) && lock->error() == QLockFile::LockFailedError) continue;
        if (std::optional<Unsaved> unsaved = read(file.filePath()))
            found.push_back(std::move(*unsaved));
    }
    std::sort(found.begin(), found.end(),
              [](const Unsaved& a, const Unsaved& b) { return a.time > b.time; });
    return found;
}

void Recovery::discard(const Unsaved& unsaved) {
    QFile::remove(unsaved.file);
}

QString Recovery::default_folder() {
    return QStandardPaths::writableLocation(QStandardPaths::AppDataLocation) +
           QStringLiteral("/unsaved");
}

}  // namespace orrery::gui
