// A window that holds a step and shows the same with more recomputation.
#pragma once

#include "tests/gui/window_world.hpp"

namespace orrery::gui {

class BesideAHeldStep : public testing::Test {
  protected:
    BesideAHeldStep() {
        const std::string path = world.copy_of("tiny-gpt");
        std::string text = content(path);
        world.open(path);
        QTest::keyClick(world.window.get(), Qt::Key_H, Qt::ControlModifier);
        const std::size_t at = text.find("\"layout\": {") + 11;
        text.insert(at, R"("recompute": "full", )");
        world.window->editor().replace_text(QString::fromStdString(text));
        world.settle();
    }
    ~BesideAHeldStep() override { world.window->document().forget_unsaved(); }

    TimelineView& above() { return world.window->timeline(); }
    TimelineView& held() { return world.window->held_timeline(); }

    WindowWorld world;
};

}  // namespace orrery::gui
