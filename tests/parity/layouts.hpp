// What is trained in the parity tests: small decoders with every kind of op, and more than sixty
// layouts of them, as settings of a scenario.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace orrery::parity {

using Sets = std::vector<std::string>;

// 4 layers of width 64, 8 heads, sequences of 16, 8 of them in a step. The vocabulary of 125 is
// padded, differently for each number of tensor ranks.
inline constexpr const char* kGpt = R"({
  "model": {"model_type": "gpt2", "n_layer": 4, "n_embd": 64, "n_head": 8, "n_positions": 32,
            "vocab_size": 125, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0},
  "cluster": {"nodes": 1, "devices_per_node": 8, "device": "cpu-core",
              "profile": "profiles/cpu-core.json",
              "intra_node": {"kind": "host", "bandwidth_GBps": 10, "latency_us": 1},
              "inter_node": {"kind": "none"}},
  "layout": {"data_parallel": 1, "global_batch_size": 8},
  "training": {"sequence_length": 16, "framework": "orrery", "vocabulary_multiple": 8,
               "workspace_mb": 0.001,
               "optimizer": {"learning_rate": 1e-3, "clip_norm": 1.0, "weight_decay": 0.1}}
})";

// Grouped queries, rotary positions, gated MLP, embeddings of their own at both ends.
inline constexpr const char* kLlama = R"({
  "model": {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 64,
            "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 96,
            "vocab_size": 125, "tie_word_embeddings": false},
  "cluster": {"nodes": 1, "devices_per_node": 8, "device": "cpu-core",
              "profile": "profiles/cpu-core.json",
              "intra_node": {"kind": "host", "bandwidth_GBps": 10, "latency_us": 1},
              "inter_node": {"kind": "none"}},
  "layout": {"data_parallel": 1, "global_batch_size": 8},
  "training": {"sequence_length": 16, "framework": "orrery", "vocabulary_multiple": 8,
               "workspace_mb": 0.001,
               "optimizer": {"learning_rate": 1e-3, "clip_norm": 1.0, "weight_decay": 0.1}}
})";

// ALiBi's slopes, a norm after the embedding.
inline constexpr const char* kBloom = R"({
  "model": {"model_type": "bloom", "n_layer": 4, "hidden_size": 64, "n_head": 8,
            "vocab_size": 125, "hidden_dropout": 0, "attention_dropout": 0},
  "cluster": {"nodes": 1, "devices_per_node": 8, "device": "cpu-core",
              "profile": "profiles/cpu-core.json",
              "intra_node": {"kind": "host", "bandwidth_GBps": 10, "latency_us": 1},
              "inter_node": {"kind": "none"}},
  "layout": {"data_parallel": 1, "global_batch_size": 8},
  "training": {"sequence_length": 16, "framework": "orrery", "vocabulary_multiple": 8,
               "workspace_mb": 0.001,
               "optimizer": {"learning_rate": 1e-3, "clip_norm": 1.0, "weight_decay": 0.1}}
})";

// A Llama that is another family: keys of the model, as settings.
struct FamilySets {
    const char* name;
    std::vector<std::string> sets;
};

