// `orrery diff`: what a person reads, and the contract of --json.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/text_table.hpp"
#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;

Outcome compared(std::vector<std::string> more) {
    std::vector<std::string> args = {"diff", tiny(), tiny()};
    args.insert(args.end(), more.begin(), more.end());
    return run(args);
}

TEST(Diff, ReadsLikeThis) {
    const Outcome outcome =
        compared({"--set-b", "layout.recompute=full", "--set-b", "layout.zero_stage=2"});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, "");
    std::istringstream lines(replaced(outcome.out, folder(), ""));
    for (std::string line; std::getline(lines, line);)
        EXPECT_LE(width_of(line), 100u) << line;
    expect_golden("diff.txt", outcome.out);
}

TEST(Diff, JsonHasItsKeysAndSums) {
    const Outcome outcome = compared({"--json", "--set-b", "layout.recompute=full"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json result = json::parse(outcome.out);
    const json& step = result["step"];
    EXPECT_EQ(step["a_s"], result["a"]["step_time_s"]);
    EXPECT_EQ(step["b_s"], result["b"]["step_time_s"]);
    EXPECT_GT(step["difference_s"].get<double>(), 0);
    EXPECT_EQ(result["accounts"].size(), 12u);
    double sum = 0;
    for (const auto& [name, account] : result["accounts"].items())
        sum += account["difference_s"].get<double>();
    EXPECT_NEAR(sum / step["difference_s"].get<double>(), 1, 1e-12);
    EXPECT_EQ(result["keys"],
              json::parse(R"([{"pointer": "/layout/recompute", "a": "none", "b": "full"}])"));
    EXPECT_TRUE(result["summary"].is_string());
    for (const json& op : result["busy"]) {
        EXPECT_TRUE(op["kind"].is_string());
        EXPECT_TRUE(op["group"].is_string() || op["group"].is_null());
        EXPECT_TRUE(op["a_s"].is_number() && op["b_s"].is_number());
    }
    const json& counts = result["op_counts"];
    EXPECT_EQ(counts["a_alone"], 0);  // a forward pass more, and no op fewer
    EXPECT_EQ(counts["aligned"], counts["a"]);
    std::int64_t alone = 0;
    double of_ops = 0, of_busy = 0;
    for (const json& op : result["ops"]) {
        EXPECT_EQ(op["in"] == "b", op["phase"] == "recompute") << op;
        if (op["in"] == "b") alone += op["count"].get<std::int64_t>();
        of_ops += op["difference_s"].get<double>();
    }
    for (const json& op : result["busy"])
        of_busy += op["difference_s"].get<double>();
    EXPECT_EQ(counts["b_alone"], alone);
    EXPECT_NEAR(of_ops / of_busy, 1, 1e-9);
    for (const json& stage : result["stages"])
        EXPECT_TRUE(stage["stage"].is_number() && stage["kind"].is_string());
    for (const char* side : {"a", "b"}) {
        for (const char* key : {"tokens_per_s", "tokens_per_s_per_gpu", "mfu", "hfu", "gpus",
                                "days", "gpu_hours", "cost_usd"})
            EXPECT_TRUE(result[side][key].is_number()) << key;
        const json& memory = result[side]["memory"];
        std::int64_t bytes = 0;
        for (const char* key :
             {"parameters_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes",
              "workspace_bytes", "communication_bytes", "other_bytes"})
            bytes += memory[key].get<std::int64_t>();
        EXPECT_EQ(memory["peak_bytes"], bytes);
    }
}

// B has the model of a small mixture of experts.
Outcome with_experts(std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--set-b", "model=models/tiny-moe.json", "--set-b",
                             "layout.sequence_parallel=true"});
    return compared(std::move(more));
}

// Models of unlike families are told in a line each and by what they mean; their keys are counted.
TEST(Diff, OfUnlikeFamiliesReadsLikeThis) {
    const Outcome outcome = with_experts();
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::istringstream lines(replaced(outcome.out, folder(), ""));
    for (std::string line; std::getline(lines, line);)
        EXPECT_LE(width_of(line), 100u) << line;
    EXPECT_EQ(outcome.out.find("/model/"), std::string::npos);
    expect_golden("diff_families.txt", outcome.out);
}

