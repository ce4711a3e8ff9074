// orrery import-trace as a user has it.
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/world.hpp"
#include "tests/trace/sqlite_file.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
using ::testing::HasSubstr;

const std::string kTraces = std::string(ORRERY_SOURCE_DIR) + "/tests/calib/compare/traces/";
const std::string kTrace = kTraces + "gpt-1.json.gz";

std::string scenario() {
    return written("recorded-gpt.json", R"({
  "model": {"model_type": "gpt2", "n_layer": 2, "n_embd": 256, "n_head": 4, "n_positions": 128,
            "vocab_size": 512, "tie_word_embeddings": false,
            "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0},
  "cluster": "clusters/cpu-8.json",
  "layout": {"micro_batch_size": 2, "global_batch_size": 4, "data_parallel": 1},
  "training": {"sequence_length": 128, "precision": "fp32", "vocabulary_multiple": 1}
})");
}

TEST(ImportTrace, PrintsWhatTheContractSays) {
    const Outcome alone = run({"import-trace", kTrace, "--json"});
    ASSERT_EQ(alone.code, 0) << alone.err;
    const json printed = json::parse(alone.out);
    EXPECT_GT(printed.at("step").at("time_s").get<double>(), 0);
    EXPECT_EQ(printed.at("unmatched"), 0);
    EXPECT_EQ(printed.at("matched_to"), "kinds");
    const Outcome beside = run({"import-trace", kTrace, "--scenario", scenario(), "--json"});
    ASSERT_EQ(beside.code, 0) << beside.err;
    const json held = json::parse(beside.out);
    EXPECT_EQ(held.at("matched_to"), "plan");
    EXPECT_EQ(held.at("matched"), printed.at("matched"));
    EXPECT_EQ(held.at("step").at("time_s"), printed.at("step").at("time_s"));
}

TEST(ImportTrace, WritesWhatSimulateTakesAsCosts) {
    const std::string measured = testing::TempDir() + "recorded.orrery";
    const Outcome written =
        run({"import-trace", kTrace, "--scenario", scenario(), "--output", measured, "--force"});
    ASSERT_EQ(written.code, 0) << written.err;
    EXPECT_THAT(written.out, HasSubstr("beside the plan of"));
    const Outcome priced = run({"simulate", scenario(), "--costs", measured, "--json"});
    ASSERT_EQ(priced.code, 0) << priced.err;
    const json plain = json::parse(run({"simulate", scenario(), "--json"}).out);
    EXPECT_NE(json::parse(priced.out).at("step").at("time_s"), plain.at("step").at("time_s"));
}

// Of two devices, each an iteration of 100 µs (device 0) and of 120 µs (device 1).
TEST(ImportTrace, ReadsARankForEachDeviceOfAReport) {
    std::string sql =
        "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
        "INSERT INTO StringIds VALUES (1, 'sm90_xmma_gemm_bf16'), (2, 'cudaLaunchKernel');"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT,"
        " correlationId INT, globalPid INT, demangledName INT);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT,"
        " correlationId INT, nameId INT);"
        "CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, globalTid INT);";
    for (const auto& [device, length] : {std::pair{0, 100'000}, {1, 120'000}}) {
        const std::string thread = trace::global_id(50 + device, 1);
        sql += fmt::format(
            "INSERT INTO NVTX_EVENTS VALUES (1000, {0}, 59, 'iteration 3', {1});"
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (2000, 2500, {1}, 1, 2);"
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5000, 45000, {2}, 7, 1, {3}, 1);",
            1000 + length, thread, device, trace::global_id(50 + device));
    }
    const std::string report = trace::sqlite_file("two.sqlite", sql);
    const Outcome both = run({"import-trace", report, "--json"});
    ASSERT_EQ(both.code, 0) << both.err;
    const json printed = json::parse(both.out);
    EXPECT_DOUBLE_EQ(printed.at("step").at("time_s"), 120e-6) << "the slowest rank's";
    EXPECT_EQ(printed.at("matched"), 2);
    ASSERT_EQ(printed.at("ranks").size(), 2U);
    EXPECT_EQ(printed.at("ranks")[1].at("rank"), 1);
    EXPECT_EQ(printed.at("ranks")[1].at("file"), report + ": device 1 of process 51");
    EXPECT_DOUBLE_EQ(printed.at("ranks")[0].at("kinds").at("gemm").at("busy_s"), 40e-6);
    const Outcome none = run({"import-trace", report, "--step-range", "epoch"});
    EXPECT_EQ(none.code, 5);
    EXPECT_THAT(none.err, HasSubstr("no range of the host begins with \"epoch\" (--step-range)"));
    EXPECT_THAT(run({"import-trace", report}).out, HasSubstr("2 ranks, a step of 120 µs"));
}

