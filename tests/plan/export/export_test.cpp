// A scenario as another tool's settings: what is written is imported again as the same scenario, or
// as one with the differences that are stated; what the tool cannot run is refused by its key.
#include "plan/scenario/export/export.hpp"

#include <filesystem>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "plan/scenario/import/import.hpp"

namespace orrery::plan::exports {
namespace ORRERY_TEST_FILE {

namespace fs = std::filesystem;

const std::string kLibrary = std::string(ORRERY_SOURCE_DIR) + "/scenarios";
const std::string kRuns = kLibrary + "/runs";

ReadResult run_of(const std::string& name, const std::vector<std::string>& sets = {}) {
    ReadResult read = read_scenario(kRuns + "/" + name + ".json", sets, kLibrary);
    EXPECT_EQ(format_text(read.errors), "");
    return read;
}

Exported exported(const ReadResult& read, const char* tool) {
    return export_scenario(read, *tool_of_name(tool), "run.json", kRuns, kLibrary);
}

std::set<std::string> keys(const Exported& out, Fate fate) {
    std::set<std::string> found;
    for (const Note& note : out.notes)
        if (note.fate == fate) found.insert(note.key);
    return found;
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

// The text, comments and all, through the tool's importer and the scenario's reader. What such a
// file cannot say is said as the notes have it.
Scenario imported_again(const ReadResult& read, const Exported& out, const char* tool) {
    imports::Wishes wishes;
    wishes.frameworks = {"megatron", "torchtitan", "nemo", "deepspeed"};
    const bool names_none = keys(out, Fate::elsewhere).count("model") > 0;
    if (names_none) wishes.model = "elsewhere";
    wishes.layers = read.scenario->model.layers;
    imports::Imported again = imports::import_text(out.text, "out", *tool_of_name(tool), wishes);
    EXPECT_EQ(format_text(again.errors), "") << tool << '\n' << out.text;
    for (const imports::Left& left : again.unsupported)
        ADD_FAILURE() << tool << ": " << left.key << ' ' << left.value << ": " << left.why;
    const Json original = Json::parse(read.resolved_json);
    again.scenario["cluster"] = original["cluster"];
    if (names_none) again.scenario["model"] = original["model"];
    for (const Note& note : out.notes)
        if (note.fate == Fate::elsewhere && note.key != "model" && !note.key.starts_with("run."))
            imports::set_key(again, note.key + '=' + note.wanted.dump());
    const ReadResult result =
        read_scenario_text(again.scenario.dump(), "again", kRuns, {}, kLibrary);
    EXPECT_EQ(format_text(result.errors), "") << tool << '\n' << out.text;
    return result.scenario.value_or(Scenario{});
}

// What the notes say, and nothing else, differs in the layout, the batch and the optimizer.
void expect_same_step(const ReadResult& read, const Exported& out, const char* tool) {
    const Scenario again = imported_again(read, out, tool);
    const Scenario& once = *read.scenario;
    Layout layout = again.layout;
    const auto stated = keys(out, Fate::other);
    layout.expert_row_bound = once.layout.expert_row_bound;  // Orrery's own
    if (once.layout.data_ranks() == 1) layout.zero_stage = once.layout.zero_stage;
    if (once.layout.zero_stage < 3)
        layout.reshard_after_forward = once.layout.reshard_after_forward;
    if (once.layout.zero_stage == 0 || layout.zero_group_size == once.layout.data_ranks())
        layout.zero_group_size = once.layout.zero_group_size;
    EXPECT_TRUE(layout == once.layout) << layout_text(layout) << '\n' << layout_text(once.layout);
    EXPECT_EQ(again.training.sequence_length, once.training.sequence_length);
    EXPECT_EQ(again.training.precision, once.training.precision);
    EXPECT_TRUE(again.training.fp8 == once.training.fp8 || stated.count("training.fp8_stash") > 0);
    EXPECT_EQ(again.training.optimizer.learning_rate, once.training.optimizer.learning_rate);
    EXPECT_EQ(again.training.optimizer.beta2, once.training.optimizer.beta2);
    EXPECT_EQ(again.training.optimizer.epsilon == once.training.optimizer.epsilon,
              stated.count("training.optimizer.epsilon") == 0);
    EXPECT_EQ(again.training.optimizer.clip_norm, once.training.optimizer.clip_norm);
    EXPECT_EQ(again.training.schedule.warmup_steps == once.training.schedule.warmup_steps,
              stated.count("training.schedule.warmup_steps") == 0);
    EXPECT_NEAR(again.training.schedule.min_learning_rate, once.training.schedule.min_learning_rate,
                1e-12 * once.training.schedule.min_learning_rate);
    EXPECT_EQ(again.model.layers, once.model.layers);
    EXPECT_EQ(again.model.vocabulary, once.model.vocabulary);
    EXPECT_EQ(padded_vocabulary(again) == padded_vocabulary(once),
              stated.count("training.vocabulary_multiple") == 0 ||
                  padded_vocabulary(again) == padded_vocabulary(once));
    EXPECT_EQ(again.training.framework.gradient_bytes == once.training.framework.gradient_bytes,
              stated.count("training.gradient_dtype") == 0);
}

// Every shipped run, and the first key for which a tool refuses it ("": it is written).
struct Verdicts {
    const char *megatron, *torchtitan, *deepspeed, *nemo;
};
const std::map<std::string, Verdicts> kVerdicts = {
    {"deepseek-v3-h800x2048",
     {"layout.schedule", "its settings", "layout.pipeline_parallel", "layout.pipeline_parallel"}},
    {"gpt-oss-120b-h100x64", {"model.num_experts", "layout.zero_stage", "", "model.num_experts"}},
    {"gpt2-124m-h100x1", {"", "", "", ""}},
    {"gpt2-124m-h200", {"", "", "", ""}},
    {"gpt2-124m-rtx4090x1", {"", "", "", ""}},
    {"gpt2-xl-a100x8", {"", "layout.zero_stage", "", ""}},
    {"gpt3-175b-a100x1024", {"", "layout.zero_stage", "", ""}},
    {"grok-1-h100x512", {"model", "layout.zero_stage", "layout.schedule", "model"}},
    {"llama-65b-a100x1024", {"", "layout.recompute", "", ""}},
    {"llama2-7b-a100x8", {"", "", "", "layout.zero_stage"}},
    {"llama3-70b-h100x128-a100x128",
     {"", "layout.zero_stage", "layout.context_algorithm", "layout.layers_per_stage"}},
    {"llama3-70b-h100x256", {"", "layout.zero_stage", "layout.virtual_pipeline", ""}},
    {"llama3-8b-h200x8", {"", "", "", "layout.zero_stage"}},
    {"llama3-8b-lora-h100x8", {"training.lora.rank", "training.lora.rank", "", ""}},
    {"llama3-8b-tpu-v6e-256", {"", "", "", "layout.zero_stage"}},
    {"llama3.1-405b-128k-h100x16384",
     {"", "layout.zero_stage", "layout.context_parallel", "layout.pipeline_parallel"}},
    {"llama3.1-405b-h100x16384",
     {"", "layout.zero_stage", "layout.pipeline_parallel", "layout.pipeline_parallel"}},
    {"llama4-maverick-h100x512", {"model", "its settings", "training.precision", "model"}},
    {"megatron-1t-a100x3072", {"", "layout.sequence_parallel", "", ""}},
    {"mixtral-8x22b-h100x128", {"", "layout.expert_parallel", "layout.schedule", ""}},
    {"qwen3-235b-h100x256",
     {"", "layout.expert_parallel", "layout.pipeline_parallel", "layout.pipeline_parallel"}},
    {"tiny-gpt", {"", "layout.sequence_parallel", "", ""}},
    {"tiny-moe", {"", "layout.expert_parallel", "", ""}},
};

TEST(Export, EveryShippedRunComesBackOrIsRefusedByItsKey) {
    std::set<std::string> shipped;
    for (const auto& entry : fs::directory_iterator(kRuns))
        shipped.insert(entry.path().stem().string());
    for (const auto& [name, verdicts] : kVerdicts) {
        EXPECT_EQ(shipped.erase(name), 1U) << name;
        const ReadResult read = run_of(name);
        const std::pair<const char*, const char*> tools[] = {{"megatron", verdicts.megatron},
                                                             {"torchtitan", verdicts.torchtitan},
                                                             {"deepspeed", verdicts.deepspeed},
                                                             {"nemo", verdicts.nemo}};
        for (const auto& [tool, refused] : tools) {
            SCOPED_TRACE(name + " for " + tool);
            const Exported out = exported(read, tool);
            if (*refused != '\0') {
                EXPECT_EQ(keys(out, Fate::refused).count(refused), 1U) << out.text;
                continue;
            }
            EXPECT_EQ(keys(out, Fate::refused), std::set<std::string>{});
            expect_same_step(read, out, tool);
        }
    }
    EXPECT_EQ(shipped, std::set<std::string>{}) << "runs without a verdict here";
}

TEST(Export, WhatALayoutMaySayComesBackFromMegatron) {
    const struct {
        const char* run;
        std::vector<std::string> sets;
        const char* option;
    } all[] = {
        {"llama2-7b-a100x8", {"layout.reshard_after_forward=false"}, "--use-torch-fsdp2"},
        {"llama2-7b-a100x8",
         {"layout.zero_stage=2"},
         "--data-parallel-sharding-strategy optim_grads"},
        {"llama2-7b-a100x8",
         {"layout.zero_group_size=4"},
         "--num-distributed-optimizer-instances 2"},
        {"llama2-7b-a100x8",
         {"layout.zero_stage=1", "layout.offload.optimizer=host"},
         "--optimizer-cpu-offload"},
        {"gpt3-175b-a100x1024",
         {"layout.recompute=selective", R"(layout.recompute_modules=["core_attn","layernorm"])"},
         "--recompute-modules core_attn layernorm"},
        {"gpt3-175b-a100x1024",
         {"layout.recompute=every_k", "layout.recompute_every=3"},
         "--recompute-num-layers 3"},
        {"gpt3-175b-a100x1024", {"training.tensor_overlap_parts=8"}, "--tp-comm-overlap"},
        {"gpt3-175b-a100x1024",
         {"training.precision=fp16", "training.loss_scale.hysteresis=3"},
         "--hysteresis 3"},
        {"llama3-70b-h100x256",
         {"training.precision=fp8", "training.fp8_recipe=blockwise"},
         "--fp8-recipe blockwise"},
        {"llama3-70b-h100x256",
         {"layout.context_parallel=2", "layout.data_parallel=4",
          "layout.context_algorithm=all_gather"},
         "--cp-comm-type all_gather"},
        {"llama3-70b-h100x256",
         {"layout.virtual_pipeline=1", "layout.schedule=1f1b",
          "layout.layers_per_stage=[9,10,10,10,10,10,11,10]"},
         "--pipeline-model-parallel-layout 'Et*9|t*10|t*10|t*10|t*10|t*10|t*11|t*10L'"},
        {"mixtral-8x22b-h100x128",
         {"layout.expert_dispatcher=deduplicated", "training.routing.balance_loss=0.01"},
         "--moe-token-dispatcher-type flex"},
        {"deepseek-v3-h800x2048",
         {"layout.schedule=interleaved"},
         "--moe-layer-freq '[0]*3+[1]*58'"},
    };
    for (const auto& one : all) {
        SCOPED_TRACE(one.option);
        const ReadResult read = run_of(one.run, one.sets);
        const Exported out = exported(read, "megatron");
        EXPECT_TRUE(has(out.text, one.option)) << out.text;
        EXPECT_EQ(keys(out, Fate::refused), std::set<std::string>{});
        expect_same_step(read, out, "megatron");
    }
}

// A user puts options of their own in the place of those for data: none of another kind is there.
TEST(Export, MegatronsOptionsForDataStandByThemselves) {
    const std::string text =
        exported(
            run_of("gpt3-175b-a100x1024", {"layout.recompute=every_k", "layout.recompute_every=3"}),
            "megatron")
            .text;
    const std::size_t data = text.find("DATA=(");
    ASSERT_NE(data, std::string::npos);
    for (const char* option : {"--recompute-method", "--recompute-num-layers", "--lr ", "--bf16"})
        EXPECT_LT(text.find(option), data) << option;
    for (const char* option : {"--mock-data", "--tokenizer-type", "--vocab-size"})
        EXPECT_GT(text.find(option), data) << option;
}

TEST(Export, AScheduleThatMegatronHasNotIsNamedWithWhatItWouldRun) {
    const Exported out =
        exported(run_of("gpt3-175b-a100x1024", {"layout.schedule=zb-h1"}), "megatron");
    ASSERT_EQ(keys(out, Fate::refused), std::set<std::string>{"layout.schedule"});
    EXPECT_TRUE(has(out.text, "# cannot be run: layout.schedule \"zb-h1\"; this is \"1f1b\"\n"))
        << out.text;
}

TEST(Export, TorchtitanNamesTheModelsThatItHas) {
    const Exported known = exported(run_of("llama2-7b-a100x8"), "torchtitan");
    EXPECT_TRUE(has(known.text, "name = \"llama2\"\nflavor = \"7B\"\n")) << known.text;
    EXPECT_EQ(keys(known, Fate::elsewhere).count("model"), 0U);
    const Exported other =
        exported(run_of("llama2-7b-a100x8", {"model.intermediate_size=11264"}), "torchtitan");
    EXPECT_EQ(keys(other, Fate::elsewhere).count("model"), 1U);
}

TEST(Export, DeepSpeedsFileIsJsonWithItsNotesInAPartOfTheirOwn) {
    const Exported out = exported(run_of("llama2-7b-a100x8"), "deepspeed");
    const Json tree = Json::parse(out.text);
    EXPECT_EQ(tree["train_batch_size"], 64);
    EXPECT_EQ(tree["gradient_accumulation_steps"], 8);  // 64 ÷ (1 × 8 ranks)
    EXPECT_EQ(tree["zero_optimization"]["stage"], 3);
    EXPECT_TRUE(has(tree["orrery"]["notes"].dump(), "deepspeed --num_nodes=1 --num_gpus=8"));
    EXPECT_TRUE(has(tree["orrery"]["notes"].dump(), "not in this file: training.sequence_length"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan::exports
