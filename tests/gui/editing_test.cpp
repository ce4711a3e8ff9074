// What is typed is never lost, what is wrong is said where it stands.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include <QAbstractItemModelTester>
#include <QDir>
#include <QPushButton>
#include <QSignalSpy>

#include "cli/layout_search.hpp"
#include "gui/scenario/diagnostics_model.hpp"
#include "gui/scenario/recovery.hpp"
#include "gui/scenario/resimulation.hpp"
#include "gui/window/wrapped_label.hpp"
#include "tests/gui/window_world.hpp"

namespace orrery::gui {
namespace ORRERY_TEST_FILE {

TEST(DiagnosticsModel, KeepsTheRulesOfItemModels) {
    DiagnosticsModel model;
    const QAbstractItemModelTester tester(&model,
                                          QAbstractItemModelTester::FailureReportingMode::Fatal);
    plan::Diagnostic first;
    first.code = "S012";
    first.file = "run.json";
    first.pointer = "/layout/pipeline_parallel";
    first.message = "the layers do not split evenly over the pipeline";
    plan::Diagnostic second;
    second.code = "S002";
    second.file = "run.json";
    second.line = 3;
    second.column = 7;
    model.show({first, second});
    ASSERT_EQ(model.rowCount(), 2);
    const auto cell = [&](int row, DiagnosticsModel::Column column) {
        return model.data(model.index(row, column), Qt::DisplayRole).toString().toStdString();
    };
    EXPECT_EQ(cell(0, DiagnosticsModel::code), "S012");
    EXPECT_EQ(cell(0, DiagnosticsModel::place), first.pointer);
    EXPECT_EQ(cell(1, DiagnosticsModel::place), "3:7");
    EXPECT_EQ(model.data(model.index(0, 0), Qt::UserRole).toString().toStdString(),
              plan::format_text({first}));
    model.show({});
    EXPECT_EQ(model.rowCount(), 0);
}

TEST(Recovery, AKilledEditorLeavesWhatWasTyped) {
    const std::string folder = testing::TempDir() + "/unsaved";
    const QString where = QString::fromStdString(folder);
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        Recovery recovery(where);
        recovery.keep(QStringLiteral("/some/run.json"), QStringLiteral("{ \"typed\": \"ü\" }"));
        const ssize_t written = write(ready[1], "!", 1);
        for (;;)
            pause();
        _exit(written == 1 ? 0 : 1);
    }
    char sign = 0;
    ASSERT_EQ(read(ready[0], &sign, 1), 1);
    // While its editor lives it is nobody else's.
    EXPECT_TRUE(Recovery::left_behind(where).empty());
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::vector<Unsaved> left = Recovery::left_behind(where);
    ASSERT_EQ(left.size(), 1U);
    EXPECT_EQ(left[0].path, QStringLiteral("/some/run.json"));
    EXPECT_EQ(left[0].text, QStringLiteral("{ \"typed\": \"ü\" }"));
    Recovery::discard(left[0]);
    EXPECT_TRUE(Recovery::left_behind(where).empty());
}

TEST(Recovery, AnEditorThatEndsInOrderLeavesNothing) {
    const QString where = QString::fromStdString(testing::TempDir() + "/in-order");
    {
        Recovery recovery(where);
        recovery.keep({}, QStringLiteral("text"));
    }
    EXPECT_TRUE(Recovery::left_behind(where).empty());
}

// What an answer of half a second and more is preceded by: a timeline of whole passes, which says
// that it is an estimate, is read like any other, and gives way with what is shown of it.
TEST(Editing, ShowsTheEstimatedTimelineUntilTheStepHasBeenSimulated) {
    WindowWorld world;
    ASSERT_TRUE(world.window->open(QString::fromStdString(shipped("grok-1-h100x512"))));
    TimelineView& view = world.window->timeline();
    ASSERT_TRUE(until([&] { return view.timeline() != nullptr; }));
    ASSERT_TRUE(view.timeline()->is_estimate());
    const std::size_t ranks = view.timeline()->ranks().size();
    const Picoseconds estimated = view.timeline()->window().length();
    const Lane& outline = view.timeline()->ranks()[1].outline;
    ASSERT_GT(outline.spans().size(), 8U);
    view.select(BoxPlace{1, std::nullopt, outline.spans().size() / 2});
    ASSERT_TRUE(view.details());
    EXPECT_EQ(view.details()->lines.front().second, view.timeline()->ranks()[1].name);
    const auto says_about = [&](const QString& figure) {
        for (const auto* label : world.window->findChildren<WrappedLabel*>())
            if (label->accessibleName() == figure)
                return label->text().startsWith(QStringLiteral("about"));
        return false;
    };
    EXPECT_TRUE(says_about(QStringLiteral("Step time")));
    EXPECT_TRUE(says_about(QStringLiteral("Memory")));
    world.key(Qt::Key_W);
    const Stretch shown = view.shown_of_step();
    world.settle();
    ASSERT_FALSE(view.timeline()->is_estimate());
    EXPECT_FALSE(says_about(QStringLiteral("Step time")));
    EXPECT_FALSE(says_about(QStringLiteral("Memory")));
    EXPECT_EQ(view.timeline()->ranks().size(), ranks);
    const auto step = static_cast<double>(view.timeline()->window().length());
    EXPECT_NEAR(static_cast<double>(estimated) / step, 1, sim::EstimateBounds().step);
    EXPECT_NEAR(static_cast<double>(view.shown_of_step().length()) / step,
                static_cast<double>(shown.length()) / static_cast<double>(estimated), 0.01);
}

// Its ops are none of a step's: what is selected in the step that is held is not looked for in it.
TEST(Editing, AHeldStepIsNotAlignedWithAnEstimate) {
    WindowWorld world;
    world.open(world.copy_of("grok-1-h100x512"));
    TimelineView& view = world.window->timeline();
    QTest::keyClick(world.window.get(), Qt::Key_H, Qt::ControlModifier);
    world.settle();
    TimelineView& held = world.window->held_timeline();
    held.go_to({0, static_cast<std::int32_t>(held.timeline()->track_of(0).events.size()) - 1});
    ASSERT_TRUE(held.counterpart());
    QString shorter = world.window->editor().toPlainText();
    shorter.replace(QStringLiteral("\"sequence_length\": 8192"),
                    QStringLiteral("\"sequence_length\": 4096"));
    world.window->editor().replace_text(shorter);
    ASSERT_TRUE(until([&] { return view.timeline()->is_estimate(); }));
    EXPECT_FALSE(held.counterpart());
    EXPECT_FALSE(view.scene().pointed_at);
    held.select(std::nullopt);
    held.go_to({0, static_cast<std::int32_t>(held.timeline()->track_of(0).events.size()) - 1});
    EXPECT_FALSE(view.scene().pointed_at);
    world.settle();
    EXPECT_FALSE(view.timeline()->is_estimate());
    EXPECT_TRUE(held.counterpart());
}

// What is seen of an edit at once is what `orrery search` says of the layout; of a text with errors
// there is nothing to estimate.
TEST(Resimulation, SaysWhatASearchEstimatesBeforeItHasSimulated) {
    Resimulation resimulation;
    std::vector<std::string> told;
    double estimated_s = 0;
    QObject::connect(&resimulation, &Resimulation::estimated, [&](const Estimate& estimate) {
        told.push_back("estimate");
        estimated_s = estimate.layout.step_s;
    });
    QObject::connect(&resimulation, &Resimulation::answered,
                     [&](const AnswerPtr&) { told.push_back("answer"); });
    const auto ask = [&](const std::string& text, const std::string& path) {
        told.clear();
        resimulation.ask({text, path});
        return until([&] { return !resimulation.is_working(); });
    };
    for (const char* run : {"tiny-moe", "gpt3-175b-a100x1024", "llama3-70b-h100x128-a100x128"}) {
        ASSERT_TRUE(ask(content(shipped(run)), shipped(run)));
        EXPECT_EQ(told, (std::vector<std::string>{"estimate", "answer"})) << run;
        cli::ScenarioInput input;
        input.file = shipped(run);
        EXPECT_EQ(estimated_s, cli::own_layout(input)->price.step_s) << run;
    }
    ASSERT_TRUE(ask("{}", shipped("tiny-gpt")));
    EXPECT_EQ(told, std::vector<std::string>{"answer"});
}

TEST(Editing, WithoutATimelineTheWindowSaysWhy) {
    WindowWorld world;
    const QString nothing = world.window->timeline().empty_text();
    EXPECT_NE(nothing.indexOf(QStringLiteral("open a scenario")), -1);
    std::ofstream(world.file("empty.json")) << "{}";
    world.open(world.file("empty.json"));
    EXPECT_NE(world.window->timeline().empty_text().indexOf(QStringLiteral("errors")), -1);
    ASSERT_TRUE(world.window->open(QString::fromStdString(world.copy_of("tiny-gpt"))));
    EXPECT_NE(world.window->timeline().empty_text().indexOf(QStringLiteral("simulated")), -1);
    EXPECT_EQ(world.window->timeline().timeline(), nullptr);
}

TEST(Editing, TypedTextIsKeptAndRecoveredByTheNextWindow) {
    WindowWorld world;
    const std::string run = world.copy_of("tiny-gpt");
    world.open(run);
    world.window->editor().setFocus();
    QTest::keyClicks(&world.window->editor(), QStringLiteral(" "));
    const auto files = [&] {
        return QDir(world.unsaved_folder()).entryList({QStringLiteral("*.unsaved")});
    };
    ASSERT_TRUE(until([&] { return files().size() == 1; }));
    const QString gone = QString::fromStdString(world.file("gone.unsaved"));
    Unsaved unsaved{QString::fromStdString(run), world.window->document().text(), {}, gone};
    world.window->document().forget_unsaved();
    world.make_window({1280, 720});
    world.window->recover(unsaved);
    EXPECT_EQ(world.window->document().text(), unsaved.text);
    EXPECT_FALSE(world.window->document().is_saved());
    EXPECT_EQ(world.window->document().path().toStdString(), run);
    world.window->document().forget_unsaved();
}

TEST(Editing, SavingWritesTheWholeTextAndForgetsTheRest) {
    WindowWorld world;
    const std::string run = world.copy_of("tiny-gpt");
    world.open(run);
    world.window->editor().setFocus();
    QTest::keyClicks(&world.window->editor(), QStringLiteral("  "));
    EXPECT_FALSE(world.window->document().is_saved());
    EXPECT_EQ(world.window->document().save(QString::fromStdString(run)), QString());
    EXPECT_EQ(content(run), "  " + content(shipped("tiny-gpt")));
    EXPECT_TRUE(world.window->document().is_saved());
    EXPECT_TRUE(QDir(world.unsaved_folder()).entryList({QStringLiteral("*.unsaved")}).isEmpty());
}

TEST(Editing, ThereIsAWordBeforeAnothersFileIsReplaced) {
    WindowWorld world;
    const std::string run = world.copy_of("tiny-gpt");
    world.open(run);
    Document& document = world.window->document();
    EXPECT_EQ(document.objection(QString::fromStdString(run)), QString());
    std::ofstream(world.file("notes.txt")) << "what nobody has twice\n";
    EXPECT_NE(document.objection(QString::fromStdString(world.file("notes.txt"))), QString());
    EXPECT_EQ(document.objection(QString::fromStdString(world.file("new.json"))), QString());
    std::ofstream(run) << "{}";  // by another program
    EXPECT_NE(document.objection(QString::fromStdString(run)), QString());
}

TEST(Editing, WhatCannotBeReadIsSaid) {
    WindowWorld world;
    std::ofstream(world.file("broken.orrery")) << "not a trace";
    EXPECT_FALSE(world.window->open(QString::fromStdString(world.file("absent.json"))));
    EXPECT_NE(world.window->message().toStdString().find("absent.json"), std::string::npos);
    world.window->open(QString::fromStdString(world.file("broken.orrery")));
    ASSERT_TRUE(until([&] { return !world.window->is_reading(); }));
    EXPECT_NE(world.window->message().toStdString().find("broken.orrery"), std::string::npos);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::gui
