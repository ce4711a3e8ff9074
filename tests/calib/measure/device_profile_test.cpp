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
    const StepGrid eight_bits = options.eight_bit_steps;
    options.eight_bit_steps = options.steps;
    options.eight_bit_steps.precision = eight_bits.precision;
    options.eight_bit_steps.fp8_recipe = eight_bits.fp8_recipe;
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
        described.gpu = {
            "NVIDIA H200", "00000000:1B:00.0", 150LL << 30, machine.cache_bytes, 132, 90};
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

TEST(DeviceProfile, RecoversEightBitProducts) {
    const sim::Profile found = profile();
    const auto& curve = found.gemm[static_cast<std::size_t>(plan::DType::fp8_e4m3)];
    ASSERT_TRUE(curve.has_value());
    EXPECT_TRUE(curve->measured);
    expect_near(curve->t0_us, 4);
    expect_near(curve->rate_tflops, 20);
    expect_near(curve->bandwidth_GBps, 100);
    EXPECT_GT(curve->held_out->rows, 0);
    ASSERT_TRUE(curve->row_scales.has_value());
    expect_near(curve->row_scales->value, 0.5);
    EXPECT_GT(found.hardware.peak("fp8")->value, found.hardware.peak("bf16")->value);
    // Two products of each shape are of gradients, each sampled so often.
    const DeviceOptions& options = calibrated().options;
    EXPECT_GE(calibrated().machine.eight_bit_products.at(plan::DType::fp8_e5m2),
              2 * options.kernels.gemm_shapes * options.sampling.samples);
}

TEST(DeviceProfile, TimesWhatCastsToEightBits) {
    const sim::Profile found = profile();
    for (const plan::OpKind kind : {plan::OpKind::quantize, plan::OpKind::amax}) {
        const auto& kernel = found.memory.kernels[static_cast<std::size_t>(kind)];
        ASSERT_TRUE(kernel.has_value()) << plan::name(kind);
        expect_near(kernel->t0_us, 9);
        EXPECT_GT(kernel->held_out.rows, 0);
    }
    const auto& transpose = found.memory.kernels[std::size_t(plan::OpKind::transpose)];
    ASSERT_TRUE(transpose.has_value());
    expect_near(transpose->t0_us, 8);
    expect_near(transpose->GBps, 30);
}

TEST(DeviceProfile, HasNoEightBitProductsWhereTheDeviceHasNone) {
    FakeMachine machine;
    DeviceOptions options = small_options();
    options.kernels.gemm_shapes = 20;
    options.steps.models = 2;
    DeviceMachine described = calibrated().described;
    described.gpu.compute_capability = 80;
    const DeviceAtHand device{[&] { return std::make_unique<FakeDriver>(machine); }, nullptr,
                              [&] { return machine.host_us * 1e-6; }};
    machine.checks_operands = false;
    const DeviceTimings timings =
        time_device(options, device, described.gpu, [](const std::string&) {});
    EXPECT_TRUE(machine.eight_bit_products.empty());
    const auto found = profile_of(timings, options, described).profile;
    EXPECT_FALSE(found.at("gemm").contains("fp8"));
    EXPECT_FALSE(found.at("hardware").at("peak_tflops").contains("fp8"));
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
    ASSERT_EQ(notes.size(), 3U);
    EXPECT_THAT(notes[0], HasSubstr("3.00 us of the host for each"));
    EXPECT_THAT(notes[1], HasSubstr("to the device 10.0 us and 10 GB/s; from it 12.0 us and 8 "
                                    "GB/s; within it 2.0 us and 20 GB/s (bytes once)"));
}

TEST(DeviceProfile, RecoversCopiesOfPinnedMemory) {
    // One lane for both ways: together they take what they take one after the other. Of that many
    // bytes each way they make 1 / (1/25 + 1/20) GB/s.
    EXPECT_THAT(calibration().notes.back(),
                HasSubstr("to the device 5.0 us and 25 GB/s; from it 6.0 us and 20 GB/s; both ways "
                          "at once 11.11 GB/s each way; beside products copies take 1.500 times as "
                          "long, products beside copies 1.250 times (a cluster takes it as "
                          "cluster.host_memory.bandwidth_GBps=20 and "
                          "cluster.host_memory.latency_us=6)"));
}

// Expert by expert the simulator adds up what the curve says, which has the machine's own
// constants.
TEST(DeviceProfile, SaysHowProductsOfExpertsArePriced) {
    const Calibration found = calibration();
    EXPECT_TRUE(found.profile.at("grouped_gemm").at("expert_by_expert"));
    EXPECT_EQ(found.families.back().family, "products of experts");
    EXPECT_LT(found.families.back().held_out.absolute.mean_abs_error, 0.02);
    for (const fit::ExpertTiming& timing : calibrated().timings.experts)
        EXPECT_GE(timing.product.expected, 2 * timing.product.experts);
}

TEST(DeviceProfile, FindsThatOneKernelHasAllExperts) {
    FakeMachine machine;
    machine.experts_at_once = true;
    FakeDriver driver(machine);
    SampleCounts counts;
    const DeviceOptions options = small_options();
    DeviceTimer timer(driver, {}, machine.cache_bytes, options.sampling, nullptr, counts);
    DeviceOperands operands(driver, kOperandParts, operand_bytes(options.kernels));
    std::vector<fit::FamilyReport> families;
    const auto section = fit::grouped_gemm_json(
        calibration().profile, time_expert_products(driver, timer, operands, options.kernels), "",
        families);
    EXPECT_FALSE(section.at("expert_by_expert"));
}

