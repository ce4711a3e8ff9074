"""Small models of each family: the config.json that a scenario takes, and what a decoder must compute for it by the
family's paper and Hugging Face's modeling code."""

from decoder import Shape

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


FAMILIES = [gpt2, llama, qwen2, gemma, mistral, bloom, gpt_neox, falcon, opt]
