// Runs that are followed: what their lines come to, when they end, who is told, and what a scraper
// reads.
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/subcommand.hpp"
#include "cli/watch/alerts.hpp"
#include "cli/watch/watch_report.hpp"
#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

std::string event(const char* name, double at, json more = json::object()) {
    more["event"] = name;
    more["unix_s"] = at;
    return more.dump();
}
std::string step(std::int64_t number, double at, double time_s, double data_s = 0) {
    return event("step", at,
                 {{"step", number}, {"loss", 3.5}, {"time_s", time_s}, {"data_wait_s", data_s}});
}
FollowedRun started(double at, std::int64_t steps) {
    FollowedRun run;
    run.read(event("start", at, {{"steps", steps}, {"ranks", 4}}), 0);
    return run;
}

// A start of 5 s, six steps of 2 s of which half a second is data, one that is skipped, a
// checkpoint after the fourth that stands still for 1 s, a restart that loses two steps and takes
// 10 s.
TEST(FollowedRun, SaysWhereItsTimeWent) {
    FollowedRun run = started(1000, 100);
    double now = 1005;
    for (std::int64_t number = 1; number <= 4; ++number)
        run.read(step(number, now += 2, 2, 0.5), 0);
    run.read(event("skip", now += 3, {{"step", 5}, {"time_s", 3}}), 0);
    run.read(event("checkpoint", now += 1, {{"step", 4}, {"stall_s", 1}, {"write_s", 4}}), 0);
    run.read(step(6, now += 2, 2, 0.5), 0);
    run.read(event("restart", now, {{"why", "signal 9"}}), 0);
    EXPECT_EQ(run.state(), RunState::restarting);
    run.read(event("start", now += 10, {{"steps", 100}}), 0);
    run.read(event("resume", now, {{"step", 4}}), 0);
    EXPECT_EQ(run.step(), 4);
    run.read(step(5, now += 2, 2, 0.5), 0);

    const RunSeconds seconds = run.seconds();
    EXPECT_DOUBLE_EQ(seconds.steps, 5 * 1.5);
    EXPECT_DOUBLE_EQ(seconds.data, 5 * 0.5);
    EXPECT_DOUBLE_EQ(seconds.skipped, 0);
    EXPECT_DOUBLE_EQ(seconds.lost, 3 + 2);
    EXPECT_DOUBLE_EQ(seconds.checkpoints, 1);
    EXPECT_DOUBLE_EQ(seconds.other, 5 + 10);
    EXPECT_DOUBLE_EQ(seconds.wall, now - 1000);
    EXPECT_DOUBLE_EQ(run.goodput(), 7.5 / (now - 1000));
    EXPECT_EQ(run.restarts(), 1);
    EXPECT_EQ(run.checkpoint(), 4);
}

// Steps without spread, none lost: what is left is their number times their time, for certain.
TEST(FollowedRun, SaysWhenItEnds) {
    FollowedRun even = started(0, 50);
    for (std::int64_t number = 1; number <= 10; ++number)
        even.read(step(number, static_cast<double>(number), 1), 0);
    ASSERT_TRUE(even.rest());
    EXPECT_DOUBLE_EQ(even.rest()->seconds, 40);
    EXPECT_DOUBLE_EQ(even.rest()->low_s, 40);
    EXPECT_DOUBLE_EQ(even.rest()->high_s, 40);

    // Steps of 1 and 3 s: variance 40 / 39, over n left of k seen n + n²/k times that.
    FollowedRun uneven = started(0, 140);
    for (std::int64_t number = 1; number <= 40; ++number)
        uneven.read(step(number, 2.0 * static_cast<double>(number), number % 2 == 0 ? 3 : 1), 0);
    ASSERT_TRUE(uneven.rest());
    EXPECT_NEAR(uneven.rest()->seconds, 200, 1e-9);
    const double deviation = 1.645 * std::sqrt(40.0 / 39 * (100 + 100.0 * 100 / 40));
    EXPECT_NEAR(uneven.rest()->high_s, 200 + deviation, 1e-9);
    EXPECT_NEAR(uneven.rest()->low_s, 200 - deviation, 1e-9);

    FollowedRun few = started(0, 50);
    few.read(step(1, 1, 1), 0);
    EXPECT_FALSE(few.rest());
}

