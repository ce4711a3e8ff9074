// What is not known of a stack that nobody has measured, from those that were: sim/stack_prior.hpp.
#include "sim/stack_prior.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "calib/compare/validate.hpp"
#include "plan/assemble/build_plan.hpp"
#include "plan/scenario/reader.hpp"
#include "sim/prediction.hpp"

namespace orrery::compare {
namespace ORRERY_TEST_FILE {

const std::string kLibrary = std::string(ORRERY_SOURCE_DIR) + "/scenarios";

std::vector<std::string> files(const std::string& kind) {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(kLibrary + "/" + kind))
        if (entry.path().extension() == ".json") paths.push_back(entry.path().string());
    std::sort(paths.begin(), paths.end());
    return paths;
}

double mean(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values)
        sum += value;
    return sum / static_cast<double>(values.size());
}

double root_mean_square(const std::vector<double>& values) {
    double squares = 0;
    for (const double value : values)
        squares += value * value;
    return std::sqrt(squares / static_cast<double>(values.size()));
}

// measured ÷ predicted − 1 of a source's runs with nothing fitted to them: their mean, and how far
// single runs lie from it.
struct Delays {
    std::map<std::string, double> of_sources;
    std::vector<double> of_runs;
};

Delays delays_before_fits() {
    const Validation validation =
        validate_records(files("published"), kLibrary, {}, Fitted::other_sources);
    std::map<std::string, std::vector<double>> runs;
    for (const ValidatedRow& row : validation.rows)
        if (row.measured_s && row.mistrusted.empty())
            runs[row.group].push_back(*row.measured_s / row.predicted_s - 1);
    Delays delays;
    for (const auto& [source, of_source] : runs) {
        delays.of_sources[source] = mean(of_source);
        for (const double run : of_source)
            delays.of_runs.push_back(run - delays.of_sources[source]);
    }
    return delays;
}

// Sources whose records are not shipped, by the same command (docs/accuracy.md).
const std::map<std::string, double> kNotShipped = {
    {"BLOOM's experiments", 0.061}, {"FlagPerf", 0.099},        {"Megatron-Bridge", -0.013},
    {"Modalities", 0.029},          {"NeMo's launcher", 0.035}, {"NeMo's page", -0.002},
    {"fms-acceleration", 0.000},    {"torchtune", -0.056},      {"vTrain, one node", 0.039},
};

TEST(StackPrior, OfTheStepIsHowFarSourcesWereOffBeforeAnythingWasFittedToThem) {
    if (std::getenv("ORRERY_EVERY_RUN") == nullptr) GTEST_SKIP() << "a minute: at night";
    Delays delays = delays_before_fits();
    delays.of_sources.insert(kNotShipped.begin(), kNotShipped.end());
    const auto sources_with = [&](const auto& met) {
        return std::count_if(delays.of_sources.begin(), delays.of_sources.end(),
                             [&](const auto& source) { return met(source.second); });
    };
    const auto late_by = [&](double most) {
        return sources_with([&](double delay) { return delay <= most; });
    };
    const auto early_by = [&](double most) {
        return sources_with([&](double delay) { return delay >= -most; });
    };
    const auto nine_in_ten = static_cast<std::ptrdiff_t>(delays.of_sources.size() * 9 / 10);
    EXPECT_GE(late_by(sim::kStepLate), nine_in_ten);
    EXPECT_LT(late_by(sim::kStepLate - 0.04), nine_in_ten);
    EXPECT_GE(early_by(sim::kStepEarly), nine_in_ten);
    EXPECT_LT(early_by(sim::kStepEarly - 0.02), nine_in_ten);
    std::vector<double> earlier, later;
    for (const double run : delays.of_runs)
        (run < 0 ? earlier : later).push_back(run);
    EXPECT_NEAR(root_mean_square(earlier), sim::kStructureEarly, 0.01);
    EXPECT_NEAR(root_mean_square(later), sim::kStructureLate, 0.01);
}

// Presets whose memory was measured on a GPU.
std::vector<std::string> measured_stacks() {
    std::vector<std::string> names;
    for (const std::string& path : files("frameworks")) {
        const std::string name = std::filesystem::path(path).stem().string();
        const plan::ReadResult read = plan::read_scenario(kLibrary + "/runs/gpt2-xl-a100x8.json",
                                                          {"training.framework=" + name}, kLibrary);
        if (name == plan::Framework{}.name) continue;  // ours
        const auto& measured = read.scenario->training.framework.measured_on;
        if (std::any_of(measured.begin(), measured.end(), [](const plan::MeasuredOn& on) {
                return on.device != plan::kAnyCpu && on.peaks > 0;
            }))
            names.push_back(name);
    }
    return names;
}

// Of the fullest rank of a shipped run; the attention kernel is one for all, since a user knows it.
sim::MemoryPrediction memory_of(const std::string& run, const std::string& stack) {
    const plan::ReadResult read = plan::read_scenario(
        run, {"training.framework=" + stack, "training.attention_kernel=flash"}, kLibrary);
    return sim::predict_memory(plan::build_plan(*read.scenario), *read.scenario,
                               sim::load_profiles(read.scenario->cluster));
}

TEST(StackPrior, OfMemoryIsWhatMeasuredStacksNeedOverOurs) {
    const std::vector<std::string> stacks = measured_stacks();
    EXPECT_EQ(stacks.size(), 9u);
    std::vector<double> excess;  // by stack, the mean over runs
    std::map<std::string, double> needs;
    for (const std::string& run : files("runs")) {
        const sim::MemoryPrediction ours = memory_of(run, plan::Framework{}.name);
        const double need = static_cast<double>(ours.worst().peak_bytes);
        // Of the stacks that were measured none runs on TPUs.
        if (run.find("tiny") == std::string::npos && run.find("tpu") == std::string::npos &&
            3 * need > static_cast<double>(ours.capacity_bytes))
            needs[run] = need;
    }
    EXPECT_GE(needs.size(), 5u);
    for (const std::string& stack : stacks) {
        std::vector<double> of_stack;
        for (const auto& [run, need] : needs)
            of_stack.push_back(
                static_cast<double>(memory_of(run, stack).worst().peak_bytes) / need - 1);
        excess.push_back(mean(of_stack));
        EXPECT_GT(excess.back(), 0) << stack;
    }
    EXPECT_NEAR(root_mean_square(excess), sim::kMemoryMore, 0.005);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::compare