TEST(ImportTrace, RefusesWhatItCannotRead) {
    EXPECT_EQ(run({"import-trace", written("run.nsys-rep", "x")}).code, 5);
    const std::string cut = written("cut.json", R"({"traceEvents": [{"ph": "X", )");
    const Outcome truncated = run({"import-trace", cut});
    EXPECT_EQ(truncated.code, 5);
    EXPECT_THAT(truncated.err, HasSubstr("cut.json"));
    EXPECT_EQ(run({"import-trace", "/nonexistent.json"}).code, 5);
    const Outcome empty = run({"import-trace", written("empty.json", R"({"traceEvents": []})")});
    EXPECT_EQ(empty.code, 5);
    EXPECT_THAT(empty.err, HasSubstr("no step"));
    const std::string twice = kTraces + "gpt-2-rank0.json.gz";
    const Outcome same = run({"import-trace", twice, twice});
    EXPECT_EQ(same.code, 2);
    EXPECT_THAT(same.err, HasSubstr("both of rank 0"));
    EXPECT_EQ(run({"import-trace", kTrace, "--set", "layout.zero_stage=1"}).code, 2);
    EXPECT_EQ(run({"import-trace", kTrace, "--output", testing::TempDir() + "x.orrery"}).code, 2);
    const Outcome others =
        run({"import-trace", kTraces + "gpt-2-rank1.json.gz", "--scenario", scenario()});
    EXPECT_EQ(others.code, 2);
    EXPECT_THAT(others.err, HasSubstr("rank 1, and the scenario has 1"));
}

// Keys that a scenario states, of those that the other does, too.
json common(const json& stated, const json& of) {
    json out = json::object();
    for (const auto& [key, value] : of.items())
        if (stated.contains(key)) out[key] = value.is_object() ? common(stated[key], value) : value;
    return out;
}

TEST(ImportTrace, InfersTheScenarioThatIsBesideATrace) {
    const json truth = json::parse(content_of(kTraces + "gpt.json"));
    const std::string path = testing::TempDir() + "inferred.json";
    std::filesystem::remove(path);
    const Outcome one = run({"import-trace", kTrace, "--infer-scenario", path, "--json"});
    ASSERT_EQ(one.code, 0) << one.err;
    const json inferred = json::parse(content_of(path));
    EXPECT_EQ(common(truth, inferred), common(inferred, truth));
    const json printed = json::parse(one.out);
    EXPECT_EQ(printed.at("inferred").at("scenario").at("model"), inferred.at("model"));
    EXPECT_EQ(printed.at("matched_to"), "plan");
    EXPECT_EQ(printed.at("unmatched"), 0);
    for (const json& key : printed.at("inferred").at("keys")) {
        EXPECT_NE(key.at("evidence"), "");
        EXPECT_THAT(key.at("certainty"), testing::AnyOf("certain", "likely", "assumed"));
    }
    EXPECT_EQ(run({"simulate", path}).code, 0);
    // Two ranks by DDP, and a Llama whose layers run again in backward.
    const Outcome two = run({"import-trace", kTraces + "gpt-2-rank0.json.gz",
                             kTraces + "gpt-2-rank1.json.gz", "--infer-scenario", path});
    ASSERT_EQ(two.code, 0) << two.err;
    EXPECT_THAT(two.out, HasSubstr("unmatched   0 (0.0 %)"));
    json of_two = json::parse(content_of(path));
    EXPECT_EQ(of_two.at("model"), inferred.at("model"));
    EXPECT_EQ(of_two.at("layout").at("data_parallel"), 2);
    EXPECT_EQ(of_two.at("layout").at("zero_stage"), 0);
    EXPECT_EQ(of_two.at("layout").at("global_batch_size"), 8);
    // What is in the key is what tells the layout from one rank's (record_gpt.py).
    for (const auto& [name, layout] : std::vector<std::pair<std::string, json>>{
             {"gpt-fsdp", {{"data_parallel", 2}, {"zero_stage", 3}, {"global_batch_size", 8}}},
             {"gpt-tp", {{"tensor_parallel", 2}, {"data_parallel", 1}, {"global_batch_size", 4}}},
             {"gpt-sp", {{"tensor_parallel", 2}, {"sequence_parallel", true}}},
             {"gpt-pp",
              {{"pipeline_parallel", 2}, {"schedule", "1f1b"}, {"global_batch_size", 8}}}}) {
        const Outcome ranks = run({"import-trace", kTraces + name + "-rank0.json.gz",
                                   kTraces + name + "-rank1.json.gz", "--infer-scenario", path});
        ASSERT_EQ(ranks.code, 0) << ranks.err;
        const json found = json::parse(content_of(path));
        EXPECT_EQ(found.at("model"), inferred.at("model")) << name;
        for (const auto& [key, value] : layout.items())
            EXPECT_EQ(found.at("layout").at(key), value) << name << ' ' << key;
    }
    ASSERT_EQ(run({"import-trace", kTraces + "llama.json.gz", "--infer-scenario", path}).code, 0);
    const json llama = json::parse(content_of(path));
    const json recorded = {
        {"model_type", "llama"},    {"vocab_size", 640},           {"num_hidden_layers", 2},
        {"hidden_size", 128},       {"intermediate_size", 352},    {"num_attention_heads", 8},
        {"num_key_value_heads", 2}, {"tie_word_embeddings", false}};  // record_llama.py
    EXPECT_EQ(llama.at("model"), recorded);
    EXPECT_EQ(llama.at("layout").at("recompute"), "full");
    EXPECT_EQ(llama.at("layout").at("micro_batch_size"), 2);
    EXPECT_EQ(llama.at("layout").at("global_batch_size"), 2 * 3);
    EXPECT_EQ(llama.at("training").at("sequence_length"), 96);
    EXPECT_EQ(llama.at("training").at("optimizer").at("clip_norm"), 0);
}

