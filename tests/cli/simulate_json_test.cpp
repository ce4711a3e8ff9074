// The contract of `orrery simulate --json`: every key with its type, and what the numbers must sum
// to.
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdio>
#include <map>

#include <nlohmann/json.hpp>

#include "cli/report.hpp"
#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;

json simulated(std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"simulate", tiny(), "--json"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = run(args);
    EXPECT_EQ(outcome.err, "");
    return json::parse(outcome.out);
}

// Each key is there with this type: n integer, x number, b boolean, s string, ? number or null.
void expect_keys(const json& object, const std::map<std::string, char>& keys) {
    for (const auto& [key, type] : keys) {
        ASSERT_TRUE(object.contains(key)) << key;
        const json& value = object[key];
        switch (type) {
            case 'n':
                EXPECT_TRUE(value.is_number_integer()) << key << ' ' << value;
                break;
            case 'x':
                EXPECT_TRUE(value.is_number()) << key << ' ' << value;
                break;
            case 'b':
                EXPECT_TRUE(value.is_boolean()) << key;
                break;
            case 's':
                EXPECT_TRUE(value.is_string()) << key;
                break;
            default:
                EXPECT_TRUE(value.is_number() || value.is_null()) << key;
        }
    }
}

const std::map<std::string, char> kBreakdown = {
    {"compute", 'x'},          {"recompute", 'x'},      {"exposed_tensor", 'x'},
    {"exposed_context", 'x'},  {"exposed_expert", 'x'}, {"exposed_data", 'x'},
    {"exposed_pipeline", 'x'}, {"bubble", 'x'},         {"imbalance", 'x'},
    {"launch", 'x'},           {"optimizer", 'x'},      {"other", 'x'}};

// The profile's sheet lists no fp16: its peak is bf16's, and is called so.
TEST(SimulateJson, TakesThePeakOfBf16WhereTheSheetHasNoneOfFp16) {
    const json bf16 = simulated()["throughput"];
    const json fp16 = simulated({"--set", "training.precision=fp16"})["throughput"];
    EXPECT_EQ(fp16["peak_tflops"], bf16["peak_tflops"]);
    EXPECT_EQ(fp16["peak_source"],
              "of bf16, the profile has none of fp16: " + bf16["peak_source"].get<std::string>());
    EXPECT_LT(fp16["mfu"], bf16["mfu"]);  // gradients are unscaled, and overflow is looked for
}

TEST(SimulateJson, HasEveryKeyOfTheContract) {
    const json result = simulated();
    expect_keys(result["conserved"], {{"layers", 'n'},
                                      {"parameters", 'n'},
                                      {"tokens_per_step", 'n'},
                                      {"model_flops_per_step", 'x'}});
    expect_keys(
        result["memory"],
        {{"capacity_bytes", 'n'}, {"fits", 'b'}, {"fit_probability", 'x'}, {"verdict", 's'}});
    for (const json& stage : result["memory"]["stages"])
        expect_keys(stage, {{"stage", 'n'},
                            {"parameters_bytes", 'n'},
                            {"gradients_bytes", 'n'},
                            {"optimizer_bytes", 'n'},
                            {"activations_bytes", 'n'},
                            {"workspace_bytes", 'n'},
                            {"communication_bytes", 'n'},
                            {"other_bytes", 'n'},
                            {"peak_bytes", 'n'},
                            {"peak_at", 's'}});
    expect_keys(result["step"], {{"time_s", 'x'}, {"bubble_fraction", 'x'}});
    ASSERT_EQ(result["step"]["interval_s"].size(), 2u);
    expect_keys(result["step"]["breakdown_s"], kBreakdown);
    EXPECT_EQ(result["step"]["breakdown_s"].size(), kBreakdown.size());
    expect_keys(result["throughput"], {{"tokens_per_s", 'x'},
                                       {"tokens_per_s_per_gpu", 'x'},
                                       {"model_tflops_per_gpu", 'x'},
                                       {"mfu", 'x'},
                                       {"mfu_causal", 'x'},
                                       {"hfu", 'x'},
                                       {"peak_tflops", 'x'},
                                       {"peak_source", 's'}});
    for (const char* group : {"tensor", "data", "pipeline"}) {
        ASSERT_TRUE(result["communication"].contains(group)) << group;
        expect_keys(result["communication"][group],
                    {{"bytes_per_rank", 'x'}, {"busy_s", 'x'}, {"exposed_s", 'x'}});
    }
    expect_keys(
        result["run"],
        {{"gpus", 'n'}, {"days", '?'}, {"gpu_hours", '?'}, {"cost_usd", '?'}, {"energy_mwh", '?'}});
}

