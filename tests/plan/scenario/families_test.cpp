// config.json files as Hugging Face publishes them, in configs/: each reads as it is, gives the
// model that its authors published, and comes back the same from the resolved text.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/assemble/build_plan.hpp"
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

Scenario scenario_with(const std::string& model_json, std::vector<std::string> sets = {}) {
    const ReadResult result =
        read_scenario_text(scenario_of(model_json, 1024), "families.json", "", sets, kLibrary);
    EXPECT_TRUE(result.scenario.has_value()) << format_text(result.errors);
    if (!result.scenario) return {};
    const ReadResult again =
        read_scenario_text(result.resolved_json, "families.json", "", {}, kLibrary);
    EXPECT_TRUE(again.scenario.has_value()) << format_text(again.errors);
    EXPECT_EQ(again.resolved_json, result.resolved_json);
    return *result.scenario;
}

// Nemotron-4 15B (Parmar et al. 2024, table 1): 32 layers, hidden 6144, 48 heads, 8 of keys and
// values, vocabulary 256,000. Once as its Hugging Face config, once key by key.
TEST(Families, MegatronSpellsAModelKeyByKey) {
    const Scenario published = scenario_with(
        R"({"model_type": "nemotron", "hidden_size": 6144, "num_hidden_layers": 32,
            "num_attention_heads": 48, "num_key_value_heads": 8, "intermediate_size": 24576,
            "norm_eps": 1e-5, "hidden_act": "relu2", "vocab_size": 256000})");
    const Scenario spelt = scenario_with(
        R"({"model_type": "megatron", "hidden_size": 6144, "num_layers": 32,
            "num_attention_heads": 48, "num_query_groups": 8, "ffn_hidden_size": 24576,
            "squared_relu": true, "position_embedding_type": "rope", "rotary_percent": 0.5,
            "apply_layernorm_1p": true, "add_bias_linear": false, "hidden_dropout": 0,
            "attention_dropout": 0, "untie_embeddings_and_output_weights": true,
            "vocab_size": 256000})");
    // Q, K, V and projection; the MLP's two; two norms of weight and bias; both embeddings; the
    // last norm.
    const std::int64_t h = 6144, kv = 8 * 128, f = 24576, v = 256'000;
    const std::int64_t layer = h * (h + 2 * kv) + h * h + 2 * h * f + 4 * h;
    EXPECT_EQ(build_plan(published).conserved.parameters, 32 * layer + 2 * v * h + 2 * h);
    Model same = spelt.model;
    same.family = published.model.family;
    same.name = published.model.name;
    same.embedding_dropout = published.model.embedding_dropout;  // of no probability
    EXPECT_EQ(same, published.model);
}

TEST(Families, MegatronHasItsDefaults) {
    const std::string sizes = R"("hidden_size": 768, "num_layers": 2, "num_attention_heads": 12,
                                 "vocab_size": 1000, "max_position_embeddings": 1024)";
    const Model gpt = scenario_with(R"({"model_type": "megatron", )" + sizes + "}").model;
    EXPECT_EQ(gpt.ffn_hidden, 4 * 768);
    EXPECT_TRUE(gpt.learned_positions());
    EXPECT_TRUE(gpt.tied_embeddings);
    EXPECT_TRUE(gpt.mlp_bias);
    EXPECT_EQ(gpt.activation, Activation::gelu);
    EXPECT_EQ(gpt.hidden_dropout, 0.1);
    const Model swiglu =
        scenario_with(R"({"model_type": "megatron", "swiglu": true, )" + sizes + "}").model;
    EXPECT_EQ(swiglu.ffn_hidden, 2048);  // 8/3 × 768, a whole multiple of 64
    const ReadResult both = read_scenario_text(
        scenario_of(
            R"({"model_type": "megatron", "swiglu": true, "squared_relu": true, )" + sizes + "}",
            1024),
        "families.json", "", {}, kLibrary);
    ASSERT_EQ(both.errors.size(), 1U);
    EXPECT_EQ(both.errors[0].pointer, "/model/squared_relu");
}

// What no size depends on, as the configs have it.
struct Numbers {
    const char* name;
    double norm_epsilon;
    double rope_theta;  // 0: no rotary positions
    Gelu gelu;          // tanh also where there is none
};

