// The days of a run, as `orrery goodput` has them: where they lie in the picture, what the tables
// say, and the window that shows them while the scenario is edited.
#include <algorithm>

#include <QAbstractItemModelTester>
#include <QPushButton>
#include <QTableView>

#include <nlohmann/json.hpp>

#include "cli/goodput_text.hpp"
#include "cli/quantity.hpp"
#include "cli/run_cli.hpp"
#include "gui/scenario/days_places.hpp"
#include "gui/scenario/json_places.hpp"
#include "gui/window/days_strip.hpp"
#include "gui/window/table_csv.hpp"
#include "tests/gui/window_world.hpp"

namespace orrery::gui {
namespace ORRERY_TEST_FILE {

using nlohmann::json;

constexpr double kWeek = 7 * cli::kDay;

// What the command prints of the file, with a run day by day.
json printed(const std::string& path) {
    std::ostringstream out, err;
    EXPECT_EQ(cli::run_cli({"goodput", path, "--json", "--timeline"}, {out, err}), 0) << err.str();
    return json::parse(out.str());
}

std::string with(std::string text, const std::string& key, const std::string& value) {
    return with_setting(text, key, value).value();
}

// A month on 1,024 GPUs that fail.
std::string failing_run() {
    return with(with(content(shipped("gpt3-175b-a100x1024")), "training.tokens", "3e11"),
                "reliability", "opt-175b");
}

DaysPtr days_of_text(const std::string& text) {
    const std::atomic<bool> stop{false};
    const AnswerPtr answer = answer_of({text, shipped("gpt3-175b-a100x1024")}, stop);
    EXPECT_TRUE(answer->predicted());
    return days_of(answer, stop);
}

TEST(DaysPlaces, TimesAndPixelsAreEachOthersInverse) {
    DaysPlaces places;
    places.line_s = kWeek;
    places.lines = 3;
    places.end_s = 2.5 * kWeek;
    places.left = 50;
    places.width = 700;
    EXPECT_EQ(places.height(), 3 * places.line_height);
    // A day is a seventh of the width: 100 pixels.
    EXPECT_NEAR(places.x_of(3 * cli::kDay), 50 + 300, 1e-9);
    EXPECT_NEAR(places.x_of(kWeek + 3 * cli::kDay), 50 + 300, 1e-9);
    EXPECT_EQ(places.line_of(kWeek + 3 * cli::kDay), 1U);
    EXPECT_EQ(places.line_of(3 * kWeek), 2U) << "the end of the last line is its own";
    for (double at_s = 0; at_s < places.end_s; at_s += 0.37 * cli::kDay) {
        const double y = places.top_of(places.line_of(at_s)) + 1;
        const auto back = places.time_at(places.x_of(at_s), y);
        ASSERT_TRUE(back) << at_s;
        EXPECT_NEAR(*back, at_s, 1e-3);
    }
    EXPECT_FALSE(places.time_at(49, 1)) << "on the name of the line";
    EXPECT_FALSE(places.time_at(750, 1));
    EXPECT_FALSE(places.time_at(100, places.height()));
    EXPECT_FALSE(places.time_at(50 + 400, places.top_of(2) + 1)) << "behind the run's end";
}

TEST(DaysPlaces, TheNearestFailureOfTheLineIsFound) {
    DaysPlaces places;
    places.line_s = kWeek;
    places.lines = 2;
    places.end_s = 2 * kWeek;
    places.width = 700;
    sim::RunTimeline run;
    for (const double day : {1.0, 1.05, 6.99, 8.0})
        run.failures.push_back({day * cli::kDay, 0, 0});
    EXPECT_EQ(failure_at(run, places, 101, 1), 0U);
    EXPECT_EQ(failure_at(run, places, 104, 1), 1U);
    EXPECT_EQ(failure_at(run, places, 100, places.line_height + 1), 3U);
    EXPECT_FALSE(failure_at(run, places, 120, 1)) << "too far away";
    EXPECT_FALSE(failure_at(run, places, 0, places.line_height + 1)) << "of another line";
    EXPECT_EQ(failure_at(run, places, 120, 1, 20), 1U);
}

TEST(DaysRun, IsWhatTheCommandPrints) {
    const std::string path = testing::TempDir() + "failing.json";
    std::ofstream(path) << failing_run();
    const DaysPtr days = days_of_text(failing_run());
    ASSERT_TRUE(days->goodput) << days->failure;
    EXPECT_EQ(json::parse(cli::goodput_json(days->report())), printed(path));
    EXPECT_TRUE(days->assumed.empty());
}

TEST(DaysRun, SaysWhatIsMissingAndWhatIsAssumed) {
    const DaysPtr assumed =
        days_of_text(with(content(shipped("gpt3-175b-a100x1024")), "training.tokens", "3e11"));
    ASSERT_TRUE(assumed->goodput) << assumed->failure;
    EXPECT_EQ(assumed->assumed, "meta-rsc");
    const DaysPtr endless = days_of_text(with(failing_run(), "training.tokens", "0"));
    EXPECT_TRUE(endless->without_length);
    EXPECT_FALSE(endless->goodput);
    // 20 for each of 175 billion: 3.5 trillion.
    EXPECT_NEAR(proposed_tokens(*endless->answer->prediction), 3.5e12, 0.05e12);
}

TEST(DaysRun, OfManyAnswersTheNewestIsAnswered) {
    const std::atomic<bool> stop{false};
    std::vector<AnswerPtr> answers;
    for (const char* tokens : {"1e11", "2e11", "3e11"})
        answers.push_back(answer_of({with(failing_run(), "training.tokens", tokens), {}}, stop));
    DaysRun run;
    std::vector<DaysPtr> found;
    QObject::connect(&run, &DaysRun::found, [&](const DaysPtr& days) { found.push_back(days); });
    for (const AnswerPtr& answer : answers)
        run.ask(answer);
    ASSERT_TRUE(until([&] { return !run.is_running() && !run.is_asked(); }));
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0]->answer, answers[2]);
    run.ask(answers[0]);
    run.cancel();
    ASSERT_TRUE(until([&] { return !run.is_running(); }));
    EXPECT_EQ(found.size(), 1U) << "cancelled";
    const std::atomic<bool> stopped{true};
    EXPECT_THROW(days_of(answers[0], stopped), sim::Stopped);
}