// What layers differ in from those of a Llama: norms of heads and of whole rows, norms behind
// branches, caps, sinks, two kinds of layer in turn, latents.
inline std::vector<FamilySets> llama_like_families() {
    const std::string window = "model.sliding_window=5", alternating = R"(model.layer_types=[
        "sliding_attention", "full_attention", "sliding_attention", "full_attention"])";
    return {
        {"qwen3", {"model.model_type=qwen3", "model.head_dim=8"}},
        {"olmo2", {"model.model_type=olmo2"}},
        {"gemma2",
         {"model.model_type=gemma2", "model.head_dim=4", window, alternating,
          "model.query_pre_attn_scalar=3", "model.attn_logit_softcapping=0.5",
          "model.final_logit_softcapping=1.5", "model.tie_word_embeddings=true"}},
        {"gemma3",
         {"model.model_type=gemma3_text", "model.head_dim=8", window, alternating,
          "model.query_pre_attn_scalar=3", "model.rope_local_base_freq=50",
          "model.tie_word_embeddings=true"}},
        {"phi3", {"model.model_type=phi3", window, "model.partial_rotary_factor=0.5"}},
        {"gpt_oss",
         {"model.model_type=gpt_oss", "model.head_dim=4", "model.num_local_experts=0",
          "model.swiglu_limit=0.05", window, alternating}},
        {"deepseek_v3",
         {"model.model_type=deepseek_v3", "model.num_key_value_heads=16", "model.q_lora_rank=24",
          "model.kv_lora_rank=12", "model.qk_nope_head_dim=3", "model.qk_rope_head_dim=8",
          "model.v_head_dim=5", "model.n_routed_experts=0", "model.rope_theta=100",
          R"(model.rope_scaling={"type": "llama3", "factor": 4, "low_freq_factor": 1,
             "high_freq_factor": 4, "original_max_position_embeddings": 64})"}},
        {"deepseek_v2",
         {"model.model_type=deepseek_v2", "model.num_key_value_heads=16", "model.q_lora_rank=null",
          "model.kv_lora_rank=12", "model.qk_nope_head_dim=4", "model.qk_rope_head_dim=8",
          "model.v_head_dim=3", "model.n_routed_experts=0", "model.rope_theta=100",
          R"(model.rope_scaling={"type": "yarn", "factor": 4, "mscale": 0.7, "mscale_all_dim": 0.9,
             "beta_fast": 4, "beta_slow": 2, "original_max_position_embeddings": 64})"}},
    };
}

struct NamedLayout {
    std::string name;
    Sets sets;
};

// "tensor_parallel=2" is short for "layout.tensor_parallel=2".
inline NamedLayout layout(std::string name, const std::vector<std::string>& keys) {
    NamedLayout named{std::move(name), {}};
    for (const std::string& key : keys)
        named.sets.push_back(key.find('.') < key.find('=') ? key : "layout." + key);
    return named;
}

// Of a Llama that is a Mistral whose attention sees 5 of the 16 positions.
inline std::vector<NamedLayout> windowed_layouts() {
    std::vector<NamedLayout> all;
    auto add = [&](const std::string& name, std::vector<std::string> keys) {
        keys.insert(keys.end(), {"model.model_type=mistral", "model.sliding_window=5"});
        all.push_back(layout("window_" + name, keys));
    };
    const std::string unfused = "training.attention_kernel=unfused";
    add("unfused", {unfused});
    add("tensor_2", {"tensor_parallel=2"});
    add("unfused_tensor_4", {"tensor_parallel=4", unfused});
    add("sequence_pipeline",
        {"tensor_parallel=2", "sequence_parallel=true", "pipeline_parallel=2"});
    add("context_exchanged", {"context_parallel=4", "context_algorithm=all_to_all"});
    add("zero3_recomputed", {"data_parallel=2", "zero_stage=3", "recompute=full"});
    return all;
}

