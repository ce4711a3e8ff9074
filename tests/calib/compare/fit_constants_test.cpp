// Constants fitted to records: planted ones are found again, and the prior holds where nothing is
// learned.
#include "calib/compare/fit_constants.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace orrery::compare {
namespace ORRERY_TEST_FILE {

const std::string kLibrary = std::string(ORRERY_SOURCE_DIR) + "/scenarios";

// One node, one rank per model, of several sizes: quick to predict. Without measured times.
nlohmann::json small_runs() {
    std::ifstream file(kLibrary + "/published/megatron-2021.json");
    const nlohmann::json first = nlohmann::json::parse(file).front();
    nlohmann::json records = nlohmann::json::array();
    for (const int hidden : {1024, 2048, 4096})
        for (const int micro_batch : {2, 4, 8, 16}) {
            nlohmann::json record = first;
            record["id"] = "h" + std::to_string(hidden) + "-b" + std::to_string(micro_batch);
            record["gpus"] = 8;
            record["model"]["hidden"] = hidden;
            record["model"]["ffn_hidden"] = 4 * hidden;
            record["model"]["layers"] = 4;
            record["model"]["heads"] = hidden / 128;
            record["model"]["kv_heads"] = hidden / 128;
            record["layout"]["dp"] = 8;
            record["layout"]["micro_batch"] = micro_batch;
            record["layout"]["global_batch"] = 256;
            record["measured"]["step_time_s"] = 1.0;
            records.push_back(std::move(record));
        }
    return records;
}

class Records {
  public:
    explicit Records(const nlohmann::json& records)
        : path_(::testing::TempDir() + "records_" +
                ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".json") {
        std::ofstream(path_) << records.dump();
    }
    ~Records() { std::remove(path_.c_str()); }
    Records(const Records&) = delete;
    Records& operator=(const Records&) = delete;
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

// Records that took what a world with these constants predicts.
nlohmann::json runs_of(const std::vector<std::string>& constants) {
    nlohmann::json records = small_runs();
    const Validation world = validate_records({Records(records).path()}, kLibrary, constants);
    EXPECT_EQ(world.rows.size(), records.size());
    for (std::size_t i = 0; i < world.rows.size(); ++i)
        records[i]["measured"]["step_time_s"] = world.rows[i].predicted_s;
    return records;
}

TEST(FitConstants, FindsPlantedOnes) {
    const Records records(
        runs_of({"training.memory_kernel_factor=1.4", "training.overlap_factor=0"}));
    const ConstantsFit fit =
        fit_constants(records.path(), kLibrary, {{"training.memory_kernel_factor", 1, 1}},
                      {"training.overlap_factor=0"});
    ASSERT_EQ(fit.constants.size(), 1U);
    // Of the twelve steps' error a thousandth is left; the prior, a deviation of e, hardly pulls.
    EXPECT_NEAR(fit.constants[0].value, 1.4, 0.02);
    EXPECT_GT(fit.held_out_before.mean_abs_error_pct, 3);
    EXPECT_LT(fit.held_out.mean_abs_error_pct, 0.5);
    EXPECT_EQ(fit.training.n + fit.held_out.n, 12);
    EXPECT_GT(fit.training.n, 0);
    EXPECT_GT(fit.held_out.n, 0);
}

TEST(FitConstants, KeepThePriorWhereRecordsSayNothing) {
    const Records records(runs_of({}));
    // One rank per model: no pipeline, so that nothing depends on a pipeline's links; bytes of a
    // process's context move no time.
    const ConstantsFit fit =
        fit_constants(records.path(), kLibrary, {{"training.context_mb", 500, 0.2}});
    EXPECT_DOUBLE_EQ(fit.constants[0].value, 500);
    EXPECT_NEAR(fit.constants[0].sd, 0.2, 1e-9);
}

TEST(FitConstants, HalvesAreByTheHashOfTheId) {
    // Published values of FNV-1a, 64 bits: "" 0xcbf29ce484222325, "a" 0xaf63dc4c8601ec8c,
    // "foobar" 0x85944171f73967e8.
    EXPECT_FALSE(in_training_half(""));
    EXPECT_TRUE(in_training_half("a"));
    EXPECT_TRUE(in_training_half("foobar"));
}

TEST(FitConstants, NeedARowForEachConstant) {
    nlohmann::json one = nlohmann::json::array({small_runs().front()});
    const Records records(one);
    EXPECT_THROW(fit_constants(records.path(), kLibrary,
                               {{"training.memory_kernel_factor", 1, 0.3},
                                {"training.attention_factor", 1, 0.3}}),
                 RecordsError);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::compare