TEST(Families, NumbersAreTheConfigs) {
    const Numbers all[] = {
        {"gpt2-medium", 1e-5, 0, Gelu::tanh},    {"llama-3.1-8b", 1e-5, 5e5, Gelu::tanh},
        {"qwen2.5-0.5b", 1e-6, 1e6, Gelu::tanh}, {"mistral-7b-v0.1", 1e-5, 1e4, Gelu::tanh},
        {"gemma-2b", 1e-6, 1e4, Gelu::tanh},     {"mistral-nemo-base-2407", 1e-5, 1e6, Gelu::tanh},
        {"opt-13b", 1e-5, 0, Gelu::tanh},        {"bloom-560m", 1e-5, 0, Gelu::tanh},
        {"falcon-7b", 1e-5, 1e4, Gelu::erf},     {"falcon-rw-1b", 1e-5, 0, Gelu::erf},
        {"pythia-6.9b", 1e-5, 1e4, Gelu::erf},
    };
    for (const Numbers& expected : all) {
        SCOPED_TRACE(expected.name);
        const Model model = model_of(expected.name);
        EXPECT_EQ(model.norm_epsilon, expected.norm_epsilon);
        EXPECT_EQ(model.rotary() ? model.rope_theta : 0, expected.rope_theta);
        EXPECT_EQ(model.gelu, expected.gelu);
        EXPECT_EQ(model.initializer_range, 0.02);
        const bool gemma = model.family == "gemma";
        EXPECT_EQ(model.norm_weight_offset, gemma ? 1 : 0);
        EXPECT_EQ(model.embedding_scale, gemma ? std::sqrt(2048.0) : 1);
        EXPECT_EQ(model.scaled_alibi, model.family == "falcon" && !model.rotary());
        const double head = static_cast<double>(model.head_dim);
        EXPECT_NEAR(model.attention_scale() * model.attention_scale(), 1 / head, 1e-17);
    }
}

TEST(Families, RotaryScalingIsRead) {
    using Kind = RopeScaling::Kind;
    EXPECT_EQ(model_of("llama-3.1-8b").rope_scaling, (RopeScaling{Kind::llama3, 8, 1, 4, 8192}));
    EXPECT_EQ(model_of("gemma-2b").rope_scaling, RopeScaling{});  // null
    const auto scaled = [](const std::string& value) {
        return model_of("mistral-7b-v0.1", {"model.rope_scaling=" + value}).rope_scaling;
    };
    EXPECT_EQ(scaled(R"({"type": "linear", "factor": 2.5})"),
              (RopeScaling{Kind::linear, 2.5, 1, 4, 0}));
    EXPECT_EQ(scaled(R"({"rope_type": "default"})"), RopeScaling{});
    const RopeScaling yarn =
        scaled(R"({"type": "yarn", "factor": 4, "original_max_position_embeddings": 8192})");
    EXPECT_EQ(yarn.kind, Kind::yarn);
    EXPECT_EQ(yarn.beta_slow, 1);
    EXPECT_EQ(yarn.beta_fast, 32);
    EXPECT_NEAR(yarn.attention_factor, 1 + 0.1 * std::log(4), 1e-15);
    const Model scores =
        model_of("mistral-7b-v0.1", {R"(model.rope_scaling={"rope_type": "yarn", "factor": 4,
                               "original_max_position_embeddings": 8192, "attention_factor": 3})"});
    EXPECT_NEAR(scores.attention_scale(), 9 / std::sqrt(128), 1e-15);
    // As releases write it that moved from one key to the other.
    EXPECT_EQ(scaled(R"({"type": "linear", "rope_type": "linear", "factor": 4})").factor, 4);
}

// transformers 5 writes base, share and scaling as one object.
TEST(Families, RopeParametersAreReadToo) {
    const Model pythia = model_of(
        "pythia-6.9b", {"model.rotary_pct=null", "model.rotary_emb_base=null",
                        R"(model.rope_parameters={"rope_theta": 5000, "partial_rotary_factor": 0.5,
                                                  "rope_type": "linear", "factor": 2})"});
    EXPECT_EQ(pythia.rope_theta, 5000);
    EXPECT_EQ(pythia.rotary_dim, 64);
    EXPECT_EQ(pythia.rope_scaling.factor, 2);
    EXPECT_EQ(model_of("mistral-7b-v0.1",
                       {"model.rope_theta=null", R"(model.rope_parameters={"rope_theta": 7000})"})
                  .rope_theta,
              7000);
}

