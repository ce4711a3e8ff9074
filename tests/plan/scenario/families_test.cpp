// config.json files as Hugging Face publishes them, in configs/: each reads as it is, gives the
// model that its authors published, and comes back the same from the resolved text.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/build/build_plan.hpp"
#include "plan/scenario/reader.hpp"

namespace orrery::plan {
namespace {

const std::string kConfigs = std::string(ORRERY_SOURCE_DIR) + "/tests/plan/scenario/configs/";
const std::string kLibrary = std::string(ORRERY_SOURCE_DIR) + "/scenarios";

std::string scenario_of(const std::string& model, std::int64_t sequence) {
    return R"({"model": )" + model +
           R"(, "cluster": "clusters/a100-80gb-sxm-8.json",
               "layout": {"data_parallel": 1, "global_batch_size": 1},
               "training": {"sequence_length": )" +
           std::to_string(sequence) + "}}";
}

ReadResult read_config(const std::string& name, std::int64_t sequence,
                       const std::vector<std::string>& sets = {}) {
    return read_scenario_text(scenario_of('"' + kConfigs + name + ".json\"", sequence),
                              "families.json", "", sets, kLibrary);
}

Model model_of(const std::string& name, const std::vector<std::string>& sets = {}) {
    const ReadResult result = read_config(name, 1024, sets);
    EXPECT_TRUE(result.scenario.has_value()) << format_text(result.errors);
    return result.scenario.value_or(Scenario{}).model;
}

// Parameters as Hugging Face counts the weights it stores, or as the paper prints them.
struct Published {
    const char* name;
    std::int64_t parameters;
};

const Published kPublished[] = {
    {"gpt2-medium", 354'823'168},
    {"llama-3.1-8b", 8'030'261'248},
    {"qwen2.5-0.5b", 494'032'768},
    {"mistral-7b-v0.1", 7'241'732'096},
    {"mistral-nemo-base-2407", 12'247'782'400},
    {"gemma-2b", 2'506'172'416},
    {"opt-13b", 12'853'473'280},
    {"bloom", 176'247'271'424},
    {"bloom-560m", 559'214'592},
    {"falcon-7b", 6'921'720'704},
    {"falcon-40b", 41'303'293'952},
    {"falcon-rw-1b", 1'311'625'216},
    {"pythia-6.9b", 6'857'302'016},
};

TEST(Families, ReadTheirConfigsAsTheyAre) {
    for (const Published& model : kPublished) {
        SCOPED_TRACE(model.name);
        const ReadResult result = read_config(model.name, 1024);
        ASSERT_TRUE(result.scenario.has_value()) << format_text(result.errors);
        EXPECT_EQ(build_plan(*result.scenario).conserved.parameters, model.parameters);
    }
}

TEST(Families, ComeBackFromTheResolvedText) {
    for (const Published& model : kPublished) {
        SCOPED_TRACE(model.name);
        const ReadResult first = read_config(model.name, 1024, {"training.dropout=0.25"});
        ASSERT_TRUE(first.scenario.has_value()) << format_text(first.errors);
        const ReadResult again =
            read_scenario_text(first.resolved_json, "families.json", "", {}, kLibrary);
        ASSERT_TRUE(again.scenario.has_value()) << format_text(again.errors);
        EXPECT_EQ(*again.scenario, *first.scenario);
        EXPECT_EQ(again.resolved_json, first.resolved_json);
    }
}

TEST(Families, EveryConfigIsTested) {
    std::size_t configs = 0;
    for (const auto& entry : std::filesystem::directory_iterator(kConfigs)) {
        const std::string name = entry.path().stem().string();
        bool listed = false;
        for (const Published& model : kPublished)
            listed = listed || name == model.name;
        EXPECT_TRUE(listed) << name;
        ++configs;
    }
    EXPECT_EQ(configs, std::size(kPublished));
}

TEST(Families, DifferInTheirFeatures) {
    const Model qwen = model_of("qwen2.5-0.5b");
    EXPECT_TRUE(qwen.qkv_bias);
    EXPECT_FALSE(qwen.projection_bias);
    EXPECT_TRUE(qwen.tied_embeddings);
    EXPECT_EQ(qwen.attention_window, 0);  // written, and not used
    EXPECT_EQ(model_of("mistral-nemo-base-2407").head_dim, 128);
    const Model gemma = model_of("gemma-2b");
    EXPECT_EQ(gemma.activation, Activation::geglu);
    EXPECT_EQ(gemma.head_dim * gemma.heads, 2048);
    EXPECT_EQ(gemma.kv_heads, 1);
    const Model opt = model_of("opt-13b");
    EXPECT_EQ(opt.activation, Activation::relu);
    EXPECT_EQ(opt.position_rows(), 2050);
    EXPECT_EQ(opt.hidden_dropout, 0.1);
    EXPECT_FALSE(opt.embedding_dropout);
    const Model bloom = model_of("bloom-560m");
    EXPECT_EQ(bloom.positions, Positions::alibi);
    EXPECT_TRUE(bloom.embedding_norm);
    EXPECT_TRUE(bloom.tied_embeddings);
    const Model pythia = model_of("pythia-6.9b");
    EXPECT_EQ(pythia.rotary_dim, 128 / 4);
    EXPECT_TRUE(pythia.parallel_block);
    EXPECT_FALSE(pythia.shared_norm);
}

TEST(Families, FalconsDifferByGeneration) {
    const Model first = model_of("falcon-7b");
    EXPECT_EQ(first.kv_heads, 1);
    EXPECT_TRUE(first.parallel_block && first.shared_norm);
    const Model second = model_of("falcon-40b");
    EXPECT_EQ(second.kv_heads, 8);
    EXPECT_TRUE(second.parallel_block);
    EXPECT_FALSE(second.shared_norm);
    EXPECT_TRUE(model_of("falcon-40b", {"model.num_ln_in_parallel_attn=1"}).shared_norm);
    const Model alibi = model_of("falcon-rw-1b");
    EXPECT_EQ(alibi.positions, Positions::alibi);
    EXPECT_EQ(alibi.kv_heads, 32);
    EXPECT_FALSE(alibi.parallel_block);
    EXPECT_TRUE(alibi.qkv_bias && alibi.projection_bias && alibi.mlp_bias);
}

TEST(Families, SlidingWindowsThatHoldTheSequenceAreHarmless) {
    EXPECT_TRUE(read_config("mistral-7b-v0.1", 4096).scenario.has_value());
    EXPECT_FALSE(read_config("mistral-7b-v0.1", 4097).scenario.has_value());
    EXPECT_TRUE(read_config("mistral-nemo-base-2407", 32768).scenario.has_value());
    EXPECT_TRUE(read_config("qwen2.5-0.5b", 65536).scenario.has_value());
    const std::vector<std::string> windowed = {"model.use_sliding_window=true"};
    // From layer 24 of 24 on: none.
    EXPECT_TRUE(read_config("qwen2.5-0.5b", 65536, windowed).scenario.has_value());
    const std::vector<std::string> some = {"model.use_sliding_window=true",
                                           "model.max_window_layers=12"};
    EXPECT_TRUE(read_config("qwen2.5-0.5b", 32768, some).scenario.has_value());
    EXPECT_FALSE(read_config("qwen2.5-0.5b", 65536, some).scenario.has_value());
}

// Hugging Face's defaults where a config says nothing.
TEST(Families, DefaultsAreHuggingFaces) {
    const auto read = [](const std::string& config) {
        const ReadResult result =
            read_scenario_text(scenario_of(config, 128), "families.json", "", {}, kLibrary);
        EXPECT_TRUE(result.scenario.has_value()) << format_text(result.errors);
        return result.scenario.value_or(Scenario{}).model;
    };
    const std::string sizes = R"("hidden_size": 4096, "num_hidden_layers": 4,
        "num_attention_heads": 32, "vocab_size": 1000)";
    const std::string gated = sizes + R"(, "intermediate_size": 8192)";
    const Model mistral = read(R"({"model_type": "mistral", )" + gated + "}");
    EXPECT_EQ(mistral.kv_heads, 8);
    EXPECT_EQ(mistral.attention_window, 4096);
    EXPECT_FALSE(mistral.tied_embeddings);
    EXPECT_EQ(
        read(R"({"model_type": "mistral", "num_key_value_heads": null, )" + gated + "}").kv_heads,
        32);
    EXPECT_EQ(read(R"({"model_type": "qwen2", )" + gated + "}").kv_heads, 32);
    const Model gemma = read(R"({"model_type": "gemma", )" + gated + "}");
    EXPECT_EQ(gemma.kv_heads, 16);
    EXPECT_EQ(gemma.head_dim, 256);
    EXPECT_TRUE(gemma.tied_embeddings);
    const Model opt =
        read(R"({"model_type": "opt", "ffn_dim": 8192, "max_position_embeddings": 2048, )" + sizes +
             "}");
    EXPECT_EQ(opt.hidden_dropout, 0.1);
    EXPECT_EQ(opt.attention_dropout, 0.0);
    EXPECT_TRUE(opt.qkv_bias);
    const Model bloom = read(R"({"model_type": "bloom", )" + sizes + "}");
    EXPECT_EQ(bloom.ffn_hidden, 4 * 4096);
    EXPECT_EQ(bloom.hidden_dropout, 0.0);
    const Model falcon = read(R"({"model_type": "falcon", )" + sizes + "}");
    EXPECT_EQ(falcon.ffn_hidden, 4 * 4096);
    EXPECT_EQ(falcon.kv_heads, 1);
    EXPECT_TRUE(falcon.parallel_block && falcon.shared_norm && falcon.tied_embeddings);
    EXPECT_FALSE(falcon.qkv_bias);
    const Model neox = read(R"({"model_type": "gpt_neox", )" + gated + "}");
    EXPECT_EQ(neox.rotary_dim, 32);
    EXPECT_TRUE(neox.parallel_block && neox.qkv_bias && neox.mlp_bias);
    EXPECT_FALSE(neox.tied_embeddings);
}

}  // namespace
}  // namespace orrery::plan
