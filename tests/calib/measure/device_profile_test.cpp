// A whole calibration of a device whose clock is a formula: the profile has the formula's numbers.
#include "calib/measure/device_profile.hpp"

#include <gmock/gmock.h>

#include "calib/fit/curve_json.hpp"
#include "calib/fit/write_profile.hpp"
#include "tests/calib/measure/fake_device.hpp"
#include "tests/cli/world.hpp"

namespace orrery::measure {
namespace ORRERY_TEST_FILE {

using testing::HasSubstr;
using testing::Not;

DeviceOptions small_options() {
    DeviceOptions options;
    options.version = "1.2.3";
    options.scenarios_dir = ORRERY_SOURCE_DIR "/scenarios";
    options.sampling.rest_seconds = 0;
    options.kernels.gemm_shapes = 40;
    options.kernels.gemm_high = 1024;
    options.kernels.sustained_size = 1024;
    options.kernels.least_sequence = 128;
    options.kernels.most_sequence = 1024;
    options.kernels.attention_most_flops = 1e9;
    options.kernels.memory_low = 1 << 14;
    options.kernels.memory_high = 1 << 23;
    options.kernels.copy_high = 1 << 22;
    options.steps.models = 8;
    options.steps.least_width = 64;
    options.steps.most_width = 256;
    options.steps.least_sequence = 32;
    options.steps.most_sequence = 128;
    options.steps.least_vocabulary = 128;
    options.steps.most_vocabulary = 512;
    return options;
}

// Of all tests one calibration: it takes a second or two.
struct Calibrated {
    FakeMachine machine;
    DeviceOptions options = small_options();
    DeviceMachine described;
    DeviceTimings timings;
    std::vector<std::string> told;

