#include "gui/window/export_file.hpp"

#include <functional>

#include <QFile>

#include "cli/launch_script.hpp"
#include "trace/atomic_file.hpp"

namespace orrery::gui {

const QString kPictureMark = QStringLiteral("Drawn by Orrery");

namespace {

std::string head_of(const std::string& path) {
    constexpr qint64 kHead = 1024;
    QFile file(QString::fromStdString(path));
    return file.open(QIODevice::ReadOnly) ? file.read(kHead).toStdString() : std::string();
}

cli::OutputKind file_of(const std::string& ending, const std::string& foreign,
                        std::function<bool(const std::string& head)> is) {
    cli::OutputKind kind;
    kind.foreign = [foreign, is = std::move(is)](const std::string& path) {
        return is(head_of(path)) ? std::string() : foreign;
    };
    kind.misnamed = [ending](const std::string& path) {
        return path.ends_with(ending) ? std::string() : "the name must end in " + ending;
    };
    return kind;
}

bool is_marked(const std::string& head) {
    return head.find(kPictureMark.toStdString()) != std::string::npos;
}

}  // namespace

cli::OutputKind png_file() {
    return file_of(".png", "exists, and is no picture of orrery", [](const std::string& head) {
        return head.starts_with("\x89PNG") && is_marked(head);
    });
}

cli::OutputKind svg_file() {
    return file_of(".svg", "exists, and is no picture of orrery", [](const std::string& head) {
        return head.find("<svg") != std::string::npos && is_marked(head);
    });
}

cli::OutputKind csv_file(const std::string& heads) {
    return file_of(".csv", "exists, and is another table",
                   [heads](const std::string& head) { return head.starts_with(heads); });
}

cli::OutputKind batch_script_file() {
    cli::OutputKind kind = file_of("", "exists, and is no script of orrery", cli::is_slurm_script);
    kind.misnamed = nullptr;  // any name is good
    return kind;
}

QString write_export(const QString& path, const cli::OutputKind& kind, const QByteArray& content) {
    const std::string target = path.toStdString();
    if (const cli::Objection objection = cli::objection_to(kind, target); !objection.why.empty())
        return path + QStringLiteral(": ") + QString::fromStdString(objection.why);
    try {
        trace::write_file(target, content.toStdString());
    } catch (const std::exception& error) {
        return QString::fromLocal8Bit(error.what());
    }
    return {};
}

}  // namespace orrery::gui
