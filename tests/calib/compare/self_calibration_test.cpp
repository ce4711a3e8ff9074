// A stack shifted by a few of its own runs: calib/compare/self_calibration.hpp.
#include "calib/compare/self_calibration.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "calib/compare/stack_population.hpp"
#include "calib/compare/validate.hpp"

namespace orrery::compare {
namespace ORRERY_TEST_FILE {

const std::string kLibrary = std::string(ORRERY_SOURCE_DIR) + "/scenarios";

// Five published layouts of one stack, "measured" as it is predicted with these overrides, and so
// many times as long each.
class OwnRuns {
  public:
    explicit OwnRuns(const std::vector<std::string>& truth,
                     const std::vector<double>& times = {1, 1, 1, 1, 1}) {
        std::ifstream file(kLibrary + "/published/megatron-2021.json");
        nlohmann::json records = nlohmann::json::array();
        for (const nlohmann::json& record : nlohmann::json::parse(file))
            if (record.at("id").get<std::string>().rfind("sc21-t1", 0) == 0 && records.size() < 5)
                records.push_back(record);
        write(records);
        const Validation truly = validate_records({path_}, kLibrary, truth);
        for (std::size_t i = 0; i < records.size(); ++i)
            for (const ValidatedRow& row : truly.rows)
                if (row.id == records[i].at("id"))
                    records[i]["measured"] = {{"step_time_s", times[i] * row.predicted_s}};
        write(records);
    }
    ~OwnRuns() { std::remove(path_.c_str()); }
    OwnRuns(const OwnRuns&) = delete;
    OwnRuns& operator=(const OwnRuns&) = delete;

    const std::string& path() const { return path_; }

  private:
    void write(const nlohmann::json& records) const { std::ofstream(path_) << records.dump(); }

    std::string path_ = ::testing::TempDir() + "own_runs_" +
                        ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".json";
};

double value_of(const SelfCalibration& shifted, const std::string& key) {
    for (const ShiftedConstant& constant : shifted.constants)
        if (constant.key == key) return constant.after;
    return 0;
}

// All kernels take a tenth longer than the preset says. Five runs that agree move the common factor
// most of the way there, and each is foreseen by the others: the error falls by more than half.
TEST(SelfCalibration, ShiftsTowardsWhatRunsShow) {
    const OwnRuns runs({"training.kernel_factor=1.1"});
    const SelfCalibration shifted = calibrate_to_runs(runs.path(), kLibrary);
    EXPECT_EQ(shifted.rows, 5);
    EXPECT_GT(shifted.mean_error_before_pct, 5);
    EXPECT_LT(shifted.mean_error_after_pct, 0.5 * shifted.mean_error_before_pct);
    EXPECT_LT(shifted.mean_error_left_out_pct, 0.5 * shifted.mean_error_before_pct);
    EXPECT_GT(value_of(shifted, "training.kernel_factor"), 1.03);
    EXPECT_LT(value_of(shifted, "training.kernel_factor"), 1.1);
}

// Runs that no constants bring together say less of their common factor than runs that agree, and
// that a further one may be as far off.
TEST(SelfCalibration, MovesLessForRunsThatDisagree) {
    const std::vector<std::string> truth = {"training.kernel_factor=1.1"};
    const SelfCalibration agree = calibrate_to_runs(OwnRuns(truth).path(), kLibrary);
    const std::vector<double> times = {1.3, 0.8, 1.25, 0.75, 1 / (1.3 * 0.8 * 1.25 * 0.75)};
    const SelfCalibration differ = calibrate_to_runs(OwnRuns(truth, times).path(), kLibrary);
    EXPECT_LE(agree.run_spread, kRunSpread);
    EXPECT_GT(differ.run_spread, kRunSpread);
    EXPECT_LT(value_of(differ, "training.kernel_factor"),
              value_of(agree, "training.kernel_factor"));
    EXPECT_GT(differ.constants.front().sd, agree.constants.front().sd);
}

// A network that carries twice what it is said to is no oversubscription of less than one, which no
// scenario takes: the others move beside it, and the runs are predicted again.
TEST(SelfCalibration, KeepsWithinWhatAKeyAllows) {
    const OwnRuns runs({"cluster.inter_node.bandwidth_Gbps=400"});
    const SelfCalibration shifted = calibrate_to_runs(runs.path(), kLibrary);
    EXPECT_EQ(value_of(shifted, "cluster.inter_node.oversubscription"), 1);
    EXPECT_LT(value_of(shifted, "training.kernel_factor"), 1);
    EXPECT_LT(shifted.mean_error_after_pct, shifted.mean_error_before_pct);
}

// How far a constant may move is what the population of stacks says, on disk, and nobody else.
TEST(SelfCalibration, TakesItsPriorsFromThePopulation) {
    const OwnRuns runs({});
    std::ifstream file(kLibrary + "/priors/stacks.json");
    std::ifstream preset(kLibrary + "/frameworks/megatron-2021.json");
    const StackPopulation population(nlohmann::json::parse(file));
    const std::string generation = nlohmann::json::parse(preset).at("generation");
    int known = 0;
    for (const ShiftedConstant& constant : calibrate_to_runs(runs.path(), kLibrary).constants) {
        const std::string name = constant.key.substr(constant.key.rfind('.') + 1);
        const auto pooled = population.pooled(name, generation, "a100-80gb-sxm", "");
        if (!pooled) continue;
        EXPECT_EQ(constant.prior_sd, pooled->sd) << constant.key;
        ++known;
    }
    EXPECT_GE(known, 3);
}

// Where the preset is right already nothing moves, and nothing is known less surely than before.
TEST(SelfCalibration, LeavesWhatIsRight) {
    const OwnRuns runs({});
    const SelfCalibration shifted = calibrate_to_runs(runs.path(), kLibrary);
    for (const ShiftedConstant& constant : shifted.constants) {
        EXPECT_NEAR(constant.after / constant.before, 1, 1e-9) << constant.key;
        EXPECT_GT(constant.prior_sd, 0) << constant.key;
        EXPECT_LE(constant.sd, constant.prior_sd) << constant.key;
    }
    EXPECT_NEAR(shifted.mean_error_after_pct, 0, 1e-6);
}

TEST(SelfCalibration, SaysWhatItCannotUse) {
    const std::string path = ::testing::TempDir() + "no_runs.json";
    std::ofstream(path) << "[]";
    EXPECT_THROW(calibrate_to_runs(path, kLibrary), RecordsError);
    std::ofstream(path) << "{}";
    EXPECT_THROW(calibrate_to_runs(path, kLibrary), RecordsError);
    std::remove(path.c_str());
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::compare
