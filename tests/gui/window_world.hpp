// A window as a user has it, in a folder of its own, driven by mouse and keys.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include <QApplication>
#include <QPushButton>
#include <QTest>

#include "gui/window/main_window.hpp"

namespace orrery::gui {

inline std::string shipped(const std::string& run) {
    return std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/" + run + ".json";
}

inline std::string content(const std::string& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

// How long a machine may take that does other things besides: no test is about time.
inline constexpr int kPatienceMs = 60'000;

inline bool until(const std::function<bool()>& done) {
    return QTest::qWaitFor(done, kPatienceMs);
}

inline QPushButton* button_of(QWidget& pane, const QString& text) {
    for (auto* button : pane.findChildren<QPushButton*>())
        if (button->text() == text) return button;
    return nullptr;
}

class WindowWorld {
  public:
    explicit WindowWorld(QSize size = QSize(1440, 860))
        : folder_(std::filesystem::path(testing::TempDir()) /
                  testing::UnitTest::GetInstance()->current_test_info()->name()) {
        std::filesystem::create_directories(folder_);
        make_window(size);
    }

    // A copy of a shipped run beside the library's models and clusters, so that it can be written.
    std::string copy_of(const std::string& run) {
        const std::string path = file(run + ".json");
        std::ofstream(path) << content(shipped(run));
        return path;
    }
    std::string file(const std::string& name) const { return (folder_ / name).string(); }
    QString unsaved_folder() const { return QString::fromStdString(file("unsaved")); }

    void open(const std::string& path) {
        ASSERT_TRUE(window->open(QString::fromStdString(path))) << window->message().toStdString();
        settle();
    }
    // All that was typed has been answered.
    void settle() {
        QTest::qWait(0);
        ASSERT_TRUE(until([this] {
            return !window->is_simulating() && !window->is_reading() && !window->is_comparing();
        }));
    }

    QWidget* canvas() { return window->timeline().viewport(); }
    const Scene& scene() { return window->timeline().scene(); }
    void key(Qt::Key key, Qt::KeyboardModifiers modifiers = Qt::NoModifier) {
        QTest::keyClick(&window->timeline(), key, modifiers);
    }

    void make_window(QSize size) {
        window = std::make_unique<MainWindow>(unsaved_folder());
        window->resize(size);
        window->show();
        window->activateWindow();
        ASSERT_TRUE(QTest::qWaitForWindowActive(window.get()));
        window->timeline().setFocus();
    }

    std::unique_ptr<MainWindow> window;

  private:
    std::filesystem::path folder_;
};

}  // namespace orrery::gui
