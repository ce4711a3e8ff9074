// Predictions of ranks on this computer's cores with the shipped profile, which nobody measured.
#include <gtest/gtest.h>

#include "plan/scenario/diagnostic.hpp"
#include "plan/scenario/reader.hpp"
#include "sim/prediction.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

const std::string kLibrary = std::string(ORRERY_SOURCE_DIR) + "/scenarios";

Prediction predict_tiny(const std::vector<std::string>& sets) {
    const plan::ReadResult read =
        plan::read_scenario(kLibrary + "/runs/tiny-gpt.json", sets, kLibrary);
    EXPECT_TRUE(read.scenario.has_value()) << plan::format_text(read.errors);
    return simulate(*read.scenario, load_profiles(read.scenario->cluster), {}, "{}");
}

// Kernels of AVX2 multiply and add 8 numbers in each of two units a cycle, and no x86 core runs at
// 6.3 GHz: 2 · 8 · 2 · 6.3e9. A core of 3 GHz has 96 GFLOP/s, which an upper bound must exceed.
TEST(ShippedCpuProfile, HasAPeakThatNoCoreExceeds) {
    const Profile profile = load_profile(kLibrary + "/profiles/cpu-core.json");
    for (const char* dtype : {"fp32", "bf16", "fp16"}) {
        ASSERT_NE(profile.hardware.peak(dtype), nullptr) << dtype;
        const Quantity& peak = *profile.hardware.peak(dtype);
        EXPECT_LT(peak.value, 0.2016) << dtype;
        EXPECT_GT(peak.value, 0.0960) << dtype;
        EXPECT_NE(peak.source.find("32 FLOP a cycle"), std::string::npos) << peak.source;
    }
    EXPECT_LT(profile.gemm_curve(plan::DType::fp32)->rate_tflops,
              profile.hardware.peak("fp32")->value);
    // Large products only: as near to the peak as a step comes.
    const Prediction wide =
        predict_tiny({"model.n_embd=1024", "training.sequence_length=128",
                      "layout.tensor_parallel=1", "layout.pipeline_parallel=1"});
    EXPECT_GT(wide.throughput.mfu, 0.05);
    EXPECT_LT(wide.throughput.hfu, 1);
}

// The wide interval is what stands for processors that nobody measured: a factor of two at least.
TEST(ShippedCpuProfile, IsAsUnsureAsItSays) {
    const StepPrediction step = predict_tiny({}).step;
    EXPECT_LT(step.low_s, step.time_s / 2);
    EXPECT_GT(step.high_s, step.time_s * 1.5);
}

// Ranks are threads of a process without a driver: some megabytes, not a context of CUDA.
TEST(ShippedCpuProfile, ChargesNoContextOfAGpu) {
    const MemoryPrediction memory = predict_tiny({}).memory;
    for (const StageMemory& stage : memory.stages) {
        EXPECT_GT(stage.process_bytes, 1'000'000);
        EXPECT_LT(stage.process_bytes, 20'000'000);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
