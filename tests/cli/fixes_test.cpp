// What `orrery simulate` says of a layout that does not fit: what would make it fit.
#include <nlohmann/json.hpp>

#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;

const std::vector<std::string> kTooLarge = {"simulate",          tiny(),  "--set",
                                            "model.n_embd=2048", "--set", "layout.zero_stage=0"};

std::vector<std::string> with(std::vector<std::string> args, const std::vector<std::string>& more) {
    args.insert(args.end(), more.begin(), more.end());
    return args;
}

// Each fix, run as it stands, gives what it promised.
TEST(Fixes, OfTheReportAreRunAsTheyStand) {
    const Outcome outcome = run(with(kTooLarge, {"--json"}));
    ASSERT_EQ(outcome.code, 4) << outcome.err;
    const json result = json::parse(outcome.out);
    ASSERT_FALSE(result["fixes"].empty());
    EXPECT_GT(result["fix_search"]["tried"], 0);
    EXPECT_TRUE(result["fix_search"]["closest"].is_null());
    for (const json& fix : result["fixes"]) {
        std::vector<std::string> args = with(kTooLarge, {"--json"});
        for (const auto& [key, value] : fix["set"].items())
            args = with(
                args, {"--set",
                       key + "=" + (value.is_string() ? value.get<std::string>() : value.dump())});
        const Outcome fixed = run(args);
        EXPECT_EQ(fixed.code, 0) << fix;
        const json alone = json::parse(fixed.out);
        std::int64_t peak = 0;
        for (const json& stage : alone["memory"]["stages"])
            peak = std::max(peak, stage["peak_bytes"].get<std::int64_t>());
        EXPECT_EQ(fix["peak_bytes"], peak);
        EXPECT_EQ(fix["verdict"], alone["memory"]["verdict"]);
        EXPECT_EQ(fix["step_time_s"], alone["step"]["time_s"]);
        EXPECT_EQ(fix["gpus"], alone["run"]["gpus"]);
        EXPECT_EQ(fix["step_time_ratio"].get<double>(),
                  alone["step"]["time_s"].get<double>() / result["step"]["time_s"].get<double>());
    }
}

// Llama 3 70B on one node of H100: recomputation with the optimizer in the node's memory fits, and
// so does recomputation on four nodes.
// Also where the scenario says how many replicas there are: new nodes are no use to the old ones.
TEST(Fixes, ReachForTheHostAndForMoreNodes) {
    for (const json& data_parallel : {json("auto"), json(8)}) {
        const json scenario = {
            {"model", "models/llama3-70b.json"},
            {"cluster", "clusters/h100-sxm-8.json"},
            {"layout",
             {{"zero_stage", 3}, {"global_batch_size", 64}, {"data_parallel", data_parallel}}},
            {"training", {{"sequence_length", 8192}}}};
        const Outcome outcome =
            run({"simulate", written("one_node.json", scenario.dump()), "--json"});
        EXPECT_EQ(outcome.code, 4) << outcome.err;
        std::vector<json> found;
        const json result = json::parse(outcome.out);
        for (const json& fix : result["fixes"])
            found.push_back(fix["set"]);
        const json host = {{"layout.recompute", "full"}, {"layout.offload.optimizer", "host"}};
        json nodes = {{"layout.recompute", "full"}, {"cluster.nodes", 4}};
        if (data_parallel != "auto") nodes["layout.data_parallel"] = 32;
        for (const json& wanted : {host, nodes})
            EXPECT_NE(std::find(found.begin(), found.end(), wanted), found.end()) << outcome.out;
    }
}

TEST(Fixes, AreNoneWhereItFits) {
    const json result = json::parse(run({"simulate", tiny(), "--json"}).out);
    EXPECT_EQ(result["fixes"], json::array());
    EXPECT_FALSE(result.contains("fix_search"));
}

TEST(Fixes, WhereNothingFitsTheClosestIsNamed) {
    const std::vector<std::string> hopeless = {"simulate", tiny(), "--set", "model.n_embd=32768"};
    const json result = json::parse(run(with(hopeless, {"--json"})).out);
    EXPECT_TRUE(result["fixes"].empty());
    const json& search = result["fix_search"];
    EXPECT_GT(search["tried"], 0);
    EXPECT_FALSE(search["keys"].empty());
    EXPECT_GT(search["closest"]["peak_bytes"], result["memory"]["capacity_bytes"]);
    EXPECT_EQ(search["closest"]["verdict"], "exceeds");
    const Outcome text = run(hopeless);
    EXPECT_EQ(text.code, 4);
    EXPECT_NE(text.out.find("nothing: "), std::string::npos);
    EXPECT_NE(text.out.find("closest"), std::string::npos);
}

TEST(Fixes, ReadLikeThis) {
    const Outcome outcome = run(kTooLarge);
    EXPECT_EQ(outcome.code, 4);
    const std::size_t from = outcome.out.find("\nto make it fit");
    ASSERT_NE(from, std::string::npos);
    const std::size_t to = outcome.out.find("\nthe run", from);
    expect_golden("fixes.txt", outcome.out.substr(from + 1, to - from - 1));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
