// Mixtures of experts by their config.json, and the rules of their degrees.
#include <gtest/gtest.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "plan/assemble/build_plan.hpp"
#include "plan/scenario/reader.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

const std::string kLibrary = std::string(ORRERY_SOURCE_DIR) + "/scenarios";

ReadResult read_result(const std::string& model, const std::string& layout = "") {
    return read_scenario_text(R"({"model": )" + model +
                                  R"(, "cluster": "clusters/h100-sxm-256.json",
            "layout": {"data_parallel": 8, "global_batch_size": 8)" +
                                  layout + R"(}, "training": {"sequence_length": 1024}})",
                              "experts.json", "", {}, kLibrary);
}

Model read(const std::string& model) {
    const ReadResult result = read_result(model);
    EXPECT_TRUE(result.scenario.has_value()) << format_text(result.errors);
    return result.scenario.value_or(Scenario{}).model;
}

// What a token does not go through: all experts but those that it chooses.
std::int64_t active(const Model& model, std::int64_t parameters) {
    for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
        const ExpertMlp* experts = model.kinds[kind].experts();
        if (experts == nullptr) continue;
        const std::int64_t idle = experts->routing.experts - experts->routing.chosen;
        parameters -= model.layers_of(kind) * idle * 3 * model.hidden * experts->expert.ffn_hidden;
    }
    return parameters;
}

// As their authors count them: Jiang et al. 2024 "47B, 13B active"; Mistral AI 2024 "141B, 39B";
// Yang et al. 2025 table 2 "30B, 3B" and "235B, 22B"; xAI 2024 "314B". To the integer by the sizes
// that they publish.
TEST(ExpertFamilies, HaveThePublishedParametersAllAndActive) {
    const struct {
        const char* file;
        std::int64_t all, active;
    } published[] = {
        {"mixtral-8x7b", 46'702'792'704, 12'879'925'248},
        {"mixtral-8x22b", 140'630'071'296, 39'161'468'928},
        {"qwen3-30b-a3b", 30'532'122'624, 3'353'032'704},
        {"qwen3-235b-a22b", 235'093'634'560, 22'190'763'520},
        {"grok-1", 315'684'820'992, 83'756'587'008},
        {"deepseek-v2-lite", 15'706'484'224, 2'661'150'208},
        {"deepseek-v2", 235'741'434'880, 21'375'800'320},
        // With the module that predicts a second token: a layer of experts, 2·7168² and three
        // norms.
        {"deepseek-v3", 671'026'404'352 + 11'610'067'968, 37'552'282'624 + 688'100'352},
        {"kimi-k2", 1'026'408'209'408, 32'861'477'888},
    };
    for (const auto& model : published) {
        SCOPED_TRACE(model.file);
        const ReadResult result =
            read_result('"' + std::string("models/") + model.file + ".json\"");
        ASSERT_TRUE(result.scenario.has_value()) << format_text(result.errors);
        const std::int64_t parameters = build_plan(*result.scenario).conserved.parameters;
        EXPECT_EQ(parameters, model.all);
        EXPECT_EQ(active(result.scenario->model, parameters), model.active);
    }
}

const std::string kSizes = R"("hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 128)";

TEST(ExpertFamilies, WeighAsTheyWereTrained) {
    const Model mixtral = read(R"({"model_type": "mixtral", )" + kSizes + "}");
    ASSERT_NE(mixtral.experts(), nullptr);
    EXPECT_EQ(mixtral.experts()->routing, (Routing{8, 2, RouterScore::softmax, true}));
    EXPECT_EQ(mixtral.experts()->expert.ffn_hidden, 96);
    EXPECT_EQ(mixtral.experts()->expert.activation, Activation::swiglu);

    const Model qwen = read(R"({"model_type": "qwen3_moe", "num_experts": 16,
        "num_experts_per_tok": 4, "moe_intermediate_size": 32, )" +
                            kSizes + "}");
    EXPECT_EQ(qwen.experts()->routing, (Routing{16, 4, RouterScore::softmax, false}));
    EXPECT_EQ(qwen.experts()->expert.ffn_hidden, 32);
    EXPECT_EQ(qwen.attention().qk_norm, QkNorm::heads);

    const Model grok =
        read(R"({"model_type": "grok-1", "attn_output_multiplier": 0.25, )" + kSizes + "}");
    EXPECT_EQ(grok.experts()->expert.activation, Activation::geglu);
    EXPECT_EQ(grok.attention().scale(), 0.25);
    EXPECT_EQ(grok.attention().soft_cap, 30);
    EXPECT_TRUE(grok.layer().norm_after);
}

