// The points of a search's front, under the mouse and by keys.
#include <QPushButton>

#include "cli/quantity.hpp"
#include "cli/scenario_lines.hpp"
#include "cli/search_report.hpp"
#include "gui/window/front_chart.hpp"
#include "tests/gui/window_world.hpp"

namespace orrery::gui {
namespace ORRERY_TEST_FILE {

class Front : public testing::Test {
  protected:
    void SetUp() override {
        world_.open(world_.copy_of("tiny-gpt"));
        QTest::keyClick(world_.window.get(), Qt::Key_9, Qt::ControlModifier);
        pane().findChildren<QPushButton*>().front()->click();
        ASSERT_TRUE(until([&] { return !pane().is_running() && pane().found() != nullptr; }));
        ASSERT_EQ(pane().found()->failure, "");
        QTest::qWait(50);  // the chart has its place
    }
    void TearDown() override { world_.window->document().forget_unsaved(); }

    SearchPane& pane() { return world_.window->search_pane(); }
    FrontChart& chart() { return pane().front(); }
    const sim::SearchResult& result() { return pane().found()->result; }
    // What the editor has then, as it is read.
    std::string layout_in_editor() {
        const std::string path = world_.file("tried.json");
        std::ofstream(path) << world_.window->document().text().toStdString();
        const plan::ReadResult read =
            plan::read_scenario(path, {}, std::string(ORRERY_SOURCE_DIR) + "/scenarios");
        return read.scenario ? cli::layout_line(read.scenario->layout) : "not sound";
    }
    bool is_alone(int point) {
        for (int other = 0; other < chart().points(); ++other)
            if (other != point && chart().place_of(other) == chart().place_of(point)) return false;
        return true;
    }

    WindowWorld world_;
};

TEST_F(Front, APricedPointSaysItsLayoutAndAClickTriesIt) {
    const auto front = static_cast<int>(result().pareto.size());
    ASSERT_EQ(chart().points(), front + static_cast<int>(result().layouts.size()));
    int point = 0;
    while (point < front && !is_alone(point))
        ++point;
    ASSERT_LT(point, front);
    const std::string layout = cli::layout_line(
        cli::scenario_of(pane().found()->search, result().pareto[static_cast<std::size_t>(point)])
            .layout);
    QTest::mouseMove(chart().viewport(), chart().place_of(point));
    ASSERT_TRUE(until([&] { return chart().pointed() == point; }));
    EXPECT_NE(chart().accessibleDescription().toStdString().find(layout), std::string::npos)
        << chart().accessibleDescription().toStdString();
    QTest::mouseClick(chart().viewport(), Qt::LeftButton, {}, chart().place_of(point));
    world_.settle();
    EXPECT_EQ(layout_in_editor(), layout);
}

TEST_F(Front, ASimulatedPointIsTriedByKeys) {
    const auto front = static_cast<int>(result().pareto.size());
    chart().setFocus();
    for (int i = 0; i <= front; ++i)  // the first beyond the front
        QTest::keyClick(&chart(), Qt::Key_Right);
    EXPECT_EQ(chart().pointed(), front);
    QTest::keyClick(&chart(), Qt::Key_Return);
    world_.settle();
    EXPECT_EQ(world_.window->overview().step_time().toStdString(),
              cli::seconds_text(result().layouts.front().prediction.step.time_s));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::gui