// One or two layouts of each way to share out a layer, for models whose layers are others.
inline std::vector<NamedLayout> layer_layouts() {
    std::vector<NamedLayout> all;
    auto add = [&](const std::string& name, const std::vector<std::string>& keys) {
        all.push_back(layout(name, keys));
    };
    const std::string tp2 = "tensor_parallel=2", sp = "sequence_parallel=true",
                      dp2 = "data_parallel=2", pp2 = "pipeline_parallel=2",
                      c2 = "context_parallel=2";
    const std::string unfused = "training.attention_kernel=unfused",
                      gather = "context_algorithm=all_gather",
                      exchange = "context_algorithm=all_to_all", every_2 = "recompute=every_k";
    add("tensor_8", {"tensor_parallel=8"});
    add("sequence_4", {"tensor_parallel=4", sp});
    add("unfused_tensor_2", {tp2, unfused});
    add("ring", {"context_parallel=4", "micro_batch_size=2"});
    add("ring_sequence", {c2, tp2, sp});
    add("gathered", {c2, gather, tp2});
    add("exchanged", {"context_parallel=4", exchange, tp2});
    add("exchanged_unfused", {c2, exchange, tp2, unfused});
    add("pipeline_uneven", {pp2, "layers_per_stage=[3,1]", tp2});
    add("gpipe", {pp2, dp2, "schedule=gpipe"});
    add("interleaved", {pp2, "virtual_pipeline=2", "schedule=interleaved", tp2, sp});
    add("zb_h1_tensor", {pp2, tp2, "schedule=zb-h1"});
    add("zb_v_sequence", {pp2, "virtual_pipeline=2", tp2, sp, "schedule=zb-v"});
    add("dualpipe_v_zero3",
        {pp2, "virtual_pipeline=2", dp2, "zero_stage=3", "schedule=dualpipe-v"});
    add("zero1_tensor", {dp2, tp2, "zero_stage=1"});
    add("zero2_sequence", {dp2, tp2, sp, "zero_stage=2"});
    add("zero3_tensor", {dp2, tp2, "zero_stage=3"});
    add("zero3_hybrid", {"data_parallel=4", tp2, "zero_stage=3", "zero_group_size=2"});
    add("late", {dp2, tp2, "training.overlap_gradient_reduce=false"});
    add("full_tensor", {tp2, "recompute=full"});
    add("selective", {tp2, sp, "recompute=selective", unfused});
    add("by_op_tensor", {tp2, "recompute=selective_op"});
    add("by_layer", {"recompute=selective_layer", pp2});
    add("every_2", {every_2, "recompute_every=2", tp2, sp, pp2});
    add("every_3", {every_2, "recompute_every=3", tp2});
    add("composed", {tp2, "training.norm_kernel=composed", "training.loss_logits=copied"});
    add("parts", {tp2, sp, "training.tensor_overlap_parts=2"});
    return all;
}

// Schedules that run backward in halves, some with stages in a V.
inline std::vector<NamedLayout> zero_bubble_layouts() {
    std::vector<NamedLayout> all;
    auto add = [&](const std::string& name, const std::string& schedule,
                   std::vector<std::string> keys) {
        keys.push_back("schedule=" + schedule);
        all.push_back(layout(name, keys));
    };
    const std::string tp2 = "tensor_parallel=2", sp = "sequence_parallel=true",
                      dp2 = "data_parallel=2", pp2 = "pipeline_parallel=2",
                      pp4 = "pipeline_parallel=4", v2 = "virtual_pipeline=2";
    const std::string unfused = "training.attention_kernel=unfused",
                      small_buckets = "training.gradient_bucket_mb=0.02",
                      late = "training.overlap_gradient_reduce=false";
    add("zb_h1_2", "zb-h1", {pp2});
    add("zb_h1_4", "zb-h1", {pp4});
    add("zb_h1_tensor", "zb-h1", {pp2, tp2});
    add("zb_h1_tensor_serialised", "zb-h1", {pp2, tp2, "training.overlap_tensor_backward=false"});
    add("zb_h1_sequence", "zb-h1", {pp4, tp2, sp});
    const std::string copied = "training.loss_logits=copied",
                      composed = "training.norm_kernel=composed";
    add("zb_h1_copies", "zb-h1", {pp2, tp2, sp, copied, composed});
    add("1f1b_copies", "1f1b", {pp2, tp2, "recompute=full", copied, composed});
    add("zb_h1_uneven", "zb-h1", {pp4, "layers_per_stage=[0,2,2,0]"});
    add("zb_h1_data", "zb-h1", {pp2, dp2, small_buckets});
    add("zb_h1_data_late", "zb-h1", {pp2, dp2, late});
    for (const std::string stage : {"1", "2", "3"}) {
        add("zb_h1_zero" + stage, "zb-h1", {pp2, dp2, "zero_stage=" + stage});
        add("zb_h1_zero" + stage + "_sequence", "zb-h1",
            {pp2, dp2, tp2, sp, "zero_stage=" + stage});
    }
    add("zb_h1_zero2_hybrid", "zb-h1",
        {pp2, "data_parallel=4", "zero_stage=2", "zero_group_size=2"});
    add("zb_h1_zero3_kept", "zb-h1", {pp2, dp2, "zero_stage=3", "reshard_after_forward=false"});
    add("zb_h1_recompute_full", "zb-h1", {pp2, tp2, sp, "recompute=full"});
    add("zb_h1_recompute_selective", "zb-h1", {pp2, "recompute=selective", unfused});
    add("zb_h1_recompute_every_2", "zb-h1", {pp2, "recompute=every_k", "recompute_every=2"});
    add("zb_h1_context", "zb-h1", {pp2, "context_parallel=2", tp2, sp});
    add("zb_h1_context_exchanged", "zb-h1",
        {pp2, "context_parallel=2", "context_algorithm=all_to_all"});
    add("zb_h1_context_gathered", "zb-h1",
        {pp2, "context_parallel=2", "context_algorithm=all_gather", "recompute=full"});
    add("zb_2p_2", "zb-2p", {pp2});
    add("zb_2p_4_tensor", "zb-2p", {pp4, tp2});
    for (const std::string v : {"zb-v", "v-half", "dualpipe-v"}) {
        add(v + "_2", v, {pp2, v2});
        add(v + "_sequence", v, {pp2, v2, tp2, sp});
        add(v + "_tensor", v, {pp2, v2, tp2});
        add(v + "_zero3", v, {pp2, v2, dp2, "zero_stage=3"});
    }
    add("zb-v_data", "zb-v", {pp2, v2, dp2});
    add("zb-v_zero2_late", "zb-v", {pp2, v2, dp2, "zero_stage=2", late});
    add("dualpipe-v_recompute_full", "dualpipe-v", {pp2, v2, "recompute=full"});
    for (NamedLayout& each : all)
        std::replace(each.name.begin(), each.name.end(), '-', '_');
    return all;
}

