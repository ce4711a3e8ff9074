// `orrery explain`: what a person reads, and the contract of --json.
#include <nlohmann/json.hpp>

#include "cli/text_table.hpp"
#include "tests/cli/world.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;

TEST(Explain, ReadsLikeThis) {
    const Outcome outcome = run({"explain", tiny()});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, "");
    std::istringstream lines(replaced(outcome.out, folder(), ""));
    for (std::string line; std::getline(lines, line);)
        EXPECT_LE(width_of(line), 100u) << line;
    expect_golden("explain.txt", outcome.out);
}

TEST(Explain, JsonHasItsKeysAndSums) {
    const Outcome outcome = run({"explain", tiny(), "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json result = json::parse(outcome.out);
    const double time = result["step"]["time_s"];
    EXPECT_EQ(time, json::parse(run({"simulate", tiny(), "--json"}).out)["step"]["time_s"]);
    EXPECT_TRUE(result["summary"].is_string());
    EXPECT_TRUE(result["scenario"].is_object());
    double sum = 0;
    for (const json& part : result["critical_path"]["parts"]) {
        for (const char* key : {"rank", "represents", "pipeline_rank"})
            EXPECT_TRUE(part[key].is_number_integer()) << key;
        EXPECT_TRUE(part["account"].is_string());
        EXPECT_EQ(part["kind"].is_null(), part["account"] == "launch");
        EXPECT_TRUE(part.contains("group"));
        sum += part["time_s"].get<double>();
    }
    EXPECT_NEAR(sum / time, 1, 1e-12);
    const json& stays = result["critical_path"]["stays"];
    EXPECT_EQ(stays.front()["from_s"], 0.0);
    EXPECT_EQ(stays.back()["to_s"], time);
    for (std::size_t i = 1; i < stays.size(); ++i)
        EXPECT_EQ(stays[i]["from_s"], stays[i - 1]["to_s"]);
    double gain = time;
    for (const json& answer : result["what_if"]) {
        EXPECT_LE(answer["gain_s"].get<double>(), gain) << answer["name"];
        gain = answer["gain_s"];
        EXPECT_NEAR(answer["step_time_s"].get<double>() + gain, time, 1e-12);
        EXPECT_NEAR(answer["gain_share"].get<double>() * time, gain, 1e-12);
        EXPECT_TRUE(answer["sentence"].is_string());
    }
}

// Why a run took as long as it did, and what would have shortened it: by its own times.
TEST(Explain, TellsOfAMeasuredStep) {
    const std::string path = testing::TempDir() + "explained.orrery";
    ASSERT_EQ(run({"simulate", tiny(), "--unfolded", "--trace", path}).code, 0);
    trace::Trace measured = trace::read_trace(path);
    measured.origin = trace::Origin::measured;
    trace::write_trace(measured, path);
    const Outcome priced = run({"simulate", tiny(), "--costs", path, "--json"});
    const Outcome outcome = run({"explain", tiny(), "--costs", path, "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json result = json::parse(outcome.out), simulated = json::parse(priced.out);
    EXPECT_EQ(result["step"]["time_s"], simulated["step"]["time_s"]);
    EXPECT_EQ(result["prices"], simulated["prices"]);
    EXPECT_GT(result["step"]["by_means_s"].get<double>(), 0);
    double sum = 0;
    for (const json& part : result["critical_path"]["parts"])
        sum += part["time_s"].get<double>();
    EXPECT_NEAR(sum / result["step"]["time_s"].get<double>(), 1, 1e-12);
    for (const json& answer : result["what_if"])
        EXPECT_NE(answer["name"], "no_slowdown");
    const std::string text = run({"explain", tiny(), "--costs", path}).out;
    EXPECT_NE(text.find("a step in which each op takes the mean of its like"), std::string::npos);
    EXPECT_NE(text.find("where the prices are from"), std::string::npos);
    // A predicted trace prices nothing.
    measured.origin = trace::Origin::predicted;
    trace::write_trace(measured, path);
    EXPECT_EQ(run({"explain", tiny(), "--costs", path}).code, 3);
}

TEST(Explain, ChangesOfTheScenarioCount) {
    const auto time = [](const std::vector<std::string>& args) {
        return json::parse(run(args).out)["step"]["time_s"].get<double>();
    };
    EXPECT_GT(time({"explain", tiny(), "--json", "--set", "layout.recompute=full"}),
              time({"explain", tiny(), "--json"}));
}

TEST(Explain, OfWhatDoesNotFitIsPrintedAndExits4) {
    const Outcome outcome = run({"explain", tiny(), "--set", "model.n_embd=4096"});
    EXPECT_EQ(outcome.code, 4);
    EXPECT_NE(outcome.out.find("critical path"), std::string::npos);
    EXPECT_NE(outcome.err.find("does not fit"), std::string::npos);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
