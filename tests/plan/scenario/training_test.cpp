// What a run changes from step to step: learning rate, size of the batch; and what training and run
// say beyond the shape of a step.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <string>
#include <vector>

#include "plan/scenario/reader.hpp"
#include "plan/scenario/training_facts.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

namespace fs = std::filesystem;

const std::string kTestLibrary =
    (fs::path(ORRERY_SOURCE_DIR) / "tests/golden/errors/library").string();

// 128 devices ÷ (8 × 4): 4 data-parallel ranks.
const char* const kSmall = R"({
  "model": "models/gpt-96.json",
  "cluster": "clusters/a100-128.json",
  "layout": { "tensor_parallel": 8, "pipeline_parallel": 4, "global_batch_size": 64 },
  "training": { "sequence_length": 2048 }
})";

Scenario sound(const std::vector<std::string>& sets) {
    const ReadResult result = read_scenario_text(kSmall, "run.json", "", sets, kTestLibrary);
    EXPECT_TRUE(result.scenario.has_value()) << format_text(result.errors);
    if (!result.scenario) return {};
    const ReadResult again =
        read_scenario_text(result.resolved_json, "run.json", "", {}, kTestLibrary);
    EXPECT_TRUE(again.scenario == result.scenario) << format_text(again.errors);
    EXPECT_EQ(again.resolved_json, result.resolved_json);
    return *result.scenario;
}

Scenario scheduled(std::int64_t warmup, Decay decay, std::int64_t last) {
    Scenario scenario;
    scenario.training.optimizer.learning_rate = 0.5;
    scenario.training.schedule = {warmup, decay, 0.125};
    scenario.run.steps = last;
    return scenario;
}

TEST(LearningRate, RisesFromZeroThenStays) {
    const Scenario scenario = scheduled(4, Decay::constant, 0);
    const double expected[] = {0.125, 0.25, 0.375, 0.5, 0.5, 0.5};
    for (int step = 1; step <= 6; ++step)
        EXPECT_EQ(training_facts(scenario).rates.at(step), expected[step - 1]);
    EXPECT_EQ(training_facts(scheduled(0, Decay::constant, 0)).rates.at(1), 0.5);
}

// 4 steps of warm-up, then 6 more: the middle at step 7, a third of the way at step 6, where
// cos(π/3) = 1/2, so (1 + 1/2)/2 = 3/4 of the way from 0.125 up to 0.5.
TEST(LearningRate, FallsAlongACosineToItsLeastAtTheLastStep) {
    const Scenario scenario = scheduled(4, Decay::cosine, 10);
    EXPECT_EQ(training_facts(scenario).rates.at(4), 0.5);
    EXPECT_NEAR(training_facts(scenario).rates.at(6), 0.125 + 0.75 * 0.375, 1e-15);
    EXPECT_NEAR(training_facts(scenario).rates.at(7), (0.5 + 0.125) / 2, 1e-15);
    EXPECT_EQ(training_facts(scenario).rates.at(10), 0.125);
    EXPECT_EQ(training_facts(scenario).rates.at(11), 0.125);
    EXPECT_GT(training_facts(scheduled(0, Decay::cosine, 2)).rates.at(1), 0.3);  // half-way at once
    EXPECT_EQ(training_facts(scheduled(0, Decay::cosine, 1)).rates.at(1), 0.125);
    EXPECT_EQ(training_facts(scheduled(20, Decay::cosine, 10)).rates.at(10), 0.25);  // never warm
}

// From 16 to 64 by 16: 3 increments over 3000 samples, 1000 each.
TEST(BatchRamp, GrowsInEqualShares) {
    const std::string ramp = R"({"start_batch_size":16,"increment":16,"over_samples":3000})";
    const Scenario scenario = sound({"training.batch_ramp=" + ramp});
    const std::pair<std::int64_t, std::int64_t> expected[] = {
        {0, 16}, {999, 16}, {1000, 32}, {1999, 32}, {2000, 48}, {2999, 48}, {3000, 64}, {9000, 64}};
    for (const auto& [consumed, batch] : expected)
        EXPECT_EQ(global_batch_at(scenario, consumed), batch) << consumed;
    EXPECT_EQ(global_batch_at(sound({}), 0), 64);
}

TEST(BatchRamp, SharesNeedNotBeWhole) {
    // 1000 samples ÷ 3: the increments come after 333.3 and 666.7.
    const std::string ramp = R"({"start_batch_size":16,"increment":16,"over_samples":1000})";
    const Scenario scenario = sound({"training.batch_ramp=" + ramp});
    EXPECT_EQ(global_batch_at(scenario, 333), 16);
    EXPECT_EQ(global_batch_at(scenario, 334), 32);
    EXPECT_EQ(global_batch_at(scenario, 666), 32);
    EXPECT_EQ(global_batch_at(scenario, 667), 48);
}

