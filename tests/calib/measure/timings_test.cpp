// Which calls are timed, and on which sizes; never how long they take.
#include <set>

#include <gtest/gtest.h>

#include "calib/fit/held_out.hpp"
#include "calib/measure/cpu_timings.hpp"
#include "runtime/comm/threads/thread_world.hpp"

namespace orrery::measure {
namespace ORRERY_TEST_FILE {

KernelGrid small_grid() {
    KernelGrid grid;
    grid.gemm_shapes = 3;
    grid.gemm_high = 64;
    grid.sequences = {32};
    grid.memory_high = 64 << 10;
    return grid;
}

constexpr Sampling kOnce{1, 1, 1e-9};  // so short a sample that it is one call

TEST(Timings, CallWarmUpsAndSamples) {
    plan::Mesh mesh;
    mesh.data = 3;
    runtime::run_ranks(mesh, {}, [](plan::Rank, runtime::Communicator& ranks) {
        int calls = 0;
        SampleCount count;
        const double seconds = timed(ranks, {2, 5, 1e-9, &count}, [&] { ++calls; });
        if (ranks.rank() == 0) {
            EXPECT_EQ(calls, 2 + count.taken);
            EXPECT_GE(count.taken, 5);
            EXPECT_TRUE(count.taken - count.dropped == 5 || count.taken == 3 * 5);
        }
        EXPECT_GE(seconds, 0);
    });
}

TEST(Timings, CoverWhatAProfileNeeds) {
    CalibrationOptions options;
    options.version = "1.2.3";
    options.ranks = 2;
    options.sampling = kOnce;
    options.kernels = small_grid();
    options.steps.models = 2;  // one of each kind
    options.rounds = 2;
    options.steps.most_width = 64;
    options.steps.most_sequence = 32;
    options.steps.steps = 1;
    options.scenarios_dir = ORRERY_SOURCE_DIR "/scenarios";
    std::vector<std::string> told;
    const CpuTimings timings =
        time_cpu(options, [&](const std::string& what) { told.push_back(what); });
    ASSERT_EQ(timings.gemm.size(), 3U);  // fp32, bf16, eight bits
    for (const auto& [dtype, rows] : timings.gemm)
        EXPECT_EQ(rows.size(), 3 * 3U) << plan::name(dtype);  // shapes × forms
    for (const fit::GemmRow& row : timings.gemm.front().second) {
        EXPECT_GT(row.time_us, 0);
        for (const std::int64_t size : {row.m, row.n, row.k}) {
            EXPECT_EQ(size % 8, 0);
            EXPECT_GE(size, 8);
            EXPECT_LE(size, 64);
        }
    }
    EXPECT_EQ(timings.attention.forward.size(), timings.attention.backward_us.size());
    EXPECT_EQ(fit::head_dims(timings.attention.forward), options.kernels.head_dims);
    std::set<std::string> kernels;
    for (const fit::MemoryRow& row : timings.memory) {
        kernels.insert(row.kernel);
        EXPECT_LE(row.bytes, options.kernels.memory_high);
        EXPECT_GT(row.time_us, 0);
    }
    EXPECT_EQ(kernels, (std::set<std::string>{"add", "adamw", "bias_gradient", "cast"}));
    std::set<std::string> in_steps;
    for (const fit::MemoryRow& row : timings.steps.memory)
        in_steps.insert(row.kernel);
    for (const char* kernel : {"norm", "norm_backward", "activation", "activation_backward", "rope",
                               "rope_backward", "residual_add", "embedding", "embedding_backward",
                               "cross_entropy_max", "cross_entropy_sum", "cross_entropy",
                               "cross_entropy_backward", "bias_gradient", "gradient_norm", "adamw"})
        EXPECT_EQ(in_steps.count(kernel), 1U) << kernel;
    EXPECT_FALSE(timings.steps.gemm.empty());
    EXPECT_GT(timings.copy_bytes_per_s, 0);
    std::set<std::string> collectives;
    for (const fit::CollectiveSample& sample : timings.steps.collectives) {
        collectives.insert(sample.collective);
        EXPECT_EQ(sample.ranks, 2);
        EXPECT_GT(sample.seconds, 0);
    }
    EXPECT_EQ(collectives,
              (std::set<std::string>{"all_gather", "all_reduce", "exchange", "reduce_scatter"}));
    EXPECT_EQ(told,
              (std::vector<std::string>{"kernels, round 1 of 2", "whole steps, round 1 of 2",
                                        "kernels, round 2 of 2", "whole steps, round 2 of 2"}));
    EXPECT_FALSE(timings.steps.attention.empty());
    EXPECT_EQ(timings.steps.attention.size(), timings.steps.attention_backward.size());
    EXPECT_GE(timings.samples.taken, timings.samples.dropped);
    // Of each model five layouts, and one rank by itself; more where others had the machine.
    EXPECT_GE(timings.performed.taken, 2 * (5 + 1));
    EXPECT_GE(timings.performed.taken, timings.performed.dropped);
}

// The shapes are fixed, and so is what is held out of them (calib/fit/held_out.hpp).
TEST(Timings, HoldSomethingOutOfEachFamily) {
    const KernelGrid grid;
    plan::Mesh one;
    runtime::run_ranks(one, {}, [&](plan::Rank, runtime::Communicator& ranks) {
        runtime::Team team(1);
        KernelGrid light = grid;
        light.attention_most_flops = 4e6;
        const auto rows = time_attention(ranks, team, kOnce, light).forward;
        for (const std::int64_t head_dim : grid.head_dims) {
            int held_out = 0;
            for (const fit::AttentionRow& row : rows)
                if (row.head_dim == head_dim &&
                    fit::is_held_out(
                        "attention " + std::to_string(row.batch) + " " +
                        std::to_string(row.sequence) + " " + std::to_string(row.heads) + " " +
                        std::to_string(row.kv_heads) + " " + std::to_string(row.head_dim)))
                    ++held_out;
            EXPECT_GT(held_out, 0) << head_dim;
        }
    });
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::measure