TEST(SimulateJson, StagesSumToTheirPeaksExactly) {
    const json result = simulated();
    const json& stages = result["memory"]["stages"];
    ASSERT_EQ(stages.size(), 2u);  // the scenario's pipeline
    for (std::size_t i = 0; i < stages.size(); ++i) {
        EXPECT_EQ(stages[i]["stage"], i);
        std::int64_t sum = 0;
        for (const auto& [key, value] : stages[i].items())
            if (key.size() > 6 && key.substr(key.size() - 6) == "_bytes" && key != "peak_bytes")
                sum += value.get<std::int64_t>();
        EXPECT_EQ(sum, stages[i]["peak_bytes"].get<std::int64_t>());
    }
}

TEST(SimulateJson, BreakdownSumsToTheStep) {
    const json step = simulated()["step"];
    double sum = 0;
    for (const auto& [key, value] : step["breakdown_s"].items())
        sum += value.get<double>();
    const double time = step["time_s"];
    EXPECT_NEAR(sum / time, 1, 1e-12);
    EXPECT_NEAR(step["bubble_fraction"].get<double>(),
                step["breakdown_s"]["bubble"].get<double>() / time, 1e-15);
    EXPECT_LT(step["interval_s"][0], time);
    EXPECT_GT(step["interval_s"][1], time);
}

// tiny.json: 8 sequences of 1024 tokens on 8 of 10 GPUs, which are all rented at 2 USD per
// GPU-hour; 1e9 tokens; no power.
TEST(SimulateJson, RatesFollowFromTheStep) {
    const json result = simulated();
    const double time = result["step"]["time_s"];
    EXPECT_EQ(result["conserved"]["tokens_per_step"], 8 * 1024);
    EXPECT_DOUBLE_EQ(result["throughput"]["tokens_per_s"], 8 * 1024 / time);
    EXPECT_DOUBLE_EQ(result["throughput"]["tokens_per_s_per_gpu"], 1024 / time);
    const double flops = result["conserved"]["model_flops_per_step"];
    EXPECT_NEAR(result["throughput"]["mfu"].get<double>(), flops / time / 8 / 100e12, 1e-12);
    const double hours = 1e9 / (8 * 1024) * time / 3600;
    EXPECT_NEAR(result["run"]["gpu_hours"].get<double>() / (8 * hours), 1, 1e-12);
    EXPECT_NEAR(result["run"]["rented_gpu_hours"].get<double>() / (10 * hours), 1, 1e-12);
    EXPECT_NEAR(result["run"]["cost_usd"].get<double>() / (20 * hours), 1, 1e-12);
    EXPECT_EQ(result["run"]["price"], json({{"usd_per_gpu_hour", 2.0}, {"assumed", false}}));
    EXPECT_TRUE(result["run"]["energy_mwh"].is_null());
}

// 4 ranks on one of two nodes of 5: the cluster is paid for, and what its one node would cost is
// said.
TEST(SimulateJson, CostsWhatIsRentedAndWhatWouldDo) {
    const json run = simulated({"--set", "layout.data_parallel=1"})["run"];
    EXPECT_EQ(run["gpus"], 4);
    EXPECT_EQ(run["idle_gpus"], 6);
    const double hours = run["gpu_hours"].get<double>() / 4;
    EXPECT_NEAR(run["cost_usd"].get<double>() / (10 * 2 * hours), 1, 1e-12);
    EXPECT_NEAR(run["cost_nodes_used_usd"].get<double>() / (5 * 2 * hours), 1, 1e-12);
}

TEST(SimulateJson, LeavesUnknownRunNull) {
    const json run = simulated({"--set", "training.tokens=0"})["run"];
    for (const char* key : {"days", "gpu_hours", "cost_usd", "energy_mwh"})
        EXPECT_TRUE(run[key].is_null()) << key;
    EXPECT_EQ(run["gpus"], 8);
}

