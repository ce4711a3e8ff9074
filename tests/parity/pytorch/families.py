"""Small models of each family: the config.json that a scenario takes, and what a decoder must compute for it by the
family's paper and Hugging Face's modeling code."""

import dataclasses

from decoder import Experts, Latents, Shape

LLAMA_LIKE = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
              "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "hidden_act": "silu",
              "attention_dropout": 0.0}


def llama_like(config, **more):
    """Llama (Touvron et al. 2023) and those after it."""
    heads = config["num_attention_heads"]
    shape = {"layers": config["num_hidden_layers"], "hidden": config["hidden_size"], "heads": heads,
             "kv_heads": config["num_key_value_heads"],
             "head_dim": config.get("head_dim", config["hidden_size"] // heads),
             "ffn": config["intermediate_size"], "vocabulary": config["vocab_size"],
             "epsilon": config["rms_norm_eps"], "norm": "rms", "activation": "swiglu",
             "rope_theta": config["rope_theta"], "qkv_bias": False, "projection_bias": False, "mlp_bias": False,
             "tied": config["tie_word_embeddings"]}
    shape["rotary_dim"] = shape["head_dim"]
    return config, Shape(**{**shape, **more})


def gpt2():
    """Radford et al. 2019; scenarios/models/tiny-gpt.json."""
    config = {"model_type": "gpt2", "n_layer": 4, "n_embd": 64, "n_head": 8, "n_inner": 256, "n_positions": 256,
              "vocab_size": 256, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "resid_pdrop": 0.0,
              "embd_pdrop": 0.0, "attn_pdrop": 0.0, "tie_word_embeddings": True}
    return config, Shape(layers=4, hidden=64, heads=8, kv_heads=8, head_dim=8, ffn=256, vocabulary=256, epsilon=1e-5,
                         position_rows=256)


def llama():
    return llama_like({"model_type": "llama", **LLAMA_LIKE, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
                       "tie_word_embeddings": False})


def qwen2():
    """Biases on queries, keys and values alone; another base of the rotary frequencies."""
    return llama_like({"model_type": "qwen2", **LLAMA_LIKE, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
                       "use_sliding_window": False, "tie_word_embeddings": True}, qkv_bias=True)


def gemma():
    """GeGLU, norms that multiply by 1 + weight, embeddings times √hidden, heads wider than hidden / heads."""
    return llama_like({"model_type": "gemma", **LLAMA_LIKE, "head_dim": 32, "hidden_act": "gelu_pytorch_tanh",
                       "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": True},
                      activation="geglu_tanh", norm_weight_offset=1, embedding_scale=8.0)


def mistral():
    """Query i sees keys i − 7 … i."""
    return llama_like({"model_type": "mistral", **LLAMA_LIKE, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
                       "sliding_window": 8, "tie_word_embeddings": False}, window=8)


def qwen3():
    """Norms of each head's queries and keys, heads wider than hidden / heads."""
    return llama_like({"model_type": "qwen3", **LLAMA_LIKE, "head_dim": 32, "rms_norm_eps": 1e-6,
                       "rope_theta": 1000000.0, "use_sliding_window": False, "attention_bias": False,
                       "tie_word_embeddings": False}, qk_norm="heads")


def olmo2():
    """Norms behind the branches alone, of all queries together and of all keys."""
    return llama_like({"model_type": "olmo2", **LLAMA_LIKE, "rms_norm_eps": 1e-6, "rope_theta": 500000.0,
                       "attention_bias": False, "tie_word_embeddings": False}, qk_norm="width", norm_before=False,
                      norm_after=True)


def phi3():
    """A window in all layers, rotary positions on a half of each head."""
    return llama_like({"model_type": "phi3", **LLAMA_LIKE, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
                       "partial_rotary_factor": 0.5, "sliding_window": 8, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
                       "tie_word_embeddings": False}, window=8, rotary_dim=8)


def gemma2():
    """Norms before and behind the branches, caps of scores and logits that bend them, a window in the first layer."""
    return llama_like({"model_type": "gemma2", **LLAMA_LIKE, "head_dim": 32, "hidden_act": "gelu_pytorch_tanh",
                       "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
                       "query_pre_attn_scalar": 24, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0,
                       "sliding_window": 8, "tie_word_embeddings": True},
                      activation="geglu_tanh", norm_weight_offset=1, embedding_scale=8.0, norm_after=True,
                      query_scalar=24.0, score_cap=2.0, logit_cap=3.0, window=8, windowed=(0,))


def gemma3():
    """Norms around the branches and of each head's queries and keys; a window and a base of its own in all layers but
    every third, which has its frequencies stretched."""
    config = {"model_type": "gemma3_text", **LLAMA_LIKE, "num_hidden_layers": 3, "head_dim": 32,
              "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6,
              "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
              "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "query_pre_attn_scalar": 32,
              "sliding_window": 8, "sliding_window_pattern": 3, "tie_word_embeddings": True}
    return llama_like(config, activation="geglu_tanh", norm_weight_offset=1, embedding_scale=8.0, norm_after=True,
                      qk_norm="heads", query_scalar=32.0, window=8, windowed=(0, 1), local_theta=10000.0,
                      frequency_factor=8.0)


def gpt_oss():
    """Sinks, a window in the first layer, biases of every linear, experts' too, and a clamped activation. Its published
    models have stretched positions, and a limit of 7."""
    return llama_like({"model_type": "gpt_oss", **LLAMA_LIKE, "head_dim": 16, "rms_norm_eps": 1e-5, "rope_theta": 150000.0,
                       "rope_parameters": {"rope_type": "default", "rope_theta": 150000.0}, "sliding_window": 8,
                       "num_local_experts": 8, "num_experts_per_tok": 2, "swiglu_limit": 0.3, "attention_bias": True,
                       "tie_word_embeddings": False},
                      qkv_bias=True, projection_bias=True, sinks=True, window=8, windowed=(0,),
                      experts=Experts(count=8, chosen=2, ffn=96, linear_biases=True, limit=0.3))


def llama4():
    """Chunks of 16 tokens and norms without weights in the first layer, queries that grow in the second, which has one
    expert of four for each token, weighed before it, and one for all."""
    config = {"model_type": "llama4_text", **LLAMA_LIKE, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "head_dim": 16,
              "intermediate_size": 48, "intermediate_size_mlp": 96, "num_local_experts": 4, "num_experts_per_tok": 1,
              "moe_layers": [1], "no_rope_layers": [1, 0], "attention_chunk_size": 16, "use_qk_norm": True,
              "attn_temperature_tuning": True, "floor_scale": 8, "attn_scale": 0.25, "tie_word_embeddings": False}
    return llama_like(config, qk_norm="unweighted", chunk=16, whole_layers=(1,), temper_floor=8, temper_scale=0.25,
                      ffn=96, experts=Experts(count=4, chosen=1, ffn=48, score="sigmoid", normalizes=False,
                                              weighs_inputs=True, shared_ffn=48, dense_layers=(0,)))


def mixtral():
    """Eight experts, of which the two of the largest scores, whose weights add up to 1."""
    return llama_like({"model_type": "mixtral", **LLAMA_LIKE, "rms_norm_eps": 1e-5, "rope_theta": 1000000.0,
                       "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None,
                       "tie_word_embeddings": False}, experts=Experts(count=8, chosen=2, ffn=96))


def qwen2_moe():
    """Weights that do not add up to 1, and an expert for every token, times a gate of its own; the first layer dense."""
    config = {"model_type": "qwen2_moe", **LLAMA_LIKE, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
              "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48,
              "shared_expert_intermediate_size": 80, "norm_topk_prob": False, "decoder_sparse_step": 1,
              "mlp_only_layers": [0], "qkv_bias": True, "use_sliding_window": False, "tie_word_embeddings": False}
    return llama_like(config, qkv_bias=True,
                      experts=Experts(count=8, chosen=2, ffn=48, normalizes=False, shared_ffn=80, shared_gate=True,
                                      dense_layers=(0,)))


def qwen3_moe():
    return llama_like({"model_type": "qwen3_moe", **LLAMA_LIKE, "head_dim": 32, "rms_norm_eps": 1e-6,
                       "rope_theta": 1000000.0, "num_experts": 8, "num_experts_per_tok": 4,
                       "moe_intermediate_size": 32, "norm_topk_prob": True, "decoder_sparse_step": 1,
                       "mlp_only_layers": [], "attention_bias": False, "use_sliding_window": False,
                       "tie_word_embeddings": False}, qk_norm="heads", experts=Experts(count=8, chosen=4, ffn=32))


def deepseek(config, latents, experts):
    """Latent attention whose turned elements are in neighbouring pairs; the first layer dense."""
    config = {**config, **LLAMA_LIKE, "num_key_value_heads": 4, "kv_lora_rank": latents.kv_rank,
              "q_lora_rank": latents.q_rank or None, "qk_nope_head_dim": latents.plain_dim, "qk_rope_head_dim": 8,
              "v_head_dim": latents.value_dim, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
              "n_routed_experts": experts.count, "num_experts_per_tok": experts.chosen,
              "moe_intermediate_size": experts.ffn, "n_shared_experts": experts.shared_ffn // experts.ffn,
              "norm_topk_prob": experts.normalizes, "routed_scaling_factor": experts.factor,
              "n_group": experts.groups, "topk_group": experts.kept_groups, "first_k_dense_replace": 1,
              "moe_layer_freq": 1, "attention_bias": False, "tie_word_embeddings": False}
    return llama_like(config, rotary_dim=8, latents=latents, experts=experts)


def deepseek_v2():
    """Queries without latents, softmax scores, a group judged by its best."""
    return deepseek({"model_type": "deepseek_v2", "topk_method": "group_limited_greedy"},
                    Latents(q_rank=0, kv_rank=24, plain_dim=12, value_dim=10),
                    Experts(count=8, chosen=2, ffn=32, normalizes=False, factor=16.0, groups=4, kept_groups=2,
                            group_best=1, shared_ffn=64, dense_layers=(0,)))


def deepseek_v3():
    """Sigmoid scores with biases that balance them, a group judged by its best two."""
    return deepseek({"model_type": "deepseek_v3"}, Latents(q_rank=40, kv_rank=24, plain_dim=12, value_dim=10),
                    Experts(count=8, chosen=2, ffn=32, score="sigmoid", factor=2.5, groups=4, kept_groups=2,
                            group_best=2, biased=True, shared_ffn=32, dense_layers=(0,)))


def deepseek_v3_mtp():
    """The token after the next one, too, by Megatron-LM's usual factor."""
    config, shape = deepseek_v3()
    return {**config, "num_nextn_predict_layers": 1}, dataclasses.replace(shape, further=0.1)


def bloom():
    """ALiBi, a norm after the embedding."""
    config = {"model_type": "bloom", "n_layer": 2, "hidden_size": 64, "n_head": 4, "vocab_size": 256,
              "layer_norm_epsilon": 1e-5, "hidden_dropout": 0.0, "attention_dropout": 0.0, "tie_word_embeddings": True}
    return config, Shape(layers=2, hidden=64, heads=4, kv_heads=4, head_dim=16, ffn=256, vocabulary=256, epsilon=1e-5,
                         alibi=True, embedding_norm=True)


def gpt_neox():
    """Parallel block with a norm per branch, rotary positions on a quarter of each head."""
    config = {"model_type": "gpt_neox", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
              "intermediate_size": 256, "vocab_size": 256, "max_position_embeddings": 64, "hidden_act": "gelu",
              "layer_norm_eps": 1e-5, "rotary_pct": 0.25, "rotary_emb_base": 10000, "use_parallel_residual": True,
              "hidden_dropout": 0.0, "attention_dropout": 0.0, "tie_word_embeddings": False}
    return config, Shape(layers=2, hidden=64, heads=4, kv_heads=4, head_dim=16, ffn=256, vocabulary=256, epsilon=1e-5,
                         activation="gelu_erf", rotary_dim=4, parallel_block=True, tied=False)


def falcon():
    """Falcon-7B's: parallel block with one norm, one head of keys and values, no biases but the norms'."""
    config = {"model_type": "falcon", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
              "ffn_hidden_size": 256, "vocab_size": 256, "max_position_embeddings": 64,
              "new_decoder_architecture": False, "multi_query": True, "parallel_attn": True, "alibi": False,
              "bias": False, "activation": "gelu", "layer_norm_epsilon": 1e-5, "rope_theta": 10000.0,
              "hidden_dropout": 0.0, "attention_dropout": 0.0, "tie_word_embeddings": True}
    return config, Shape(layers=2, hidden=64, heads=4, kv_heads=1, head_dim=16, ffn=256, vocabulary=256, epsilon=1e-5,
                         activation="gelu_erf", rotary_dim=16, qkv_bias=False, projection_bias=False, mlp_bias=False,
                         parallel_block=True, shared_norm=True)


def opt():
    """ReLU; position p takes row p + 2 of the table."""
    config = {"model_type": "opt", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "ffn_dim": 256,
              "vocab_size": 256, "max_position_embeddings": 64, "word_embed_proj_dim": 64, "do_layer_norm_before": True,
              "activation_function": "relu", "dropout": 0.0, "attention_dropout": 0.0, "tie_word_embeddings": True}
    return config, Shape(layers=2, hidden=64, heads=4, kv_heads=4, head_dim=16, ffn=256, vocabulary=256, epsilon=1e-5,
                         activation="relu", position_rows=66, position_offset=2)


FAMILIES = [gpt2, llama, qwen2, qwen3, gemma, gemma2, gemma3, mistral, olmo2, phi3, gpt_oss, llama4, mixtral, qwen2_moe,
            qwen3_moe, deepseek_v2, deepseek_v3, deepseek_v3_mtp, bloom, gpt_neox, falcon, opt]
