// orrery goodput as a user has it.
#include <cmath>
#include <map>
#include <regex>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/text_table.hpp"
#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

const std::string kRun =
    std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/gpt3-175b-a100x1024.json";

Outcome goodput(const Words& more) {
    Words words = {"goodput", kRun, "--runs", "200"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
}

TEST(GoodputCommand, PrintsWhatTheContractSays) {
    const Outcome outcome = goodput({"--tokens", "3e11", "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json printed = json::parse(outcome.out);
    for (const char* key : {"hours_between_failures", "effective_fraction", "days", "gpu_hours",
                            "cost_usd", "energy_mwh"})
        EXPECT_TRUE(printed.at(key).is_number()) << key;
    const double days = printed.at("days");
    EXPECT_LT(printed.at("interval_days").at(0), days);
    EXPECT_GT(printed.at("interval_days").at(1), days);
    EXPECT_NEAR(printed.at("gpu_hours").get<double>(), days * 24 * 1024, 1e-6 * days * 24 * 1024);
    double sum = 0;
    for (const auto& [account, of_it] : printed.at("breakdown_days").items())
        sum += of_it.get<double>();
    EXPECT_NEAR(sum, days, 1e-9 * days);
    EXPECT_NEAR(printed.at("breakdown_days").at("steps").get<double>() / days,
                printed.at("effective_fraction").get<double>(), 1e-9);
    EXPECT_EQ(printed.at("assumed_reliability"), "meta-rsc");
    EXPECT_EQ(goodput({"--tokens", "3e11", "--json"}).out, outcome.out) << "seeded";
    EXPECT_NE(goodput({"--tokens", "3e11", "--json", "--seed", "2"}).out, outcome.out);
}

TEST(GoodputCommand, SaysWhatItAssumes) {
    const Outcome outcome = goodput({"--tokens", "3e11"});
    EXPECT_THAT(outcome.out, HasSubstr("assumed: the scenario has no reliability"));
    EXPECT_THAT(outcome.out, HasSubstr("(assumed: 1 GB/s a node)"));
    EXPECT_THAT(goodput({"--set", "reliability=bloom", "--set", "storage={\"node_GBps\": 2}",
                         "--tokens", "3e11"})
                    .out,
                ::testing::Not(HasSubstr("assumed: 1 GB/s")));
}

TEST(GoodputCommand, WithoutFailuresTakesItsSteps) {
    const Outcome outcome =
        goodput({"--tokens", "3e11", "--set",
                 "reliability={\"causes\": [], \"save_overhead_s\": 0}", "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json printed = json::parse(outcome.out);
    EXPECT_TRUE(printed.at("hours_between_failures").is_null());
    EXPECT_GT(printed.at("effective_fraction"), 0.9999);
}

// As tests/gates/planted_failures.py asks, which holds the answer against runs that are killed.
TEST(GoodputCommand, TakesAStepThatWasMeasured) {
    const double step_s = 0.05, mean_s = 15, recovery_s = 2, stall_s = 0.25;
    const int steps = 10'000, every = 25;
    const Outcome outcome =
        run({"goodput", std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/tiny-gpt.json", "--json",
             "--runs", "500", "--step-time", "0.05", "--set", "run.steps=10000", "--set",
             "run.checkpoint={\"path\": \"x\", \"every_steps\": 25}", "--set",
             fmt::format(R"(reliability={{"causes": [{{"cause": "killed", "of": "run",
                        "mean_hours": {}, "replaces_node": false}}], "rate_spread": 0,
                        "detection_s": 0, "diagnosis_s": 0, "restart_s": {},
                        "save_overhead_s": {}}})",
                         mean_s / 3600, recovery_s, stall_s),
             "--set", R"(storage={"node_GBps": 1e6})"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json printed = json::parse(outcome.out);
    EXPECT_EQ(printed.at("step_time_s"), step_s);
    // Daly 2006: (1/λ + R)(e^{λ(τ+δ)} − 1) for each τ of work; writing takes nothing.
    const double segment_s = every * step_s;
    const double wall_s =
        steps / every * (mean_s + recovery_s) * std::expm1((segment_s + stall_s) / mean_s);
    EXPECT_NEAR(printed.at("analytic_days").get<double>() * 86400, wall_s, 1e-3 * wall_s);
    EXPECT_NEAR(printed.at("effective_fraction").get<double>(), steps * step_s / wall_s, 0.01);
    EXPECT_TRUE(printed.at("feed").at("storm").is_null()) << "training waits for the write";
}

TEST(GoodputCommand, SaysHowDataCome) {
    // Data of 1 kB a token, read three times; disks hold them all.
    const Outcome outcome =
        goodput({"--tokens", "3e10", "--json", "--set", "storage=deepseek-3fs", "--set",
                 "storage.dataset_tokens=1e10", "--set", "storage.bytes_per_token=1000", "--set",
                 "storage.read_GBps=0.05", "--set", "storage.cache=local", "--set",
                 "storage.reshuffled=true", "--set",
                 R"(cluster.storage={"capacity_GB": 30000, "read_GBps": 25, "write_GBps": 15,
                             "latency_us": 100})"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json printed = json::parse(outcome.out), feed = printed.at("feed");
    EXPECT_EQ(feed.at("storage_limit"), "store_bandwidth");
    EXPECT_NEAR(feed.at("epochs").get<double>(), 3, 1e-3);
    EXPECT_EQ(feed.at("cold").at("hits"), 0);
    EXPECT_NEAR(feed.at("cold").at("stretch").get<double>(),
                printed.at("data").at("needed_GBps").get<double>() / 0.05, 1e-6);
    EXPECT_GT(feed.at("starved_fraction"), 0.1);
    EXPECT_NEAR(printed.at("breakdown_days").at("data").get<double>(),
                printed.at("breakdown_days").at("steps").get<double>() *
                    (printed.at("data").at("stretch").get<double>() - 1),
                1e-6);
    EXPECT_LT(feed.at("chain_s"), feed.at("from_store_s"));
    bool told = false;
    for (const json& change : printed.at("changes"))
        if (change.at("change") == "the data are on the nodes' disks before training begins")
            told = true;
    EXPECT_TRUE(told);
    const Outcome unknown = goodput({"--set", "storage=llama3"});
    EXPECT_EQ(unknown.code, 5);
    EXPECT_THAT(unknown.err, HasSubstr("storage/llama3-tectonic.json"));
}

TEST(GoodputCommand, ItsWaterfallIsTheBreakdownWithStepsTakenApart) {
    const json printed = json::parse(goodput({"--tokens", "3e11", "--json"}).out);
    const json step =
        json::parse(run({"simulate", kRun, "--json"}).out).at("step").at("breakdown_s");
    double sum = 0, steps = 0;
    for (const json& part : printed.at("waterfall")) {
        const double days = part.at("days");
        sum += days;
        if (part.at("part").get<std::string>().starts_with("steps: ")) steps += days;
        if (part.at("part") == "steps: pipeline bubble") {
            double of_step = 0;
            for (const auto& [account, seconds] : step.items())
                of_step += seconds.get<double>();
            const double bubble = step.at("bubble").get<double>() / of_step;
            EXPECT_NEAR(days / printed.at("breakdown_days").at("steps").get<double>(), bubble,
                        1e-6);
        }
    }
    EXPECT_NEAR(sum, printed.at("days").get<double>(), 1e-9 * sum);
    EXPECT_NEAR(steps, printed.at("breakdown_days").at("steps").get<double>(), 1e-9 * sum);
}

TEST(GoodputCommand, ShowsOneRunDayByDay) {
    const Words asked = {"--tokens", "3e11", "--set", "reliability=opt-175b", "--timeline"};
    Words as_json = asked;
    as_json.push_back("--json");
    const Outcome outcome = goodput(as_json);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json printed = json::parse(outcome.out), middle = printed.at("middle_run");
    // Its stretches follow one another and sum to its breakdown, and that to its length.
    std::map<std::string, double> sums;
    double now = 0;
    for (const json& stretch : middle.at("stretches")) {
        EXPECT_NEAR(stretch.at("begin_days").get<double>(), now, 1e-9);
        now = stretch.at("end_days");
        for (const auto& [account, days] : stretch.at("breakdown_days").items())
            sums[account] += days.get<double>();
    }
    const double days = middle.at("days");
    EXPECT_NEAR(now, days, 1e-9 * days);
    double whole = 0;
    for (const auto& [account, of_it] : middle.at("breakdown_days").items()) {
        EXPECT_NEAR(sums[account], of_it.get<double>(), 1e-9 * days) << account;
        whole += of_it.get<double>();
    }
    EXPECT_NEAR(whole, days, 1e-9 * days);
    EXPECT_GT(days, printed.at("interval_days").at(0));
    EXPECT_LT(days, printed.at("interval_days").at(1));
    ASSERT_GT(middle.at("failures").size(), 10U);

    // The text has the same: a line a week of at most fourteen, 48 characters each.
    const std::string text = goodput(asked).out;
    const std::string failures = std::to_string(middle.at("failures").size()) + " failures";
    EXPECT_THAT(text,
                HasSubstr(fmt::format("number {}, of middle length", middle.at("run").get<int>())));
    EXPECT_THAT(text, HasSubstr(failures));
    std::istringstream in(text.substr(text.find("day by day")));
    std::size_t lines = 0, told = 0, characters = 0;
    for (std::string line; std::getline(in, line);) {
        std::smatch match;
        if (!std::regex_match(
                line, match, std::regex("  day (\\d+) +([^ 0-9].*?) +[0-9.]+ %  (\\d+) failures?")))
            continue;
        EXPECT_EQ(std::stoul(match[1]), 7 * lines++);
        told += std::stoul(match[3]);
        characters += width_of(match[2].str());
    }
    EXPECT_EQ(lines, static_cast<std::size_t>(std::ceil(days / 7)));
    EXPECT_EQ(characters, static_cast<std::size_t>(std::ceil(days / 7 * 48)));
    EXPECT_EQ(told, middle.at("failures").size());
    EXPECT_THAT(goodput({"--tokens", "3e11", "--json"}).out,
                ::testing::Not(HasSubstr("middle_run")));
}

TEST(GoodputCommand, RefusesWhatItCannotAnswer) {
    const Outcome endless = goodput({"--set", "training.tokens=0"});
    EXPECT_EQ(endless.code, 2);
    EXPECT_THAT(endless.err, HasSubstr("--tokens N"));
    const Outcome unknown = goodput({"--set", "reliability=lama3"});
    EXPECT_EQ(unknown.code, 5);
    EXPECT_THAT(unknown.err, HasSubstr("reliability/llama3-405b.json"));
    // More is lost than done: the result is printed all the same.
    const Outcome hopeless =
        run({"goodput", kRun, "--tokens", "3e11", "--runs", "10", "--json", "--set",
             R"(reliability={"causes": [{"cause": "any", "of": "run", "mean_hours": 0.01}]})"});
    EXPECT_EQ(hopeless.code, 4);
    EXPECT_GT(json::parse(hopeless.out).at("runs_that_do_not_end"), 0);
    const Outcome endless_runs =
        run({"goodput", kRun, "--tokens", "3e11", "--runs", "10", "--json", "--timeline", "--set",
             R"(reliability={"causes": [{"cause": "any", "of": "run", "mean_hours": 0.001}]})"});
    EXPECT_EQ(json::parse(endless_runs.out).at("runs_that_do_not_end"), 10);
    EXPECT_TRUE(json::parse(endless_runs.out).at("middle_run").is_null());
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
