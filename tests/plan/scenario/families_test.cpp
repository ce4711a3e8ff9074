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
namespace ORRERY_TEST_FILE {

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
    {"qwen3-8b", 8'190'735'360},
    {"olmo-2-1124-7b", 7'298'617'344},
    {"gemma-2-9b", 9'241'705'984},
    {"gemma-3-1b", 999'885'952},
    {"phi-3-mini-4k", 3'821'079'552},
    {"mixtral-8x7b-v0.1", 46'702'792'704},
    {"mixtral-8x22b-v0.3", 140'630'071'296},
    {"qwen3-30b-a3b", 30'532'122'624},
    {"qwen3-235b-a22b", 235'093'634'560},
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
    EXPECT_TRUE(qwen.attention().qkv_bias);
    EXPECT_FALSE(qwen.attention().projection_bias);
    EXPECT_TRUE(qwen.tied_embeddings);
    EXPECT_EQ(qwen.attention().window, 0);  // written, and not used
    EXPECT_EQ(model_of("mistral-nemo-base-2407").attention().head_dim, 128);
    const Model gemma = model_of("gemma-2b");
    EXPECT_EQ(gemma.mlp().activation, Activation::geglu);
    EXPECT_EQ(gemma.attention().head_dim * gemma.attention().heads, 2048);
    EXPECT_EQ(gemma.attention().kv_heads, 1);
    const Model opt = model_of("opt-13b");
    EXPECT_EQ(opt.mlp().activation, Activation::relu);
    EXPECT_EQ(opt.position_rows(), 2050);
    EXPECT_EQ(opt.hidden_dropout, 0.1);
    EXPECT_FALSE(opt.embedding_dropout);
    const Model bloom = model_of("bloom-560m");
    EXPECT_TRUE(bloom.attention().alibi);
    EXPECT_FALSE(bloom.learned_positions);
    EXPECT_TRUE(bloom.embedding_norm);
    EXPECT_TRUE(bloom.tied_embeddings);
    const Model pythia = model_of("pythia-6.9b");
    EXPECT_EQ(pythia.attention().rotary_dim, 128 / 4);
    EXPECT_TRUE(pythia.layer().parallel_block);
    EXPECT_FALSE(pythia.layer().shared_norm);
}

TEST(Families, LayersAreOfKinds) {
    const Model gemma2 = model_of("gemma-2-9b");
    EXPECT_EQ(gemma2.layers_of(0), 21);
    EXPECT_EQ(gemma2.kinds[gemma2.kind_of(0)].attention().window, 4096);
    EXPECT_EQ(gemma2.kinds[gemma2.kind_of(1)].attention().window, 0);
    EXPECT_EQ(gemma2.attention().soft_cap, 50);
    EXPECT_EQ(gemma2.logit_soft_cap, 30);
    EXPECT_EQ(gemma2.attention().scale(), 1.0 / 16);  // 1 ÷ √256
    EXPECT_EQ(gemma2.layer().norms(), 4);
    const Model gemma3 = model_of("gemma-3-1b");
    EXPECT_EQ(gemma3.layers_of(0), 4);  // layers 5, 11, 17 and 23 of 26
    for (const std::int64_t layer : {0, 4, 5, 6, 23, 25}) {
        const SoftmaxAttention& attention = gemma3.kinds[gemma3.kind_of(layer)].attention();
        const bool full = layer == 5 || layer == 23;
        EXPECT_EQ(attention.window, full ? 0 : 512) << layer;
        EXPECT_EQ(attention.rope_theta, full ? 1e6 : 1e4) << layer;
    }
    EXPECT_EQ(gemma3.attention().qk_norm, QkNorm::heads);
    EXPECT_EQ(gemma3.attention().soft_cap, 0);
    const Model olmo = model_of("olmo-2-1124-7b");
    EXPECT_EQ(olmo.attention().qk_norm, QkNorm::width);
    EXPECT_FALSE(olmo.layer().norm_before);
    EXPECT_TRUE(olmo.layer().norm_after);
    EXPECT_EQ(model_of("phi-3-mini-4k").attention().window, 2047);
    EXPECT_EQ(
        model_of("phi-3-mini-4k", {"model.partial_rotary_factor=0.75"}).attention().rotary_dim,
        72);  // 96 · 3/4
}

// transformers 5 writes frequencies by type of layer; a config may name the type of each layer.
TEST(Families, LayersMayBeNamedOneByOne) {
    const Model gemma = model_of(
        "gemma-3-1b",
        {"model.num_hidden_layers=3",
         R"(model.layer_types=["full_attention", "sliding_attention", "full_attention"])",
         "model.rope_theta=null", "model.rope_local_base_freq=null", "model.rope_scaling=null",
         R"(model.rope_parameters={"full_attention": {"rope_type": "linear", "factor": 8,
             "rope_theta": 500}, "sliding_attention": {"rope_type": "default", "rope_theta": 70}})"});
    EXPECT_EQ(gemma.layers_of(0), 2);
    EXPECT_EQ(gemma.attention().rope_theta, 500);
    EXPECT_EQ(gemma.attention().rope_scaling.factor, 8);
    const SoftmaxAttention& local = gemma.kinds[gemma.kind_of(1)].attention();
    EXPECT_EQ(local.rope_theta, 70);
    EXPECT_EQ(local.rope_scaling, RopeScaling{});
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
    EXPECT_EQ(gpt.mlp().ffn_hidden, 4 * 768);
    EXPECT_TRUE(gpt.learned_positions);
    EXPECT_TRUE(gpt.tied_embeddings);
    EXPECT_TRUE(gpt.mlp().bias);
    EXPECT_EQ(gpt.mlp().activation, Activation::gelu);
    EXPECT_EQ(gpt.hidden_dropout, 0.1);
    const Model slopes = scenario_with(R"({"model_type": "megatron",
        "position_embedding_type": "alibi", )" +
                                       sizes + "}")
                             .model;
    EXPECT_TRUE(slopes.attention().alibi);
    EXPECT_EQ(slopes.attention().rotary_dim, 0);
    EXPECT_EQ(slopes.position_rows(), 0);  // no table
    const Model swiglu =
        scenario_with(R"({"model_type": "megatron", "swiglu": true, )" + sizes + "}").model;
    EXPECT_EQ(swiglu.mlp().ffn_hidden, 2048);  // 8/3 × 768, a whole multiple of 64
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
        EXPECT_EQ(model.attention().rotary_dim > 0 ? model.attention().rope_theta : 0,
                  expected.rope_theta);
        EXPECT_EQ(model.mlp().gelu, expected.gelu);
        EXPECT_EQ(model.initializer_range, 0.02);
        const bool gemma = model.family == "gemma";
        EXPECT_EQ(model.norm_weight_offset, gemma ? 1 : 0);
        EXPECT_EQ(model.embedding_scale, gemma ? std::sqrt(2048.0) : 1);
        EXPECT_EQ(model.attention().scaled_alibi,
                  model.family == "falcon" && model.attention().alibi);
        const double head = static_cast<double>(model.attention().head_dim);
        EXPECT_NEAR(model.attention().scale() * model.attention().scale(), 1 / head, 1e-17);
    }
}

TEST(Families, RotaryScalingIsRead) {
    using Kind = RopeScaling::Kind;
    EXPECT_EQ(model_of("llama-3.1-8b").attention().rope_scaling,
              (RopeScaling{Kind::llama3, 8, 1, 4, 8192}));
    EXPECT_EQ(model_of("gemma-2b").attention().rope_scaling, RopeScaling{});  // null
    const auto scaled = [](const std::string& value) {
        return model_of("mistral-7b-v0.1", {"model.rope_scaling=" + value})
            .attention()
            .rope_scaling;
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
    EXPECT_NEAR(scores.attention().scale(), 9 / std::sqrt(128), 1e-15);
    // As releases write it that moved from one key to the other.
    EXPECT_EQ(scaled(R"({"type": "linear", "rope_type": "linear", "factor": 4})").factor, 4);
}

// transformers 5 writes base, share and scaling as one object.
TEST(Families, RopeParametersAreReadToo) {
    const Model pythia = model_of(
        "pythia-6.9b", {"model.rotary_pct=null", "model.rotary_emb_base=null",
                        R"(model.rope_parameters={"rope_theta": 5000, "partial_rotary_factor": 0.5,
                                                  "rope_type": "linear", "factor": 2})"});
    EXPECT_EQ(pythia.attention().rope_theta, 5000);
    EXPECT_EQ(pythia.attention().rotary_dim, 64);
    EXPECT_EQ(pythia.attention().rope_scaling.factor, 2);
    EXPECT_EQ(model_of("mistral-7b-v0.1",
                       {"model.rope_theta=null", R"(model.rope_parameters={"rope_theta": 7000})"})
                  .attention()
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
        {"gemma-2-9b", "model.attn_logit_softcapping=null"},
        {"gemma-2-9b", "model.final_logit_softcapping=null", "model.sliding_window=null"},
        {"gemma-3-1b", R"(model.rope_scaling={"rope_type": "linear", "factor": 8})",
         "model.sliding_window_pattern=2"},
        {"qwen3-8b", "model.use_sliding_window=true", "model.sliding_window=512",
         "model.max_window_layers=10"},
        {"phi-3-mini-4k", "model.partial_rotary_factor=0.5", "model.sliding_window=null"},
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
    EXPECT_EQ(first.attention().kv_heads, 1);
    EXPECT_TRUE(first.layer().parallel_block && first.layer().shared_norm);
    const Model second = model_of("falcon-40b");
    EXPECT_EQ(second.attention().kv_heads, 8);
    EXPECT_TRUE(second.layer().parallel_block);
    EXPECT_FALSE(second.layer().shared_norm);
    EXPECT_TRUE(model_of("falcon-40b", {"model.num_ln_in_parallel_attn=1"}).layer().shared_norm);
    const Model alibi = model_of("falcon-rw-1b");
    EXPECT_TRUE(alibi.attention().alibi);
    EXPECT_EQ(alibi.attention().kv_heads, 32);
    EXPECT_FALSE(alibi.layer().parallel_block);
    EXPECT_TRUE(alibi.attention().qkv_bias && alibi.attention().projection_bias &&
                alibi.mlp().bias);
}

TEST(Families, SlidingWindowsAreOfAllLayersOrOfSome) {
    EXPECT_TRUE(read_config("mistral-7b-v0.1", 4096).scenario.has_value());
    EXPECT_TRUE(read_config("mistral-7b-v0.1", 4097).scenario.has_value());
    EXPECT_TRUE(read_config("mistral-nemo-base-2407", 32768).scenario.has_value());
    EXPECT_TRUE(read_config("qwen2.5-0.5b", 65536).scenario.has_value());
    const std::vector<std::string> windowed = {"model.use_sliding_window=true"};
    // From layer 24 of 24 on: none.
    EXPECT_TRUE(read_config("qwen2.5-0.5b", 65536, windowed).scenario.has_value());
    const std::vector<std::string> some = {"model.use_sliding_window=true",
                                           "model.max_window_layers=12"};
    const Model qwen = read_config("qwen2.5-0.5b", 65536, some).scenario.value_or(Scenario{}).model;
    EXPECT_EQ(qwen.layers_of(0), 12);
    EXPECT_EQ(qwen.kinds[0].attention().window, 0);
    EXPECT_EQ(qwen.kinds[qwen.kind_of(12)].attention().window, 32768);
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
    EXPECT_EQ(mistral.attention().kv_heads, 8);
    EXPECT_EQ(mistral.attention().window, 4096);
    EXPECT_EQ(mistral.norm_epsilon, 1e-6);
    EXPECT_EQ(mistral.attention().rope_theta, 10000);
    EXPECT_FALSE(mistral.tied_embeddings);
    EXPECT_EQ(read(R"({"model_type": "mistral", "num_key_value_heads": null, )" + gated + "}")
                  .attention()
                  .kv_heads,
              32);
    EXPECT_EQ(read(R"({"model_type": "qwen2", )" + gated + "}").attention().kv_heads, 32);
    const Model gemma = read(R"({"model_type": "gemma", )" + gated + "}");
    EXPECT_EQ(gemma.attention().kv_heads, 16);
    EXPECT_EQ(gemma.attention().head_dim, 256);
    EXPECT_TRUE(gemma.tied_embeddings);
    const Model qwen3 = read(R"({"model_type": "qwen3", )" + gated + "}");
    EXPECT_EQ(qwen3.attention().kv_heads, 32);
    EXPECT_EQ(qwen3.attention().head_dim, 128);
    const Model gemma2 = read(R"({"model_type": "gemma2", )" + gated + "}");
    EXPECT_EQ(gemma2.attention().kv_heads, 4);
    EXPECT_EQ(gemma2.attention().head_dim, 256);
    EXPECT_EQ(gemma2.attention().soft_cap, 50);
    EXPECT_EQ(gemma2.logit_soft_cap, 30);
    EXPECT_EQ(gemma2.kinds[1].attention().window, 4096);
    const Model gemma3 = read(R"({"model_type": "gemma3_text", )" + gated + "}");
    EXPECT_EQ(gemma3.attention().rope_theta, 1e6);
    EXPECT_EQ(gemma3.kinds[1].attention().rope_theta, 1e4);
    EXPECT_EQ(gemma3.layers_of(0), 0);  // the sixth would be the first
    EXPECT_EQ(read(R"({"model_type": "olmo2", )" + gated + "}").norm_epsilon, 1e-5);
    const Model oss = read(R"({"model_type": "gpt_oss", "num_local_experts": 0, )" + gated + "}");
    EXPECT_EQ(oss.attention().head_dim, 64);
    EXPECT_EQ(oss.attention().rope_theta, 150000);
    EXPECT_EQ(oss.attention().rope_scaling.kind, RopeScaling::Kind::yarn);
    EXPECT_EQ(oss.attention().rope_scaling.factor, 32);
    EXPECT_FALSE(oss.attention().rope_scaling.truncate);
    EXPECT_TRUE(oss.attention().sinks && oss.attention().projection_bias);
    EXPECT_EQ(oss.kinds[1].attention().window, 128);
    const Model opt =
        read(R"({"model_type": "opt", "ffn_dim": 8192, "max_position_embeddings": 2048, )" + sizes +
             "}");
    EXPECT_EQ(opt.hidden_dropout, 0.1);
    EXPECT_EQ(opt.attention().dropout, 0.0);
    EXPECT_TRUE(opt.attention().qkv_bias);
    EXPECT_EQ(opt.norm_epsilon, 1e-5);
    const Model bloom = read(R"({"model_type": "bloom", )" + sizes + "}");
    EXPECT_EQ(bloom.mlp().ffn_hidden, 4 * 4096);
    EXPECT_EQ(bloom.hidden_dropout, 0.0);
    const Model falcon = read(R"({"model_type": "falcon", )" + sizes + "}");
    EXPECT_EQ(falcon.mlp().ffn_hidden, 4 * 4096);
    EXPECT_EQ(falcon.attention().kv_heads, 1);
    EXPECT_EQ(falcon.mlp().gelu, Gelu::erf);
    EXPECT_EQ(falcon.norm_epsilon, 1e-5);
    EXPECT_TRUE(falcon.layer().parallel_block && falcon.layer().shared_norm &&
                falcon.tied_embeddings);
    EXPECT_FALSE(falcon.attention().qkv_bias);
    const Model neox = read(R"({"model_type": "gpt_neox", )" + gated + "}");
    EXPECT_EQ(neox.attention().rotary_dim, 32);
    EXPECT_EQ(neox.attention().rope_theta, 10000);
    EXPECT_EQ(neox.norm_epsilon, 1e-5);
    EXPECT_EQ(neox.mlp().gelu, Gelu::erf);
    EXPECT_TRUE(neox.layer().parallel_block && neox.attention().qkv_bias && neox.mlp().bias);
    EXPECT_FALSE(neox.tied_embeddings);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