TEST(Families, NumbersComeBackFromTheResolvedText) {
    const std::vector<std::vector<std::string>> changes = {
        {"pythia-6.9b", "model.rope_theta=5000", "model.rotary_emb_base=null"},
        {"pythia-6.9b", "model.rotary_pct=null",
         R"(model.rope_parameters={"rope_theta": 5000, "partial_rotary_factor": 0.5})"},
        {"pythia-6.9b", R"(model.rope_parameters={"partial_rotary_factor": 0.5})"},
        {"gemma-2b", "model.hidden_activation=gelu", "model.initializer_range=0.01"},
        {"falcon-7b", R"(model.rope_scaling={"rope_type": "linear", "factor": 2})"},
        {"mistral-7b-v0.1",
         R"(model.rope_scaling={"rope_type": "yarn", "factor": 4, "beta_fast": 16, "truncate": false,
            "original_max_position_embeddings": 8192})"},
        {"gpt2-medium", "model.activation_function=gelu", "model.layer_norm_epsilon=1e-6"},
        {"opt-13b", "model.init_std=0.006"},
    };
    for (const std::vector<std::string>& change : changes) {
        SCOPED_TRACE(change[1]);
        const ReadResult first = read_config(change[0], 1024, {change.begin() + 1, change.end()});
        ASSERT_TRUE(first.scenario.has_value()) << format_text(first.errors);
        EXPECT_FALSE(first.scenario->model == model_of(change[0]));
        const ReadResult again =
            read_scenario_text(first.resolved_json, "families.json", "", {}, kLibrary);
        ASSERT_TRUE(again.scenario.has_value()) << format_text(again.errors);
        EXPECT_EQ(again.scenario->model, first.scenario->model);
        EXPECT_EQ(again.resolved_json, first.resolved_json);
    }
}

// √3072 = 55.4256: steps of 1/4 in bf16, of 1/32 in fp16 between 32 and 64.
TEST(Families, EmbeddingScaleIsRoundedToThePrecision) {
    Scenario scenario;
    scenario.model.embedding_scale = std::sqrt(3072.0);
    const auto at = [&](Precision precision) {
        scenario.training.precision = precision;
        return embedding_scale(scenario);
    };
    EXPECT_EQ(at(Precision::bf16), 55.5);
    EXPECT_EQ(at(Precision::fp16), 55.4375);
    EXPECT_EQ(at(Precision::fp32), static_cast<double>(std::sqrt(3072.0F)));
    EXPECT_EQ(at(Precision::fp64), std::sqrt(3072.0));
    scenario.model.embedding_scale = 1;
    EXPECT_EQ(at(Precision::bf16), 1);
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

TEST(Families, SlidingWindowsAreOfAllLayersUnlessTheyHoldTheSequence) {
    EXPECT_TRUE(read_config("mistral-7b-v0.1", 4096).scenario.has_value());
    EXPECT_TRUE(read_config("mistral-7b-v0.1", 4097).scenario.has_value());
    EXPECT_TRUE(read_config("mistral-nemo-base-2407", 32768).scenario.has_value());
    EXPECT_TRUE(read_config("qwen2.5-0.5b", 65536).scenario.has_value());
    const std::vector<std::string> windowed = {"model.use_sliding_window=true"};
    // From layer 24 of 24 on: none.
    EXPECT_TRUE(read_config("qwen2.5-0.5b", 65536, windowed).scenario.has_value());
    const std::vector<std::string> some = {"model.use_sliding_window=true",
                                           "model.max_window_layers=12"};
    EXPECT_TRUE(read_config("qwen2.5-0.5b", 32768, some).scenario.has_value());
    EXPECT_FALSE(read_config("qwen2.5-0.5b", 65536, some).scenario.has_value());
    const std::vector<std::string> all = {"model.use_sliding_window=true",
                                          "model.max_window_layers=0"};
    EXPECT_TRUE(read_config("qwen2.5-0.5b", 65536, all).scenario.has_value());
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
    EXPECT_EQ(mistral.norm_epsilon, 1e-6);
    EXPECT_EQ(mistral.rope_theta, 10000);
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
    EXPECT_EQ(opt.norm_epsilon, 1e-5);
    const Model bloom = read(R"({"model_type": "bloom", )" + sizes + "}");
    EXPECT_EQ(bloom.ffn_hidden, 4 * 4096);
    EXPECT_EQ(bloom.hidden_dropout, 0.0);
    const Model falcon = read(R"({"model_type": "falcon", )" + sizes + "}");
    EXPECT_EQ(falcon.ffn_hidden, 4 * 4096);
    EXPECT_EQ(falcon.kv_heads, 1);
    EXPECT_EQ(falcon.gelu, Gelu::erf);
    EXPECT_EQ(falcon.norm_epsilon, 1e-5);
    EXPECT_TRUE(falcon.parallel_block && falcon.shared_norm && falcon.tied_embeddings);
    EXPECT_FALSE(falcon.qkv_bias);
    const Model neox = read(R"({"model_type": "gpt_neox", )" + gated + "}");
    EXPECT_EQ(neox.rotary_dim, 32);
    EXPECT_EQ(neox.rope_theta, 10000);
    EXPECT_EQ(neox.norm_epsilon, 1e-5);
    EXPECT_EQ(neox.gelu, Gelu::erf);
    EXPECT_TRUE(neox.parallel_block && neox.qkv_bias && neox.mlp_bias);
    EXPECT_FALSE(neox.tied_embeddings);
}

}  // namespace
}  // namespace orrery::plan
