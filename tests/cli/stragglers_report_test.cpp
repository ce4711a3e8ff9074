// What orrery simulate says of devices and links that are not alike.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

const std::string kRun =
    std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/gpt3-175b-a100x1024.json";

Outcome simulated(const Words& more) {
    Words words = {"simulate", kRun};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
}

TEST(StragglersReport, SaysWhatTheyCostAndWhichIsWorst) {
    const Words slow = {"--set", R"(cluster.slow_devices=[{"device": 12, "factor": 1.3}])", "--set",
                        R"(cluster.slow_links=[{"node": 5, "factor": 2}])"};
    const Outcome text = simulated(slow);
    EXPECT_THAT(text.out, HasSubstr("device 12 takes 1.3 x as long"));
    EXPECT_THAT(text.out, HasSubstr("the adapters of node 5 have 1/2 of their bandwidth"));
    EXPECT_THAT(text.out, HasSubstr("1 slow device, 1 slow adapter or node's network"));
    Words asked = slow;
    asked.push_back("--json");
    const json step = json::parse(simulated(asked).out).at("step");
    const json& cost = step.at("stragglers");
    const double added = step.at("time_s").get<double>() - cost.at("even_s").get<double>();
    EXPECT_NEAR(cost.at("added_s").get<double>(), added, 1e-9);
    double sum = 0;
    for (const auto& [account, of_it] : cost.at("added_breakdown_s").items())
        sum += of_it.get<double>();
    EXPECT_NEAR(sum, added, 1e-9);
    EXPECT_EQ(cost.at("worst").at("of"), "device");
    EXPECT_EQ(cost.at("worst").at("rank"), 12);
    EXPECT_EQ(cost.at("slow").at("inter_node"), 1);
    EXPECT_FALSE(step.contains("draws"));
}

TEST(StragglersReport, OfAnEvenClusterThereIsNone) {
    const json step = json::parse(simulated({"--json"}).out).at("step");
    EXPECT_FALSE(step.contains("stragglers"));
}

TEST(StragglersReport, TellsTheSpreadOfDraws) {
    const Words asked = {"--set", "cluster.stragglers=megascale", "--draws", "6", "--json"};
    const Outcome outcome = simulated(asked);
    const json step = json::parse(outcome.out).at("step");
    const json& draws = step.at("draws");
    EXPECT_EQ(draws.at("count"), 6);
    ASSERT_EQ(draws.at("times_s").size(), 6U);
    EXPECT_EQ(draws.at("times_s").at(0), step.at("time_s"));
    EXPECT_LE(draws.at("quantiles_s").at("min"), draws.at("quantiles_s").at("p50"));
    EXPECT_LE(draws.at("quantiles_s").at("p50"), draws.at("quantiles_s").at("max"));
    EXPECT_EQ(simulated(asked).out, outcome.out);
}

TEST(StragglersReport, RefusesDrawsOfNothing) {
    const Outcome outcome = simulated({"--draws", "3"});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("--draws needs something to draw"));
    const Outcome unknown = simulated({"--set", "cluster.stragglers=megascal"});
    EXPECT_EQ(unknown.code, 5);
    EXPECT_THAT(unknown.err, HasSubstr("did you mean \"stragglers/megascale.json\"?"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
