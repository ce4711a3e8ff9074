// The window driven as a user drives it, by mouse and keys: every shipped scenario, an edit and its
// undo, a fix, zoom, selections.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include <QImage>
#include <QSvgRenderer>

#include "cli/quantity.hpp"
#include "gui/scenario/json_places.hpp"
#include "sim/prediction.hpp"
#include "tests/gui/window_world.hpp"
#include "tests/several_nodes.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::gui {
namespace ORRERY_TEST_FILE {

// As the command line predicts it.
std::string step_of(const std::string& run, const std::vector<std::string>& sets) {
    const plan::ReadResult read =
        plan::read_scenario(shipped(run), sets, std::string(ORRERY_SOURCE_DIR) + "/scenarios");
    const sim::Profile profile = sim::load_profiles(read.scenario->cluster);
    return cli::seconds_text(
        sim::simulate(*read.scenario, profile, {}, read.resolved_json).step.time_s);
}

std::string shown_step(WindowWorld& world) {
    return world.window->overview().step_time().toStdString();
}

// Types `text` in place of what is found.
void type_over(JsonEditor& editor, const QString& found, const QString& text) {
    QTextCursor cursor = editor.document()->find(found);
    ASSERT_FALSE(cursor.isNull()) << found.toStdString();
    editor.setTextCursor(cursor);
    editor.setFocus();
    QTest::keyClicks(&editor, text);
}

class ShippedRun : public testing::TestWithParam<std::string> {};

TEST_P(ShippedRun, OpensWithTheStepThatTheCommandLinePredicts) {
    if (on_several_nodes(shipped(GetParam())) && std::getenv("ORRERY_EVERY_RUN") == nullptr)
        GTEST_SKIP() << "at night";
    WindowWorld world;
    world.open(shipped(GetParam()));
    EXPECT_EQ(shown_step(world), step_of(GetParam(), {}));
    EXPECT_EQ(world.window->message(), QString());
    EXPECT_EQ(world.window->problems().model().rowCount(), 0);
    ASSERT_NE(world.window->timeline().timeline(), nullptr);
    EXPECT_EQ(world.window->timeline().timeline()->without_events(), 0U);
    EXPECT_FALSE(world.window->grab().isNull());
}

std::vector<std::string> shipped_runs() {
    std::vector<std::string> runs;
    for (const auto& file :
         std::filesystem::directory_iterator(std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs"))
        if (file.path().extension() == ".json") runs.push_back(file.path().stem().string());
    std::sort(runs.begin(), runs.end());
    return runs;
}

INSTANTIATE_TEST_SUITE_P(Each, ShippedRun, testing::ValuesIn(shipped_runs()), [](const auto& run) {
    std::string name = run.param;
    std::replace_if(
        name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    return name;
});

TEST(Driven, AnEditChangesTheStepAndUndoTakesItBack) {
    WindowWorld world;
    world.open(shipped("tiny-gpt"));
    const std::string before = step_of("tiny-gpt", {});
    ASSERT_EQ(shown_step(world), before);
    type_over(world.window->editor(), QStringLiteral("\"1f1b\""), QStringLiteral("\"gpipe\""));
    world.settle();
    const std::string after = step_of("tiny-gpt", {"layout.schedule=gpipe"});
    ASSERT_NE(after, before);
    EXPECT_EQ(shown_step(world), after);
    QTest::keyClick(&world.window->editor(), Qt::Key_Z, Qt::ControlModifier);
    while (world.window->document().text().toStdString() != content(shipped("tiny-gpt")))
        QTest::keyClick(&world.window->editor(), Qt::Key_Z, Qt::ControlModifier);
    world.settle();
    EXPECT_EQ(shown_step(world), before);
    EXPECT_TRUE(world.window->document().is_saved());
}

TEST(Driven, AnErrorIsListedAndItsFixTakesAClick) {
    WindowWorld world;
    world.open(shipped("gpt3-175b-a100x1024"));
    const std::string before = shown_step(world);
    type_over(world.window->editor(), QStringLiteral("\"pipeline_parallel\": 8"),
              QStringLiteral("\"pipeline_parallel\": 7"));
    world.settle();
    ASSERT_EQ(world.window->problems().model().rowCount(), 1);
    EXPECT_EQ(world.window->problems().model().at(0).code, "S012");
    EXPECT_EQ(shown_step(world), before);  // the last that was sound
    QPushButton* fix = nullptr;
    ASSERT_TRUE(until([&] {  // is shown when its layout next comes to its turn
        for (auto* button : world.window->problems().findChildren<QPushButton*>())
            if (button->isVisible() &&
                button->text().endsWith(QStringLiteral("pipeline_parallel: 8")))
                fix = button;
        return fix != nullptr;
    }));
    QTest::mouseClick(fix, Qt::LeftButton);
    world.settle();
    EXPECT_EQ(world.window->problems().model().rowCount(), 0);
    EXPECT_EQ(shown_step(world), before);
}

TEST(Driven, OnlyTheLastOfManyEditsIsAnswered) {
    WindowWorld world;
    world.open(shipped("gpt3-175b-a100x1024"));
    const QString text = world.window->document().text();
    for (const char* batch : {"1520", "1504", "1488", "1024"}) {
        QString changed = text;
        changed.replace(QStringLiteral("1536"), QLatin1String(batch));
        world.window->editor().replace_text(changed);
        QTest::qWait(50);
    }
    world.settle();
    EXPECT_EQ(shown_step(world), step_of("gpt3-175b-a100x1024", {"layout.global_batch_size=1024"}));
}

TEST(Driven, KeysZoomMoveAndShowAll) {
    WindowWorld world;
    world.open(shipped("gpt3-175b-a100x1024"));
    const Stretch all = world.scene().view.shown();
    world.key(Qt::Key_W);
    const Stretch in = world.scene().view.shown();
    EXPECT_LT(in.length(), all.length());
    world.key(Qt::Key_D);
    EXPECT_GT(world.scene().view.shown().from, in.from);
    EXPECT_EQ(world.scene().view.shown().length(), in.length());
    world.key(Qt::Key_A);
    EXPECT_EQ(world.scene().view.shown(), in);
    world.key(Qt::Key_S);
    EXPECT_EQ(world.scene().view.shown().length(), all.length());
    world.key(Qt::Key_W);
    world.key(Qt::Key_0);
    EXPECT_EQ(world.scene().view.shown(), all);
}

TEST(Driven, LettersAreTextInTheEditor) {
    WindowWorld world;
    world.open(shipped("tiny-gpt"));
    const Stretch all = world.scene().view.shown();
    world.window->editor().setFocus();
    QTest::keyClicks(&world.window->editor(), QStringLiteral("wasdq/?"));
    EXPECT_TRUE(world.window->document().text().startsWith(QStringLiteral("wasdq/?")));
    EXPECT_EQ(world.scene().view.shown(), all);
    world.window->document().forget_unsaved();
}

TEST(Driven, ADraggedAreaAddsUpToItsTime) {
    WindowWorld world;
    world.open(shipped("gpt3-175b-a100x1024"));
    const QRect rows = world.window->timeline().place_of_rows();
    const QPoint from(rows.left() + 100, rows.top() + Rows::kGap + 2);
    const QPoint to(rows.left() + 300, from.y() + 2 * (Rows::kRankHeight + Rows::kGap));
    QTest::mousePress(world.canvas(), Qt::LeftButton, {}, from);
    QTest::mouseMove(world.canvas(), (from + to) / 2);
    QTest::mouseMove(world.canvas(), to);
    QTest::mouseRelease(world.canvas(), Qt::LeftButton, {}, to);
    ASSERT_TRUE(world.scene().area);
    EXPECT_EQ(world.scene().area->ranks, (std::vector<std::size_t>{0, 1, 2}));
    EXPECT_EQ(world.scene().area->stretch,
              (Stretch{world.scene().view.time_at(100), world.scene().view.time_at(300)}));
    const Aggregate aggregate =
        aggregate_of(*world.window->timeline().timeline(), *world.scene().area);
    QTableWidget& table = world.window->details().table();
    ASSERT_EQ(table.rowCount(), static_cast<int>(aggregate.kinds.size()) + 1);
    Picoseconds sum = 0;
    for (const KindTime& kind : aggregate.kinds)
        sum += kind.time;
    EXPECT_EQ(sum, aggregate.selected);
    EXPECT_EQ(sum, 3 * world.scene().area->stretch.length());
}

TEST(Driven, AClickSelectsAnActionAndKeysFollowWhatItWaitedFor) {
    WindowWorld world;
    world.open(shipped("tiny-gpt"));
    const Timeline& timeline = *world.window->timeline().timeline();
    const Lane& outline = timeline.ranks()[1].outline;
    std::size_t number = 0;  // an action that is wide enough to be hit
    while (outline.spans()[number].index < 0)
        ++number;
    const Span& span = outline.spans()[number];
    const QRect rows = world.window->timeline().place_of_rows();
    const double middle =
        (world.scene().view.x_of(span.from) + world.scene().view.x_of(span.to)) / 2;
    const QPoint place(rows.left() + static_cast<int>(middle),
                       rows.top() + Rows::kGap + Rows::kRankHeight + Rows::kGap + 4);
    QTest::mouseClick(world.canvas(), Qt::LeftButton, {}, place);
    ASSERT_EQ(world.scene().selected, (BoxPlace{1, std::nullopt, number}));
    world.key(Qt::Key_Period);
    EXPECT_EQ(world.scene().selected, (BoxPlace{1, std::nullopt, number + 1}));
    world.key(Qt::Key_Comma);
    world.key(Qt::Key_F);
    EXPECT_LT(world.scene().view.shown().length(), 4 * (span.to - span.from));
    const OpPlace op = *world.window->timeline().selected_op();
    const std::int32_t blocker =
        timeline.track_of(1).events[static_cast<std::size_t>(op.event)].blocker;
    ASSERT_GE(blocker, 0);
    world.key(Qt::Key_BracketLeft);
    EXPECT_EQ(world.window->timeline().selected_op(), (OpPlace{1, blocker}));
    EXPECT_TRUE(world.scene().rows->is_open(1));
    world.key(Qt::Key_Escape);
    EXPECT_FALSE(world.scene().selected);
}

// They are the file's, not the window's, and the file has none of them.
TEST(Driven, MarksAreThereAgainWhenTheFileIsOpenedAgain) {
    WindowWorld world;
    const std::string run = world.copy_of("tiny-gpt");
    const std::string before = content(run);
    std::filesystem::remove(world.file("marks.json"));
    world.open(run);
    const QRect rows = world.window->timeline().place_of_rows();
    for (const int x : {120, 300}) {
        // A server of windows tells of the pointer in its own time.
        const std::optional<Picoseconds> there = world.scene().cursor;
        QTest::mouseMove(world.canvas(), QPoint(rows.left() + x, rows.bottom() - 2));
        ASSERT_TRUE(until([&] { return world.scene().cursor && world.scene().cursor != there; }));
        world.key(Qt::Key_M);
    }
    const std::vector<Picoseconds> marks = world.window->timeline().marks();
    ASSERT_EQ(marks.size(), 2U);
    // An edit leaves them.
    type_over(world.window->editor(), QStringLiteral("\"1f1b\""), QStringLiteral("\"gpipe\""));
    world.settle();
    EXPECT_EQ(world.window->timeline().marks(), marks);
    world.window->document().forget_unsaved();
    world.window.reset();
    world.make_window(QSize(1440, 860));
    world.open(shipped("tiny-gpt"));
    EXPECT_TRUE(world.window->timeline().marks().empty());  // another file
    world.open(run);
    EXPECT_EQ(world.window->timeline().marks(), marks);
    EXPECT_EQ(content(run), before);
    world.key(Qt::Key_Escape);
    world.open(run);
    EXPECT_TRUE(world.window->timeline().marks().empty());
}

// A key that does something and is in no menu nobody finds.
TEST(Driven, EveryShortcutIsInAMenuAndNoKeyMeansTwoThings) {
    WindowWorld world;
    std::map<QString, const QAction*> in_window, in_timeline;
    for (const QAction* action : world.window->all_actions()) {
        EXPECT_FALSE(action->text().isEmpty());
        if (action->shortcutContext() == Qt::WidgetShortcut) continue;
        auto& taken = action->shortcutContext() == Qt::WindowShortcut ? in_window : in_timeline;
        for (const QKeySequence& key : action->shortcuts())
            EXPECT_TRUE(taken.emplace(key.toString(), action).second)
                << key.toString().toStdString();
    }
    for (const char* key : {"W", "A", "S", "D", "F", "M", "P", "/", "[", "]", "Q", "Esc", "?"})
        EXPECT_TRUE(in_timeline.contains(QLatin1String(key))) << key;
}

TEST(Driven, EverythingThatTakesTheKeyboardHasAName) {
    WindowWorld world;
    for (const QWidget* widget : world.window->findChildren<QWidget*>()) {
        if ((widget->focusPolicy() & Qt::TabFocus) == 0 || !widget->isVisible()) continue;
        if (qobject_cast<const QPushButton*>(widget) != nullptr) continue;  // their text
        const QString type = QLatin1String(widget->metaObject()->className());
        if (widget->focusProxy() != nullptr) continue;  // has that one's
        EXPECT_FALSE(widget->accessibleName().isEmpty()) << type.toStdString();
    }
}

TEST(Driven, ATraceFileHasTheTimelineOfItsScenario) {
    WindowWorld world;
    world.open(shipped("tiny-gpt"));
    const trace::Trace trace = world.window->timeline().timeline()->trace();
    for (const char* name : {"t.orrery", "t.pftrace", "t.json"}) {
        const std::string path = world.file(name);
        trace::write_trace(trace, path);
        world.open(path);
        EXPECT_EQ(world.window->message(), QString()) << name;
        EXPECT_EQ(world.window->timeline().timeline()->trace(), trace) << name;
    }
}

TEST(Driven, ExportedPicturesShowTheTimeline) {
    WindowWorld world;
    world.open(shipped("tiny-gpt"));
    const QString png = QString::fromStdString(world.file("t.png"));
    const QString svg = QString::fromStdString(world.file("t.svg"));
    ASSERT_EQ(world.window->export_timeline(png), QString());
    ASSERT_EQ(world.window->export_timeline(svg), QString());
    const QImage picture(png);
    EXPECT_EQ(picture.size(), world.canvas()->size() * 2);
    const QRgb forward = Look::of(world.window->palette()).fill(Kind::forward).rgb();
    int pixels = 0;
    for (int y = 0; y < picture.height(); ++y)
        for (int x = 0; x < picture.width(); ++x)
            pixels += picture.pixel(x, y) == forward ? 1 : 0;
    EXPECT_GT(pixels, 1000);
    EXPECT_TRUE(QSvgRenderer(svg).isValid());
    EXPECT_NE(world.window->export_timeline(QString::fromStdString(world.file("t.bmp"))),
              QString());
    EXPECT_NE(world.window->export_timeline(QStringLiteral("/nowhere/t.png")), QString());
}

// The pane that has the keyboard; and no file is replaced that is no picture of ours.
TEST(Driven, AnyViewIsExportedAsAPicture) {
    WindowWorld world;
    world.open(shipped("tiny-gpt"));
    QTest::keyClick(world.window.get(), Qt::Key_6, Qt::ControlModifier);
    const QString png = QString::fromStdString(world.file("view.png"));
    const QString svg = QString::fromStdString(world.file("view.svg"));
    std::filesystem::remove(png.toStdString());
    std::filesystem::remove(svg.toStdString());
    ASSERT_EQ(world.window->export_view(png), QString());
    ASSERT_EQ(world.window->export_view(svg), QString());
    EXPECT_EQ(QImage(png).size(), world.window->overview().size() * 2);
    QSvgRenderer drawn(svg);
    ASSERT_TRUE(drawn.isValid());
    EXPECT_EQ(drawn.viewBox().size(), world.window->overview().size());
    world.window->timeline().setFocus();
    ASSERT_EQ(world.window->export_view(png), QString());  // ours may be replaced
    EXPECT_EQ(QImage(png).size(), world.canvas()->size() * 2);
    QImage photo(8, 8, QImage::Format_RGB32);
    photo.fill(Qt::red);
    ASSERT_TRUE(photo.save(png));
    const QString why = world.window->export_view(png);
    EXPECT_TRUE(why.contains(QStringLiteral("exists, and is no picture of orrery")))
        << why.toStdString();
    EXPECT_EQ(QImage(png).size(), QSize(8, 8));
}

TEST(Driven, TheReportIsExportedAsThePageOfTheCommandLine) {
    WindowWorld world;
    world.open(shipped("tiny-gpt"));
    const QString path = QString::fromStdString(world.file("report.html"));
    ASSERT_TRUE(until([&] { return world.window->has_page(); }));
    ASSERT_EQ(world.window->export_page(path), QString());
    const std::string page = content(path.toStdString());
    EXPECT_TRUE(page.starts_with("<!doctype html>")) << page.substr(0, 80);
    EXPECT_NE(page.find(step_of("tiny-gpt", {})), std::string::npos);
    EXPECT_NE(world.window->export_page(QStringLiteral("/nowhere/report.html")), QString());
    EXPECT_NE(world.window->export_page(QString::fromStdString(world.file("report.txt"))),
              QString());
}

// A step is held, the scenario changed: the text is that of orrery diff, both timelines move as
// one.
TEST(Driven, TwoStepsAreComparedSideBySide) {
    WindowWorld world;
    world.open(shipped("tiny-gpt"));
    QTest::keyClick(world.window.get(), Qt::Key_H, Qt::ControlModifier);
    type_over(world.window->editor(), QStringLiteral("\"1f1b\""), QStringLiteral("\"gpipe\""));
    world.settle();
    const std::string diff = world.window->comparison().toPlainText().toStdString();
    EXPECT_NE(diff.find("/layout/schedule"), std::string::npos) << diff;
    EXPECT_NE(diff.find(step_of("tiny-gpt", {})), std::string::npos) << diff;
    EXPECT_NE(diff.find(step_of("tiny-gpt", {"layout.schedule=gpipe"})), std::string::npos) << diff;
    TimelineView& held = world.window->held_timeline();
    ASSERT_TRUE(held.isVisible());
    world.window->timeline().setFocus();
    for (int i = 0; i < 3; ++i)
        world.key(Qt::Key_W);
    EXPECT_EQ(held.shown_of_step(), world.window->timeline().shown_of_step());
    world.key(Qt::Key_0);  // the longer of both is seen whole, the other to the same scale
    EXPECT_EQ(held.shown_of_step(), world.window->timeline().shown_of_step());
    QTest::keyClick(world.window.get(), Qt::Key_H, Qt::ControlModifier | Qt::ShiftModifier);
    EXPECT_FALSE(held.isVisible());
    world.window->document().forget_unsaved();
}

// A search, and one of its layouts in the editor: the step is the one that the table has.
TEST(Driven, ASearchFindsLayoutsAndOneIsTried) {
    WindowWorld world;
    const std::string run = world.copy_of("tiny-gpt");
    world.open(run);
    QTest::keyClick(world.window.get(), Qt::Key_9, Qt::ControlModifier);
    SearchPane& pane = world.window->search_pane();
    QTest::mouseClick(button_of(pane, QStringLiteral("Search layouts")), Qt::LeftButton);
    ASSERT_TRUE(until([&] { return !pane.is_running() && pane.found() != nullptr; }));
    ASSERT_EQ(pane.found()->failure, "");
    ASSERT_GT(pane.table().rowCount(), 1);
    pane.table().selectRow(1);
    const std::string step = pane.table().item(1, 0)->text().toStdString();
    QTest::mouseClick(button_of(pane, QStringLiteral("Try the selected layout")), Qt::LeftButton);
    world.settle();
    EXPECT_EQ(shown_step(world), step);
    world.window->document().forget_unsaved();
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::gui