TEST(Diff, KnowsWhatModelsHaveWhateverTheirFamilyCallsIt) {
    const Outcome outcome = with_experts({"--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json result = json::parse(outcome.out);
    const json &a = result["a"]["model"], &b = result["b"]["model"];
    // GPT-2: 12·h² + 13·h for each layer; words, positions and a norm of two vectors besides.
    const std::int64_t h = 1024, of_a = 4 * (12 * h * h + 13 * h) + (8192 + 1024) * h + 2 * h;
    EXPECT_EQ(a["parameters"], of_a);
    EXPECT_EQ(a["active_parameters"], of_a);
    // Mixtral: 4·w² of attention, 8·w of the router, two norms, eight experts of three matrices
    // each; words at both ends and a norm. A token goes to two of the experts.
    const std::int64_t w = 64, expert = 3 * w * 128;
    const std::int64_t beside = 4 * (4 * w * w + 8 * w + 2 * w) + 2 * 256 * w + w;
    EXPECT_EQ(b["parameters"], beside + 4 * 8 * expert);
    EXPECT_EQ(b["active_parameters"], beside + 4 * 2 * expert);
    EXPECT_EQ(a["layers"], 4);
    EXPECT_EQ(a["width"], 1024);
    EXPECT_EQ(b["width"], 64);
    EXPECT_EQ(a["heads"], 16);
    EXPECT_EQ(b["heads"], 8);
    EXPECT_EQ(a["mlp_width"], 4096);
    EXPECT_TRUE(b["mlp_width"].is_null());
    EXPECT_TRUE(a["experts"].is_null());
    EXPECT_EQ(b["experts"], 8);
    EXPECT_EQ(b["experts_per_token"], 2);
    EXPECT_EQ(b["expert_width"], 128);
    EXPECT_EQ(b["expert_layers"], 4);
    EXPECT_EQ(a["positions"], "learned");
    EXPECT_EQ(b["positions"], "rotary");
    EXPECT_EQ(a["vocabulary"], 8192);
    EXPECT_EQ(b["tied_embeddings"], false);
    // All keys are there all the same.
    const auto has = [&](const char* pointer) {
        return std::any_of(result["keys"].begin(), result["keys"].end(),
                           [&](const json& key) { return key["pointer"] == pointer; });
    };
    EXPECT_TRUE(has("/model/n_embd") && has("/model/hidden_size"));
}

// Layout, training and cluster, in this order, behind the models' lines; of one family its keys.
TEST(Diff, TellsKeysInTheOrderOfWhatTheyAreOf) {
    const Outcome outcome =
        compared({"--set-b", "cluster.price_usd_per_gpu_hour=3", "--set-b", "training.launch_us=2",
                  "--set-b", "layout.zero_stage=0", "--set-b", "model.n_inner=2048"});
    std::vector<std::size_t> places;
    for (const char* said :
         {"\n  A           tiny (gpt2):", "/model/n_inner", "/layout/zero_stage",
          "/training/framework", "/cluster/price_usd_per_gpu_hour", "where the time goes"})
        places.push_back(outcome.out.find(said));
    EXPECT_TRUE(std::is_sorted(places.begin(), places.end())) << outcome.out;
    EXPECT_LT(places.back(), outcome.out.size()) << outcome.out;
}

TEST(Diff, SaysTimesWherePercentagesAreTooLarge) {
    const Outcome outcome = compared({"--set-b", "layout.global_batch_size=160"});
    EXPECT_NE(outcome.out.find("x 20.0"), std::string::npos) << outcome.out;  // tokens of a step
}

TEST(Diff, OfAScenarioWithItselfIsNothing) {
    const json result = json::parse(compared({"--json"}).out);
    EXPECT_EQ(result["step"]["difference_s"], 0.0);
    for (const auto& [name, account] : result["accounts"].items())
        EXPECT_EQ(account["difference_s"], 0.0) << name;
    for (const json& op : result["busy"])
        EXPECT_EQ(op["difference_s"], 0.0);
    for (const char* count : {"longer", "shorter", "moved", "resized", "a_alone", "b_alone"})
        EXPECT_EQ(result["op_counts"][count], 0) << count;
    EXPECT_EQ(result["op_counts"]["aligned"], result["op_counts"]["a"]);
    for (const json& op : result["ops"])
        EXPECT_EQ(op["difference_s"], 0.0);
    EXPECT_TRUE(result["keys"].empty());
    EXPECT_EQ(result["summary"], "A and B take the same time.");
    EXPECT_EQ(result["a"], result["b"]);
}

TEST(Diff, TakesOverridesOfEachSide) {
    const json result = json::parse(
        compared({"--json", "--set-a", "layout.zero_stage=0", "--set-b", "layout.zero_stage=0"})
            .out);
    EXPECT_EQ(result["a"]["scenario"]["layout"]["zero_stage"], 0);
    EXPECT_EQ(result["step"]["difference_s"], 0.0);
}

TEST(Diff, SaysWhichOverrideIsWrong) {
    const Outcome outcome = compared({"--set-b", "layout"});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find("--set-b layout: KEY=VALUE"), std::string::npos) << outcome.err;
    EXPECT_EQ(compared({"--set-a", "layout.zero_stage=9"}).code, 3);
    EXPECT_EQ(run({"diff", tiny(), "nowhere.json"}).code, 5);
    EXPECT_EQ(compared({"--set-b", "model.n_embd=4096"}).code, 4);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
