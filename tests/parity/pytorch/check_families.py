"""Compares decoder.py with Hugging Face's modeling code: loss and gradient norm of the first batch in fp64, for each
family, so that the goldens are those of the models that people train. Needs transformers beside torch."""

import sys

import torch
import transformers

from decoder import Decoder
from families import FAMILIES
from make_goldens import batch

# Relative. Many of the families compute norms, rotary angles or softmax in fp32 whatever they are asked for; a
# convention that differs shows from 1e-3 on.
TOLERANCE = 1e-7


def split_qkv(shape, tensor):
    widths = [heads * shape.head_dim for heads in (shape.heads, shape.kv_heads, shape.kv_heads)]
    return tensor.split(widths, 0)


def by_head(shape, tensor):
    """Rows q | k | v of all heads to q | k | v of each head in turn, as BLOOM and GPT-NeoX have them."""
    heads = torch.stack([part.reshape(shape.heads, shape.head_dim, -1) for part in split_qkv(shape, tensor)], 1)
    return heads.reshape(tensor.shape)


def renamed(names, ours):
    """What is left of a name after the first match of a pair (ours, theirs)."""
    for prefix, theirs in names:
        if ours.startswith(prefix):
            return theirs + ours[len(prefix):]
    raise KeyError(ours)


def layers_of(prefix, inner):
    """Pairs for two to four layers."""
    return [(f"layer.{i}/{ours}.", f"{prefix}.{i}.{theirs}.") for i in range(4) for ours, theirs in inner]


NORMS_BEFORE = [("norm1", "input_layernorm"), ("norm2", "post_attention_layernorm")]
NORMS_AFTER = [("post_norm1", "post_attention_layernorm"), ("post_norm2", "post_feedforward_layernorm")]
NORMS_AROUND = [("norm1", "input_layernorm"), ("norm2", "pre_feedforward_layernorm"), *NORMS_AFTER]
OF_HEADS = [("q_norm", "self_attn.q_norm"), ("k_norm", "self_attn.k_norm")]


LATENT = [("q_down", "self_attn.q_a_proj"), ("q_norm", "self_attn.q_a_layernorm"), ("q_up", "self_attn.q_b_proj"),
          ("q", "self_attn.q_proj"), ("kv_down", "self_attn.kv_a_proj_with_mqa"),
          ("kv_norm", "self_attn.kv_a_layernorm"), ("kv_up", "self_attn.kv_b_proj")]
ROUTER = [("router", "mlp.gate"), ("shared_gate", "mlp.shared_expert_gate")]
SHARED = {"qwen2_moe": "shared_expert", "deepseek_v2": "shared_experts", "deepseek_v3": "shared_experts"}


def mixtures(family):
    def weights(shape, parameters):
        """Those of experts are theirs whole, an expert after another."""
        rest = {}
        for name, tensor in parameters.items():
            layer, _, what = name.partition("/")
            mlp = f"model.layers.{layer[6:]}.mlp."
            if what == "experts.fc1.weight":
                yield mlp + "experts.gate_up_proj", tensor.unflatten(0, (shape.experts.count, -1))
            elif what == "experts.fc2.weight":
                yield mlp + "experts.down_proj", tensor.unflatten(0, (shape.experts.count, -1))
            elif what == "router.bias":
                yield mlp + "gate.e_score_correction_bias", tensor
            elif what == "shared_fc1.weight":
                for word, part in zip(("gate", "up"), tensor.chunk(2, 0)):
                    yield f"{mlp}{SHARED[family]}.{word}_proj.weight", part
            elif what == "shared_fc2.weight":
                yield f"{mlp}{SHARED[family]}.down_proj.weight", tensor
            else:
                rest[name] = tensor
        yield from llama_like(shape, rest, more=[*ROUTER, *(LATENT if shape.latents else [])])

    return weights


def llama_like(shape, parameters, norms=NORMS_BEFORE, fused=False, more=()):
    names = [("embedding.", "model.embed_tokens."), ("final_norm.", "model.norm."), ("head.", "lm_head."),
             *layers_of("model.layers", [*more, *norms, *OF_HEADS, ("projection", "self_attn.o_proj"),
                                         ("fc2", "mlp.down_proj"), ("qkv", "self_attn.qkv_proj"),
                                         ("fc1", "mlp.gate_up_proj")])]
    for name, tensor in parameters.items():
        layer, _, what = name.partition("/")
        if what.startswith("qkv.") and not fused:
            for letter, part in zip("qkv", split_qkv(shape, tensor)):
                yield f"model.layers.{layer[6:]}.self_attn.{letter}_proj.{what[4:]}", part
        elif what.startswith("fc1.") and not fused:
            for word, part in zip(("gate", "up"), tensor.chunk(2, 0)):
                yield f"model.layers.{layer[6:]}.mlp.{word}_proj.{what[4:]}", part
        elif what.startswith("sinks."):
            yield f"model.layers.{layer[6:]}.self_attn.sinks", tensor
        else:
            yield renamed(names, name), tensor