    Calibrated() {
        machine.sustained = 0.8;
        described.gpu = {"NVIDIA H200", "00000000:1B:00.0", 150LL << 30, machine.cache_bytes, 132};
        described.power_limit_w = 700;
        described.driver = "580.65.06";
        described.date = "2026-11-21";
        // One in ten is off by more than 3 %.
        FakeMonitor monitor({1980, 1980, 1980, 1980, 1980, 1980, 1980, 1980, 1980, 1755});
        const DeviceAtHand device{[&] { return std::make_unique<FakeDriver>(machine); }, &monitor,
                                  [&] { return machine.host_us * 1e-6; }};
        timings = time_device(options, device, described.gpu, [&](const std::string& what) {
            told.push_back(what);  // weights of a step are smaller than N(0, 1)
            machine.checks_operands = what.find("steps") == what.npos;
        });
    }
};

const Calibrated& calibrated() {
    static const Calibrated once;
    return once;
}

Calibration calibration(const std::string& base = "") {
    DeviceOptions options = calibrated().options;
    options.base_path = base;
    return profile_of(calibrated().timings, options, calibrated().described);
}

sim::Profile profile(const std::string& base = "") {
    return sim::parse_profile(fit::profile_text(calibration(base).profile), "calibrated");
}

void expect_near(double value, double expected) {
    EXPECT_NEAR(value, expected, 0.02 * expected);
}

// A library of products offers algorithms by the workspace that it is given.
TEST(DeviceProfile, TimesProductsInTheWorkspaceThatPlansGiveThem) {
    EXPECT_EQ(calibrated().machine.workspaces.size(), 1U)
        << "products alone, and in the steps of plans";
}

TEST(DeviceProfile, RecoversProducts) {
    const sim::Profile found = profile();
    for (const plan::DType dtype : {plan::DType::bf16, plan::DType::fp16, plan::DType::fp32}) {
        const auto& curve = found.gemm[static_cast<std::size_t>(dtype)];
        ASSERT_TRUE(curve.has_value()) << plan::name(dtype);
        expect_near(curve->t0_us, 4);
        expect_near(curve->rate_tflops, dtype == plan::DType::fp32 ? 1 : 10);
        expect_near(curve->bandwidth_GBps, 100);
        EXPECT_GT(curve->held_out->rows, 0);
        // The rate falls to 0.8 of it, what is not the rate stays (1024 or 512 of fp32 each way).
        const double size = dtype == plan::DType::fp32 ? 512 : 1024;
        const double work = 2 * size * size * size / (dtype == plan::DType::fp32 ? 1e6 : 10e6);
        const double rest =
            4 + 3 * size * size * static_cast<double>(plan::size_bytes(dtype)) / 100e3;
        expect_near(curve->sustained, (work + rest) / (work / 0.8 + rest));
    }
}

TEST(DeviceProfile, RecoversAttention) {
    const sim::Profile found = profile();
    EXPECT_EQ(found.attention.dtype, plan::DType::bf16);
    ASSERT_EQ(found.attention.forward.size(), 2U);
    for (const sim::AttentionCurve& curve : found.attention.forward) {
        expect_near(curve.t0_us, 20);
        expect_near(curve.rate_tflops, 2);
        expect_near(curve.query_element_ps, 5);
        EXPECT_GT(curve.held_out->rows, 0);
    }
    expect_near(
        found.attention.backward_flop_ratio.value / found.attention.backward_rate_ratio.value, 3);
    expect_near(found.attention.forward_dropout_ps->value, 6);
    expect_near(found.attention.backward_dropout_ps->value, 12);
    EXPECT_TRUE(found.expert_by_expert);
    expect_near(found.batched_gemm.rate_ratio.value, 0.5);
}

TEST(DeviceProfile, RecoversMemory) {
    const sim::Profile found = profile();
    expect_near(found.memory.t0_us.value, 2);
    expect_near(found.memory.reduction_t0_us.value, 7);
    // What the simulator multiplies (sim/cost/kernel_cost.cpp).
    expect_near(found.memory.efficiency.value * found.hardware.memory_GBps.value, 40);
    expect_near(found.memory.efficiency.value * found.memory.cache_GBps.value, 160);
    EXPECT_EQ(found.memory.resident_bytes.value, 1 << 19);
    const auto kernel = [&](plan::OpKind kind) {
        return found.memory.kernels[static_cast<std::size_t>(kind)];
    };
    ASSERT_TRUE(kernel(plan::OpKind::activation).has_value());
    expect_near(kernel(plan::OpKind::activation)->t0_us, 6);
    expect_near(kernel(plan::OpKind::activation)->GBps, 20);
    for (const plan::OpKind kind :
         {plan::OpKind::norm, plan::OpKind::norm_backward, plan::OpKind::activation_backward,
          plan::OpKind::residual_add, plan::OpKind::embedding_backward,
          plan::OpKind::cross_entropy_max}) {
        ASSERT_TRUE(kernel(kind).has_value()) << plan::name(kind);
        expect_near(kernel(kind)->t0_us, 9);
    }
    EXPECT_FALSE(kernel(plan::OpKind::unscale).has_value());  // of fp16 alone
}

TEST(DeviceProfile, RecoversLaunchesAndCopies) {
    const DeviceTimings& timings = calibrated().timings;
    EXPECT_NEAR(timings.launches.host_us, 3, 1e-6);
    EXPECT_NEAR(timings.launches.device_us, 2, 0.001);
    const std::vector<std::string> notes = calibration().notes;
    ASSERT_EQ(notes.size(), 2U);
    EXPECT_THAT(notes[0], HasSubstr("3.00 us of the host for each"));
    EXPECT_THAT(notes[1], HasSubstr("to the device 10.0 us and 10 GB/s; from it 12.0 us and 8 "
                                    "GB/s; within it 2.0 us and 20 GB/s (bytes once)"));
}

TEST(DeviceProfile, TimesOnNormalNumbersAndWithAFlushedCache) {
    EXPECT_LT(calibrated().machine.worst_mean, 0.25);      // 512 numbers: standard deviation 0.044
    EXPECT_LT(calibrated().machine.worst_variance, 0.35);  // 0.063
    EXPECT_EQ(calibrated().machine.unflushed, 0);
    const SampleCounts& counts = calibrated().timings.counts;
    EXPECT_GT(counts.dropped, 0);
    EXPECT_EQ(counts.without_clock, 0);
    EXPECT_GE(counts.samples - counts.dropped,
              counts.kernels * calibrated().options.sampling.samples);
}

TEST(DeviceProfile, SaysWhereItComesFrom) {
    const Calibration found = calibration();
    const std::string text = fit::profile_text(found.profile);
    EXPECT_EQ(found.profile.at("device"), "h200-sxm");
    EXPECT_THAT(text, HasSubstr("orrery 1.2.3 calibrate, 2026-11-21: NVIDIA H200"));
    EXPECT_THAT(text, HasSubstr("driver 580.65.06, CUDA unknown, cuBLASLt unknown"));
    EXPECT_THAT(text, HasSubstr("before: clock 1980 MHz, memory clock 3201 MHz, power 650 W, "
                                "temperature 61 C; after: clock "));
    EXPECT_THAT(text, HasSubstr("the median of at least 20 samples after 3 warm-ups"));
    EXPECT_THAT(text, HasSubstr("\"source\": \"not measured\""));
    EXPECT_THAT(text, Not(HasSubstr("\"collectives\"")));
    for (const fit::FamilyReport& family : found.families)
        EXPECT_GT(family.held_out.absolute.rows, 0) << family.family;
}

TEST(DeviceProfile, TakesFromABaseWhatIsNotMeasured) {
    const std::string base = ORRERY_SOURCE_DIR "/scenarios/profiles/h100-sxm.json";
    const sim::Profile found = profile(base), from = sim::load_profile(base);
    EXPECT_EQ(found.device, "h200-sxm");
    EXPECT_EQ(found.hardware.peak("fp8")->value, from.hardware.peak("fp8")->value);
    EXPECT_EQ(found.hardware.peak("bf16")->value, from.hardware.peak("bf16")->value);
    EXPECT_THAT(found.hardware.peak("fp8")->source,
                HasSubstr("not measured here: as in the profile of h100-sxm: NVIDIA H100"));
    EXPECT_EQ(found.hardware.link_GBps->value, from.hardware.link_GBps->value);
    EXPECT_EQ(found.overlap.compute_slowdown.value, from.overlap.compute_slowdown.value);
    EXPECT_THAT(found.overlap.compute_slowdown.source, HasSubstr("as in the profile of h100-sxm"));
    EXPECT_THAT(found.collectives_json, HasSubstr("as in the profile of h100-sxm"));
    EXPECT_THAT(fit::collective_reports(found).size(), fit::collective_reports(from).size());
    expect_near(found.gemm_curve(plan::DType::bf16)->rate_tflops, 10);  // stays
}

cli::Outcome simulated(const std::string& base, const std::string& run,
                       const std::string& cluster) {
    const std::string path = testing::TempDir() + "calibrated.json";
    fit::write_profile(calibration(base).profile, path);
    return cli::run({"simulate", ORRERY_SOURCE_DIR "/scenarios/runs/" + run, "--set",
                     "cluster=clusters/" + cluster, "--set", "cluster.profile=" + path, "--set",
                     "training.framework.flags.launch_us.value=3"});
}

// One rank, or several with the collectives of a base; docs/calibrate.md has the flag.
TEST(DeviceProfile, IsWhatSimulateTakes) {
    const cli::Outcome alone = simulated("", "gpt2-124m-h100x1.json", "h200-sxm-1.json");
    EXPECT_EQ(alone.code, 0) << alone.err;
    const std::string base = ORRERY_SOURCE_DIR "/scenarios/profiles/h100-sxm.json";
    const cli::Outcome based = simulated(base, "llama2-7b-a100x8.json", "h200-sxm-8.json");
    EXPECT_EQ(based.code, 0) << based.err;
    const cli::Outcome lacking = simulated("", "llama2-7b-a100x8.json", "h200-sxm-8.json");
    EXPECT_EQ(lacking.code, 5);
    EXPECT_THAT(lacking.err, HasSubstr("/collectives: missing, and the plan has 8 ranks"));
}

TEST(DeviceName, IsThatOfTheShippedProfiles) {
    EXPECT_EQ(device_name("NVIDIA H100 80GB HBM3"), "h100-sxm");
    EXPECT_EQ(device_name("NVIDIA A100-SXM4-80GB"), "a100-80gb-sxm");
    EXPECT_EQ(device_name("NVIDIA RTX 6000 Ada Generation"), "rtx-6000-ada-generation");
    EXPECT_EQ(device_name("Some (new) GPU"), "some-new-gpu");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::measure
