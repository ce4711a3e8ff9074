// Pictures of the window for whoever looks at it, and for docs/: written where ORRERY_SCREENSHOTS
// names a folder, else only drawn.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <QImage>
#include <QLineEdit>
#include <QPushButton>

#include "gui/scenario/json_places.hpp"
#include "tests/gui/window_world.hpp"
#include "tests/trace/kineto_file.hpp"

namespace orrery::gui {
namespace ORRERY_TEST_FILE {

QPalette dark_palette() {
    QPalette palette;
    const QColor ground(30, 32, 37), raised(44, 47, 54), ink(226, 228, 232);
    palette.setColor(QPalette::Window, raised);
    palette.setColor(QPalette::WindowText, ink);
    palette.setColor(QPalette::Base, ground);
    palette.setColor(QPalette::AlternateBase, raised);
    palette.setColor(QPalette::Text, ink);
    palette.setColor(QPalette::Button, raised);
    palette.setColor(QPalette::ButtonText, ink);
    palette.setColor(QPalette::PlaceholderText, QColor(140, 144, 152));
    palette.setColor(QPalette::Highlight, QColor(64, 132, 214));
    palette.setColor(QPalette::HighlightedText, Qt::white);
    palette.setColor(QPalette::ToolTipBase, raised);
    palette.setColor(QPalette::ToolTipText, ink);
    return palette;
}

// With its 256 most frequent colours: a quarter of the bytes, and nobody sees a difference.
QImage of_few_colours(const QImage& picture) {
    std::map<QRgb, int> counts;
    for (int y = 0; y < picture.height(); ++y)
        for (int x = 0; x < picture.width(); ++x)
            ++counts[picture.pixel(x, y)];
    std::vector<std::pair<int, QRgb>> colours;
    for (const auto& [colour, count] : counts)
        colours.emplace_back(count, colour);
    std::sort(colours.rbegin(), colours.rend());
    QList<QRgb> table;
    for (std::size_t i = 0; i < std::min<std::size_t>(colours.size(), 256); ++i)
        table.push_back(colours[i].second);
    return picture.convertToFormat(QImage::Format_Indexed8, table);
}

void keep(QWidget& widget, const std::string& name) {
    QTest::qWait(100);
    const QImage picture = widget.grab().toImage();
    EXPECT_FALSE(picture.isNull());
    const QString folder = qEnvironmentVariable("ORRERY_SCREENSHOTS");
    if (folder.isEmpty()) return;
    EXPECT_TRUE(
        of_few_colours(picture).save(folder + QLatin1Char('/') + QString::fromStdString(name)));
}

class Screenshots : public testing::TestWithParam<bool> {
  protected:
    void SetUp() override {
        before_ = QApplication::palette();
        if (GetParam()) QApplication::setPalette(dark_palette());
    }
    void TearDown() override { QApplication::setPalette(before_); }
    std::string look() const { return GetParam() ? "dark" : "light"; }