// A device's second is one of the clock here. Of what a profile must have the fewest shapes that a
// fit takes, of the rest nothing; and both outputs say so.
TEST(DeviceProfile, LeavesOutWhatThereIsNoTimeFor) {
    FakeMachine machine;
    machine.checks_operands = false;
    DeviceOptions options = small_options();
    options.seconds = 1e-3;
    options.sampling.sustained_seconds = 0.01;
    const DeviceAtHand device{[&] { return std::make_unique<FakeDriver>(machine); }, nullptr,
                              [&] { return (machine.host_us + machine.device_us) * 1e-6; }};
    const DeviceTimings timings =
        time_device(options, device, calibrated().described.gpu, [](const std::string&) {});
    for (const ProductTimings& products : timings.products)
        EXPECT_EQ(products.rows.size(), 60U) << plan::name(products.dtype);
    EXPECT_TRUE(timings.experts.empty());
    EXPECT_THAT(timings.left_out,
                testing::IsSupersetOf({"matrix products, fp16", "products of experts",
                                       "memory-bound kernels in the steps of small models",
                                       "casts to fp8 in the steps of small models"}));
    const Calibration found = profile_of(timings, options, calibrated().described);
    EXPECT_THAT(
        found.notes.back(),
        HasSubstr("left out, as 0 s were not enough: some or all of matrix products, bf16"));
    EXPECT_THAT(fit::profile_text(found.profile), HasSubstr("left out, as 0 s were not enough"));
    EXPECT_THAT(found.profile.at("grouped_gemm").at("source").get<std::string>(),
                HasSubstr("not timed"));
    EXPECT_TRUE(calibrated().timings.left_out.empty());
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

CollectivesOfRanks ranks_of_one_node() {
    CollectivesOfRanks found;
    found.library = "2.28.5";
    found.grid.most_bytes = 1 << 20;
    found.timings.ranks = 8;
    found.timings.largest_bytes = 1 << 20;
    found.timings.places.assign(8, {"node-a", 1, "0000:1B:00.0 NVIDIA H200"});
    // 20 us, and 300 GB/s of what a rank sends.
    for (std::int64_t bytes = 8; bytes <= 1 << 20; bytes *= 2)
        for (const plan::OpKind kind :
             {plan::OpKind::all_reduce, plan::OpKind::all_gather, plan::OpKind::reduce_scatter,
              plan::OpKind::all_to_all, plan::OpKind::shift})
            found.timings.rows.push_back(
                {kind, false, bytes,
                 20e-6 + plan::bytes_sent_per_rank(kind, as_double(bytes), 8) / 300e9});
    found.timings.overlap = {{plan::OpKind::all_reduce, 1.3, 1.5},
                             {plan::OpKind::all_gather, 1.1, 1.2}};
    return found;
}

// They stand in place of the base's, whose links they are shares of.
TEST(DeviceProfile, HasTheCollectivesOfItsRanks) {
    DeviceOptions options = calibrated().options;
    options.base_path = ORRERY_SOURCE_DIR "/scenarios/profiles/h100-sxm.json";
    options.collectives = ranks_of_one_node();
    const Calibration calibration =
        profile_of(calibrated().timings, options, calibrated().described);
    const sim::Profile found =
        sim::parse_profile(fit::profile_text(calibration.profile), "calibrated");
    const auto table = sim::parse_collectives(found.collectives_json, "calibrated");
    EXPECT_EQ(table.measured_bandwidth_GBps,
              sim::load_profile(options.base_path).hardware.link_GBps->value);
    ASSERT_NE(table.find(plan::OpKind::all_reduce, 8), nullptr);
    const auto& points = table.find(plan::OpKind::all_reduce, 8)->points;
    EXPECT_NEAR(sim::interpolate(points, 1 << 20), 20e-6 + 1.75 * 1048576 / 300e9, 0.02e-6);
    EXPECT_NE(table.find(plan::OpKind::exchange, 2), nullptr);
    EXPECT_EQ(table.curves.size(), 4U);
    EXPECT_TRUE(found.overlap.measured);
    EXPECT_DOUBLE_EQ(found.overlap.compute_slowdown.value, 1.2);
    EXPECT_THAT(fit::profile_text(calibration.profile), HasSubstr("all_to_all of 1048576 bytes"));
}

TEST(DeviceProfile, HasNoCurvesOfSeveralNodes) {
    DeviceOptions options = calibrated().options;
    options.collectives = ranks_of_one_node();
    options.collectives->timings.places.back().host = "node-b";
    const Calibration found = profile_of(calibrated().timings, options, calibrated().described);
    EXPECT_FALSE(found.profile.contains("collectives"));
    EXPECT_TRUE(found.profile.at("overlap").at("measured"));
    EXPECT_THAT(found.notes.back(), HasSubstr("these ranks were on 2 nodes"));
}

TEST(DeviceProfile, HasNoTimesOfRanksThatShareADevice) {
    DeviceOptions options = calibrated().options;
    options.collectives = ranks_of_one_node();
    options.collectives->devices_shared = true;
    const Calibration found = profile_of(calibrated().timings, options, calibrated().described);
    EXPECT_FALSE(found.profile.contains("collectives"));
    EXPECT_FALSE(found.profile.at("overlap").at("measured"));
    EXPECT_THAT(found.notes.back(), HasSubstr("ranks shared a GPU"));
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
