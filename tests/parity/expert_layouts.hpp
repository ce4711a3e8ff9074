// Small mixtures of experts and the layouts that they are trained in.
#pragma once

#include <string>
#include <vector>

#include "tests/parity/layouts.hpp"

namespace orrery::parity {

// A Mixtral of the sizes of tests/parity/layouts.hpp: eight experts of which two are chosen, with
// room for every row.
inline constexpr const char* kMixtral = R"({
  "model": {"model_type": "mixtral", "num_hidden_layers": 4, "hidden_size": 64,
            "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 32,
            "num_local_experts": 8, "num_experts_per_tok": 2,
            "vocab_size": 125, "tie_word_embeddings": false},
  "cluster": {"nodes": 1, "devices_per_node": 8, "device": "cpu-core",
              "profile": "profiles/cpu-core.json",
              "intra_node": {"kind": "host", "bandwidth_GBps": 10, "latency_us": 1},
              "inter_node": {"kind": "none"}},
  "layout": {"data_parallel": 1, "global_batch_size": 8, "expert_row_bound": 8},
  "training": {"sequence_length": 16, "framework": "orrery", "vocabulary_multiple": 8,
               "workspace_mb": 0.001,
               "optimizer": {"learning_rate": 1e-3, "clip_norm": 1.0, "weight_decay": 0.1}}
})";

// What makes other families of it: with biases of experts, sinks and windows; with latent
// attention, a dense first layer, a shared expert and a router whose bias balances; and that router
// alone.
inline const Sets& gpt_oss_model() {
    static const Sets sets = {"model.model_type=gpt_oss", "model.head_dim=4",
                              "model.num_experts_per_tok=2", "model.swiglu_limit=0.05",
                              "model.sliding_window=5"};
    return sets;
}
inline const Sets& deepseek_model() {
    static const Sets sets = {"model.model_type=deepseek_v3",
                              "model.num_local_experts=null",
                              "model.n_routed_experts=8",
                              "model.num_key_value_heads=16",
                              "model.intermediate_size=96",
                              "model.moe_intermediate_size=32",
                              "model.first_k_dense_replace=1",
                              "model.q_lora_rank=24",
                              "model.kv_lora_rank=12",
                              "model.qk_nope_head_dim=3",
                              "model.qk_rope_head_dim=4",
                              "model.v_head_dim=5",
                              "model.n_group=4",
                              "model.topk_group=2"};
    return sets;
}
inline const Sets& biased_router_model() {
    static const Sets sets = {
        R"(model={"model_type": "megatron", "num_layers": 4, "hidden_size": 64,
                  "num_attention_heads": 16, "ffn_hidden_size": 32, "vocab_size": 125,
                  "num_experts": 8, "moe_router_topk": 2,
                  "moe_router_score_function": "sigmoid", "moe_router_enable_expert_bias": true,
                  "swiglu": true, "normalization": "RMSNorm", "position_embedding_type": "rope",
                  "untie_embeddings_and_output_weights": true, "add_bias_linear": false,
                  "hidden_dropout": 0, "attention_dropout": 0})"};
    return sets;
}

