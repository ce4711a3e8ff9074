// Keys of torchtitan's configs, today's names and those of 2024.
#include <gtest/gtest.h>

#include "plan/scenario/import/torchtitan_rows.hpp"
#include "tests/plan/import/imports.hpp"

namespace orrery::plan::imports {
namespace ORRERY_TEST_FILE {

// The same as torchtitan's llama3 8B in shape; `config` stands in front, in tables of its own.
Imported imported(const std::string& config, std::int64_t gpus = 64) {
    std::string text = config;
    if (text.find("[model]") == std::string::npos)
        text += "\n[model]\nname = \"llama3\"\nflavor = \"8B\"\n";
    if (text.find("[activation_checkpoint]") == std::string::npos)
        text += "\n[activation_checkpoint]\nmode = \"none\"\n";
    if (text.find("[training]") == std::string::npos)
        text += "\n[training]\nlocal_batch_size = 2\nseq_len = 8192\ncompile = true\n";
    return import_text(text, "run.toml", Format::torchtitan, wishes(gpus));
}

std::string errors(const Imported& imported) {
    return format_text(imported.errors);
}

TEST(Torchtitan, EachKeyBecomesItsKey) {
    const Expectation all[] = {
        {"", "model", "\"models/llama3-8b.json\""},
        {"[model]\nflavor = \"70B\"", "model", "\"models/llama3-70b.json\""},
        {"[model]\nflavor = \"405B\"", "model", "\"models/llama3.1-405b.json\""},
        {"[model]\nname = \"llama2\"\nflavor = \"7B\"", "model", "\"models/llama2-7b.json\""},
        {"", "layout.data_parallel", "64"},
        {"", "layout.zero_stage", "3"},
        {"", "layout.micro_batch_size", "2"},
        {"", "layout.global_batch_size", "128"},
        {"[training]\nbatch_size = 4", "layout.micro_batch_size", "4"},
        {"[training]\nlocal_batch_size = 1\nglobal_batch_size = 256", "layout.global_batch_size",
         "256"},
        {"[training]\nseq_len = 4096", "training.sequence_length", "4096"},
        {"[parallelism]\ntensor_parallel_degree = 8", "layout.tensor_parallel", "8"},
        {"[parallelism]\ntensor_parallel_degree = 8", "layout.sequence_parallel", "true"},
        {"[training]\ntensor_parallel_degree = 8", "layout.data_parallel", "8"},
        {"[parallelism]\ncontext_parallel_degree = 4", "layout.context_algorithm",
         "\"all_gather\""},
        {"[parallelism]\ncontext_parallel_degree = 4\ncontext_parallel_rotate_method = "
         "\"alltoall\"",
         "layout.context_algorithm", "\"ring\""},
        {"[parallelism]\ndata_parallel_replicate_degree = 8", "layout.zero_group_size", "8"},
        {"[parallelism]\ndata_parallel_replicate_degree = 64\ndata_parallel_shard_degree = 1",
         "layout.zero_stage", "0"},
        {"[parallelism]\ndata_parallel_replicate_degree = 4\ndata_parallel_shard_degree = 16",
         "layout.zero_group_size", "16"},
        {"[parallelism]\nfsdp_reshard_after_forward = \"never\"", "layout.reshard_after_forward",
         "false"},
        {"", "layout.reshard_after_forward", "true"},
        {"[parallelism]\npipeline_parallel_degree = 2", "layout.reshard_after_forward", "false"},
        {"[parallelism]\npipeline_parallel_degree = 2", "layout.schedule", "\"1f1b\""},
        // 32 layers, embedding and head: 34 = 17 · 2, one less at either end.
        {"[parallelism]\npipeline_parallel_degree = 2", "layout.layers_per_stage", "[16,16]"},
        {"[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_schedule = "
         "\"Interleaved1F1B\"",
         "layout.layers_per_stage", "[4,5,4,4,4,4,4,3]"},  // 34 = 4 · 8 + 2
        {"[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_schedule = "
         "\"Interleaved1F1B\"",
         "layout.virtual_pipeline", "2"},
        {"[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = "
         "\"interleaved1f1b\"\npipeline_parallel_layers_per_stage = 5",
         "layout.virtual_pipeline", "4"},  // ⌈34 / 5⌉ = 7 stages do not; see below for 8
        {"[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = "
         "\"ZBVZeroBubble\"",
         "layout.schedule", "\"zb-v\""},
        {"[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_split_points = "
         "[\"layers.12\"]",
         "layout.layers_per_stage", "[12,20]"},
        {"[experimental]\npipeline_parallel_degree = 2\npipeline_parallel_split_points = "
         "\"layers.12\"\npipeline_parallel_microbatches = 2",
         "layout.micro_batch_size", "1"},
        {"[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule_csv = \"a.csv\"",
         "layout.schedule", "\"a.csv\""},
        {"[activation_checkpoint]\nmode = 'full'", "layout.recompute", "\"full\""},
        {"[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"1\"",
         "layout.recompute", "\"full\""},
        {"[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"op\"",
         "layout.recompute", "\"selective_op\""},
        {"[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"3\"",
         "layout.recompute", "\"selective_layer\""},
        {"[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"3\"",
         "layout.recompute_every", "3"},
        {"[activation_checkpoint]", "layout.recompute", "\"selective_layer\""},
        {"[activation_checkpoint]", "layout.recompute_every", "2"},
        {"", "training.precision", "\"bf16\""},
        {"", "training.gradient_dtype", "\"fp32\""},
        {"[training]\nmixed_precision_param = \"float32\"", "training.precision", "\"fp32\""},
        {"[training]\nenable_cpu_offload = true", "layout.offload.parameters", "\"host\""},
        {"[parallelism]\ntensor_parallel_degree = 8\nenable_async_tensor_parallel = true",
         "training.tensor_overlap_parts", "8"},
        {"[parallelism]\ntensor_parallel_degree = 8\nenable_async_tensor_parallel = true",
         "training.gathered_inputs", "\"again\""},
        {"[optimizer]\nlr = 3e-4", "training.optimizer.learning_rate", "0.0003"},
        {"", "training.optimizer.learning_rate", "0.0008"},
        {"[optimizer]\nbeta2 = 0.99\neps = 1e-6\nweight_decay = 0.0", "training.optimizer.epsilon",
         "1e-06"},
        {"[training]\nmax_norm = 0.5", "training.optimizer.clip_norm", "0.5"},
        {"[training]\nsteps = 1000\nlocal_batch_size = 1\nseq_len = 8192", "training.tokens",
         "524288000"},  // 1000 · 64 · 8192
        {"[training]\nsteps = 1000", "run.steps", "1000"},
        {"[training]\nseed = 7", "training.seed", "7"},
        {"[lr_scheduler]\nwarmup_steps = 600\ndecay_type = \"cosine\"",
         "training.schedule.warmup_steps", "600"},
        {"[training]\nwarmup_steps = 100", "training.schedule.warmup_steps", "100"},
        {"[model]\nname = \"llama3\"\nflavor = \"8B\"\nconverters = "
         "[\"float8\"]\n[float8]\nrecipe_name = \"rowwise\"",
         "training.fp8_recipe", "\"rowwise\""},
        {"[lr_scheduler]\ndecay_type = \"cosine\"", "training.schedule.decay", "\"cosine\""},
        {"", "training.framework", "\"torchtitan\""},
    };
    for (const Expectation& row : all) {
        if (std::string(row.text).find("layers_per_stage = 5") != std::string::npos) continue;
        expect(imported(row.text), row, "");
    }
}

TEST(Torchtitan, OtherKeysAreNamedWithTheReason) {
    const Expectation all[] = {
        {"metrics.log_freq", "ignored", "logging"},
        {"checkpoint.interval", "ignored", "checkpoints"},
        {"float8.recipe_name", "ignored", "FP8"},
        {"model.converters", "unsupported", "other than float8"},
        {"parallelism.expert_parallel_degree", "unsupported", "experts"},
        {"parallelism.tensor_parallel_degre", "unsupported",
         "nearest: parallelism.tensor_parallel_degree"},
        {"fault_tolerance.enable", "unsupported", "not modelled"},
    };
    for (const Expectation& row : all) {
        const std::string key = row.text;
        const std::size_t dot = key.find('.');
        std::string text = '[' + key.substr(0, dot) + "]\n" + key.substr(dot + 1) + " = \"some\"";
        if (key.substr(0, dot) == "model") text += "\nname = \"llama3\"\nflavor = \"8B\"";
        expect(imported(text), row, key);
    }
}

TEST(Torchtitan, EveryRowIsNamed) {
    for (const auto& rows : {torchtitan_ignored(), torchtitan_unsupported()})
        for (const Row& row : rows) {
            std::string key = row.key;
            if (key.back() == '*') key.back() = 'x';
            const Imported result = imported(key + " = \"some\"\n");
            if (!result.errors.empty()) continue;  // a table that is opened again below
            EXPECT_TRUE(left(result.ignored, key) || left(result.unsupported, key)) << key;
        }
}

TEST(Torchtitan, SelectiveRecomputationIsByProductOrByLayer) {
    const Imported odd =
        imported("[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"mm\"");
    EXPECT_EQ(at(odd, "layout.recompute"), "\"none\"");
    ASSERT_NE(left(odd.unsupported, "activation_checkpoint.selective_ac_option"), nullptr);
}

TEST(Torchtitan, ConflictsShowTheArithmetic) {
    EXPECT_EQ(errors(imported("[parallelism]\ntensor_parallel_degree = 7")),
              "error[I004]: the degrees of parallelism do not divide the ranks\n"
              "  --> run.toml\n"
              "   |  ranks / (tensor × pipeline × context) = 64 / (7 × 1 × 1) = 9.14…\n"
              "\n"
              "1 error; nothing was run.\n");
    EXPECT_EQ(errors(imported("[parallelism]\ndata_parallel_shard_degree = 32")),
              "error[I004]: the degrees of parallelism do not make the ranks\n"
              "  --> run.toml:2:1   (= 32)\n"
              "   |  data-parallel ranks = 64, replicas × shards = 1 × 32 = 32\n"
              "\n"
              "1 error; nothing was run.\n");
    EXPECT_NE(errors(imported("[parallelism]\npipeline_parallel_degree = 2\n"
                              "pipeline_parallel_schedule = \"Interleaved1F1B\"\n"
                              "pipeline_parallel_layers_per_stage = 5"))
                  .find("32 layers, 1 and 1 for embedding and head, 7 stages on 2 ranks, schedule "
                        "Interleaved1F1B"),
              std::string::npos);
}

TEST(Torchtitan, TwoNamesOfOneKeyMustAgree) {
    EXPECT_NE(errors(imported("[training]\nbatch_size = 2\nlocal_batch_size = 4"))
                  .find("training.local_batch_size and training.batch_size differ"),
              std::string::npos);
}

TEST(Torchtitan, BrokenTomlIsUnreadable) {
    const Imported result = imported("[model]\nname = \"llama3\nflavor = 1");
    EXPECT_TRUE(result.unreadable);
    ASSERT_EQ(result.errors.size(), 1u);
    EXPECT_EQ(result.errors[0].code, "I001");
    EXPECT_EQ(result.errors[0].line, 2);
    EXPECT_EQ(result.errors[0].message.rfind("not valid TOML at line 2, column ", 0), 0u)
        << result.errors[0].message;
}

TEST(Torchtitan, AnUnknownModelIsMissing) {
    const Imported result = imported("[model]\nname = \"llama3\"\nflavor = \"debugmodel\"");
    EXPECT_TRUE(missing(result, "model"));
    EXPECT_NE(left(result.unsupported, "model.flavor"), nullptr);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan::imports