TEST(RunTables, AreModelsWhoseBarsMakeTheWhole) {
    const DaysPtr days = days_of_text(failing_run());
    RunPartsTable parts;
    RunChangesTable changes;
    const QAbstractItemModelTester of_parts(&parts), of_changes(&changes);
    parts.show(days);
    changes.show(days);
    const auto bar = [](const RunTable& table, int row) {
        return table.index(row, table.columnCount() - 1).data(RunTable::BarRole).value<RunBar>();
    };
    const int last = parts.rowCount() - 1;
    ASSERT_GT(last, 5);
    double end = 0, seconds = 0;
    for (int row = 0; row < last; ++row) {
        EXPECT_NEAR(bar(parts, row).begin, end, 1e-9) << row;
        end = bar(parts, row).end;
        seconds += bar(parts, row).part.seconds;
        EXPECT_EQ(parts.index(row, 0).data().toString().toStdString(), bar(parts, row).part.name);
        EXPECT_EQ(parts.index(row, 1).data().toString().toStdString(),
                  cli::span_text(bar(parts, row).part.seconds));
    }
    EXPECT_NEAR(end, 1, 1e-9);
    EXPECT_NEAR(seconds, days->goodput->days * cli::kDay, 1e-6 * seconds);
    EXPECT_EQ(bar(parts, last).end, 1);
    ASSERT_EQ(changes.rowCount(), static_cast<int>(days->goodput->changes.size()));
    EXPECT_EQ(bar(changes, 0).end, 1) << "the most first";
    for (int row = 1; row < changes.rowCount(); ++row)
        EXPECT_LE(bar(changes, row).end, bar(changes, row - 1).end);
    parts.show(nullptr);
    EXPECT_EQ(parts.rowCount(), 0);
}

class DaysPanel : public testing::Test {
  protected:
    void open(const std::string& text) {
        const std::string path = world_.file("run.json");
        std::ofstream(path) << text;
        world_.open(path);
    }
    void show() {
        QTest::keyClick(world_.window.get(), Qt::Key_T, Qt::ControlModifier);
        settle();
    }
    void settle() {
        world_.settle();
        ASSERT_TRUE(until([this] { return !pane().is_running(); }));
    }
    void TearDown() override { world_.window->document().forget_unsaved(); }
    DaysPane& pane() { return world_.window->days_pane(); }

    WindowWorld world_;
};

TEST_F(DaysPanel, ShowsWhatTheCommandPrintsAndFollowsEdits) {
    open(failing_run());
    EXPECT_EQ(pane().days(), nullptr) << "nothing is drawn that nobody sees";
    show();
    ASSERT_TRUE(pane().days() && pane().days()->goodput);
    json said = printed(world_.file("run.json"));
    EXPECT_TRUE(pane().headline().contains(
        QString::fromStdString(cli::length_text(said.at("days").get<double>()))))
        << pane().headline().toStdString();
    EXPECT_TRUE(pane().parts().hasFocus());
    EXPECT_EQ(pane().changes().model()->rowCount(), static_cast<int>(said.at("changes").size()));
    // Twice as many tokens: every figure follows.
    const std::string longer = with(failing_run(), "training.tokens", "6e11");
    world_.window->editor().replace_text(QString::fromStdString(longer));
    settle();
    std::ofstream(world_.file("longer.json")) << longer;
    said = printed(world_.file("longer.json"));
    EXPECT_EQ(pane().days()->goodput->days, said.at("days").get<double>());
    EXPECT_TRUE(pane().headline().contains(
        QString::fromStdString(cli::length_text(said.at("days").get<double>()))));
    // An error leaves what was true of the last sound text.
    world_.window->editor().replace_text(QStringLiteral("{"));
    settle();
    EXPECT_EQ(pane().days()->goodput->days, said.at("days").get<double>());
}

