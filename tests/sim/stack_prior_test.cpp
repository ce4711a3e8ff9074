// A stack that was never measured on a device: what that costs its interval and its verdict.
#include "sim/stack_prior.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "sim/prediction.hpp"
#include "tests/theory/theory_scenarios.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

Profile profile_of(const std::string& device) {
    return load_profile(theory::library() + "/profiles/" + device + ".json");
}

plan::Framework stack(const std::string& name) {
    return theory::scenario({"training.framework=" + name}).training.framework;
}

TEST(StackPrior, IsNothingWhereTheStackWasMeasured) {
    for (const auto& [name, device] :
         std::vector<std::pair<std::string, std::string>>{{"megatron", "h100-sxm"},
                                                          {"nemo", "gb200"},
                                                          {"torchtitan", "a100-80gb-sxm"},
                                                          {"orrery", "cpu-core"}})
        EXPECT_FALSE(stack_prior(stack(name), profile_of(device)).any()) << name << device;
}

TEST(StackPrior, OfTheStepIsOfTheDeviceAndOfMemoryOfAllGpus) {
    const StackPrior elsewhere = stack_prior(stack("megatron"), profile_of("mi300x"));
    EXPECT_EQ(elsewhere.step_late, kStepLate);
    EXPECT_EQ(elsewhere.step_early, kStepEarly);
    EXPECT_EQ(elsewhere.memory_more, 0);  // its bytes are the same on any GPU
    const StackPrior nowhere = stack_prior(stack("orrery"), profile_of("h100-sxm"));
    EXPECT_EQ(nowhere.step_late, kStepLate);
    EXPECT_EQ(nowhere.memory_more, kMemoryMore);
    const StackPrior of_gpus = stack_prior(stack("megatron"), profile_of("cpu-core"));
    EXPECT_EQ(of_gpus.memory_more, kMemoryMore);
}

// The same stack, timed and not: kernels and links make the one interval, what is not known of the
// stack comes on top, squares added.
TEST(StackPrior, WidensTheIntervalAndMovesNoStep) {
    plan::Scenario scenario = theory::scenario({"layout.data_parallel=4"});
    const Profile profile = profile_of("a100-80gb-sxm");
    const StepPrediction unknown = simulate(scenario, profile, {}, "").step;
    scenario.training.framework.measured_on.push_back({"a100-80gb-sxm", 1, 1, "a test"});
    const StepPrediction known = simulate(scenario, profile, {}, "").step;
    EXPECT_EQ(unknown.time_s, known.time_s);
    const double kernels = (known.high_s / known.time_s - 1) / kCentral90;
    const double early = (1 - known.low_s / known.time_s) / kCentral90;
    const double host =
        unknown.breakdown_s[static_cast<std::size_t>(trace::Account::launch)] / unknown.time_s;
    EXPECT_NEAR((unknown.high_s / unknown.time_s - 1) / kCentral90,
                std::hypot(kernels, kStepLate, host * (std::exp(kLaunchSpread) - 1)), 1e-12);
    EXPECT_NEAR((1 - unknown.low_s / unknown.time_s) / kCentral90,
                std::hypot(early, kStepEarly, host * (1 - std::exp(-kLaunchSpread))), 1e-12);
    // Each part is named, and their squares add up to the interval.
    double late = 0;
    for (const Deviation& part : unknown.interval_parts)
        late += part.late * part.late;
    EXPECT_NEAR(unknown.high_s / unknown.time_s, 1 + kCentral90 * std::sqrt(late), 1e-12);
    EXPECT_EQ(unknown.interval_parts[static_cast<std::size_t>(IntervalPart::structure)].late,
              kStructureLate);
    EXPECT_EQ(known.interval_parts[static_cast<std::size_t>(IntervalPart::structure)].late,
              kStructureLate);
}

// ½ + x ÷ (2·√(2 + x²)) of x = spare ÷ (deviation · need): with a fifth to spare, x = 5 of a stack
// that was measured (4 %), and 0.2 ÷ √(0.04² + prior²) of one that was not.
TEST(StackPrior, MakesAFitLessSureAndTurnsNoVerdictRound) {
    plan::Scenario scenario = theory::scenario();
    const plan::Plan plan = plan::build_plan(scenario);
    Profile profile = profile_of("a100-80gb-sxm");
    const double need =
        static_cast<double>(predict_memory(plan, scenario, profile).worst().peak_bytes);
    const auto probability = [&](double capacity) {
        profile.hardware.capacity_bytes.value = capacity;
        return predict_memory(plan, scenario, profile).fit_probability;
    };
    const double roomy = probability(1.2 * need);
    const double room = 0.2 / std::hypot(0.04, kMemoryMore);
    EXPECT_NEAR(roomy, 0.5 + room / (2 * std::sqrt(2 + room * room)), 1e-4);
    const double scarce = probability(0.9 * need);
    EXPECT_GT(probability(1.001 * need), 0.5);
    scenario.training.framework.measured_on.push_back({"a100-80gb-sxm", 1, 1, "a test"});
    EXPECT_NEAR(probability(1.2 * need), 0.5 + 5.0 / (2 * std::sqrt(27.0)), 1e-4);
    EXPECT_EQ(probability(0.9 * need), scarce);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
