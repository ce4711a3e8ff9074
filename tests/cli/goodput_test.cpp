// orrery goodput as a user has it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace {

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
}

}  // namespace
}  // namespace orrery::cli
