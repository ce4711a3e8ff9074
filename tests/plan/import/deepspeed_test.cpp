// Keys of a DeepSpeed config, one by one, and the batch identity.
#include <gtest/gtest.h>

#include "plan/scenario/import/deepspeed_rows.hpp"
#include "tests/plan/import/imports.hpp"

namespace orrery::plan::imports {
namespace ORRERY_TEST_FILE {

// `config`: members of the object; keys of one batch are added.
Imported imported(const std::string& config, std::int64_t gpus = 8) {
    const std::string batch =
        R"("train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4)";
    return import_text('{' + batch + (config.empty() ? "" : ", ") + config + '}', "ds.json",
                       Format::deepspeed, wishes(gpus));
}

std::string errors(const Imported& imported) {
    return format_text(imported.errors);
}

std::string nested(std::string key, const std::string& value) {
    std::string text, end;
    for (std::size_t dot; (dot = key.find('.')) != std::string::npos; key = key.substr(dot + 1)) {
        text += '"' + key.substr(0, dot) + "\": {";
        end += '}';
    }
    return text + '"' + key + "\": " + value + end;
}

TEST(DeepSpeed, EachKeyBecomesItsKey) {
    const Expectation all[] = {
        {"", "layout.global_batch_size", "64"},
        {"", "layout.micro_batch_size", "2"},
        {"", "layout.data_parallel", "8"},
        {"", "layout.zero_stage", "0"},
        {R"("zero_optimization": true)", "layout.zero_stage", "1"},
        {R"("zero_optimization": {"stage": 3})", "layout.zero_stage", "3"},
        {R"("zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}})",
         "layout.offload.optimizer", "\"host\""},
        {R"("zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}})",
         "layout.offload.parameters", "\"disk\""},
        {R"("zero_optimization": {"offload_param": {"device": "none"}})",
         "layout.offload.parameters", "\"none\""},
        {R"("zero_optimization": {"cpu_offload": true})", "layout.offload.optimizer", "\"host\""},
        {R"("zero_optimization": {"stage": 3, "mics_shard_size": 4})", "layout.zero_group_size",
         "4"},
        {R"("zero_optimization": {"stage": 3})", "training.overlap_gradient_reduce", "true"},
        {R"("zero_optimization": {"stage": 2})", "training.overlap_gradient_reduce", "false"},
        {R"("zero_optimization": {"stage": 2, "overlap_comm": true})",
         "training.overlap_gradient_reduce", "true"},
        {R"("bf16": {"enabled": true})", "training.gradient_bucket_mb", "1000"},  // 5e8 · 2
        {R"("zero_optimization": {"reduce_bucket_size": 2e8})", "training.gradient_bucket_mb",
         "800"},  // fp32
        {R"("zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 5e7})",
         "training.zero_prefetch", "1"},
        {R"("zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 0})",
         "training.zero_prefetch", "0"},
        {"", "training.precision", "\"fp32\""},
        {R"("bf16": {"enabled": true})", "training.precision", "\"bf16\""},
        {R"("bfloat16": {"enabled": true})", "training.precision", "\"bf16\""},
        {R"("bf16": {"enabled": true})", "training.gradient_dtype", "\"fp32\""},
        {R"("bf16": {"enabled": true}, "zero_optimization": {"stage": 2})",
         "training.gradient_dtype", "\"same\""},
        {R"("bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"})",
         "training.gradient_dtype", "\"fp32\""},
        {R"("fp16": {"enabled": true})", "training.loss_scale.initial", "65536"},
        {R"("fp16": {"enabled": true, "initial_scale_power": 12})", "training.loss_scale.initial",
         "4096"},
        {R"("fp16": {"enabled": true, "loss_scale_window": 500})",
         "training.loss_scale.growth_interval", "500"},
        {R"("fp16": {"enabled": true, "loss_scale": 128})", "training.loss_scale", "128"},
        {R"("optimizer": {"type": "AdamW", "params": {"lr": 3e-4}})",
         "training.optimizer.learning_rate", "0.0003"},
        {R"("optimizer": {"type": "Adam"})", "training.optimizer.learning_rate", "0.001"},
        {R"("optimizer": {"type": "Adam", "params": {"betas": [0.8, 0.9]}})",
         "training.optimizer.beta2", "0.9"},
        {R"("optimizer": {"type": "Adam", "params": {"eps": 1e-6, "weight_decay": 0.2}})",
         "training.optimizer.weight_decay", "0.2"},
        {"", "training.optimizer.clip_norm", "0"},
        {R"("gradient_clipping": 1.0)", "training.optimizer.clip_norm", "1"},
        {R"("scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 7}})",
         "training.schedule.warmup_steps", "7"},
        {R"("scheduler": {"type": "WarmupCosineLR"})", "training.schedule.decay", "\"cosine\""},
        {R"("tensor_parallel": {"autotp_size": 1})", "layout.tensor_parallel", "1"},
        {R"("activation_checkpointing": {"cpu_checkpointing": true})", "layout.offload.activations",
         "\"host\""},
        {"", "training.vocabulary_multiple", "1"},
    };
    for (const Expectation& row : all)
        expect(imported(row.text), row, "");
}