  private:
    QPalette before_;
};

TEST_P(Screenshots, AStepOfManyStages) {
    WindowWorld world;
    world.open(shipped("gpt3-175b-a100x1024"));
    keep(*world.window, "whole-" + look() + ".png");
    TimelineView& timeline = world.window->timeline();
    // A backward pass of the fourth stage, and what is around it.
    const std::vector<Span>& boxes = timeline.timeline()->ranks()[3].outline.spans();
    std::size_t number = 0;
    while (boxes[number].kind != Kind::backward)
        ++number;
    timeline.select(BoxPlace{3, std::nullopt, number});
    world.key(Qt::Key_F);
    for (int i = 0; i < 3; ++i)
        world.key(Qt::Key_S);
    world.key(Qt::Key_E);  // its streams
    keep(*world.window, "zoomed-" + look() + ".png");
}

TEST_P(Screenshots, TheCriticalPathAndTransfers) {
    WindowWorld world;
    world.open(shipped("gpt3-175b-a100x1024"));
    ASSERT_TRUE(until([&] { return world.window->has_page(); }));
    TimelineView& timeline = world.window->timeline();
    world.key(Qt::Key_P);
    keep(*world.window, "path-whole-" + look() + ".png");
    // The first backward pass of the fourth stage, with what it waited for.
    const std::vector<Span>& boxes = timeline.timeline()->ranks()[3].outline.spans();
    std::size_t number = 0;
    while (boxes[number].kind != Kind::backward)
        ++number;
    timeline.select(BoxPlace{3, std::nullopt, number});
    world.key(Qt::Key_F);
    for (int i = 0; i < 3; ++i)
        world.key(Qt::Key_S);
    keep(*world.window, "path-zoomed-" + look() + ".png");
}

TEST_P(Screenshots, ErrorsAndTheirFixes) {
    WindowWorld world({1280, 720});
    world.open(shipped("gpt3-175b-a100x1024"));
    QString text = world.window->document().text();
    text.replace(QStringLiteral("\"pipeline_parallel\": 8"),
                 QStringLiteral("\"pipeline_parallel\": 7"));
    world.window->editor().replace_text(text);
    world.settle();
    keep(*world.window, "errors-" + look() + ".png");
}

TEST_P(Screenshots, AnAreaOfASmallRun) {
    WindowWorld world({1280, 720});
    world.open(shipped("tiny-gpt"));
    world.window->timeline().select_area(Area{
        {world.scene().view.shown().length() / 4, world.scene().view.shown().length() / 2}, {0}});
    keep(*world.window, "area-" + look() + ".png");
}

// GPT-3 as it is shipped, held below what becomes of it by another schedule, fewer sequences, and
// these edits.
void open_beside_another(WindowWorld& world,
                         const std::vector<std::pair<QString, QString>>& edits = {}) {
    world.open(shipped("gpt3-175b-a100x1024"));
    QTest::keyClick(world.window.get(), Qt::Key_H, Qt::ControlModifier);
    QString text = world.window->document().text();
    text.replace(QStringLiteral("1536"), QStringLiteral("256"));
    text.replace(QStringLiteral("\"1f1b\""), QStringLiteral("\"zb-h1\""));
    for (const auto& [from, to] : edits)
        text.replace(from, to);
    world.window->editor().replace_text(text);
    world.settle();
}

TEST_P(Screenshots, TwoSchedules) {
    WindowWorld world;
    open_beside_another(world);
    keep(*world.window, "compare-" + look() + ".png");
    world.window->document().forget_unsaved();
}

// The same, laid over each other, from far and from near.
TEST_P(Screenshots, TwoStepsLaidOverEachOther) {
    WindowWorld world;
    open_beside_another(world);
    TimelineView& timeline = world.window->timeline();
    world.key(Qt::Key_V);
    keep(*world.window, "overlay-" + look() + ".png");
    const std::vector<Span>& boxes = timeline.timeline()->ranks()[0].outline.spans();
    const auto box = std::find_if(boxes.begin(), boxes.end(), [](const Span& span) {
        return span.kind == Kind::input_gradient;
    });
    ASSERT_NE(box, boxes.end()) << boxes.size() << " boxes";
    timeline.select(BoxPlace{0, std::nullopt, static_cast<std::size_t>(box - boxes.begin())});
    world.key(Qt::Key_E);
    world.key(Qt::Key_F);
    for (int i = 0; i < 3; ++i)
        world.key(Qt::Key_S);
    keep(*world.window, "overlay-zoomed-" + look() + ".png");
    world.key(Qt::Key_C);
    keep(*world.window, "overlay-difference-" + look() + ".png");
    world.window->document().forget_unsaved();
}

// Larger shares of each layer, and another schedule: from far, and an op from near.
TEST_P(Screenshots, TwoStepsByTheirDifference) {
    WindowWorld world;
    open_beside_another(world, {{QStringLiteral("\"tensor_parallel\": 8"),
                                 QStringLiteral("\"tensor_parallel\": 4")}});
    TimelineView& timeline = world.window->timeline();
    world.key(Qt::Key_C);
    keep(*world.window, "difference-" + look() + ".png");
    ASSERT_GT(timeline.timeline()->ranks().size(), 1u);
    const std::vector<Span>& boxes = timeline.timeline()->ranks()[1].outline.spans();
    const auto box = std::find_if(boxes.begin(), boxes.end(), [](const Span& span) {
        return span.kind == Kind::input_gradient;
    });
    ASSERT_NE(box, boxes.end()) << boxes.size() << " boxes";
    timeline.select(BoxPlace{1, std::nullopt, static_cast<std::size_t>(box - boxes.begin())});
    timeline.go_to(*timeline.selected_op());
    world.key(Qt::Key_O);
    QTest::keyClick(&world.window->held_timeline(), Qt::Key_O);
    world.key(Qt::Key_F);
    for (int i = 0; i < 6; ++i)
        world.key(Qt::Key_S);
    QTest::keyClick(world.window.get(), Qt::Key_4, Qt::ControlModifier);
    keep(*world.window, "difference-zoomed-" + look() + ".png");
    world.window->document().forget_unsaved();
}

TEST_P(Screenshots, ASearch) {
    WindowWorld world;
    world.open(shipped("llama3-70b-h100x256"));
    QTest::keyClick(world.window.get(), Qt::Key_9, Qt::ControlModifier);
    SearchPane& pane = world.window->search_pane();
    for (auto* button : pane.findChildren<QPushButton*>())
        if (button->text() == QStringLiteral("Search layouts")) button->click();
    ASSERT_TRUE(until([&] { return !pane.is_running() && pane.found() != nullptr; }));
    keep(*world.window, "search-" + look() + ".png");
}

TEST_P(Screenshots, ASweep) {
    WindowWorld world;
    world.open(shipped("llama3-70b-h100x256"));
    QTest::keyClick(world.window.get(), Qt::Key_0, Qt::ControlModifier);
    SweepPane& pane = world.window->sweep_pane();
    QTest::keyClicks(&pane.vary(), QStringLiteral("cluster.inter_node.bandwidth_Gbps=50..800*2"));
    QTest::keyClick(&pane.vary(), Qt::Key_Return);
    ASSERT_TRUE(until([&] { return !pane.is_running() && pane.found() != nullptr; }));
    keep(*world.window, "sweep-" + look() + ".png");
}

TEST_P(Screenshots, ASizing) {
    WindowWorld world({2560, 1440});
    world.open(shipped("tiny-gpt"));
    QTest::keyClick(world.window.get(), Qt::Key_G, Qt::ControlModifier);
    SizePane& pane = world.window->size_pane();
    const std::pair<const char*, const char*> typed[] = {
        {"Clusters of the library", "clusters/h100-sxm-256.json"}, {"Tokens of the run", "1e13"}};
    for (const auto& [field, text] : typed)
        for (auto* edit : pane.findChildren<QLineEdit*>())
            if (edit->accessibleName() == QLatin1String(field))
                QTest::keyClicks(edit, QLatin1String(text));
    QTest::keyClicks(&pane.gpus(), QStringLiteral("8..64*2"));
    QTest::keyClick(&pane.gpus(), Qt::Key_Return);
    ASSERT_TRUE(until([&] { return !pane.is_running(); }));
    pane.deadline().setValue(100);
    keep(*world.window, "size-" + look() + ".png");
}

TEST_P(Screenshots, DaysOfARun) {
    for (const auto& [width, height] : {std::pair(1440, 860), std::pair(2200, 1100)}) {
        WindowWorld world({width, height});
        const std::string path = world.copy_of("llama3.1-405b-h100x16384");
        const std::string text = *with_setting(content(path), "reliability", "llama3-405b");
        std::ofstream(path) << text;
        world.open(path);
        QTest::keyClick(world.window.get(), Qt::Key_T, Qt::ControlModifier);
        ASSERT_TRUE(until([&] { return !world.window->days_pane().is_running(); }));
        keep(*world.window, "days-" + std::to_string(width) + '-' + look() + ".png");
    }
}

TEST_P(Screenshots, WhatARunDoesNotSay) {
    WindowWorld world;
    const std::string path = world.copy_of("gpt3-175b-a100x1024");
    const std::string text = *with_setting(content(path), "training.tokens", "0");
    std::ofstream(path) << text;
    world.open(path);
    QTest::keyClick(world.window.get(), Qt::Key_T, Qt::ControlModifier);
    ASSERT_TRUE(until([&] { return !world.window->days_pane().is_running(); }));
    keep(*world.window, "days-missing-" + look() + ".png");
}

TEST_P(Screenshots, ARecordedTrace) {
    WindowWorld world;
    const std::string path = world.file("rank0.pt.trace.json");
    std::ofstream(path) << trace::kKinetoFile;
    world.open(path);
    world.key(Qt::Key_E, Qt::ShiftModifier);
    world.window->timeline().go_to({0, 1});
    keep(*world.window, "recorded-" + look() + ".png");
}

TEST_P(Screenshots, UnfoldedRanks) {
    WindowWorld world;
    const std::string path = world.copy_of("gpt3-175b-a100x1024");
    std::string text = content(path);
    text.replace(text.find("1536"), 4, "64");
    std::ofstream(path) << text;
    world.open(path);
    QTest::keyClick(world.window.get(), Qt::Key_U, Qt::ControlModifier);
    world.settle();
    world.key(Qt::Key_G);
    keep(*world.window, "unfolded-" + look() + ".png");
}

TEST_P(Screenshots, ARun) {
    WindowWorld world({1280, 720});
    world.open(shipped("tiny-gpt"));
    QTest::keyClick(world.window.get(), Qt::Key_7, Qt::ControlModifier);
    for (auto* button : world.window->launch().findChildren<QPushButton*>())
        if (button->text() == QStringLiteral("Start")) button->click();
    ASSERT_TRUE(until([&] { return !world.window->launch().is_running(); }));
    keep(*world.window, "run-" + look() + ".png");
    for (auto* button : world.window->launch().findChildren<QPushButton*>())
        if (button->text() == QStringLiteral("Show the measured step")) button->click();
    ASSERT_TRUE(until([&] { return !world.window->is_reading(); }));
    keep(*world.window, "measured-" + look() + ".png");
}

INSTANTIATE_TEST_SUITE_P(Looks, Screenshots, testing::Bool(),
                         [](const auto& look) { return look.param ? "Dark" : "Light"; });

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::gui
