// A key and its values, as `orrery sweep` predicts them, and one of them in the editor.
#include <algorithm>

#include <QClipboard>
#include <QComboBox>
#include <QLineEdit>
#include <QPushButton>

#include "cli/quantity.hpp"
#include "gui/window/sweep_chart.hpp"
#include "gui/window/table_csv.hpp"
#include "tests/gui/window_world.hpp"

namespace orrery::gui {
namespace ORRERY_TEST_FILE {

class SweepPanel : public testing::Test {
  protected:
    void SetUp() override {
        world_.open(shipped("tiny-gpt"));
        QTest::keyClick(world_.window.get(), Qt::Key_0, Qt::ControlModifier);
    }
    void TearDown() override { world_.window->document().forget_unsaved(); }

    SweepPane& pane() { return world_.window->sweep_pane(); }
    void begin(const QString& vary) {
        pane().vary().setFocus();
        pane().vary().selectAll();
        QTest::keyClicks(&pane().vary(), vary);
        QTest::keyClick(&pane().vary(), Qt::Key_Return);
    }
    void await() {
        ASSERT_TRUE(until([&] { return !pane().is_running() && pane().found() != nullptr; }));
    }
    // As the command line predicts it; nothing where it is no valid scenario.
    static std::optional<sim::Prediction> predicted(const std::string& set) {
        const plan::ReadResult read = plan::read_scenario(
            shipped("tiny-gpt"), {set}, std::string(ORRERY_SOURCE_DIR) + "/scenarios");
        if (!read.scenario) return std::nullopt;
        return sim::simulate(*read.scenario, sim::load_profiles(read.scenario->cluster), {},
                             read.resolved_json);
    }

    WindowWorld world_;
};

TEST_F(SweepPanel, HasTheStepOfEachValueAndSaysWhatIsNotSound) {
    begin(QStringLiteral("layout.micro_batch_size=1,2,3,4"));
    await();
    ASSERT_EQ(pane().found()->failure, "");
    ASSERT_EQ(pane().table().rowCount(), 4);
    int sound = 0;
    for (int row = 0; row < 4; ++row) {
        const auto step = predicted("layout.micro_batch_size=" + std::to_string(row + 1));
        EXPECT_EQ(pane().table().item(row, 0)->text(), QString::number(row + 1));
        EXPECT_EQ(pane().table().item(row, 1)->text().toStdString(),
                  step ? cli::seconds_text(step->step.time_s) : "-");
        EXPECT_NE(pane().table().item(row, 6)->text(), QString());  // fits, or why there is none
        sound += step ? 1 : 0;
    }
    ASSERT_GT(sound, 1);
    ASSERT_LT(sound, 4);  // 3 divides no batch here
    EXPECT_EQ(pane().chart().points(), sound);
    // The same points by every metric that the step has.
    for (int metric = 0; metric < 5; ++metric) {
        pane().metric_box().setCurrentIndex(metric);
        EXPECT_EQ(pane().chart().points(), sound) << metric;
    }
}

TEST_F(SweepPanel, APointThatIsClickedIsOpenedInTheEditor) {
    begin(QStringLiteral("layout.micro_batch_size=1,2,3,4"));
    await();
    QTest::qWait(50);  // the chart has its place
    const int last = pane().chart().points() - 1;
    QTest::mouseClick(pane().chart().viewport(), Qt::LeftButton, {}, pane().chart().place_of(last));
    world_.settle();
    EXPECT_TRUE(
        world_.window->document().text().contains(QStringLiteral("\"micro_batch_size\": 4")));
    EXPECT_EQ(world_.window->overview().step_time(), pane().table().item(3, 1)->text());
    // So is a row.
    Q_EMIT pane().table().cellActivated(0, 0);
    world_.settle();
    EXPECT_EQ(world_.window->overview().step_time(), pane().table().item(0, 1)->text());
}

TEST_F(SweepPanel, SweepsWhatTheEditorShowsThoughItIsNotSaved) {
    QString text = world_.window->document().text();
    text.replace(QStringLiteral("\"1f1b\""), QStringLiteral("\"gpipe\""));
    world_.window->editor().replace_text(text);
    world_.settle();
    begin(QStringLiteral("layout.micro_batch_size=1"));
    await();
    ASSERT_EQ(pane().found()->points.size(), 1U);
    ASSERT_TRUE(pane().found()->points[0].scenario) << pane().found()->points[0].why;
    EXPECT_EQ(pane().found()->points[0].scenario->layout.schedule, "gpipe");
}

TEST_F(SweepPanel, SaysWhatIsWrongWithTheValues) {
    begin(QStringLiteral("layout.micro_batch_size"));
    await();
    EXPECT_TRUE(pane().state().contains(QStringLiteral("KEY=VALUES is expected")))
        << pane().state().toStdString();
    EXPECT_EQ(pane().table().rowCount(), 0);
}

TEST_F(SweepPanel, IsStopped) {
    constexpr std::size_t kValues = 5000;
    begin(QStringLiteral("cluster.inter_node.latency_us=1..%1").arg(kValues));
    for (auto* button : pane().findChildren<QPushButton*>())
        if (button->text() == QStringLiteral("Stop the sweep")) button->click();
    await();
    EXPECT_TRUE(pane().found()->stopped);
    EXPECT_LT(pane().found()->points.size(), kValues);
    EXPECT_TRUE(pane().state().startsWith(QStringLiteral("stopped")));
}

TEST_F(SweepPanel, CopiesTheFileOfTheCommandLine) {
    begin(QStringLiteral("layout.micro_batch_size=1,2"));
    await();
    pane().table().setFocus();
    QTest::keyClick(&pane().table(), Qt::Key_C, Qt::ControlModifier | Qt::ShiftModifier);
    const std::string copied = QApplication::clipboard()->text().toStdString();
    EXPECT_TRUE(cli::is_sweep_csv(copied)) << copied;
    EXPECT_EQ(std::count(copied.begin(), copied.end(), '\n'), 3);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::gui