TEST(BatchRamp, WhatIsOfferedInsteadHelps) {
    const auto ramp = [](int start, int increment) {
        return "training.batch_ramp={\"start_batch_size\":" + std::to_string(start) +
               ",\"increment\":" + std::to_string(increment) + ",\"over_samples\":1000}";
    };
    for (const int start : {8, 12})  // batch_ramp_start
        EXPECT_GT(sound({ramp(start, 4)}).training.batch_ramp.increment, 0);
    for (const int increment : {8, 12, 16, 24})  // batch_ramp_increment
        EXPECT_GT(sound({ramp(16, increment)}).training.batch_ramp.increment, 0);
    // batch_ramp_interleaved: rounds of 4 micro-batches on each of 4 ranks.
    EXPECT_GT(sound({"layout.schedule=interleaved", "layout.virtual_pipeline=2", ramp(32, 16)})
                  .training.batch_ramp.increment,
              0);
}

TEST(Training, SeedAndLossSpikeAreRead) {
    EXPECT_EQ(sound({}).training.seed, 1234);
    EXPECT_EQ(sound({"training.seed=0"}).training.seed, 0);
    EXPECT_EQ(sound({}).training.loss_spike.skip_above, 0);
    const LossSpike spike =
        sound({R"(training.loss_spike={"skip_above":1.5,"window":32})"}).training.loss_spike;
    EXPECT_EQ(spike, (LossSpike{1.5, 32}));
}

TEST(Training, SettingsOfNcclAreReadAndSilentOnesStaySilent) {
    const Scenario silent = sound({"run.nccl={}"});
    EXPECT_EQ(silent.run.nccl, NcclSettings{});
    const Scenario all =
        sound({"run.nccl.ib_timeout=22", "run.nccl.ib_retry_cnt=0", "run.nccl.ib_hca=mlx5_0:1",
               "run.nccl.socket_interface=^docker", "run.nccl.algorithm=NVLSTree",
               "run.nccl.protocol=LL128", "run.nccl.debug=INFO", "run.nccl.ib_gid_index=3",
               "run.nccl.ib_tc=106", "run.nccl.ib_sl=4", "run.nccl.net_gdr_level=PHB",
               "run.nccl.cross_nic=0", "run.nccl.nvls_enable=2", "run.nccl.collnet_enable=1",
               "run.nccl.min_ctas=4", "run.nccl.max_ctas=16"});
    EXPECT_EQ(all.run.nccl, (NcclSettings{22,
                                          0,
                                          "mlx5_0:1",
                                          "^docker",
                                          "NVLSTree",
                                          "LL128",
                                          "INFO",
                                          3,
                                          106,
                                          4,
                                          "PHB",
                                          0,
                                          2,
                                          1,
                                          4,
                                          16,
                                          {},
                                          false}));
    EXPECT_EQ(sound({"run.nccl.debug=WARN"}).run.nccl.ib_retry_cnt, -1);
    // Bounds may meet, and either may stand alone.
    EXPECT_EQ(sound({"run.nccl.min_ctas=8", "run.nccl.max_ctas=8"}).run.nccl.max_ctas, 8);
    EXPECT_EQ(sound({"run.nccl.min_ctas=8"}).run.nccl.max_ctas, 0);
    EXPECT_EQ(sound({"run.nccl.max_ctas=8"}).run.nccl.min_ctas, 0);
}

TEST(Training, BoundsOfNcclsGroupsAreReadAndMeetThoseOfAll) {
    const NcclSettings read =
        sound({"run.nccl.max_ctas=32", "run.nccl.registered_buffers=true",
               R"(run.nccl.groups={"tensor": {"min_ctas": 4, "max_ctas": 16}})",
               "run.nccl.groups.context.max_ctas=3", "run.nccl.groups.expert.min_ctas=5",
               "run.nccl.groups.data.max_ctas=8", "run.nccl.groups.pipeline.min_ctas=32"})
            .run.nccl;
    EXPECT_EQ(read.groups, (NcclGroups{{4, 16}, {0, 3}, {5, 0}, {0, 8}, {32, 0}}));
    EXPECT_TRUE(read.registered_buffers);
    EXPECT_FALSE(sound({}).run.nccl.registered_buffers);
}

TEST(Training, LossScaleIsANumberOrSaysHowItMoves) {
    const auto with = [](const std::string& value) {
        return sound({"training.precision=fp16", "training.loss_scale=" + value}).training;
    };
    EXPECT_EQ(with("dynamic").loss_scale, 0);
    EXPECT_EQ(with("dynamic").dynamic_loss_scale, (DynamicLossScale{65536, 1000, 2, 1}));
    EXPECT_EQ(with("512").loss_scale, 512);
    const Training moved = with(R"({"initial":4294967296,"growth_interval":200})");
    EXPECT_EQ(moved.loss_scale, 0);
    EXPECT_EQ(moved.dynamic_loss_scale, (DynamicLossScale{4294967296.0, 200, 2, 1}));
    EXPECT_EQ(with(R"({"hysteresis":1,"minimum":0.5})").dynamic_loss_scale,
              (DynamicLossScale{65536, 1000, 1, 0.5}));
}