TEST(DeepSpeed, OtherKeysAreNamedWithTheReason) {
    const Expectation all[] = {
        {"steps_per_print", "ignored", "logging"},
        {"tensorboard.enabled", "ignored", "logging"},
        {"zero_optimization.stage3_gather_16bit_weights_on_model_save", "ignored", "checkpoints"},
        {"zero_optimization.zero_hpz_partition_size", "unsupported", "ZeRO++"},
        {"zero_optimization.zero_quantized_weights", "unsupported", "quantised"},
        {"zero_optimization.sub_group_size", "unsupported", "at once"},
        {"curriculum_learning.enabled", "unsupported", "not modelled"},
        {"zero_optimization.stagee", "unsupported", "nearest: zero_optimization.stage"},
    };
    for (const Expectation& row : all)
        expect(imported(nested(row.text, "7")), row, row.text);
}

TEST(DeepSpeed, EveryRowIsNamed) {
    for (const auto& rows : {deepspeed_ignored(), deepspeed_unsupported()})
        for (const Row& row : rows) {
            std::string key = row.key;
            if (key.back() == '*') key.back() = 'x';
            const Imported result = imported(nested(key, "\"some\""));
            EXPECT_EQ(errors(result), "") << key;
            EXPECT_TRUE(left(result.ignored, key) || left(result.unsupported, key)) << key;
        }
}

TEST(DeepSpeed, DefaultsAreNoObstacle) {
    const Imported result = imported(
        R"("zero_optimization": {"stage": 3, "sub_group_size": 1e9, "contiguous_gradients": true,
           "zero_hpz_partition_size": 1, "stage3_max_live_parameters": 1e9})");
    EXPECT_TRUE(result.unsupported.empty());
    EXPECT_EQ(left(result.ignored, "zero_optimization.sub_group_size")->why,
              "at this value it changes nothing");
}

// train_batch_size = train_micro_batch_size_per_gpu × gradient_accumulation_steps × ranks.
TEST(DeepSpeed, EachOfTheThreeFollowsFromTheOthers) {
    const auto batch = [](const char* config, std::int64_t gpus) {
        const Imported result = import_text(config, "ds.json", Format::deepspeed, wishes(gpus));
        EXPECT_EQ(errors(result), "") << config;
        return at(result, "layout.global_batch_size") + ' ' +
               at(result, "layout.micro_batch_size") + ' ' + at(result, "layout.data_parallel");
    };
    EXPECT_EQ(batch(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4})", 8),
              "64 4 8");
    EXPECT_EQ(batch(R"({"train_batch_size": 64, "gradient_accumulation_steps": 4})", 8), "64 2 8");
    EXPECT_EQ(
        batch(R"({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 4})", 8),
        "128 4 8");
    EXPECT_EQ(batch(R"({"train_batch_size": 64})", 8), "64 8 8");
    EXPECT_EQ(batch(R"({"train_micro_batch_size_per_gpu": 4})", 8), "32 4 8");
    EXPECT_EQ(batch(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4,
                        "gradient_accumulation_steps": 2})",
                    0),
              "64 4 8");
}

TEST(DeepSpeed, ABatchThatDoesNotBelongTogetherShowsTheArithmetic) {
    EXPECT_EQ(errors(imported("", 6)),
              "error[I004]: the three batch sizes do not belong together\n"
              "  --> ds.json:train_batch_size   (= 64)\n"
              "   |  train_micro_batch_size_per_gpu × gradient_accumulation_steps × data-parallel "
              "ranks = 2 × 4 × 6 = 48\n"
              "   |  train_batch_size = 64\n"
              "\n"
              "1 error; nothing was run.\n");
}

TEST(DeepSpeed, AutoIsLeftToWhoeverSaysIt) {
    const Imported result = import_text(
        R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
            "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
            "bf16": {"enabled": "auto"}, "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
            "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto",
                                  "stage3_param_persistence_threshold": "auto"}})",
        "ds.json", Format::deepspeed, wishes(8));
    EXPECT_EQ(errors(result), "");
    for (const char* key : {"layout.global_batch_size", "layout.micro_batch_size",
                            "training.optimizer.clip_norm", "training.precision",
                            "training.optimizer.learning_rate", "training.gradient_bucket_mb"}) {
        EXPECT_TRUE(missing(result, key)) << key;
        EXPECT_EQ(at(result, key), "-") << key;
    }
    EXPECT_TRUE(result.unsupported.empty());
}

TEST(DeepSpeed, WhatItNeverSaysIsMissing) {
    const Imported result = imported("");
    for (const char* key : {"model", "cluster", "training.sequence_length", "layout.recompute",
                            "layout.pipeline_parallel"})
        EXPECT_TRUE(missing(result, key)) << key;
}

TEST(DeepSpeed, BrokenJsonIsUnreadable) {
    const Imported result =
        import_text("{\n  \"a\": 1,\n  oops\n}", "ds.json", Format::deepspeed, wishes(8));
    EXPECT_TRUE(result.unreadable);
    ASSERT_EQ(result.errors.size(), 1u);
    EXPECT_EQ(result.errors[0].line, 3);
    EXPECT_EQ(result.errors[0].message, "not valid JSON at line 3, column 3");
    EXPECT_EQ(errors(import_text("[]", "ds.json", Format::deepspeed, wishes(8))),
              "error[I001]: a DeepSpeed config is a JSON object\n"
              "  --> ds.json\n"
              "\n"
              "1 error; nothing was run.\n");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan::imports
