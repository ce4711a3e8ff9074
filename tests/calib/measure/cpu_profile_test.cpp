#include "calib/measure/cpu_profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calib/fit/write_profile.hpp"
#include "sim/cost/attention_model.hpp"
#include "sim/cost/gemm_model.hpp"
#include "sim/network/collective_table.hpp"

namespace orrery::measure {
namespace ORRERY_TEST_FILE {

using testing::HasSubstr;

// A machine that is exactly what the curves say: products t0 1 us + 50 GFLOP/s + 20 GB/s, attention
// 20 GFLOP/s + 1 ns per element, backward three times that in the middle, memory 4 GB/s, cache 16
// GB/s, copies 8 GB/s, collectives 10 us + 2 GB/s.
CpuTimings timings_of_curves(const KernelGrid& grid) {
    CpuTimings timings;
    for (const plan::DType dtype : {plan::DType::fp32, plan::DType::bf16}) {
        std::vector<fit::GemmRow> rows;
        for (std::int64_t m : {16, 64, 256, 1024})
            for (std::int64_t n : {16, 128, 512})
                for (std::int64_t k : {32, 64, 256}) {
                    const auto product = static_cast<double>(m * n * k);
                    const double bytes = static_cast<double>(plan::size_bytes(dtype)) *
                                         static_cast<double>(m * k + k * n + m * n);
                    rows.push_back({m, n, k, 1 + 2 * product / 50e3 + bytes / 20e3});
                }
        timings.gemm.emplace_back(dtype, rows);
    }
    for (const std::int64_t head_dim : grid.head_dims)
        for (const std::int64_t sequence : {32, 64, 128, 256, 512})
            for (const std::int64_t heads : {1, 2, 4, 8}) {
                const fit::AttentionRow row{1, sequence, heads, heads, head_dim, 0};
                const sim::AttentionShape shape = fit::shape_of(row);
                timings.attention.forward.push_back(row);
                timings.attention.forward.back().time_us =
                    1 + sim::causal_flops(shape) / 20e3 + sim::query_elements(shape) * 1e-3;
                const double times[] = {2.9, 3.0, 3.1};  // that of the forward, in turn
                timings.attention.backward_us.push_back(
                    times[timings.attention.backward_us.size() % 3] *
                    timings.attention.forward.back().time_us);
            }
    // At half the rate of other products; their operands are next to nothing.
    for (const double flops : {1e6, 1e7, 1e8})
        timings.products.push_back({flops, 1, 1 + flops / 25e3});
    for (const bool reduction : {false, true})
        for (double bytes = 4096; bytes <= 64 << 20; bytes *= 1.5)
            timings.memory.push_back(
                {"kernel", reduction, bytes,
                 (reduction ? 3 : 1) + bytes / (bytes <= 1 << 20 ? 16e3 : 4e3)});
    // Slower than memory in cache, with a constant of its own: 2 us + 3 GB/s.
    for (double bytes = 4096; bytes <= 1 << 20; bytes *= 1.2)
        timings.steps.memory.push_back({"activation", false, bytes, 2 + bytes / 3e3});
    timings.copy_bytes_per_s = 8e9;
    for (double bytes = 256; bytes <= 1 << 24; bytes *= 2)
        for (const char* collective : {"all_reduce", "all_gather", "all_to_all"})
            timings.steps.collectives.push_back({"cpu-core", "1.2.3", collective, 2, 1, bytes,
                                                 10e-6 + bytes / 2e9, "threads of one process"});
    return timings;
}

CalibrationOptions two_ranks() {
    CalibrationOptions options;
    options.version = "1.2.3";
    options.ranks = 2;
    return options;
}

Machine small_machine() {
    return {"Test Processor", 2, 8LL << 30, 2 << 20, "gcc 12", "2026-11-21"};
}

TEST(CpuProfile, HoldsTheCurvesOfTheTimings) {
    const CalibrationOptions options = two_ranks();
    const Calibration calibration =
        profile_of(timings_of_curves(options.kernels), options, small_machine());
    const sim::Profile profile =
        sim::parse_profile(fit::profile_text(calibration.profile), "calibrated");
    const sim::GemmCurve* gemm = profile.gemm_curve(plan::DType::bf16);
    ASSERT_NE(gemm, nullptr);
    EXPECT_NEAR(gemm->t0_us, 1, 0.01);
    EXPECT_NEAR(gemm->rate_tflops, 0.05, 1e-4);
    EXPECT_NEAR(gemm->bandwidth_GBps, 20, 0.1);
    ASSERT_EQ(profile.attention.forward.size(), options.kernels.head_dims.size());
    EXPECT_NEAR(profile.attention.forward[0].rate_tflops, 0.02, 1e-4);
    ASSERT_EQ(profile.attention.backward.size(), options.kernels.head_dims.size());
    EXPECT_NEAR(profile.attention.backward[0].rate_tflops, 0.02 / 3, 1e-4);  // three times as long
    EXPECT_NEAR(profile.batched_gemm.rate_ratio.value, 0.5, 0.01);
    EXPECT_EQ(profile.memory.resident_bytes.value, 1 << 20);
    EXPECT_NEAR(profile.memory.t0_us.value, 1, 0.01);
    EXPECT_NEAR(profile.memory.reduction_t0_us.value, 3, 0.01);
    // What the simulator multiplies (sim/cost/kernel_cost.cpp).
    EXPECT_NEAR(profile.memory.efficiency.value * profile.hardware.memory_GBps.value, 4, 0.01);
    EXPECT_NEAR(profile.memory.efficiency.value * profile.memory.cache_GBps.value, 16, 0.01);
    EXPECT_EQ(profile.hardware.capacity_bytes.value, 4LL << 30);
    const auto& activation =
        profile.memory.kernels[static_cast<std::size_t>(plan::OpKind::activation)];
    ASSERT_TRUE(activation.has_value());
    EXPECT_NEAR(activation->t0_us, 2, 0.01);
    EXPECT_NEAR(activation->GBps, 3, 0.01);
    EXPECT_GT(activation->held_out.rows, 0);
    EXPECT_FALSE(profile.memory.kernels[static_cast<std::size_t>(plan::OpKind::norm)].has_value());
}

// In whole steps attention takes 1.2 times what it does alone: so it does by every head size's
// curve, that of the forward (20 GFLOP/s, 1 ns per element) and, three times as long, the
// backward's.
TEST(CpuProfile, HoldsAttentionAsWholeStepsHaveIt) {
    const CalibrationOptions options = two_ranks();
    CpuTimings timings = timings_of_curves(options.kernels);
    for (const fit::AttentionRow& row : timings.attention.forward) {
        if (row.head_dim != 64) continue;
        timings.steps.attention.push_back(row);
        timings.steps.attention.back().time_us *= 1.2;
    }
    const Calibration calibration = profile_of(timings, options, small_machine());
    const sim::Profile profile =
        sim::parse_profile(fit::profile_text(calibration.profile), "calibrated");
    for (const sim::AttentionCurve& curve : profile.attention.forward) {
        EXPECT_NEAR(curve.rate_tflops, 0.02 / 1.2, 1e-4) << curve.head_dim;
        EXPECT_NEAR(curve.query_element_ps, 1.2e3, 10) << curve.head_dim;
        EXPECT_THAT(curve.source, HasSubstr("times 1.200, median of 20 in whole steps"));
    }
    for (const sim::AttentionCurve& curve : profile.attention.backward)
        EXPECT_NEAR(curve.rate_tflops, 0.02 / 3, 1e-4) << curve.head_dim;
}

// 5 % of two cores are 0.1.
TEST(CpuProfile, WarnsWhereOtherWorkHadTheMachine) {
    CpuTimings timings = timings_of_curves(two_ranks().kernels);
    timings.others_cores = 0.09;
    EXPECT_EQ(profile_of(timings, two_ranks(), small_machine()).warning, "");
    timings.others_cores = 0.8;
    timings.samples = {2000, 700};
    timings.performed = {30, 12};
    const Calibration disturbed = profile_of(timings, two_ranks(), small_machine());
    EXPECT_THAT(disturbed.warning, HasSubstr("other work had 0.8 of 2 cores"));
    EXPECT_EQ(disturbed.profile["provenance"][3],
              "700 of 2000 samples and 12 of 30 runs of whole steps were disturbed; other work had "
              "0.80 cores meanwhile");
}

TEST(CpuProfile, HoldsTheCollectivesOfThePlan) {
    const CalibrationOptions options = two_ranks();
    const sim::Profile profile = sim::parse_profile(
        fit::profile_text(
            profile_of(timings_of_curves(options.kernels), options, small_machine()).profile),
        "calibrated");
    const auto table = sim::parse_collectives(profile.collectives_json, "calibrated");
    const sim::CollectiveCurve* curve = table.find(plan::OpKind::all_reduce, 2);
    ASSERT_NE(curve, nullptr);
    EXPECT_NEAR(sim::interpolate(curve->points, 1 << 22), 10e-6 + (1 << 22) / 2e9, 2e-5);
    EXPECT_NE(table.find(plan::OpKind::all_gather, 2), nullptr);
    EXPECT_EQ(table.measured_bandwidth_GBps, options.intra_node_bandwidth_GBps);
}

TEST(CpuProfile, SaysWhereItComesFrom) {
    const CalibrationOptions options = two_ranks();
    const Calibration calibration =
        profile_of(timings_of_curves(options.kernels), options, small_machine());
    const std::string text = fit::profile_text(calibration.profile);
    EXPECT_THAT(text, HasSubstr("orrery 1.2.3 calibrate, 2026-11-21: Test Processor on 2 cores, 2 "
                                "ranks of 1 thread busy at once"));
    EXPECT_THAT(text, HasSubstr("built with gcc 12"));
    EXPECT_THAT(text, HasSubstr("library version 1.2.3"));
    ASSERT_EQ(calibration.families.size(), 4 + 2 * options.kernels.head_dims.size());
    for (const fit::FamilyReport& family : calibration.families)
        EXPECT_GT(family.held_out.absolute.rows, 0) << family.family;
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::measure