def olmo2(shape, parameters):
    return llama_like(shape, parameters, NORMS_AFTER)


def gemmas(shape, parameters):
    return llama_like(shape, parameters, NORMS_AROUND)


def phi3(shape, parameters):
    return llama_like(shape, parameters, fused=True)


def gpt2(_, parameters):
    names = [("embedding.", "transformer.wte."), ("positions.", "transformer.wpe."),
             ("final_norm.", "transformer.ln_f."),
             *layers_of("transformer.h", [("norm1", "ln_1"), ("norm2", "ln_2"), ("qkv", "attn.c_attn"),
                                          ("projection", "attn.c_proj"), ("fc1", "mlp.c_fc"), ("fc2", "mlp.c_proj")])]
    for name, tensor in parameters.items():
        turned = "/" in name and tensor.dim() == 2  # its linears are [in, out]
        yield renamed(names, name), tensor.T if turned else tensor


def bloom(shape, parameters):
    names = [("embedding.", "transformer.word_embeddings."),
             ("embedding_norm.", "transformer.word_embeddings_layernorm."), ("final_norm.", "transformer.ln_f."),
             *layers_of("transformer.h", [("norm1", "input_layernorm"), ("norm2", "post_attention_layernorm"),
                                          ("qkv", "self_attention.query_key_value"),
                                          ("projection", "self_attention.dense"), ("fc1", "mlp.dense_h_to_4h"),
                                          ("fc2", "mlp.dense_4h_to_h")])]
    for name, tensor in parameters.items():
        yield renamed(names, name), by_head(shape, tensor) if "/qkv." in name else tensor


def gpt_neox(shape, parameters):
    names = [("embedding.", "gpt_neox.embed_in."), ("final_norm.", "gpt_neox.final_layer_norm."),
             ("head.", "lm_head."),
             *layers_of("gpt_neox.layers", [("norm1", "input_layernorm"), ("norm2", "post_attention_layernorm"),
                                            ("qkv", "attention.query_key_value"), ("projection", "attention.dense"),
                                            ("fc1", "mlp.dense_h_to_4h"), ("fc2", "mlp.dense_4h_to_h")])]
    for name, tensor in parameters.items():
        yield renamed(names, name), by_head(shape, tensor) if "/qkv." in name else tensor


def falcon(_, parameters):
    names = [("embedding.", "transformer.word_embeddings."), ("final_norm.", "transformer.ln_f."),
             *layers_of("transformer.h", [("norm1", "input_layernorm"), ("qkv", "self_attention.query_key_value"),
                                          ("projection", "self_attention.dense"), ("fc1", "mlp.dense_h_to_4h"),
                                          ("fc2", "mlp.dense_4h_to_h")])]
    for name, tensor in parameters.items():
        yield renamed(names, name), tensor


def opt(shape, parameters):
    names = [("embedding.", "model.decoder.embed_tokens."), ("positions.", "model.decoder.embed_positions."),
             ("final_norm.", "model.decoder.final_layer_norm."),
             *layers_of("model.decoder.layers", [("norm1", "self_attn_layer_norm"), ("norm2", "final_layer_norm"),
                                                 ("projection", "self_attn.out_proj"), ("fc1", "fc1"),
                                                 ("fc2", "fc2")])]
    for name, tensor in parameters.items():
        layer, _, what = name.partition("/")
        if not what.startswith("qkv."):
            yield renamed(names, name), tensor
            continue
        for letter, part in zip("qkv", split_qkv(shape, tensor)):
            yield f"model.decoder.layers.{layer[6:]}.self_attn.{letter}_proj.{what[4:]}", part


def gpt_oss(shape, parameters):
    """Experts' matrices are [in, out], a gate's column beside each of up."""
    count, rest = shape.experts.count, {}
    for name, tensor in parameters.items():
        layer, _, what = name.partition("/")
        mlp = f"model.layers.{layer[6:]}.mlp."
        if what.startswith("experts.fc1."):
            each = tensor.unflatten(0, (count, 2, -1)).transpose(1, 2).flatten(1, 2)
            weight = what.endswith("weight")
            yield mlp + "experts.gate_up_proj" + ("" if weight else "_bias"), each.transpose(1, 2) if weight else each
        elif what.startswith("experts.fc2."):
            each = tensor.unflatten(0, (count, -1))
            weight = what.endswith("weight")
            yield mlp + "experts.down_proj" + ("" if weight else "_bias"), each.transpose(1, 2) if weight else each
        elif what.startswith("router."):
            yield mlp + "router." + what[7:].replace("logit_bias", "bias"), tensor
        else:
            rest[name] = tensor
    yield from llama_like(shape, rest)