TEST(RunPart, KeysAreRead) {
    EXPECT_EQ(sound({}).run, plan::Run{});
    const plan::Run run = sound({"run.format=llmc", "run.steps=7", "run.threads_per_rank=3"}).run;
    EXPECT_EQ(run.format, DataFormat::llmc);
    EXPECT_EQ(run.steps, 7);
    EXPECT_EQ(run.threads_per_rank, 3);
    EXPECT_EQ(run.bind, BindTo::automatic);
    EXPECT_EQ(sound({"run.bind=numa"}).run.bind, BindTo::numa);
    EXPECT_EQ(sound({"run.bind=none"}).run.bind, BindTo::none);
    const plan::Run saved =
        sound({"run.format=megatron", "run.checkpoint.path=saved", "run.checkpoint.every_steps=10",
               "run.checkpoint.keep=3", "run.init_from=nowhere"})
            .run;
    EXPECT_EQ(saved.format, DataFormat::megatron);
    EXPECT_EQ(saved.checkpoint_path, "saved");
    EXPECT_EQ(saved.checkpoint_every_steps, 10);
    EXPECT_EQ(saved.checkpoint_keep, 3);
    EXPECT_EQ(saved.init_from, "nowhere");
    EXPECT_EQ(saved.init_path, "");
}

TEST(Run, SaysWhatItDoesWhenSomethingFails) {
    const plan::Run usual = sound({"run.steps=1"}).run;
    EXPECT_EQ(usual.verify_replicas_every_steps, 0);
    EXPECT_EQ(usual.health, Health{});
    EXPECT_TRUE(usual.elastic_layouts.empty());
    const Scenario scenario = sound(
        {"run.checkpoint.path=saved", "run.checkpoint.every_steps=auto",
         "run.checkpoint.mean_time_between_failures_h=12.5", "run.verify_replicas_every_steps=50",
         "run.health.diverging_above=1.5", "run.health.stalled_after_s=20",
         R"(run.elastic_layouts=[{"data_parallel":1,"tensor_parallel":1}])",
         "layout.data_parallel=2"});
    EXPECT_EQ(scenario.run.checkpoint_every_steps, 0) << "measured";
    EXPECT_EQ(scenario.run.mean_time_between_failures_h, 12.5);
    EXPECT_EQ(scenario.run.verify_replicas_every_steps, 50);
    EXPECT_EQ(scenario.run.health.diverging_above, 1.5);
    EXPECT_EQ(scenario.run.health.diverging_window, Health{}.diverging_window);
    EXPECT_EQ(scenario.run.health.stalled_after_s, 20);
    ASSERT_EQ(scenario.run.elastic_layouts.size(), 1U);
    EXPECT_EQ(scenario.run.elastic_layouts[0].sets,
              (std::vector<std::string>{"layout.data_parallel=1", "layout.tensor_parallel=1"}));
    EXPECT_EQ(scenario.run.elastic_layouts[0].ranks,
              scenario.layout.context_parallel * scenario.layout.pipeline_parallel);
}

TEST(RunPart, DataIsLookedForAsReferencesAre) {
    const fs::path whole = fs::path(testing::TempDir()) / "orrery_run_data_test";
    const fs::path top = whole / "scenarios";
    fs::remove_all(whole);
    fs::create_directories(top / "runs");
    fs::create_directories(top / "data");
    std::ofstream(top / "runs/beside.txt") << "beside";
    std::ofstream(top / "data/above.txt") << "above";
    std::ofstream(top / "data/tokens.bin") << "of Megatron-LM";
    fs::create_directories(top / "model");
    std::ofstream(top / "model/config.json") << "{}";
    const fs::path path = top / "runs/run.json";
    const auto found = [&](const std::string& data) {
        std::ofstream(path) << kSmall;
        const ReadResult result = read_scenario(path.string(), {"run.data=" + data}, kTestLibrary);
        EXPECT_TRUE(result.scenario.has_value()) << format_text(result.errors);
        return result.scenario.value_or(Scenario{}).run;
    };
    EXPECT_EQ(found("beside.txt").data, "beside.txt");
    EXPECT_EQ(found("beside.txt").data_path, (top / "runs/beside.txt").string());
    EXPECT_EQ(found("data/above.txt").data_path, (top / "data/above.txt").string());
    EXPECT_EQ(found("models/gpt-96.json").data_path,
              (fs::path(kTestLibrary) / "models/gpt-96.json").string());
    EXPECT_EQ(found("data/tokens").data_path, (top / "data/tokens.bin").string());
    EXPECT_EQ(read_scenario(path.string(), {"run.init_from=model"}, kTestLibrary)
                  .scenario.value_or(Scenario{})
                  .run.init_path,
              (top / "model").string());
    EXPECT_EQ(found("nowhere.bin").data, "nowhere.bin");
    EXPECT_EQ(found("nowhere.bin").data_path, "");
    fs::remove_all(whole);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