// A sequence that ranks share out, in three ways.
inline std::vector<NamedLayout> context_layouts() {
    std::vector<NamedLayout> all;
    auto add = [&](const std::string& name, std::vector<std::string> keys) {
        all.push_back(layout("context_" + name, keys));
    };
    const std::string c2 = "context_parallel=2", c4 = "context_parallel=4";
    const std::string gather = "context_algorithm=all_gather",
                      exchange = "context_algorithm=all_to_all";
    const std::string tp2 = "tensor_parallel=2", sp = "sequence_parallel=true",
                      pp2 = "pipeline_parallel=2", dp2 = "data_parallel=2", full = "recompute=full",
                      samples = "micro_batch_size=2";
    const std::string unfused = "training.attention_kernel=unfused";
    add("ring_2", {c2});
    add("ring_4", {c4});
    add("ring_8", {"context_parallel=8"});
    add("gathered_2", {c2, gather});
    add("gathered_4", {c4, gather});
    add("exchanged_2", {c2, exchange});
    add("exchanged_4", {c4, exchange});
    add("ring_samples", {c4, samples});
    add("gathered_samples", {c2, gather, samples});
    add("exchanged_samples", {c4, exchange, samples});
    add("ring_sequence", {c2, tp2, sp, samples});
    add("gathered_sequence", {c4, gather, tp2, sp});
    add("exchanged_tensor", {c2, exchange, tp2});
    add("ring_pipeline", {c4, pp2});
    add("gathered_interleaved", {c2, gather, pp2, "virtual_pipeline=2", "schedule=interleaved"});
    add("ring_zero3", {c2, dp2, "zero_stage=3"});
    add("gathered_zero2", {c2, gather, dp2, "zero_stage=2"});
    add("exchanged_zero1", {c4, exchange, "zero_stage=1"});
    add("ring_hybrid", {c4, dp2, "zero_stage=3", "zero_group_size=4"});
    add("ring_full", {c4, full});
    add("gathered_full", {c2, gather, tp2, sp, full});
    add("exchanged_every_2", {c2, exchange, "recompute=every_k", "recompute_every=2"});
    add("ring_every_2", {c4, pp2, "recompute=every_k", "recompute_every=2"});
    add("exchanged_unfused", {c4, exchange, unfused});
    add("exchanged_selective", {c2, exchange, tp2, sp, unfused, "recompute=selective"});
    add("ring_everything", {c2, tp2, sp, pp2, "zero_stage=1"});
    add("ring_zb_h1", {c4, pp2, "schedule=zb-h1"});
    add("gathered_zb_v", {c2, gather, tp2, sp, pp2, "virtual_pipeline=2", "schedule=zb-v"});
    add("exchanged_zb_h1", {c2, exchange, pp2, samples, "schedule=zb-h1"});
    return all;
}