def neighbours(shape, rows):
    """Of heads whose element i turns with i + head_dim/2 to such whose 2i turns with 2i + 1."""
    return rows.unflatten(0, (-1, 2, shape.head_dim // 2)).transpose(1, 2).reshape(rows.shape)


def llama4(shape, parameters):
    rest = {}
    for name, tensor in parameters.items():
        layer, _, what = name.partition("/")
        of_layer = f"model.layers.{layer[6:]}."
        if what.startswith("qkv."):
            q, k, v = split_qkv(shape, tensor)
            if int(layer[6:]) not in shape.whole_layers:
                q, k = neighbours(shape, q), neighbours(shape, k)
            for letter, part in zip("qkv", (q, k, v)):
                yield f"{of_layer}self_attn.{letter}_proj.weight", part
        elif what.startswith("experts."):
            each = tensor.unflatten(0, (shape.experts.count, -1)).transpose(1, 2)
            of = {"experts.fc1.weight": "gate_up_proj", "experts.fc2.weight": "down_proj"}[what]
            yield f"{of_layer}feed_forward.experts.{of}", each
        elif what == "router.weight":
            yield of_layer + "feed_forward.router.weight", tensor
        elif what in ("shared_fc1.weight", "fc1.weight"):
            block = "feed_forward.shared_expert" if what.startswith("shared") else "feed_forward"
            for word, part in zip(("gate", "up"), tensor.chunk(2, 0)):
                yield f"{of_layer}{block}.{word}_proj.weight", part
        elif what in ("shared_fc2.weight", "fc2.weight"):
            block = "feed_forward.shared_expert" if what.startswith("shared") else "feed_forward"
            yield f"{of_layer}{block}.down_proj.weight", tensor
        else:
            rest[name] = tensor
    yield from llama_like(shape, rest)


WEIGHTS = {"gpt2": gpt2, "olmo2": olmo2, "gemma2": gemmas, "gemma3_text": gemmas, "phi3": phi3,
            "bloom": bloom, "gpt_neox": gpt_neox, "falcon": falcon, "opt": opt, "gpt_oss": gpt_oss,
            "llama4_text": llama4,
            **{family: mixtures(family)
               for family in ("mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3")}}


def theirs(config, shape, parameters):
    more = {key: value for key, value in config.items() if key != "model_type"}
    # Their gradient leaves out the row of the token for padding; here no token is one.
    asked = transformers.AutoConfig.for_model(config["model_type"], **more, pad_token_id=None)
    asked._attn_implementation = "eager"
    asked._experts_implementation = "eager"  # grouped products have no fp64
    model = transformers.AutoModelForCausalLM.from_config(asked).to(torch.float64)
    weights = dict(WEIGHTS.get(config["model_type"], llama_like)(shape, parameters))
    missing, unexpected = model.load_state_dict({name: t.detach() for name, t in weights.items()}, strict=False)
    missing = [name for name in missing if name != "lm_head.weight" or not shape.tied]
    if missing or unexpected:
        raise KeyError(f"missing {missing}, unexpected {unexpected}")
    return model.train()


def measured(loss, parameters):
    loss.backward()
    grads = [p.grad.norm() for p in parameters if p.grad is not None]
    return loss.item(), torch.linalg.vector_norm(torch.stack(grads)).item()


def main():
    worst = 0.0
    for family in FAMILIES:
        config, shape = family()
        if shape.further:
            continue  # which transformers leaves out
        inputs, targets = batch(0, shape.vocabulary)
        ours = Decoder(shape, torch.float64)
        model = theirs(config, shape, ours.parameters)
        logits = model(input_ids=inputs, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, shape.vocabulary).double(), targets.reshape(-1))
        expected = measured(loss, model.parameters())
        trained = [p for name, p in ours.parameters.items() if not name.endswith("router.bias")]
        found = measured(ours.losses(inputs, targets)[0], trained)
        off = max(abs(a / b - 1) for a, b in zip(found, expected))
        worst = max(worst, off)
        print(f"{family.__name__:<11} loss {expected[0]:.9f}  gradient norm {expected[1]:.9f}  off by {off:.1e}")
    sys.exit(1 if worst > TOLERANCE else 0)


if __name__ == "__main__":
    main()