// Ten restarts in 1,000 steps of a second, each of 20 s: of the 1,000 to come 1,200 s.
TEST(FollowedRun, ExpectsRestartsAsTheyHaveCome) {
    FollowedRun run = started(0, 2000);
    double now = 0;
    for (std::int64_t number = 1; number <= 1000; ++number) {
        run.read(step(number, now += 1, 1), 0);
        if (number % 100 != 0) continue;
        run.read(event("checkpoint", now, {{"step", number}}), 0);
        run.read(event("restart", now), 0);
        run.read(event("start", now += 20, {{"steps", 2000}}), 0);
        run.read(event("resume", now, {{"step", number}}), 0);
    }
    ASSERT_TRUE(run.rest());
    EXPECT_NEAR(run.rest()->seconds, 1200, 1e-9);
    // A Poisson count of mean 10 times exponential costs, and a rate known to a part in √10.
    const double deviation = 1.645 * std::sqrt(10 * 2 * 400.0 + 100 / 10.0 * 400);
    EXPECT_NEAR(run.rest()->high_s, 1200 + deviation, 1e-9);
}

TEST(FollowedRun, StallsWhereItIsSilentForLongerThanItsStepsExplain) {
    FollowedRun run = started(0, 100);
    run.look(599);
    EXPECT_EQ(run.state(), RunState::starting);
    for (std::int64_t number = 1; number <= 5; ++number)
        run.read(step(number, 600 + 30 * static_cast<double>(number), 30), 0);
    run.look(750 + 300);
    EXPECT_EQ(run.state(), RunState::running);
    run.look(750 + 301);
    EXPECT_EQ(run.state(), RunState::stalled);
    EXPECT_EQ(run.ailments().count("stall"), 1U);
    run.look(750 + 400);
    run.read(step(6, 1200, 30), 0);
    EXPECT_EQ(run.state(), RunState::running);
    std::vector<std::string> told;
    for (const RunNews& news : run.news())
        told.push_back(news.what);
    EXPECT_THAT(told, ElementsAre("stall"));
}