// What is set is set of what is inferred, and its ops are measured in the same call.
TEST(ImportTrace, TakesWhatIsSetOverWhatItInfers) {
    const std::string path = testing::TempDir() + "inferred-set.json",
                      measured = testing::TempDir() + "inferred.orrery";
    const Outcome set = run({"import-trace", kTrace, "--infer-scenario", path, "--set",
                             "training.seed=7", "--output", measured, "--force"});
    ASSERT_EQ(set.code, 0) << set.err;
    EXPECT_EQ(json::parse(content_of(path)).at("training").at("seed"), 7);
    EXPECT_EQ(run({"simulate", path, "--costs", measured}).code, 0);
    const Outcome both = run(
        {"import-trace", kTrace, "--infer-scenario", path, "--scenario", scenario(), "--force"});
    EXPECT_EQ(both.code, 2);
}

// Without sizes nothing is written, and what names say is printed.
TEST(ImportTrace, InfersNoScenarioOfTooLittle) {
    const std::string path = testing::TempDir() + "not-inferred.json";
    std::filesystem::remove(path);
    const auto event = [](const char* category, const char* name, int start, int length) {
        return fmt::format(R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 1, "tid": 1, )"
                           R"("ts": {}, "dur": {}, "args": {{}}}})",
                           category, name, start, length);
    };
    const std::string trace = written(
        "no-sizes.json",
        fmt::format(R"({{"traceEvents": [{}, {}, {}, {}]}})", event("cpu_op", "aten::mm", 0, 10),
                    event("cpu_op", "aten::scaled_dot_product_attention", 10, 10),
                    event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 20, 20),
                    event("cpu_op", "aten::mm", 25, 10)));
    const Outcome without = run({"import-trace", trace, "--infer-scenario", path});
    EXPECT_EQ(without.code, 5);
    EXPECT_THAT(without.err, HasSubstr("record again with record_shapes=True"));
    EXPECT_THAT(without.out, HasSubstr("1 call of attention forward"));
    EXPECT_FALSE(std::filesystem::exists(path));
    const Outcome as_json = run({"import-trace", trace, "--infer-scenario", path, "--json"});
    EXPECT_EQ(as_json.code, 5);
    EXPECT_EQ(json::parse(as_json.out).at("inferred").at("missing").size(), 1U);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