const std::string kDeepSeekSizes = R"("hidden_size": 64, "num_hidden_layers": 6,
    "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 128, "kv_lora_rank": 24,
    "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10, "moe_intermediate_size": 32)";

// Hugging Face's modeling_deepseek_v2.py and modeling_deepseek_v3.py.
TEST(ExpertFamilies, DeepSeeksHaveLatentsAndGroups) {
    const Model v3 = read(R"({"model_type": "deepseek_v3", "q_lora_rank": 40,
        "n_routed_experts": 16, "num_experts_per_tok": 4, "n_group": 4, "topk_group": 2,
        "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
                         "original_max_position_embeddings": 4096}, )" +
                          kDeepSeekSizes + "}");
    const SoftmaxAttention& attention = v3.attention();
    EXPECT_EQ(attention.latents, (Latents{40, 24, true}));
    EXPECT_EQ(attention.head_dim, 20);
    EXPECT_EQ(attention.rotary_dim, 8);
    EXPECT_EQ(attention.values(), 10);
    EXPECT_EQ(attention.kv_heads, 4);
    EXPECT_EQ(attention.rope_scaling.attention_factor, 1);  // a ratio of two that are one
    const double stretch = 1 + 0.1 * std::log(40.0);
    EXPECT_DOUBLE_EQ(attention.scale(), stretch * stretch / std::sqrt(20.0));
    EXPECT_EQ(v3.experts()->routing,
              (Routing{16, 4, RouterScore::sigmoid, true, 2.5, 4, 2, 2, true}));
    EXPECT_EQ(v3.experts()->shared_ffn, 32);
    EXPECT_EQ(v3.layers_of(0), 3);  // the first three are dense
    EXPECT_EQ(v3.kinds.front().experts(), nullptr);

    const Model v2 = read(R"({"model_type": "deepseek_v2", "q_lora_rank": null,
        "n_routed_experts": 16, "num_experts_per_tok": 3, "topk_method": "group_limited_greedy",
        "n_group": 4, "topk_group": 2, "routed_scaling_factor": 16.0, "first_k_dense_replace": 1, )" +
                          kDeepSeekSizes + "}");
    EXPECT_EQ(v2.attention().latents.q_rank, 0);
    EXPECT_EQ(v2.experts()->routing,
              (Routing{16, 3, RouterScore::softmax, false, 16, 4, 2, 1, false}));
    EXPECT_EQ(v2.experts()->shared_ffn, 64);
}

std::vector<std::string> codes(const ReadResult& result) {
    std::vector<std::string> found;
    for (const Diagnostic& fault : result.errors)
        found.push_back(fault.code + ' ' + fault.pointer);
    return found;
}

TEST(ExpertFamilies, DeepSeeksAreRefusedWhereTheyAreOthers) {
    const std::string v3 = R"({"model_type": "deepseek_v3", )" + kDeepSeekSizes;
    const auto refused = [&](const std::string& more) { return codes(read_result(v3 + more)); };
    using Codes = std::vector<std::string>;
    EXPECT_EQ(refused("}"), Codes{});
    EXPECT_EQ(refused(R"(, "num_key_value_heads": 2})"), Codes{"S010 /model/num_key_value_heads"});
    EXPECT_EQ(refused(R"(, "attention_bias": true})"), Codes{"S010 /model/attention_bias"});
    std::string odd = v3;
    odd.replace(odd.find("\"qk_rope_head_dim\": 8"), 21, "\"qk_rope_head_dim\": 7");
    EXPECT_EQ(codes(read_result(odd + "}")), Codes{"S011 /model/qk_rope_head_dim"});
    EXPECT_EQ(refused(R"(, "moe_layer_freq": 2})"), Codes{"S010 /model/moe_layer_freq"});
    EXPECT_EQ(refused(R"(, "n_group": 3})"), Codes{"S011 /model/n_group"});
    EXPECT_EQ(refused(R"(, "num_nextn_predict_layers": 2})"),
              Codes{"S007 /model/num_nextn_predict_layers"});
    // How published weights are stored is nothing that training computes.
    EXPECT_EQ(refused(R"(, "quantization_config": {"quant_method": "fp8"}})"), Codes{});
    EXPECT_EQ(refused(R"(, "quantization_config": {"quant_method": "gptq"}})"),
              Codes{"S010 /model/quantization_config"});
}

