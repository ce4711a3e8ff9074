// Clusters for a run, as `orrery size` has them; sliders judge them, a click opens one.
#include <QLineEdit>
#include <QPushButton>
#include <QTableWidget>

#include "cli/quantity.hpp"
#include "gui/window/sweep_chart.hpp"
#include "tests/gui/window_world.hpp"

namespace orrery::gui {
namespace ORRERY_TEST_FILE {

class SizePanel : public testing::Test {
  protected:
    void SetUp() override {
        world_.open(shipped("tiny-gpt"));
        QTest::keyClick(world_.window.get(), Qt::Key_G, Qt::ControlModifier);
    }
    void TearDown() override { world_.window->document().forget_unsaved(); }

    SizePane& pane() { return world_.window->size_pane(); }
    QLineEdit& field(const QString& name) {
        for (auto* edit : pane().findChildren<QLineEdit*>())
            if (edit->accessibleName() == name) return *edit;
        throw std::logic_error(name.toStdString());
    }
    void begin(const QString& gpus, const QString& tokens) {
        ASSERT_TRUE(pane().gpus().hasFocus());
        QTest::keyClicks(&pane().gpus(), gpus);
        QTest::keyClicks(&field(QStringLiteral("Clusters of the library")),
                         QStringLiteral("clusters/h100-sxm-256.json"));
        QTest::keyClicks(&field(QStringLiteral("Tokens of the run")), tokens);
        QTest::keyClick(&pane().gpus(), Qt::Key_Return);
        ASSERT_TRUE(until([&] { return !pane().is_running(); }));
    }
    QString cell(int row, const char* head) {
        for (int column = 0; column < pane().table().columnCount(); ++column)
            if (pane().table().horizontalHeaderItem(column)->text() == QLatin1String(head))
                return pane().table().item(row, column)->text();
        return QStringLiteral("no such column");
    }

    WindowWorld world_;
};

// The step that the table's days follow from is that of the scenario which a click opens.
TEST_F(SizePanel, ASlidersBoundJudgesAndAClickOpensTheCluster) {
    begin(QStringLiteral("8,16,32"), QStringLiteral("1e13"));
    ASSERT_NE(pane().found(), nullptr) << pane().state().toStdString();
    std::vector<cli::SizeOption>& options = pane().found()->sizing.options;
    ASSERT_EQ(options.size(), 3U);
    ASSERT_EQ(pane().table().rowCount(), 3);
    ASSERT_TRUE(options[0].best) << options[0].why;
    ASSERT_TRUE(options[2].best) << options[2].why;
    EXPECT_EQ(cell(0, "days").toStdString(), cli::digits_text(options[0].days()));
    EXPECT_EQ(cell(0, "in bounds"), QStringLiteral("yes"));
    EXPECT_TRUE(pane().verdict().contains(QStringLiteral("smallest")));
    // The hardest deadline nothing meets; what is nearest is said as the command line says it.
    pane().deadline().setFocus();
    QTest::keyClick(&pane().deadline(), Qt::Key_Home);
    for (int row = 0; row < 3; ++row)
        EXPECT_EQ(cell(row, "in bounds"), QStringLiteral("no")) << row;
    EXPECT_TRUE(pane().verdict().contains(QStringLiteral("the fastest takes")))
        << pane().verdict().toStdString();
    // Key by key until the fastest meets it, which the slowest does not yet.
    for (int i = 0; i < 200 && !cli::smallest(options); ++i)
        QTest::keyClick(&pane().deadline(), Qt::Key_Right);
    const auto fastest = cli::fastest(options);
    ASSERT_TRUE(fastest);
    EXPECT_LE(options[*fastest].days(), *pane().deadline().bound());
    QTest::keyClick(&pane().deadline(), Qt::Key_End);
    EXPECT_FALSE(pane().deadline().bound());
    EXPECT_EQ(cell(0, "in bounds"), QStringLiteral("yes"));

    ASSERT_EQ(pane().chart().points(), 3);
    QTest::qWait(50);  // the chart has its place
    QTest::mouseClick(pane().chart().viewport(), Qt::LeftButton, {}, pane().chart().place_of(2));
    world_.settle();
    EXPECT_EQ(world_.window->overview().step_time().toStdString(),
              cli::seconds_text(options[2].best->prediction.step.time_s));
}

TEST_F(SizePanel, SaysWhatIsWrongWithTheQuestion) {
    begin(QStringLiteral("many"), QStringLiteral("1e9"));
    EXPECT_EQ(pane().found(), nullptr);
    EXPECT_TRUE(pane().state().contains(QStringLiteral("whole numbers above 0")))
        << pane().state().toStdString();
    EXPECT_EQ(pane().table().rowCount(), 0);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::gui