TEST(FollowedRun, PassesOverWhatIsNoEvent) {
    FollowedRun run = started(1, 10);
    for (const char* line : {"orrery: a word for people", "{\"event\": 3}", "[1, 2",
                             "{\"event\":\"step\",\"step\":", "\xff\xfe", "null", "{}"})
        run.read(line, 2);
    run.read("", 2);
    EXPECT_EQ(run.unread(), 7);
    run.read(R"({"event":"step","step":-4,"time_s":-1e300,"loss":"x","unix_s":1e300})", 2);
    run.read(R"({"event":"health","ailment":"straggler","begins":true,"rank":1e99,"message":7})",
             3);
    run.read(R"({"event":"restart","why":"a\u001b[2Jb\nc"})", 4);
    EXPECT_EQ(run.message(), "a [2Jb c");
    EXPECT_TRUE(std::isfinite(run.seconds().wall));
}

TEST(FollowedRun, IsNotOverWhileASupervisorMayGoOn) {
    FollowedRun alone = started(0, 5);
    alone.read(event("error", 1, {{"message", "rank 3 has died"}}), 0);
    EXPECT_TRUE(alone.over());
    FollowedRun supervised;
    supervised.read(event("attempt", 0), 0);
    supervised.read(event("start", 0, {{"steps", 5}}), 0);
    supervised.read(event("error", 1, {{"message", "rank 3 has died"}}), 0);
    EXPECT_FALSE(supervised.over());
    supervised.read(event("give_up", 2, {{"why", "no progress"}}), 0);
    EXPECT_TRUE(supervised.over());
    EXPECT_EQ(supervised.state(), RunState::failed);
}

class Sources : public testing::Test {
  protected:
    Sources() { fs::create_directories(folder_); }
    ~Sources() override { fs::remove_all(folder_); }
    std::string at(const std::string& name) const { return folder_ + "/" + name; }
    void add(const std::string& name, const std::string& text) const {
        std::ofstream(at(name), std::ios::app) << text;
    }

  private:
    std::string folder_ = testing::TempDir() + "watched";
};

TEST_F(Sources, AFileIsReadAsItGrowsAndAnewWhereItIsReplaced) {
    const auto source = file_source(at("run.jsonl"));
    EXPECT_THAT(source->lines(), ElementsAre());
    EXPECT_NE(source->problem(), "");
    add("run.jsonl", "one\ntw");
    EXPECT_THAT(source->lines(), ElementsAre("one"));
    EXPECT_EQ(source->problem(), "");
    add("run.jsonl", "o\n\nthree\n");
    EXPECT_THAT(source->lines(), ElementsAre("two", "", "three"));
    fs::resize_file(at("run.jsonl"), 0);
    add("run.jsonl", "four\n");
    EXPECT_THAT(source->lines(), ElementsAre("four"));
    add("other", "five\nsix\n");
    fs::rename(at("other"), at("run.jsonl"));
    EXPECT_THAT(source->lines(), ElementsAre("five", "six"));
    fs::remove(at("run.jsonl"));
    EXPECT_THAT(source->lines(), ElementsAre());
    EXPECT_FALSE(source->closed());
}

TEST_F(Sources, ALineWithoutEndIsDropped) {
    const auto source = file_source(at("run.jsonl"));
    add("run.jsonl", std::string(std::size_t{70} << 20, 'x') + "\nafter\n");
    std::vector<std::string> all;
    for (int each = 0; each < 40; ++each)
        for (const std::string& line : source->lines())
            all.push_back(line);
    EXPECT_THAT(all, ElementsAre("after"));
    EXPECT_EQ(source->dropped(), 1);
}

TEST_F(Sources, ACommandsWordsComeUntilItEnds) {
    const auto source = command_source("echo one; echo two; exit 3");
    std::vector<std::string> all;
    for (int each = 0; each < 500 && !source->closed(); ++each) {
        for (const std::string& line : source->lines())
            all.push_back(line);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_THAT(all, ElementsAre("one", "two"));
    for (int each = 0; each < 500 && source->problem().empty(); ++each)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_THAT(source->problem(), HasSubstr("exit code 3"));
}

TEST_F(Sources, ACommandEndsWithWhoFollowsIt) {
    const std::string alive = at("alive");
    auto source = command_source("echo $$ > " + alive + "; sleep 1000 & wait");
    int group = 0;
    for (int each = 0; each < 500 && group == 0; ++each) {
        std::ifstream(alive) >> group;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_GT(group, 0);
    source.reset();
    for (int each = 0; each < 500 && kill(-group, 0) == 0; ++each)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_NE(kill(-group, 0), 0);
}

WatchedRun watched(const std::string& name, FollowedRun run) {
    WatchedRun watched;
    watched.name = name;
    watched.source = file_source("/nowhere");
    watched.run = std::move(run);
    return watched;
}

// One run's lines do not stand for another's, which is silent.
TEST_F(Sources, ARunIsSilentThoughAnotherSpeaks) {
    std::vector<WatchedRun> runs;
    for (const char* name : {"busy", "silent"}) {
        add(name, event("start", 0, {{"steps", 10}}) + "\n" + step(1, 1, 1) + "\n");
        runs.emplace_back();
        runs.back().source = file_source(at(name));
        EXPECT_TRUE(runs.back().follow(1));
    }
    add("busy", step(2, 1000, 1) + "\n");
    for (WatchedRun& run : runs)
        run.follow(1000);
    EXPECT_EQ(runs[0].run.state(), RunState::running);
    EXPECT_EQ(runs[1].run.state(), RunState::stalled);
}

// What a run says is in the hook's variables; none of it is run.
TEST_F(Sources, AlertsReachACommandWithoutBeingRun) {
    std::ostringstream err;
    Alerts alerts(alert_conditions({"restart", "slow=10"}),
                  "printf '%s|%s|%s\\n' \"$ORRERY_ALERT\" \"$ORRERY_ALERT_RUN\" "
                  "\"$ORRERY_ALERT_MESSAGE\" >> " +
                      at("told"),
                  err);
    WatchedRun run = watched("a $(touch " + at("hacked") + ")", started(0, 10));
    run.forecast = Forecast{1, 0.9, 1.1, std::nullopt};
    const std::string why = "`touch " + at("hacked") + "`; touch " + at("hacked");
    run.run.read(event("restart", 1, {{"why", why}}), 0);
    for (std::int64_t number = 1; number <= 5; ++number) {
        run.run.read(step(number, static_cast<double>(number), number < 4 ? 2 : 1), 0);
        alerts.look(run);
    }
    alerts.finish();
    const std::string told = content_of(at("told"));
    EXPECT_THAT(told, HasSubstr("restart|" + run.name + "|" + why + "\n"));
    EXPECT_THAT(told, HasSubstr("slow|" + run.name + "|steps take 2.00 s, 100.0 % longer"));
    EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 2);
    EXPECT_FALSE(fs::exists(at("hacked")));
    EXPECT_THAT(err.str(), HasSubstr("orrery watch: " + run.name + ": restart: " + why));
}

TEST(AlertConditions, AreSaidWhereOneIsUnknown) {
    EXPECT_THAT([] { alert_conditions({"stalls"}); },
                testing::ThrowsMessage<UsageError>(HasSubstr("  goodput=N")));
    EXPECT_THROW(alert_conditions({"slow"}), UsageError);
    EXPECT_THROW(alert_conditions({"slow=x"}), UsageError);
    EXPECT_THROW(alert_conditions({"slow=nan"}), UsageError);
    EXPECT_THROW(alert_conditions({"stall=3"}), UsageError);
    EXPECT_EQ(alert_conditions({"goodput=90"}).at(0).percent, 90);
    EXPECT_EQ(alert_conditions({}).size(), 7U);
}

// OpenMetrics 1.0: families once each, with HELP, TYPE and perhaps UNIT before their samples; names
// that end in their unit; counters' samples in _total; labels escaped; the end marked.
TEST(WatchMetrics, AreOpenMetrics) {
    std::vector<WatchedRun> runs;
    runs.push_back(watched("a \"quoted\\\" run\n", started(1, 10)));
    runs.push_back(watched("b", started(1, 10)));
    runs[1].forecast = Forecast{1, 0.5, 2, std::nullopt};
    for (std::int64_t number = 1; number <= 5; ++number)
        runs[1].run.read(step(number, 1 + static_cast<double>(number), 1), 0);
    runs[1].run.read(event("health", 7, {{"ailment", "straggler"}, {"begins", true}, {"rank", 3}}),
                     0);
    const std::string text = watch_metrics(runs);
    const std::regex comment(R"(# (HELP|TYPE|UNIT) ([a-z_]+) (.+))");
    const std::regex sample(
        R"re(([a-z_]+)\{run="((?:[^"\\\n]|\\["\\n])*)"(?:,[a-z]+="[^"\\\n]*")?\} (-?[0-9.e+-]+))re");
    std::istringstream lines(text);
    std::set<std::string> families, samples;
    std::string family, type, last;
    for (std::string line; std::getline(lines, line);) {
        ASSERT_NE(last, "# EOF");
        last = line;
        if (line == "# EOF") continue;
        std::smatch found;
        if (std::regex_match(line, found, comment)) {
            if (found[1] == "HELP") {
                family = found[2];
                EXPECT_TRUE(families.insert(family).second) << line;
            }
            EXPECT_EQ(found[2], family) << line;
            if (found[1] == "TYPE") type = found[3];
            if (found[1] == "UNIT") {
                EXPECT_THAT(family, testing::EndsWith("_" + found[3].str()));
            }
            continue;
        }
        ASSERT_TRUE(std::regex_match(line, found, sample)) << line;
        EXPECT_EQ(found[1], type == "counter" ? family + "_total" : family) << line;
        EXPECT_TRUE(samples.insert(line.substr(0, line.rfind(' '))).second) << line;
    }
    EXPECT_EQ(last, "# EOF");
    EXPECT_TRUE(text.starts_with("# HELP orrery_run_"));  // by which its file is known
    EXPECT_THAT(text, HasSubstr("orrery_run_goodput_ratio{run=\"b\"} 0.8333333333333334\n"));
    EXPECT_THAT(text, HasSubstr("orrery_run_predicted_step_time_seconds{run=\"b\"} 1\n"));
    EXPECT_THAT(text, HasSubstr("orrery_run_ailing{run=\"b\",ailment=\"straggler 3\"} 1\n"));
    EXPECT_THAT(text, HasSubstr(R"(orrery_run_step{run="a \"quoted\\\" run\n"} 0)"));
}

// A run that has ended, told from its lines: the page's example.
TEST_F(Sources, ARunThatHasEndedIsToldOnce) {
    const std::string lines_of_run = content_of(folder() + "watched-run.jsonl");
    ASSERT_FALSE(lines_of_run.empty());
    add("run.jsonl", lines_of_run);
    const Outcome result = run({"watch", at("run.jsonl"), "--once"});
    EXPECT_EQ(result.code, 0) << result.err;
    const std::string page = content_of(std::string(ORRERY_SOURCE_DIR) + "/docs/watch.md");
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);)
        EXPECT_THAT(page, HasSubstr("    " + line + "\n"));
    const Outcome machine = run({"watch", at("run.jsonl"), "--once", "--json"});
    const json told = json::parse(machine.out)["runs"][0];
    EXPECT_EQ(told["state"], "ended");
    EXPECT_EQ(told["over"], true);
    double sum = 0;
    for (const auto& [name, seconds] : told["breakdown_s"].items())
        sum += seconds.get<double>();
    EXPECT_NEAR(sum, told["wall_s"], 1e-9);
}

TEST(Watch, SaysWhatIsMissing) {
    EXPECT_EQ(run({"watch"}).code, 2);
    EXPECT_EQ(run({"watch", "x", "--alert", "nothing"}).code, 2);
    EXPECT_EQ(run({"watch", "x", "--every", "0"}).code, 2);
    EXPECT_EQ(run({"watch", "x", "--once", "--scenario", "/no/such.json"}).code, 5);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
