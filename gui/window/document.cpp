#include "gui/window/document.hpp"

#include <QFileInfo>

#include "cli/output_kinds.hpp"
#include "plan/scenario/files.hpp"
#include "trace/atomic_file.hpp"
#include "trace/trace_file_error.hpp"

namespace orrery::gui {
namespace {

constexpr int kKeepAfterMs = 400;

std::optional<QString> read_file(const QString& path, QString& why) {
    std::string reason;
    const std::optional<std::string> text = plan::disk().read(path.toStdString(), reason);
    if (!text) {
        why = QString::fromStdString(reason);
        return std::nullopt;
    }
    return QString::fromStdString(*text);
}

}  // namespace

Document::Document(QPlainTextEdit* editor, const QString& recovery_folder, QObject* parent)
    : QObject(parent), editor_(editor), recovery_(recovery_folder) {
    keep_soon_.setSingleShot(true);
    keep_soon_.setInterval(kKeepAfterMs);
    connect(&keep_soon_, &QTimer::timeout, this, &Document::keep);
    connect(editor_, &QPlainTextEdit::textChanged, this, [this] {
        // Not restarted: who types without a pause is kept, too.
        if (!keep_soon_.isActive()) keep_soon_.start();
        Q_EMIT edited();
        Q_EMIT state_changed();
    });
}

void Document::keep() {
    try {
        if (is_saved())
            recovery_.forget();
        else
            recovery_.keep(path_, text());
    } catch (const std::exception& error) {
        Q_EMIT keeping_failed(QString::fromLocal8Bit(error.what()));
    }
}

QString Document::open(const QString& path) {
    QString why;
    const std::optional<QString> text = read_file(path, why);
    if (!text) return why;
    path_ = QFileInfo(path).absoluteFilePath();  // means the same to the next program
    saved_ = *text;
    editor_->setPlainText(*text);
    recovery_.forget();
    Q_EMIT state_changed();
    return {};
}

void Document::recover(const Unsaved& unsaved) {
    QString why;
    path_ = unsaved.path;
    saved_ = read_file(unsaved.path, why).value_or(QString());
    editor_->setPlainText(unsaved.text);
    keep();
    Recovery::discard(unsaved);
    Q_EMIT state_changed();
}

QString Document::objection(const QString& path) const {
    if (!QFileInfo::exists(path)) return {};
    QString why;
    const std::optional<QString> now = read_file(path, why);
    if (path == path_) {
        if (now && *now == saved_) return {};
        return now ? tr("another program has changed the file since it was read") : why;
    }
    return QString::fromStdString(cli::scenario_output().foreign(path.toStdString()));
}

QString Document::save(const QString& path) {
    try {
        // Of a symbolic link what it leads to.
        const QFileInfo there(path);
        const QString target = there.exists() ? there.canonicalFilePath() : path;
        trace::write_file(target.toStdString(), text().toStdString());
    } catch (const std::exception& error) {
        return QString::fromLocal8Bit(error.what());
    }
    path_ = QFileInfo(path).absoluteFilePath();
    saved_ = text();
    recovery_.forget();
    Q_EMIT state_changed();
    return {};
}

}  // namespace orrery::gui