TEST(SimulateJson, EmbedsAScenarioThatGivesTheSameResult) {
    json first = simulated({"--set", "layout.micro_batch_size=2"});
    EXPECT_EQ(first["scenario"]["layout"]["micro_batch_size"], 2);
    const std::string again = folder() + "tiny-profile.json";
    json scenario = first["scenario"];
    scenario["cluster"]["profile"] = again;  // the one reference that stays
    const std::string path = written("embedded_scenario.json", scenario.dump());
    const Outcome outcome = run({"simulate", path, "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    json second = json::parse(outcome.out);
    second["scenario"] = first["scenario"];
    // What is resolved gives every key, those too that were defaults: more of them are unused.
    EXPECT_GE(second["unused"].size(), first["unused"].size());
    second.erase("unused");
    first.erase("unused");
    EXPECT_EQ(second, first);
}

TEST(SimulateJson, NamesTheKeysThatChangeNothing) {
    const auto lists = [](const json& result, const std::string& pointer) {
        for (const json& key : result["unused"])
            if (key["pointer"] == pointer) return !key["why"].get<std::string>().empty();
        return false;
    };
    EXPECT_FALSE(lists(simulated(), "/training/seed"));  // nobody gave it
    EXPECT_TRUE(lists(simulated({"--set", "training.seed=7"}), "/training/seed"));
    EXPECT_FALSE(lists(simulated(), "/cluster/price_usd_per_gpu_hour"));  // of the run's tokens
}

TEST(SimulateJson, OfADeadlockNamesTheWaitingRanks) {
    plan::Scenario scenario;
    sim::Prediction prediction;
    prediction.stuck = "rank 0: 0F0 waits\nrank 1: 1F0 waits\n";
    const json result = json::parse(
        report_json({scenario, sim::Profile{}, prediction, ScenarioInput{}, "{\"model\": {}}"}));
    EXPECT_EQ(result["deadlock"], json({"rank 0: 0F0 waits", "rank 1: 1F0 waits"}));
    EXPECT_TRUE(result.contains("scenario"));
    EXPECT_FALSE(result.contains("step"));
}

// The program itself: what a shell sees when stdout is no terminal.
TEST(Process, PrintsTheSameBytes) {
    const std::string path = testing::TempDir() + "process.out";
    const std::string command = "TERM=xterm COLUMNS=100 " + program("orrery") + " simulate " +
                                tiny() + " --timeline > " + path;
    ASSERT_EQ(std::system(command.c_str()), 0);
    EXPECT_EQ(content_of(path), run({"simulate", tiny(), "--timeline"}).out);
}

// The program reads a scenario that never comes, and gets a signal.
int exit_code_after(const std::string& signal) {
    const std::string pipe = testing::TempDir() + "never_" + signal;
    std::remove(pipe.c_str());
    if (mkfifo(pipe.c_str(), 0600) != 0) return -1;
    const std::string command = "timeout --preserve-status -s " + signal + " 0.3 " +
                                program("orrery") + " simulate " + pipe + " 2>/dev/null";
    const int status = std::system(command.c_str());
    std::remove(pipe.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Process, InterruptedIs130AndAFailedCheck1) {
    EXPECT_EQ(exit_code_after("INT"), 130);
    EXPECT_EQ(exit_code_after("ABRT"), 1);  // what a failed check raises
}

TEST(SimulateJson, UnfoldedIsTheSame) {
    EXPECT_EQ(run({"simulate", tiny(), "--json"}).out,
              run({"simulate", tiny(), "--json", "--unfolded"}).out);
}

// Without --trace events are counted and forgotten.
TEST(SimulateJson, IsTheSameWhereTheTraceIsKept) {
    const std::vector<std::string> larger = {"simulate", tiny(),
                                             "--json",   "--unfolded",
                                             "--set",    "cluster.nodes=16",
                                             "--set",    "layout.data_parallel=20",
                                             "--set",    "layout.global_batch_size=80"};
    std::vector<std::string> kept = larger;
    kept.insert(kept.end(), {"--trace", testing::TempDir() + "kept.orrery"});
    const Outcome forgotten = run(larger);
    EXPECT_EQ(forgotten.code, 0);
    EXPECT_EQ(forgotten.out, run(kept).out);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
