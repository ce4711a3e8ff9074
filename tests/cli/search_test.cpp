// orrery search and orrery sweep as a user has them: what they print, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cli/chart.hpp"
#include "cli/vary.hpp"
#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

const std::string kRun = std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/llama2-7b-a100x8.json";

Words joined(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

Outcome searched(const Words& more) {
    return run(joined({"search", kRun}, more));
}

Outcome swept(const Words& more) {
    return run(joined({"sweep", kRun}, more));
}

TEST(Vary, TakesListsAndRanges) {
    const auto values = [](const std::string& text) { return parse_vary("k=" + text).values; };
    EXPECT_EQ(values("1,2,4"), (Words{"1", "2", "4"}));
    EXPECT_EQ(values("16..256*2"), (Words{"16", "32", "64", "128", "256"}));
    EXPECT_EQ(values("1..4"), (Words{"1", "2", "3", "4"}));
    EXPECT_EQ(values("0.1..0.5+0.2"), (Words{"0.1", "0.30000000000000004", "0.5"}));
    EXPECT_EQ(values("none,[1,2],\"a,b\""), (Words{"none", "[1,2]", "\"a,b\""}));
    EXPECT_EQ(values("1,8..32*2"), (Words{"1", "8", "16", "32"}));
}

TEST(Vary, RefusesWhatSaysNothing) {
    for (const char* text : {"key", "=1", "k=", "k=1,", "k=4..1", "k=1..4*1", "k=0..4*2",
                             "k=1..4+0", "k=1..x", "k=2,2", "k=1..1000000"})
        EXPECT_THROW(parse_vary(text), UsageError) << text;
    EXPECT_THROW(parse_all_varies({"k=1", "k=2"}), UsageError);
    EXPECT_THROW(combinations({{"a", Words(200, "x")}, {"b", Words(200, "y")}}, 10'000),
                 UsageError);
}

TEST(Search, PrintsWhatTheContractSays) {
    const Outcome outcome = searched(
        {"--vary", "layout.zero_stage=0..3", "--vary", "layout.micro_batch_size=1,2", "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json printed = json::parse(outcome.out);
    EXPECT_EQ(printed.at("evaluated"), 8);
    EXPECT_TRUE(printed.at("seconds").is_number());
    ASSERT_FALSE(printed.at("layouts").empty());
    double before = 0;
    for (const json& layout : printed.at("layouts")) {
        EXPECT_GE(layout.at("step_time_s").get<double>(), before);
        before = layout.at("step_time_s");
        EXPECT_GT(layout.at("peak_bytes").get<std::int64_t>(), 0);
        EXPECT_GT(layout.at("mfu").get<double>(), 0);
        EXPECT_TRUE(layout.at("layout").contains("tensor_parallel"));
    }
    ASSERT_FALSE(printed.at("pareto").empty());
    std::uint64_t infeasible = 0;
    for (const auto& [why, count] : printed.at("infeasible").items())
        infeasible += count.get<std::uint64_t>();
    EXPECT_LE(infeasible + printed.at("layouts").size(), 8U);
    // The file's own layout beside them: it says ZeRO-3.
    EXPECT_EQ(printed.at("own").at("layout").at("zero_stage"), 3);
}

TEST(Search, TakesKeysThatAreAuto) {
    const Outcome outcome = searched({"--set", "layout.zero_stage=auto", "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(json::parse(outcome.out).at("evaluated"), 4);
    EXPECT_EQ(run({"simulate", kRun, "--set", "layout.zero_stage=auto"}).code, 3);
    const Outcome nothing = searched({"--set", "layout.offload.optimizer=auto"});
    EXPECT_EQ(nothing.code, 3) << nothing.err;
}

TEST(Search, WritesAScenarioThatSimulatesToTheSame) {
    const std::string best = ::testing::TempDir() + "best_of_search.json";
    const Outcome outcome = searched({"--vary", "layout.zero_stage=0..3", "--set",
                                      "layout.micro_batch_size=2", "--write", best, "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const Outcome again = run({"simulate", best, "--json"});
    ASSERT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(json::parse(again.out).at("step").at("time_s"),
              json::parse(outcome.out).at("layouts").at(0).at("step_time_s"));
    std::filesystem::remove(best);
}

// What is listed leaves the margin, and the best without one needed more.
TEST(Search, LeavesAMarginOfMemory) {
    const Words vary = {"--vary", "layout.micro_batch_size=1,2,4,8", "--json"};
    const json all = json::parse(searched(vary).out).at("layouts");
    const std::int64_t most = all.at(0).at("peak_bytes");
    const double capacity =
        json::parse(run({"simulate", kRun, "--json"}).out).at("memory").at("capacity_bytes");
    // A margin that the best does not leave.
    const double percent = 100 * (1 - static_cast<double>(most) / capacity) + 1;
    const Outcome outcome = searched(joined(vary, {"--memory-margin", std::to_string(percent)}));
    const json some = json::parse(outcome.out).at("layouts");
    EXPECT_LT(some.size(), all.size());
    for (const json& layout : some)
        EXPECT_LE(layout.at("peak_bytes").get<double>(), (1 - percent / 100) * capacity);
}

TEST(Search, SaysWhereNothingFits) {
    const Outcome outcome =
        searched({"--vary", "layout.zero_stage=0,1", "--set", "layout.micro_batch_size=8", "--set",
                  "training.sequence_length=65536", "--set", "layout.recompute=none", "--json"});
    EXPECT_EQ(outcome.code, 4) << outcome.err;
    const json printed = json::parse(outcome.out);
    EXPECT_TRUE(printed.at("layouts").empty());
    EXPECT_EQ(printed.at("nearest").size(), 2U);
    EXPECT_THAT(outcome.err, HasSubstr("no layout fits"));
}

TEST(Search, RefusesBadInputBeforeItSearches) {
    EXPECT_EQ(searched({"--objective", "speed"}).code, 2);
    EXPECT_THAT(searched({"--objective", "speed"}).err, HasSubstr("step_time"));
    EXPECT_EQ(searched({"--vary", "layout.zero_stage"}).code, 2);
    EXPECT_EQ(searched({"--vary", "layout.zero_stage=1", "--vary", "layout.zero_stage=2"}).code, 2);
    EXPECT_EQ(searched({"--vary", "layout.zero_stage=7"}).code, 3);
    EXPECT_EQ(searched({"--vary", "layout.colour=1,2"}).code, 3);
    EXPECT_EQ(searched({"--fit-probability", "2"}).code, 2);
    EXPECT_EQ(run({"search", "no-such-file.json"}).code, 5);
    EXPECT_EQ(searched({"--objective", "energy", "--set", "cluster.power_w_per_gpu=0"}).code, 2);
    EXPECT_EQ(searched({"--set", "cluster=clusters/abacus.json"}).code, 5);
}

// A schedule that is a file has no others beside it: kinds that are named are tried, it is not.
TEST(Search, DoesNotPriceAScheduleOfAFile) {
    const std::string grid = ::testing::TempDir() + "search_grid.csv";
    const Words pipeline = {"--set", "layout.pipeline_parallel=2", "--set",
                            "layout.data_parallel=4"};
    const Outcome written = run(joined({"schedule", kRun, "--csv"}, pipeline));
    ASSERT_EQ(written.code, 0) << written.err;
    std::ofstream(grid) << written.out;
    const Words with =
        joined(pipeline, {"--set", "layout.schedule=" + grid, "--vary", "layout.zero_stage=0,1"});
    const Outcome refused = searched(with);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("is a file of actions"));
    const Outcome kinds =
        searched(joined(with, {"--vary", "layout.schedule=1f1b,gpipe", "--json"}));
    ASSERT_EQ(kinds.code, 0) << kinds.err;
    EXPECT_EQ(json::parse(kinds.out).at("priced"), 4);
    std::filesystem::remove(grid);
}

TEST(Sweep, PrintsAPointForEachCombination) {
    const Outcome outcome = swept(
        {"--vary", "layout.micro_batch_size=1,2,3", "--vary", "layout.zero_stage=1,3", "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json points = json::parse(outcome.out).at("points");
    ASSERT_EQ(points.size(), 6U);
    for (const json& point : points) {
        const Outcome alone =
            run({"simulate", kRun, "--json", "--set",
                 "layout.micro_batch_size=" + point.at("set").at("layout.micro_batch_size").dump(),
                 "--set", "layout.zero_stage=" + point.at("set").at("layout.zero_stage").dump()});
        if (point.at("step_time_s").is_null()) {
            EXPECT_EQ(alone.code, 3);  // 3 does not divide the batch
            continue;
        }
        EXPECT_EQ(json::parse(alone.out).at("step").at("time_s"), point.at("step_time_s"));
        EXPECT_EQ(json::parse(alone.out).at("memory").at("verdict"), point.at("verdict"));
    }
}

TEST(Sweep, SearchesEachPointWhereItIsAskedTo) {
    const Outcome outcome = swept({"--vary", "cluster.nodes=1,2", "--set",
                                   "layout.tensor_parallel=auto", "--search", "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json points = json::parse(outcome.out).at("points");
    ASSERT_EQ(points.size(), 2U);
    EXPECT_EQ(points[0].at("gpus"), 8);
    EXPECT_EQ(points[1].at("gpus"), 16);
    EXPECT_LT(points[1].at("step_time_s"), points[0].at("step_time_s"));
}

TEST(Sweep, RefusesBadInput) {
    EXPECT_EQ(swept({}).code, 2);
    EXPECT_EQ(swept({"--vary", "layout.zero_stage=1", "--metric", "joy"}).code, 2);
    EXPECT_EQ(swept({"--vary", "layout.zero_stage=7,8"}).code, 3);
    EXPECT_EQ(swept({"--vary", "a=1", "--vary", "b=1", "--vary", "c=1", "--svg", "x.svg"}).code, 2);
    EXPECT_EQ(swept({"--vary", "layout.zero_stage=1", "--svg", "x.png"}).code, 2);
}

// Keys that leave few layouts, so that a test takes no time.
Outcome sized(const Words& more) {
    return run(joined({"size", kRun, "--set", "layout.tensor_parallel=auto"}, more));
}

TEST(Size, SaysDaysAndCostOfEachCluster) {
    const Outcome outcome = sized({"--tokens", "1e12", "--gpus", "8..32*2", "--json", "--set",
                                   "cluster.price_usd_per_gpu_hour=2", "--carbon-intensity", "400",
                                   "--set", "cluster.power_w_per_gpu=500"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json printed = json::parse(outcome.out);
    ASSERT_EQ(printed.at("options").size(), 3U);
    for (const json& option : printed.at("options")) {
        const double days = option.at("days");
        const double hours = days * 24 * option.at("gpus").get<double>();
        EXPECT_NEAR(option.at("gpu_hours").get<double>(), hours, 1e-6 * hours);
        EXPECT_NEAR(option.at("cost_usd").get<double>(), 2 * hours, 1e-6 * hours);
        // Kilowatt-hours × grams.
        const double pue = 1.0;
        EXPECT_GE(option.at("carbon_t").get<double>(), hours * 0.5 * pue * 400e-6 * (1 - 1e-9));
        EXPECT_LT(option.at("interval_days").at(0).get<double>(), days);
        EXPECT_GT(option.at("interval_days").at(1).get<double>(), days);
    }
    EXPECT_EQ(printed.at("smallest"), 0);
    EXPECT_EQ(printed.at("fastest"), 2);
}

// As the layout of each is simulated.
TEST(Size, SaysHowSurelyEachFits) {
    const json printed =
        json::parse(sized({"--tokens", "1e12", "--gpus", "8..16*2", "--json"}).out);
    ASSERT_EQ(printed.at("options").size(), 2U);
    for (const json& option : printed.at("options")) {
        Words words = {"simulate", kRun, "--json"};
        for (const json& set : option.at("set"))
            words = joined(words, {"--set", set.get<std::string>()});
        const json memory = json::parse(run(words).out).at("memory");
        EXPECT_EQ(option.at("fit_probability"), memory.at("fit_probability"));
        double most = 0;
        for (const json& stage : memory.at("stages"))
            most = std::max(most, stage.at("peak_bytes").get<double>());
        EXPECT_EQ(option.at("peak_bytes").get<double>(), most);
    }
}

TEST(Size, CountsOnlyWhatMeetsDeadlineAndBudget) {
    const Words run_of = {"--tokens", "1e12", "--gpus", "8..32*2", "--json"};
    const json all = json::parse(sized(run_of).out);
    const double days = all.at("options").at(1).at("days");
    const Outcome in_time =
        sized(joined(run_of, {"--deadline", std::to_string(days * 1.01) + "d"}));
    ASSERT_EQ(in_time.code, 0) << in_time.err;
    EXPECT_EQ(json::parse(in_time.out).at("smallest"), 1);
    const Outcome never = sized(joined(run_of, {"--deadline", "1h"}));
    EXPECT_EQ(never.code, 4);
    EXPECT_TRUE(json::parse(never.out).at("smallest").is_null());
    EXPECT_EQ(sized(joined(run_of, {"--budget", "0"})).code, 4);
}

TEST(Size, RefusesBadInput) {
    EXPECT_EQ(sized({"--tokens", "0"}).code, 2);
    EXPECT_EQ(sized({"--tokens", "1e9", "--deadline", "soon"}).code, 2);
    EXPECT_EQ(sized({"--tokens", "1e9", "--deadline", "-3d"}).code, 2);
    EXPECT_EQ(sized({"--tokens", "1e9", "--gpus", "9"}).code, 2);  // nodes of 8
    EXPECT_EQ(sized({"--tokens", "1e9", "--cluster", "clusters/abacus.json"}).code, 5);
    EXPECT_EQ(sized({"--set", "training.tokens=0"}).code, 2);
}

// Every entry of the library can be read, and is named as a scenario names it.
TEST(List, HasWhatTheLibraryHas) {
    for (const char* kind : {"models", "clusters", "profiles", "frameworks"}) {
        const Outcome outcome = run({"list", kind, "--json"});
        ASSERT_EQ(outcome.code, 0) << outcome.err;
        EXPECT_EQ(outcome.err, "");
        std::size_t files = 0;
        for (const auto& entry : std::filesystem::directory_iterator(
                 std::string(ORRERY_SOURCE_DIR) + "/scenarios/" + kind))
            files += entry.path().extension() == ".json" ? 1 : 0;
        EXPECT_EQ(json::parse(outcome.out).at(kind).size(), files) << kind;
    }
    const json llamas = json::parse(run({"list", "models", "LLAMA3-70", "--json"}).out);
    ASSERT_EQ(llamas.at("models").size(), 1U);
    // As the model's file says of itself.
    EXPECT_EQ(llamas.at("models").at(0).at("parameters"), 70'553'706'496);
    EXPECT_EQ(run({"list", "planets"}).code, 2);
}

TEST(Chart, DrawsEachPointWithinThePage) {
    LineChart chart{"a < b & c", "", "nodes", "s", true, {{"l", {{1, 2, 1, 3}, {8, 4, 3, 6}}}}};
    const std::string svg = line_chart_svg(chart);
    EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; c"));
    std::size_t circles = 0;
    for (std::size_t at = svg.find("<circle"); at != std::string::npos;
         at = svg.find("<circle", at + 1)) {
        ++circles;
        const double x = std::stod(svg.substr(svg.find("cx=\"", at) + 4));
        const double y = std::stod(svg.substr(svg.find("cy=\"", at) + 4));
        EXPECT_TRUE(x > 0 && x < 760 && y > 0 && y < 440);
    }
    EXPECT_EQ(circles, 2U);
    HeatMap map{"t",         "", "x", "y", "v", true, {"1", "2"}, {"a"}, {{1.0, std::nullopt}},
                {{"1", "–"}}};
    EXPECT_THAT(heat_map_svg(map), HasSubstr("–"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
