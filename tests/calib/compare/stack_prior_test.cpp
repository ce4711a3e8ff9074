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
namespace {

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

// measured ÷ predicted − 1, the mean of each stack's runs with nothing fitted to their sources.
std::map<std::string, double> delays_before_fits() {
    const Validation validation =
        validate_records(files("published"), kLibrary, {}, Fitted::other_sources);
    std::map<std::string, std::vector<double>> runs;
    for (const ValidatedRow& row : validation.rows)
        if (row.measured_s && row.mistrusted.empty())
            runs[row.framework].push_back(*row.measured_s / row.predicted_s - 1);
    std::map<std::string, double> delays;
    for (const auto& [stack, of_stack] : runs)
        delays[stack] = mean(of_stack);
    // Two sources whose records are not shipped, by the same command: 186 runs of arXiv 2311.05610,
    // 68 of bigscience-workshop/bigscience.
    delays["scaling"] = 0.068;
    delays["bigscience"] = 0.156;
    return delays;
}

TEST(StackPrior, OfTheStepIsHowFarStacksWereOffBeforeAnythingWasFittedToThem) {
    std::vector<double> early, late;
    for (const auto& [stack, delay] : delays_before_fits())
        (delay < 0 ? early : late).push_back(delay);
    EXPECT_EQ(early.size() + late.size(), 9u);
    EXPECT_NEAR(root_mean_square(early), sim::kStepEarly, 0.005);
    EXPECT_NEAR(root_mean_square(late), sim::kStepLate, 0.005);
}

// Presets that were measured on a GPU.
std::vector<std::string> measured_stacks() {
    std::vector<std::string> names;
    for (const std::string& path : files("frameworks")) {
        const std::string name = std::filesystem::path(path).stem().string();
        const plan::ReadResult read = plan::read_scenario(kLibrary + "/runs/gpt2-xl-a100x8.json",
                                                          {"training.framework=" + name}, kLibrary);
        const auto& measured = read.scenario->training.framework.measured_on;
        if (std::any_of(measured.begin(), measured.end(),
                        [](const plan::MeasuredOn& on) { return on.device != plan::kAnyCpu; }))
            names.push_back(name);
    }
    return names;
}

// Of the fullest rank of a shipped run; the attention kernel is one for all, since a user knows it.
sim::MemoryPrediction memory_of(const std::string& run, const std::string& stack) {
    const plan::ReadResult read = plan::read_scenario(
        run, {"training.framework=" + stack, "training.attention_kernel=flash"}, kLibrary);
    return sim::predict_memory(plan::build_plan(*read.scenario), *read.scenario,
                               sim::load_profile(read.scenario->cluster.profile_path));
}

TEST(StackPrior, OfMemoryIsWhatMeasuredStacksNeedOverOurs) {
    const std::vector<std::string> stacks = measured_stacks();
    EXPECT_EQ(stacks.size(), 9u);
    std::vector<double> excess;  // by stack, the mean over runs
    std::map<std::string, double> needs;
    for (const std::string& run : files("runs")) {
        const sim::MemoryPrediction ours = memory_of(run, plan::Framework{}.name);
        const double need = static_cast<double>(ours.worst().peak_bytes);
        if (run.find("tiny") == std::string::npos &&
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

}  // namespace
}  // namespace orrery::compare