TEST(ExpertFamilies, SomeLayersAreDense) {
    // Hugging Face: layer i has experts if it is not in mlp_only_layers and (i + 1) is a multiple
    // of decoder_sparse_step.
    const Model qwen = read(R"({"model_type": "qwen3_moe", "num_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 32, "decoder_sparse_step": 2,
        "mlp_only_layers": [3], )" +
                            kSizes + "}");
    std::vector<bool> has;
    for (std::int64_t layer = 0; layer < qwen.layers; ++layer)
        has.push_back(qwen.kinds[qwen.kind_of(layer)].experts() != nullptr);
    EXPECT_EQ(has, (std::vector<bool>{false, true, false, false, false, true}));
    EXPECT_EQ(qwen.kinds.size(), 2U);
    EXPECT_EQ(qwen.mlp().ffn_hidden, 96);  // of the first layer
}

TEST(ExpertFamilies, MegatronSpellsThem) {
    const std::string sizes = R"("num_layers": 6, "hidden_size": 64, "num_attention_heads": 4,
        "vocab_size": 128, "position_embedding_type": "rope", "normalization": "RMSNorm",
        "swiglu": true, "add_bias_linear": false, "ffn_hidden_size": 96, "num_experts": 8)";
    const Model plain = read(R"({"model_type": "megatron", )" + sizes + "}");
    EXPECT_EQ(plain.experts()->routing, (Routing{8, 2, RouterScore::softmax, true}));
    EXPECT_EQ(plain.experts()->expert.ffn_hidden, 96);
    const Model grouped = read(R"({"model_type": "megatron", "moe_router_topk": 4,
        "moe_router_score_function": "sigmoid", "moe_router_topk_scaling_factor": 2.5,
        "moe_router_num_groups": 4, "moe_router_group_topk": 2, "moe_ffn_hidden_size": 32,
        "moe_shared_expert_intermediate_size": 64, "moe_layer_freq": [0, 1, 1, 1, 1, 1], )" +
                               sizes + "}");
    EXPECT_EQ(grouped.experts()->routing,
              (Routing{8, 4, RouterScore::sigmoid, true, 2.5, 4, 2, 2}));
    EXPECT_EQ(grouped.experts()->shared_ffn, 64);
    EXPECT_EQ(grouped.kinds.front().experts(), nullptr);
    EXPECT_EQ(grouped.layers_of(0), 1);
}

// The layer that predicts a further token is like the last one.
TEST(ExpertFamilies, MayPredictAFurtherToken) {
    const Model v3 = read(R"({"model_type": "deepseek_v3", "num_nextn_predict_layers": 1, )" +
                          kDeepSeekSizes + "}");
    EXPECT_EQ(v3.mtp_layers, 1);
    EXPECT_EQ(v3.kind_of(6), v3.kind_of(5));
    EXPECT_EQ(v3.layers_of(v3.kind_of(5)), 4);  // the first three are dense
    const Model even = read(R"({"model_type": "megatron", "num_layers": 6, "hidden_size": 64,
        "num_attention_heads": 4, "vocab_size": 128, "position_embedding_type": "rope",
        "normalization": "RMSNorm", "swiglu": true, "add_bias_linear": false, "num_experts": 8,
        "untie_embeddings_and_output_weights": true, "moe_layer_freq": [0, 1, 0, 1, 1, 0],
        "mtp_num_layers": 1})");
    EXPECT_EQ(even.kinds[even.kind_of(6)].experts(), nullptr);
    EXPECT_EQ(even.layers_of(even.kind_of(0)), 4);
}

// A word that names no kind of layer leaves none half named (found by a fuzzer).
TEST(ExpertFamilies, LayersOfNoKnownKindAreRefusedOnce) {
    EXPECT_EQ(codes(read_result(R"({"model_type": "gpt_oss", "num_local_experts": 8,
                  "layer_types": ["sliding_attention", "full_attention", "x",
                                  "full_attention", "full_attention", "full_attention"], )" +
                                kSizes + "}")),
              std::vector<std::string>{"S010 /model/layer_types/2"});
}

