// --routing: a step is priced with experts chosen as a run has counted.
#include <fstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
using testing::HasSubstr;

std::string written(const std::string& name, const std::string& text) {
    const std::string path = testing::TempDir() + name;
    std::ofstream(path) << text;
    return path;
}

json priced(std::vector<std::string> more) {
    std::vector<std::string> args = {"simulate", tiny_experts(), "--json"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = run(args);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(outcome.out, nullptr, false);
}

// Two layers of eight experts, two to a rank of four. The first rank's two experts are chosen 3 and
// 2 times of 8 choices that four ranks would have 2 of each: 5 ÷ 2; in the other layer the fullest
// has 3.
constexpr const char* kSkewed = "[3, 2, 1, 0, 1, 0, 1, 0]";
constexpr const char* kLess = "[0, 1, 1, 2, 1, 1, 1, 1]";

TEST(RoutingCounts, AreRowsOrTheLinesOfARun) {
    const std::string rows = written("rows.json", std::string("[") + kSkewed + ", " + kLess + "]");
    const json counted = priced({"--routing", rows});
    EXPECT_DOUBLE_EQ(counted["step"]["routing"]["fullest_rank"], (5.0 / 2 + 3.0 / 2) / 2);
    const std::string lines =
        written("lines.jsonl", std::string(R"({"event": "start"})") + "\n" +
                                   R"({"event": "step", "step": 1, "expert_counts": [)" + kSkewed +
                                   "]}\n" + R"({"event": "step", "step": 2, "expert_counts": [)" +
                                   kLess + "]}\n" + R"({"event": "step", "step": 3, "expert_c)");
    const json read = priced({"--routing", lines});
    EXPECT_EQ(read["step"], counted["step"]);
    EXPECT_EQ(read["step"], priced({"--set", "training.routing.distribution=counts", "--set",
                                    std::string("training.routing.counts=[") + kSkewed + "," +
                                        kLess + "]"})["step"]);
    EXPECT_NE(read["step"]["time_s"], priced({})["step"]["time_s"]);
}

TEST(RoutingCounts, AreAskedForAgain) {
    const std::string rows = written("again.json", std::string("[") + kSkewed + "]");
    const Outcome outcome = run({"simulate", tiny_experts(), "--routing", rows});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.out, HasSubstr("orrery explain " + tiny_experts() + " --routing " + rows));
    EXPECT_EQ(run({"explain", tiny_experts(), "--routing", rows}).code, 0);
}

TEST(RoutingCounts, AreRefusedWhereThereAreNone) {
    for (const std::string& none : {written("none.jsonl", "{\"event\": \"step\", \"loss\": 3}\n"),
                                    written("empty.json", ""), written("empty_rows.json", "[]")}) {
        const Outcome outcome = run({"simulate", tiny_experts(), "--routing", none});
        EXPECT_EQ(outcome.code, 5);
        EXPECT_EQ(outcome.out, "");
        EXPECT_THAT(outcome.err, HasSubstr("there are no counts of experts"));
    }
    const Outcome missing = run({"simulate", tiny_experts(), "--routing", "nowhere.json"});
    EXPECT_EQ(missing.code, 5);
    EXPECT_THAT(missing.err, HasSubstr("--routing nowhere.json: No such file or directory"));
    const Outcome narrow =
        run({"simulate", tiny_experts(), "--routing", written("narrow.json", "[[1, 2, 3]]")});
    EXPECT_EQ(narrow.code, 3);
    EXPECT_THAT(narrow.err, HasSubstr("3 counts, model.num_local_experts = 8"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