inline std::vector<NamedLayout> expert_layouts() {
    std::vector<NamedLayout> all;
    auto add = [&](const std::string& name, std::vector<std::string> keys, int spread = 1,
                   int split = 1) {
        keys.push_back("expert_parallel=" + std::to_string(spread));
        keys.push_back("expert_tensor_parallel=" + std::to_string(split));
        all.push_back(layout(name, keys));
    };
    const std::string tp2 = "tensor_parallel=2", tp4 = "tensor_parallel=4",
                      sp = "sequence_parallel=true", dp2 = "data_parallel=2",
                      dp4 = "data_parallel=4", dp8 = "data_parallel=8", pp2 = "pipeline_parallel=2",
                      c2 = "context_parallel=2", mb2 = "micro_batch_size=2";
    auto zero = [](int stage) { return "zero_stage=" + std::to_string(stage); };
    add("data_2", {dp2});
    add("pipeline_2", {pp2});
    add("sequence_2", {tp2, sp});
    add("context_2", {c2});
    add("micro_batch_2", {mb2});
    add("spread_2", {dp2}, 2);
    add("spread_4", {dp4}, 4);
    add("spread_8", {dp8}, 8);
    add("spread_2_data_2", {dp4}, 2);
    add("spread_2_data_4", {dp8}, 2);
    add("spread_4_data_2", {dp8}, 4);
    add("spread_2_samples", {dp2, mb2}, 2);
    add("split_2", {dp2}, 1, 2);
    add("split_4", {dp4}, 1, 4);
    add("spread_2_split_2", {dp4}, 2, 2);
    add("spread_2_split_2_data_2", {dp8}, 2, 2);
    add("spread_4_split_2", {dp8}, 4, 2);
    add("spread_2_split_4", {dp8}, 2, 4);
    add("spread_2_tensor", {tp2, sp}, 2);
    add("split_2_tensor", {tp2, sp}, 1, 2);
    add("spread_4_tensor", {tp4, sp}, 4);
    add("spread_2_split_2_tensor", {tp4, sp}, 2, 2);
    add("spread_2_tensor_data", {tp2, sp, dp2}, 2);
    add("spread_4_tensor_data", {tp2, sp, dp2}, 4);
    add("spread_8_tensor_data", {tp2, sp, dp4}, 8);
    add("spread_2_split_2_tensor_data", {tp2, sp, dp2}, 2, 2);
    add("spread_2_context", {c2}, 2);
    add("spread_4_context_data", {c2, dp2}, 4);
    add("split_2_context", {c2}, 1, 2);
    add("spread_4_gathered", {"context_parallel=4", "context_algorithm=all_gather"}, 4);
    add("spread_2_exchanged", {c2, "context_algorithm=all_to_all", mb2}, 2);
    add("spread_8_tensor_context_data", {tp2, sp, c2, dp2}, 8);
    add("spread_2_pipeline", {pp2, dp2}, 2);
    add("spread_4_pipeline", {pp2, dp4}, 4);
    add("spread_2_gpipe", {pp2, dp2, "schedule=gpipe"}, 2);
    add("spread_2_interleaved", {pp2, dp2, "virtual_pipeline=2", "schedule=interleaved"}, 2);
    add("spread_2_zb_h1", {pp2, dp2, "schedule=zb-h1"}, 2);
    add("spread_2_zb_v", {pp2, dp2, "virtual_pipeline=2", "schedule=zb-v"}, 2);
    add("spread_2_tensor_pipeline", {pp2, tp2, sp}, 2);
    add("spread_4_tensor_pipeline_data", {pp2, tp2, sp, dp2}, 4);
    for (int stage = 1; stage <= 3; ++stage) {
        const std::string s = "zero" + std::to_string(stage);
        add(s + "_data_2", {dp2, zero(stage)});
        add(s + "_spread_2", {dp2, zero(stage)}, 2);
        add(s + "_spread_2_data_2", {dp4, zero(stage)}, 2);
        add(s + "_spread_2_split_2_data_2", {dp8, zero(stage)}, 2, 2);
        add(s + "_spread_4_tensor_data", {tp2, sp, dp4, zero(stage)}, 4);
        add(s + "_spread_2_pipeline", {pp2, dp4, zero(stage)}, 2);
    }
    add("late_spread_2_data_2", {dp4, "training.overlap_gradient_reduce=false"}, 2);
    add("late_zero2_groups_spread_4",
        {dp8, zero(2), "zero_group_size=4", "training.overlap_gradient_reduce=false"}, 4);
    add("small_buckets_spread_2_data_2", {dp4, zero(1), "training.gradient_bucket_mb=0.02"}, 2);
    add("overlapped_spread_2_tensor", {tp2, sp, "training.tensor_overlap_parts=4"}, 2);
    add("recompute_full_spread_2", {dp2, "recompute=full"}, 2);
    add("recompute_full_sequence_spread_2_zero2", {tp2, sp, dp2, zero(2), "recompute=full"}, 2);
    add("recompute_every_2_spread_2", {dp2, "recompute=every_k", "recompute_every=2"}, 2);
    // Copies of rows to ranks, summed there (`deduplicated`): of several experts a rank, of one, of
    // a split, beside what else is cut.
    const std::string copies = "expert_dispatcher=deduplicated";
    add("copies_2", {dp2, copies}, 2);
    add("copies_4", {dp4, copies}, 4);
    add("copies_8", {dp8, copies}, 8);
    add("copies_2_data_2", {dp4, copies}, 2);
    add("copies_split_2", {dp2, copies}, 1, 2);
    add("copies_2_split_2", {dp4, copies}, 2, 2);
    add("copies_2_split_2_data_2", {dp8, copies}, 2, 2);
    add("copies_2_samples", {dp2, mb2, copies}, 2);
    add("copies_4_tensor_data", {tp2, sp, dp2, copies}, 4);
    add("copies_2_split_2_tensor", {tp4, sp, copies}, 2, 2);
    add("copies_4_context_data", {c2, dp2, copies}, 4);
    add("copies_2_interleaved", {pp2, dp2, "virtual_pipeline=2", "schedule=interleaved", copies},
        2);
    add("copies_2_zb_h1", {pp2, dp2, "schedule=zb-h1", copies}, 2);
    add("copies_4_tensor_data_zero3", {tp2, sp, dp4, zero(3), copies}, 4);
    add("copies_2_recomputed", {dp2, "recompute=full", copies}, 2);
    // All rows to every rank.
    const std::string all_rows = "expert_dispatcher=allgather";
    add("gathered_all_2", {dp2, all_rows}, 2);
    add("gathered_all_4", {dp4, all_rows}, 4);
    add("gathered_all_2_data_2", {dp4, all_rows}, 2);
    add("gathered_all_split_2", {dp2, all_rows}, 1, 2);
    add("gathered_all_2_split_2", {dp4, all_rows}, 2, 2);
    add("gathered_all_4_tensor_data", {tp2, sp, dp2, all_rows}, 4);
    add("gathered_all_4_context_data", {c2, dp2, all_rows}, 4);
    add("gathered_all_2_zb_h1", {pp2, dp2, "schedule=zb-h1", all_rows}, 2);
    add("gathered_all_2_data_2_zero2", {dp4, zero(2), all_rows}, 2);
    add("gathered_all_2_recomputed", {dp2, "recompute=full", all_rows}, 2);
    return all;
}

}  // namespace orrery::parity