TEST(ExpertFamilies, ComeBackFromTheResolvedText) {
    const std::string models[] = {
        R"({"model_type": "deepseek_v3", "num_nextn_predict_layers": 1, "n_routed_experts": 16, )" +
            kDeepSeekSizes + "}",
        R"({"model_type": "megatron", "num_layers": 6, "hidden_size": 64, "mtp_num_layers": 1,
            "num_attention_heads": 4, "vocab_size": 128, "position_embedding_type": "rope",
            "normalization": "RMSNorm", "untie_embeddings_and_output_weights": true,
            "swiglu": true, "add_bias_linear": false, "num_experts": 8})",
        R"({"model_type": "deepseek_v3", "first_k_dense_replace": 2, "n_routed_experts": 16, )" +
            kDeepSeekSizes + "}",
        R"({"model_type": "deepseek_v2", "q_lora_rank": null, "n_routed_experts": 16,
            "rope_scaling": {"type": "yarn", "factor": 4, "mscale": 0.7, "mscale_all_dim": 0.9,
                             "original_max_position_embeddings": 64}, )" +
            kDeepSeekSizes + "}",
        R"({"model_type": "megatron", "num_layers": 6, "hidden_size": 64,
            "num_attention_heads": 4, "vocab_size": 128, "position_embedding_type": "rope",
            "normalization": "RMSNorm", "swiglu": true, "add_bias_linear": false,
            "num_experts": 8, "moe_router_enable_expert_bias": true, "qk_layernorm": true,
            "multi_latent_attention": true, "q_lora_rank": 24, "kv_lora_rank": 16,
            "qk_head_dim": 8, "qk_pos_emb_head_dim": 4, "v_head_dim": 8})",
        R"({"model_type": "mixtral", )" + kSizes + "}",
        R"({"model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2,
            "moe_intermediate_size": 32, "decoder_sparse_step": 2, )" +
            kSizes + "}",
        R"({"model_type": "grok-1", )" + kSizes + "}",
        R"({"model_type": "megatron", "num_layers": 6, "hidden_size": 64,
            "num_attention_heads": 4, "vocab_size": 128, "position_embedding_type": "rope",
            "normalization": "RMSNorm", "swiglu": true, "add_bias_linear": false,
            "num_experts": 8, "qk_layernorm": true, "moe_layer_freq": 2})"};
    for (const std::string& model : models) {
        SCOPED_TRACE(model);
        const ReadResult first = read_result(model, R"(, "expert_parallel": 4)");
        ASSERT_TRUE(first.scenario.has_value()) << format_text(first.errors);
        const ReadResult again =
            read_scenario_text(first.resolved_json, "again.json", "", {}, kLibrary);
        ASSERT_TRUE(again.scenario.has_value()) << format_text(again.errors);
        EXPECT_EQ(again.scenario->model, first.scenario->model);
        EXPECT_EQ(again.scenario->layout, first.scenario->layout);
        EXPECT_EQ(again.resolved_json, first.resolved_json);
    }
}

// A --set that chooses another kind of recomputation stands for itself; one that says both does
// not.
TEST(Recomputation, WhatAFileSaysOfItsOwnKindIsMoot) {
    const std::string run = kLibrary + "/runs/qwen3-235b-h100x256.json";
    const auto with = [&](const std::vector<std::string>& sets) {
        return read_scenario(run, sets, kLibrary);
    };
    ASSERT_TRUE(with({}).scenario->layout.recompute_modules.expert_activation);
    const ReadResult full = with({"layout.recompute=full"});
    ASSERT_TRUE(full.scenario.has_value()) << format_text(full.errors);
    EXPECT_EQ(full.scenario->layout.recompute_modules, RecomputedModules{});
    EXPECT_TRUE(
        with({"layout.recompute=selective"}).scenario->layout.recompute_modules.expert_activation);
    EXPECT_EQ(codes(with({"layout.recompute=full", R"(layout.recompute_modules=["moe"])"})),
              std::vector<std::string>{"S034 /layout/recompute_modules"});
    EXPECT_EQ(codes(with({R"(layout.recompute_modules=["mla_up_proj"])"})),
              std::vector<std::string>{"S034 /layout/recompute_modules"});  // it has no latents
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
