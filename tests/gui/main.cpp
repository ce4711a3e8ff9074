// Tests of the desktop application need an application object, but no screen: Qt draws into memory
// unless QT_QPA_PLATFORM names another platform.
#include <gtest/gtest.h>

#include <QApplication>

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
    QApplication application(argc, argv);
    QApplication::setApplicationName(QStringLiteral("orrery-test"));
    return RUN_ALL_TESTS();
}