// What depends on a token's place in its sequence, where ranks hold parts of it: dropout's random
// numbers by position, slopes, a window.
inline std::vector<NamedLayout> context_dropout_layouts() {
    std::vector<NamedLayout> all;
    for (const char* algorithm : {"ring", "all_gather", "all_to_all"})
        all.push_back(
            layout(std::string("context_dropout_") + algorithm,
                   {"context_parallel=4", "micro_batch_size=2", "tensor_parallel=2",
                    "sequence_parallel=true", std::string("context_algorithm=") + algorithm,
                    "model.resid_pdrop=0.1", "model.embd_pdrop=0.1", "model.attn_pdrop=0.1"}));
    return all;
}
inline std::vector<NamedLayout> context_slope_layouts() {
    std::vector<NamedLayout> all;
    for (const char* algorithm : {"ring", "all_gather", "all_to_all"})
        all.push_back(layout(std::string("context_slopes_") + algorithm,
                             {"context_parallel=4", "tensor_parallel=2",
                              std::string("context_algorithm=") + algorithm}));
    return all;
}

inline std::vector<NamedLayout> all_layouts() {
    std::vector<NamedLayout> all;
    auto add = [&](const std::string& name, const std::vector<std::string>& keys) {
        all.push_back(layout(name, keys));
    };
    const std::string tp2 = "tensor_parallel=2", tp4 = "tensor_parallel=4",
                      tp8 = "tensor_parallel=8", sp = "sequence_parallel=true";
    const std::string dp2 = "data_parallel=2", dp4 = "data_parallel=4", dp8 = "data_parallel=8";
    const std::string pp2 = "pipeline_parallel=2", pp4 = "pipeline_parallel=4";
    const std::string v2 = "virtual_pipeline=2", gpipe = "schedule=gpipe",
                      interleaved = "schedule=interleaved";
    auto zero = [](int stage) { return "zero_stage=" + std::to_string(stage); };
    const std::string unfused = "training.attention_kernel=unfused",
                      small_buckets = "training.gradient_bucket_mb=0.02",
                      late = "training.overlap_gradient_reduce=false";

    // One dimension at a time.
    add("micro_batch_2", {"micro_batch_size=2"});
    add("micro_batch_8", {"micro_batch_size=8"});
    add("tensor_2", {tp2});
    add("tensor_4", {tp4});
    add("tensor_8", {tp8});
    add("sequence_2", {tp2, sp});
    add("sequence_4", {tp4, sp});
    add("sequence_8", {tp8, sp});
    add("data_2", {dp2});
    add("data_4", {dp4});
    add("data_8", {dp8});
    add("data_2_small_buckets", {dp2, small_buckets});
    add("data_2_late", {dp2, late});
    add("pipeline_2", {pp2});
    add("pipeline_4", {pp4});
    add("pipeline_2_gpipe", {pp2, gpipe});
    add("pipeline_4_gpipe", {pp4, gpipe});
    add("pipeline_2_interleaved", {pp2, v2, interleaved});
    add("pipeline_4_uneven", {pp4, "layers_per_stage=[0,2,2,0]"});
    add("pipeline_2_uneven", {pp2, "layers_per_stage=[3,1]"});

    // Sharded states.
    for (int stage = 1; stage <= 3; ++stage) {
        const std::string s = std::to_string(stage);
        add("zero" + s + "_data_2", {dp2, zero(stage)});
        add("zero" + s + "_data_4", {dp4, zero(stage)});
        add("zero" + s + "_data_4_hybrid", {dp4, zero(stage), "zero_group_size=2"});
        add("zero" + s + "_tensor_2", {dp2, tp2, zero(stage)});
        add("zero" + s + "_sequence_2", {dp2, tp2, sp, zero(stage)});
        add("zero" + s + "_pipeline_2", {dp2, pp2, zero(stage)});
        add("zero" + s + "_sequence_pipeline", {dp2, tp2, sp, pp2, zero(stage)});
        add("zero" + s + "_late", {dp2, zero(stage), late});
    }
    add("zero3_kept", {dp2, zero(3), "reshard_after_forward=false"});
    add("zero3_kept_pipeline", {dp2, pp2, zero(3), "reshard_after_forward=false"});
    add("zero3_prefetch_0", {dp2, zero(3), "training.zero_prefetch=0"});
    add("zero3_prefetch_3", {dp2, zero(3), "training.zero_prefetch=3"});
    add("zero3_data_8", {dp8, zero(3)});

    // Recomputation.
    add("recompute_full", {"recompute=full"});
    add("recompute_full_tensor_2", {tp2, "recompute=full"});
    add("recompute_full_sequence_2", {tp2, sp, "recompute=full"});
    add("recompute_selective_unfused", {"recompute=selective", unfused});
    add("recompute_selective_sequence", {tp2, sp, "recompute=selective", unfused});
    const std::string by_op = "recompute=selective_op", by_layer = "recompute=selective_layer";
    add("recompute_op", {by_op});
    add("recompute_op_unfused", {by_op, unfused});
    add("recompute_op_tensor_2", {tp2, by_op});
    add("recompute_op_sequence_zero3", {tp2, sp, dp2, zero(3), by_op});
    add("recompute_op_zb_h1", {pp2, "schedule=zb-h1", by_op});
    add("recompute_op_ring", {"context_parallel=2", "data_parallel=1", by_op});
    add("recompute_second_layer_pipeline", {pp2, by_layer});
    add("recompute_third_layer", {dp2, zero(2), by_layer, "recompute_every=3"});
    const std::string by_module = "recompute=selective",
                      mlp = R"(recompute_modules=["mlp","layernorm"])",
                      discarded = R"(recompute_modules=["mlp_act","layernorm"])";
    add("recompute_modules", {by_module, mlp});
    add("recompute_modules_tensor_2", {tp2, by_module, mlp});
    add("recompute_modules_sequence_zero3", {tp2, sp, dp2, zero(3), by_module, mlp});
    add("recompute_modules_zb_h1", {pp2, tp2, sp, "schedule=zb-h1", by_module, mlp});
    add("recompute_discarded_zb_h1", {pp2, tp2, sp, "schedule=zb-h1", by_module, discarded});
    add("recompute_modules_ring", {"context_parallel=2", "data_parallel=1", by_module, mlp});
    add("recompute_discarded_parts",
        {tp2, sp, by_module, discarded, "training.tensor_overlap_parts=2"});
    add("recompute_every_2", {"recompute=every_k", "recompute_every=2"});
    add("recompute_every_3", {"recompute=every_k", "recompute_every=3"});
    add("recompute_every_2_sequence_pipeline",
        {tp2, sp, pp2, "recompute=every_k", "recompute_every=2"});
    add("recompute_every_2_zero3", {dp2, zero(3), "recompute=every_k", "recompute_every=2"});
    add("unfused", {unfused});
    add("unfused_tensor_4", {tp4, unfused});

    // The loss.
    const std::string chunks = "training.loss_chunks=4";
    add("loss_fused", {"training.loss_logits=fused"});
    add("loss_fused_tensor_2", {tp2, "training.loss_logits=fused"});
    add("loss_chunks", {chunks});
    add("loss_chunks_fused", {chunks, "training.loss_logits=fused"});
    add("loss_chunks_copied", {chunks, "training.loss_logits=copied"});
    add("loss_chunks_tensor_2", {tp2, chunks});
    add("loss_chunks_sequence_zero3", {tp2, sp, dp2, zero(3), chunks});
    add("loss_chunks_sequence_pipeline", {tp2, sp, pp2, chunks, "recompute=full"});
    add("loss_chunks_zb_h1", {pp2, dp2, "schedule=zb-h1", chunks});
    add("loss_chunks_gpipe_zero2", {pp2, dp2, "schedule=gpipe", zero(2), chunks});
    add("loss_chunks_ring", {"context_parallel=2", "data_parallel=1", chunks});

    // What runs beside what.
    const std::string ahead = "training.overlap_parameter_gather=true",
                      parts_2 = "training.tensor_overlap_parts=2",
                      parts_4 = "training.tensor_overlap_parts=4",
                      blocking = "training.overlap_pipeline_transfers=never";
    add("ahead_zero1_data_2", {dp2, zero(1), ahead});
    add("ahead_zero2_data_4_hybrid", {dp4, zero(2), "zero_group_size=2", ahead});
    add("ahead_zero1_interleaved", {dp2, pp2, v2, interleaved, zero(1), ahead, small_buckets});
    add("parts_sequence_2", {tp2, sp, parts_2});
    add("parts_sequence_4", {tp4, sp, parts_4});
    add("parts_sequence_pipeline_zero2",
        {tp2, sp, pp2, dp2, zero(2), parts_4, "micro_batch_size=2"});
    add("parts_recompute_full", {tp2, sp, parts_2, "recompute=full"});
    const std::string early = "training.recompute_stops_early=true";
    add("early_stop_sequence", {tp2, sp, "recompute=full", early});
    add("early_stop_zero3", {dp2, zero(3), "recompute=full", early});
    add("parts_recompute_op", {tp2, sp, parts_2, by_op});
    add("parts_recompute_every_2", {tp2, sp, parts_2, "recompute=every_k", "recompute_every=2"});
    const std::string deferred = "training.defer_embedding_gradient=true";
    const std::string kept = "training.gathered_inputs=kept";
    add("kept_inputs", {tp2, sp, kept});
    add("kept_inputs_pipeline_zero2", {tp2, sp, pp2, dp2, zero(2), kept});
    add("kept_inputs_recompute_full", {tp2, sp, kept, "recompute=full"});
    add("kept_inputs_recompute_op", {tp2, sp, kept, by_op});
    add("deferred_head_pipeline_4", {pp4, deferred});
    add("deferred_head_interleaved_zero2", {tp2, sp, pp2, dp2, v2, interleaved, zero(2), deferred});
    add("deferred_head_gpipe_late", {pp2, dp2, gpipe, zero(1), late, deferred});
    add("blocking_pipeline_4", {pp4, blocking});
    const std::string one_stream = "training.transfer_streams=one";
    add("one_stream_pipeline_4", {pp4, one_stream});
    add("blocking_interleaved", {pp2, v2, interleaved, blocking});

    // Products.
    add("tensor_pipeline", {tp2, pp2});
    add("tensor_pipeline_whole_transfers", {tp2, pp2, "training.scatter_gather_transfers=false"});
    add("tensor_data", {tp2, dp2});
    add("pipeline_data", {pp2, dp2});
    add("pipeline_data_micro_batch_2", {pp2, dp2, "micro_batch_size=2"});
    add("sequence_pipeline_4", {tp2, sp, pp4});
    add("tensor_4_pipeline_2", {tp4, pp2});
    add("tensor_pipeline_data", {tp2, pp2, dp2});
    add("sequence_pipeline_data", {tp2, sp, pp2, dp2});
    add("sequence_interleaved_data", {tp2, sp, pp2, dp2, v2, interleaved});
    add("interleaved_zero1", {pp2, dp2, v2, interleaved, zero(1), small_buckets});
    add("interleaved_zero2", {pp2, dp2, v2, interleaved, zero(2)});
    add("interleaved_zero3", {pp2, dp2, v2, interleaved, zero(3)});
    add("gpipe_zero2_sequence", {tp2, sp, pp2, dp2, gpipe, zero(2)});
    add("no_tensor_overlap", {tp2, "training.overlap_tensor_backward=false"});

    // Ranks that divide no bucket.
    for (int stage = 0; stage <= 3; ++stage)
        add("zero" + std::to_string(stage) + "_data_3",
            {"data_parallel=3", "global_batch_size=9", zero(stage)});
    add("no_clipping", {tp2, dp2, "training.optimizer.clip_norm=0"});
    return all;
}

}  // namespace orrery::parity
