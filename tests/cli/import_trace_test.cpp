// orrery import-trace as a user has it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace {

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

TEST(ImportTrace, RefusesWhatItCannotRead) {
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

}  // namespace
}  // namespace orrery::cli