TEST_F(DaysPanel, KeysGoFromFailureToFailure) {
    open(failing_run());
    show();
    const json failures = printed(world_.file("run.json")).at("middle_run").at("failures");
    DaysStrip& strip = pane().strip();
    strip.setFocus();
    ASSERT_TRUE(strip.hasFocus());
    QTest::keyClick(&strip, Qt::Key_Right);
    QTest::keyClick(&strip, Qt::Key_Right);
    EXPECT_EQ(strip.selected(), 1U);
    EXPECT_TRUE(strip.accessibleDescription().contains(
        QString::fromStdString(failures.at(1).at("cause").get<std::string>())));
    QTest::keyClick(&strip, Qt::Key_End);
    EXPECT_EQ(strip.selected(), failures.size() - 1);
    QTest::keyClick(&strip, Qt::Key_Left);
    EXPECT_EQ(strip.selected(), failures.size() - 2);
    // The same by mouse, where its time is.
    const double at_s = failures.at(3).at("at_days").get<double>() * cli::kDay;
    const DaysPlaces& places = strip.places();
    QTest::mouseClick(
        &strip, Qt::LeftButton, {},
        QPoint(static_cast<int>(places.x_of(at_s)), places.top_of(places.line_of(at_s)) + 4));
    ASSERT_TRUE(strip.selected());
    EXPECT_NEAR(failures.at(*strip.selected()).at("at_days").get<double>() * cli::kDay, at_s,
                2 * places.line_s / places.width);
}

TEST_F(DaysPanel, WhatIsMissingIsSaidAndTakesAClick) {
    open(with(content(shipped("gpt3-175b-a100x1024")), "training.tokens", "0"));
    show();
    ASSERT_TRUE(pane().days());
    EXPECT_FALSE(pane().days()->goodput);
    EXPECT_TRUE(pane().headline().contains(QStringLiteral("does not say how long")));
    EXPECT_FALSE(pane().parts().isVisible());
    const auto click = [&](const QString& begins) {
        QPushButton* found = nullptr;
        ASSERT_TRUE(until([&] {  // is shown when its layout next comes to its turn
            for (auto* button : pane().findChildren<QPushButton*>())
                if (button->isVisible() && button->text().startsWith(begins)) found = button;
            return found != nullptr;
        }));
        found->click();
        settle();
    };
    click(QStringLiteral("Set training.tokens"));
    ASSERT_TRUE(pane().days()->goodput) << pane().headline().toStdString();
    EXPECT_NEAR(pane().days()->goodput->tokens, 3.5e12, 0.06e12);
    EXPECT_TRUE(pane().notes().contains(QStringLiteral("assumed")));
    const double days = pane().days()->goodput->days;
    click(QStringLiteral("Set reliability"));
    EXPECT_TRUE(pane().days()->assumed.empty());
    EXPECT_EQ(pane().days()->goodput->days, days) << "what was assumed is now said";
    EXPECT_NE(world_.window->document().text().indexOf(QStringLiteral("meta-rsc")), -1);
}

TEST_F(DaysPanel, TablesAndTheViewAreExported) {
    open(failing_run());
    show();
    const std::string csv = csv_of(pane().parts());
    EXPECT_EQ(csv.substr(0, csv.find('\n')), "where the days go,time,share");
    EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), pane().parts().model()->rowCount() + 1);
    EXPECT_TRUE(copy_csv_of_focused());
    for (const char* name : {"days.png", "days.svg"})
        EXPECT_EQ(world_.window->export_view(QString::fromStdString(world_.file(name))), QString());
    EXPECT_GT(content(world_.file("days.svg")).size(), 10'000U);
}

TEST_F(DaysPanel, TheExportedPageHasThem) {
    open(failing_run());
    ASSERT_TRUE(until([&] { return world_.window->has_page(); }));
    const std::string path = world_.file("page.html");
    ASSERT_EQ(world_.window->export_page(QString::fromStdString(path)), QString());
    const std::string page = content(path), begin = "id=\"data\">";
    EXPECT_NE(page.find("<h2>Where the days of the run go</h2>"), std::string::npos);
    const std::size_t from = page.find(begin) + begin.size();
    const json data = json::parse(page.substr(from, page.find("</script>", from) - from));
    json said = printed(world_.file("run.json"));
    said.erase("middle_run");
    EXPECT_EQ(data.at("goodput"), said);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::gui
