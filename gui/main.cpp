// orrery-gui [SCENARIO|TRACE]: the desktop application.
#include <cstdio>

#include <QApplication>
#include <QCommandLineParser>
#include <QIcon>
#include <QStyleFactory>

#include "gui/window/main_window.hpp"
#include "plan/exit_code.hpp"
#include "trace/program_version.hpp"

namespace {

// Qt would abort, with words about its plugins.
bool has_display() {
    for (const char* variable : {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"})
        if (!qEnvironmentVariableIsEmpty(variable)) return true;
    return false;
}

}  // namespace

int main(int argc, char** argv) {
    QCoreApplication::setApplicationName(QStringLiteral("orrery"));
    QCoreApplication::setApplicationVersion(
        QString::fromStdString(std::string(orrery::program_version())));
    QCommandLineParser arguments;
    arguments.setApplicationDescription(
        QStringLiteral("Shows what a training step will do, or what one has done."));
    const QCommandLineOption help = arguments.addHelpOption();
    const QCommandLineOption version = arguments.addVersionOption();
    arguments.addPositionalArgument(QStringLiteral("file"),
                                    QStringLiteral("A scenario, or a trace of orrery."),
                                    QStringLiteral("[SCENARIO|TRACE]"));
    if (!has_display()) {
        const QCoreApplication without_window(argc, argv);
        arguments.parse(QCoreApplication::arguments());
        if (arguments.isSet(help)) arguments.showHelp();
        if (arguments.isSet(version)) arguments.showVersion();
        std::fputs(
            "orrery gui: no display (neither DISPLAY nor WAYLAND_DISPLAY is set); over ssh: ssh "
            "-X\n",
            stderr);
        return orrery::kExitDevice;
    }
    QApplication application(argc, argv);
    QApplication::setDesktopFileName(QStringLiteral("orrery"));
    QApplication::setWindowIcon(QIcon::fromTheme(QStringLiteral("orrery")));
    arguments.process(application);
    const QStringList files = arguments.positionalArguments();
    if (files.size() > 1) {
        std::fputs("orrery gui: one file at a time\n", stderr);
        return orrery::kExitUsage;
    }
    orrery::gui::MainWindow window(orrery::gui::Recovery::default_folder());
    window.show();
    if (!files.isEmpty()) window.open(files.front());
    window.offer_unsaved();
    return QApplication::exec();
}
