// Keys of NeMo 1.x, one by one.
#include <gtest/gtest.h>

#include "plan/scenario/import/nemo_rows.hpp"
#include "tests/plan/import/imports.hpp"

namespace orrery::plan::imports {
namespace ORRERY_TEST_FILE {

// Keys of the model, and whole sections.
Imported imported(const std::string& model, const std::string& more = "") {
    Wishes with_preset = wishes();
    with_preset.frameworks.insert("nemo");
    return import_text(
        "trainer: {devices: 8, num_nodes: 2, precision: bf16, max_steps: 10}\nmodel: {num_layers: "
        "8, hidden_size: 512, num_attention_heads: 8, encoder_seq_length: 1024, "
        "max_position_embeddings: 1024, micro_batch_size: 2, global_batch_size: 64, "
        "override_vocab_size: 50257" +
            model + "}\n" + more,
        "run.yaml", guess_format("trainer: {}\nmodel: {}", "run.yaml"), with_preset);
}

TEST(Nemo, EachKeyBecomesItsKey) {
    const Expectation all[] = {
        {"", "layout.data_parallel", "16"},
        {", tensor_model_parallel_size: 4", "layout.data_parallel", "4"},
        {"", "layout.schedule", "\"1f1b\""},
        {", pipeline_model_parallel_size: 2, virtual_pipeline_model_parallel_size: 2",
         "layout.schedule", "\"interleaved\""},
        {", sequence_parallel: True", "layout.sequence_parallel", "false"},  // on one rank
        {", sequence_parallel: True, tensor_model_parallel_size: 2", "layout.sequence_parallel",
         "true"},
        {"", "training.tokens", "655360"},  // 10 · 64 · 1024
        {"", "training.precision", "\"bf16\""},
        {", fp8: True, fp8_hybrid: True", "training.precision", "\"fp8\""},
        {", activation: fast-swiglu", "model.swiglu", "true"},
        {", activation: squared-relu", "model.squared_relu", "true"},
        {", normalization: layernorm1p", "model.apply_layernorm_1p", "true"},
        {", num_moe_experts: 8", "model.num_experts", "8"},
        {", num_moe_experts: 8, expert_model_parallel_size: 4", "layout.expert_parallel", "4"},
        {", num_moe_experts: 8, expert_model_parallel_size: 4, moe_token_dispatcher_type: flex",
         "layout.expert_dispatcher", "\"deduplicated\""},
        {", num_moe_experts: 8, moe_token_dispatcher_type: flex", "layout.expert_dispatcher", "-"},
        {", num_moe_experts: 8, moe_expert_capacity_factor: 1.5", "training.routing.capacity_of",
         "\"rank\""},
        {", num_moe_experts: 8, moe_aux_loss_coeff: 0.01", "training.routing.balance_of",
         "\"micro_batch\""},
        {", num_moe_experts: 8, tensor_model_parallel_size: 2", "layout.expert_tensor_parallel",
         "2"},
        {", bias: False", "model.add_qkv_bias", "false"},
        {", bias: False, qkv_bias: True", "model.add_qkv_bias", "true"},
        {"", "model.untie_embeddings_and_output_weights", "false"},
        {", position_embedding_type: rope, rotary_base: 500000", "model.rotary_base", "500000"},
        {", kv_channels: \"${.hidden_size}\"", "model.kv_channels", "512"},
        {", kv_channels: \"${model.hidden_size}\"", "model.kv_channels", "512"},
        {", activations_checkpoint_granularity: selective", "layout.recompute", "\"selective\""},
        {", activations_checkpoint_granularity: full, activations_checkpoint_method: uniform",
         "layout.recompute", "\"full\""},
        {", activations_checkpoint_granularity: full, activations_checkpoint_num_layers: 2",
         "layout.recompute", "\"every_k\""},
        {", optim: {name: distributed_fused_adam}", "layout.zero_stage", "1"},
        {", optim: {name: fused_adam}", "layout.zero_stage", "0"},
        {", optim: {betas: [0.8, 0.98]}", "training.optimizer.beta2", "0.98"},
        {", optim: {overlap_grad_sync: false}", "training.overlap_gradient_reduce", "false"},
        {", peft: {peft_scheme: lora}", "training.lora.rank", "32"},
        {", peft: {peft_scheme: lora}", "training.lora.target_modules", "[\"linear_qkv\"]"},
        {", peft: {peft_scheme: lora, lora_tuning: {adapter_dim: 8, alpha: 16}}",
         "training.lora.alpha", "16"},
        {", peft: {peft_scheme: lora, lora_tuning: {target_modules: [attention, mlp_fc2]}}",
         "training.lora.target_modules", R"(["linear_qkv","linear_proj","linear_fc2"])"},
        {"", "training.framework", "\"nemo\""},
    };
    for (const Expectation& row : all)
        expect(imported(row.text), row, "");
}

TEST(Nemo, WhatChangesTheModelIsMarked) {
    const std::pair<const char*, const char*> all[] = {
        {", moe_router_topk: 2", "model.moe_router_topk"},
        {", num_moe_experts: 8, moe_new_thing: 2", "model.moe_new_thing"},
        {", position_embedding_type: kerple", "model.position_embedding_type"},
        {", activation: geglu", "model.activation"},
        {", transformer_block_type: normformer", "model.transformer_block_type"},
        {", peft: {peft_scheme: ptuning}", "model.peft.peft_scheme"},
        {", peft: {peft_scheme: lora, lora_tuning: {target_modules: [embedding]}}",
         "model.peft.lora_tuning.target_modules"}};
    for (const auto& [text, key] : all) {
        const Imported result = imported(text);
        ASSERT_NE(left(result.unsupported, key), nullptr) << text;
        EXPECT_EQ(left(result.unsupported, key)->changes, Changes::model) << text;
    }
    const Imported cast = imported(", megatron_amp_O2: False");
    ASSERT_NE(left(cast.unsupported, "model.megatron_amp_O2"), nullptr);
    EXPECT_EQ(left(cast.unsupported, "model.megatron_amp_O2")->changes, Changes::cost);
}

// Whatever has a row there is named in the report, and nothing else is needed for it.
TEST(Nemo, EveryRowIsNamed) {
    for (const auto& rows : {nemo_ignored(), nemo_unsupported()})
        for (const Row& row : rows) {
            std::string key = row.key;
            if (key.back() == '*') key.back() = 'x';
            const Imported result = imported("", '"' + key + "\": 3\n");
            EXPECT_EQ(format_text(result.errors), "") << key;
            EXPECT_TRUE(left(result.ignored, key) != nullptr ||
                        left(result.unsupported, key) != nullptr)
                << key;
        }
}

TEST(Nemo, TakesALiBi) {
    const Imported taken = imported(", position_embedding_type: alibi");
    EXPECT_EQ(format_text(taken.errors), "");
    EXPECT_EQ(at(taken, "model.position_embedding_type"), "\"alibi\"");
    EXPECT_EQ(at(taken, "model.rotary_base"), "-");
}

TEST(Nemo, WhatIsNotSettledIsAnError) {
    EXPECT_NE(format_text(imported(", ffn_hidden_size: \"${multiply:4,${.hidden_size}}\"").errors)
                  .find("error[I003]: the value of model.ffn_hidden_size is not settled"),
              std::string::npos);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan::imports
