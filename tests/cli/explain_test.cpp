// `orrery explain`: what a person reads, and the contract of --json.
#include <nlohmann/json.hpp>

#include "cli/text_table.hpp"
#include "tests/cli/world.hpp"

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
