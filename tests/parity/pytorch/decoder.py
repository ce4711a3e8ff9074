"""Decoders in plain PyTorch: each operation as its paper writes it, gradients by autograd. Nothing is fused, and nothing
is shared with what it is the oracle of.

Parameters are named and packed as in Orrery's plans: "layer.3/qkv.weight" has rows q | k | v, "layer.3/fc1.weight" of a
gated MLP gate | up; weights are [out, in]."""

import dataclasses
import math

import torch
import torch.nn.functional as F

import formulas


@dataclasses.dataclass
class Experts:
    """A mixture of experts in the place of a layer's MLP, each a gated MLP."""

    count: int
    chosen: int
    ffn: int
    score: str = "softmax"  # or "sigmoid"
    normalizes: bool = True
    factor: float = 1.0
    groups: int = 0  # of experts, of which those of the best `kept_groups` may be chosen; 0: all may
    kept_groups: int = 0
    group_best: int = 0  # scores that a group is judged by
    biased: bool = False  # a bias is added to scores to choose by, and not to weigh by
    shared_ffn: int = 0  # of what every token goes through
    shared_gate: bool = False
    linear_biases: bool = False  # of the router's product, too
    limit: float = 0.0  # of what a clamped SwiGLU reads; 0: a plain one
    weighs_inputs: bool = False  # weights multiply what an expert reads, not what it makes
    dense_layers: tuple = ()  # layers that have an MLP all the same


@dataclasses.dataclass
class Latents:
    """Narrow rows that queries, and keys with values, are products of."""

    q_rank: int  # 0: queries are a product with the layer's input
    kv_rank: int
    plain_dim: int  # elements of a head's queries and keys without positions, before those that have
    value_dim: int


@dataclasses.dataclass
class Shape:
    """What a decoder computes; which family does so is for families.py to say."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocabulary: int
    epsilon: float
    norm: str = "layer"  # or "rms"
    norm_weight_offset: int = 0
    activation: str = "gelu_tanh"  # gelu_erf, relu, swiglu, geglu_tanh
    position_rows: int = 0  # of learned positions; 0: none
    position_offset: int = 0
    rotary_dim: int = 0
    rope_theta: float = 10000.0
    alibi: bool = False
    window: int = 0
    qkv_bias: bool = True
    projection_bias: bool = True
    mlp_bias: bool = True
    parallel_block: bool = False
    shared_norm: bool = False
    embedding_norm: bool = False
    embedding_scale: float = 1.0
    tied: bool = True
    norm_before: bool = True
    norm_after: bool = False
    qk_norm: str = ""  # "heads", "width", or "unweighted": each head, without a weight
    query_scalar: float = 0.0  # scores are divided by its root; 0: by that of head_dim
    score_cap: float = 0.0
    logit_cap: float = 0.0
    sinks: bool = False
    windowed: tuple = ()  # layers that see the window; (): all
    chunk: int = 0  # tokens see those before them of their chunk alone; 0: of the sequence
    whole_layers: tuple = ()  # layers without chunks, positions and norms of queries and keys, in place of which
    temper_floor: int = 0  # queries grow with their position, once in so many
    temper_scale: float = 0.0
    local_theta: float = 0.0  # of layers that see the window; 0: rope_theta
    frequency_factor: float = 1.0  # of layers without a window: linear stretching
    experts: Experts | None = None
    latents: Latents | None = None
    further: float = 0.0  # what the loss of the token after the next one counts for; 0: it is not predicted

    def experts_of(self, layer):
        return self.experts if self.experts and layer not in self.experts.dense_layers else None

    def gated(self):
        return self.activation in ("swiglu", "geglu_tanh")

    def window_of(self, layer):
        return self.window if not self.windowed or layer in self.windowed else 0

    def frequencies_of(self, layer):
        """Radians per position of each turned pair."""
        local = self.window_of(layer) > 0 and self.local_theta > 0
        theta, factor = (self.local_theta, 1.0) if local else (self.rope_theta, self.frequency_factor)
        return theta ** (-torch.arange(0, self.rotary_dim, 2, dtype=torch.float64) / self.rotary_dim) / factor

    def qkv_width(self):
        return (self.heads + 2 * self.kv_heads) * self.head_dim


def norm_shapes(shape, name):
    found = {f"{name}.weight": [shape.hidden]}
    if shape.norm == "layer":
        found[f"{name}.bias"] = [shape.hidden]
    return found


def linear_shapes(name, outputs, inputs, bias):
    return {f"{name}.weight": [outputs, inputs], **({f"{name}.bias": [outputs]} if bias else {})}


def latent_shapes(shape, name):
    latents = shape.latents
    queries = shape.heads * (latents.plain_dim + shape.rotary_dim)
    found = {}
    if latents.q_rank:
        found[name + "q_down.weight"] = [latents.q_rank, shape.hidden]
        found[name + "q_norm.weight"] = [latents.q_rank]
        found[name + "q_up.weight"] = [queries, latents.q_rank]
    else:
        found[name + "q.weight"] = [queries, shape.hidden]
    found[name + "kv_down.weight"] = [latents.kv_rank + shape.rotary_dim, shape.hidden]
    found[name + "kv_norm.weight"] = [latents.kv_rank]
    found[name + "kv_up.weight"] = [shape.heads * (latents.plain_dim + latents.value_dim), latents.kv_rank]
    return found


def expert_shapes(shape, experts, name):
    found = {name + "router.weight": [experts.count, shape.hidden]}
    if experts.biased:
        found[name + "router.bias"] = [experts.count]
    if experts.linear_biases:
        found[name + "router.logit_bias"] = [experts.count]
    if experts.shared_ffn:
        found[name + "shared_fc1.weight"] = [2 * experts.shared_ffn, shape.hidden]
        found[name + "shared_fc2.weight"] = [shape.hidden, experts.shared_ffn]
    if experts.shared_gate:
        found[name + "shared_gate.weight"] = [1, shape.hidden]
    found |= linear_shapes(name + "experts.fc1", experts.count * 2 * experts.ffn, shape.hidden, experts.linear_biases)
    found |= linear_shapes(name + "experts.fc2", experts.count * shape.hidden, experts.ffn, experts.linear_biases)
    return found


def parameter_shapes(shape):
    """Name to shape, in the order of the model."""
    found = {"embedding.weight": [shape.vocabulary, shape.hidden]}
    if shape.position_rows:
        found["positions.weight"] = [shape.position_rows, shape.hidden]
    if shape.embedding_norm:
        found |= norm_shapes(shape, "embedding_norm")
    for i in range(shape.layers + (shape.further > 0)):
        layer = f"layer.{i}/"
        if i == shape.layers:
            for norm in ("enorm", "hnorm", "mtp_norm"):
                found |= norm_shapes(shape, layer + norm)
            found[layer + "eh_proj.weight"] = [shape.hidden, 2 * shape.hidden]
        if shape.norm_before:
            found |= norm_shapes(shape, layer + "norm1")
        if shape.latents:
            found |= latent_shapes(shape, layer)
        else:
            found |= linear_shapes(layer + "qkv", shape.qkv_width(), shape.hidden, shape.qkv_bias)
        if shape.qk_norm and shape.qk_norm != "unweighted":
            each = shape.qk_norm == "heads"
            found[layer + "q_norm.weight"] = [shape.head_dim * (1 if each else shape.heads)]
            found[layer + "k_norm.weight"] = [shape.head_dim * (1 if each else shape.kv_heads)]
        if shape.sinks:
            found[layer + "sinks.weight"] = [shape.heads]
        value_dim = shape.latents.value_dim if shape.latents else shape.head_dim
        found |= linear_shapes(layer + "projection", shape.hidden, shape.heads * value_dim, shape.projection_bias)
        if shape.norm_after:
            found |= norm_shapes(shape, layer + "post_norm1") | norm_shapes(shape, layer + "post_norm2")
        if shape.norm_before and not shape.shared_norm:
            found |= norm_shapes(shape, layer + "norm2")
        if experts := shape.experts_of(i):
            found |= expert_shapes(shape, experts, layer)
            continue
        found |= linear_shapes(layer + "fc1", (2 if shape.gated() else 1) * shape.ffn, shape.hidden, shape.mlp_bias)
        found |= linear_shapes(layer + "fc2", shape.hidden, shape.ffn, shape.mlp_bias)
    found |= norm_shapes(shape, "final_norm")
    if not shape.tied:
        found["head.weight"] = [shape.vocabulary, shape.hidden]
    return found


def alibi_slopes(heads):
    """2^(−8/h), 2^(−16/h), … for a power of two of heads (Press et al. 2022)."""
    assert heads & (heads - 1) == 0
    return [2.0 ** (-8.0 * (i + 1) / heads) for i in range(heads)]


class Decoder:
    def __init__(self, shape, dtype):
        self.shape = shape
        self.dtype = dtype
        self.parameters = {}
        self.loads = {}  # of a layer's experts: tokens that chose each, of the last loss
        for name, sizes in parameter_shapes(shape).items():
            values = formulas.initial(name, math.prod(sizes), shape.norm_weight_offset)
            self.parameters[name] = torch.from_numpy(values).reshape(sizes).to(dtype).requires_grad_()

    def norm(self, name, x):
        weight = self.parameters[f"{name}.weight"] + self.shape.norm_weight_offset
        if self.shape.norm == "rms":  # Zhang and Sennrich 2019
            return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.shape.epsilon) * weight
        centred = x - x.mean(-1, keepdim=True)  # Ba et al. 2016
        variance = (centred * centred).mean(-1, keepdim=True)
        return centred / torch.sqrt(variance + self.shape.epsilon) * weight + self.parameters[f"{name}.bias"]

    def linear(self, name, x):
        y = x @ self.parameters[f"{name}.weight"].T
        bias = self.parameters.get(f"{name}.bias")
        return y if bias is None else y + bias

    def rotate(self, x, frequencies):
        """Su et al. 2021 on the first rotary_dim elements of each head; element i turns with element i + rotary_dim/2."""
        width = self.shape.rotary_dim
        angles = torch.outer(torch.arange(x.shape[-2], dtype=torch.float64), frequencies)
        cosine, sine = angles.cos().to(self.dtype), angles.sin().to(self.dtype)
        first, second, rest = x[..., : width // 2], x[..., width // 2 : width], x[..., width:]
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine, rest], -1)

    def normed_heads(self, q, k, name):
        """[..., heads · head_dim] each; of one head at a time, or of all together."""
        if self.shape.qk_norm == "unweighted":
            each = [x.unflatten(-1, (-1, self.shape.head_dim)) for x in (q, k)]
            return [(x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.shape.epsilon)).flatten(2) for x in each]
        if self.shape.qk_norm == "heads":
            q, k = (x.unflatten(-1, (-1, self.shape.head_dim)) for x in (q, k))
        return (self.norm(name + which, x).flatten(2) for which, x in (("q_norm", q), ("k_norm", k)))

    def rotate_neighbours(self, x, frequencies):
        """As rotate, of all elements; element 2i turns with element 2i + 1."""
        angles = torch.outer(torch.arange(x.shape[-2], dtype=torch.float64), frequencies)
        cosine, sine = angles.cos().to(self.dtype), angles.sin().to(self.dtype)
        first, second = x[..., ::2], x[..., 1::2]
        return torch.stack([first * cosine - second * sine, second * cosine + first * sine], -1).flatten(-2)

    def latent_attention(self, name, layer, x):
        """DeepSeek-AI 2024, arXiv 2405.04434, equations 37 to 47, without a cache."""
        shape, latents = self.shape, self.shape.latents
        batch, length, _ = x.shape

        def heads(part, widths):
            return part.reshape(batch, length, shape.heads, -1).transpose(1, 2).split(widths, -1)

        if latents.q_rank:
            q = self.linear(name + "q_up", self.norm(name + "q_norm", self.linear(name + "q_down", x)))
        else:
            q = self.linear(name + "q", x)
        q, q_turned = heads(q, [latents.plain_dim, shape.rotary_dim])
        low, k_turned = self.linear(name + "kv_down", x).split([latents.kv_rank, shape.rotary_dim], -1)
        k, v = heads(self.linear(name + "kv_up", self.norm(name + "kv_norm", low)),
                     [latents.plain_dim, latents.value_dim])
        frequencies = shape.frequencies_of(layer)
        q = torch.cat([q, self.rotate_neighbours(q_turned, frequencies)], -1)
        k_turned = self.rotate_neighbours(k_turned, frequencies)[:, None].expand(-1, shape.heads, -1, -1)
        k = torch.cat([k, k_turned], -1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        hidden = torch.arange(length)[None, :] > torch.arange(length)[:, None]
        probabilities = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1)
        context = (probabilities @ v).transpose(1, 2).reshape(batch, length, -1)
        return self.linear(name + "projection", context)

    def attention(self, name, layer, x):
        shape = self.shape
        if shape.latents:
            return self.latent_attention(name, layer, x)
        batch, length, _ = x.shape
        widths = [heads * shape.head_dim for heads in (shape.heads, shape.kv_heads, shape.kv_heads)]
        q, k, v = self.linear(name + "qkv", x).split(widths, -1)
        whole = layer in shape.whole_layers
        if shape.qk_norm and not whole:
            q, k = self.normed_heads(q, k, name)
        q, k, v = (part.reshape(batch, length, -1, shape.head_dim).transpose(1, 2) for part in (q, k, v))
        if shape.rotary_dim and not whole:
            frequencies = shape.frequencies_of(layer)
            q, k = self.rotate(q, frequencies), self.rotate(k, frequencies)
        if whole:
            times = torch.div(torch.arange(length) + 1, shape.temper_floor, rounding_mode="floor")
            q = q * (1 + shape.temper_scale * torch.log1p(times.to(self.dtype)))[:, None]
        k, v = (part.repeat_interleave(shape.heads // shape.kv_heads, 1) for part in (k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(shape.query_scalar or shape.head_dim)
        if shape.score_cap:
            scores = shape.score_cap * torch.tanh(scores / shape.score_cap)
        ahead = torch.arange(length)[None, :] - torch.arange(length)[:, None]  # key − query
        if shape.alibi:
            scores = scores + torch.tensor(alibi_slopes(shape.heads), dtype=self.dtype)[:, None, None] * ahead
        hidden = ahead > 0
        if window := shape.window_of(layer):
            hidden = hidden | (ahead <= -window)
        if shape.chunk and not whole:
            chunks = torch.arange(length) // shape.chunk
            hidden = hidden | (chunks[None, :] != chunks[:, None])
        scores = scores.masked_fill(hidden, -torch.inf)
        if shape.sinks:  # a further score without a value
            sinks = self.parameters[name + "sinks.weight"][None, :, None, None].expand(batch, -1, length, 1)
            scores = torch.cat([scores, sinks], -1)
        probabilities = torch.softmax(scores, -1)[..., :length]
        context = (probabilities @ v).transpose(1, 2).reshape(batch, length, -1)
        return self.linear(name + "projection", context)

    def activate(self, x):
        kind = self.shape.activation
        if kind == "relu":
            return torch.relu(x)
        if kind == "gelu_erf":
            return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
        if kind == "gelu_tanh":  # Hendrycks and Gimpel 2016
            return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        return x * torch.sigmoid(x)

    def choose(self, experts, name, x):
        """Of each row the experts that it goes through, and what it makes of each is multiplied by."""
        logits = self.linear_of(x, self.parameters[name + "router.weight"])
        if experts.linear_biases:
            logits = logits + self.parameters[name + "router.logit_bias"]
        scores = torch.softmax(logits, -1) if experts.score == "softmax" else torch.sigmoid(logits)
        judged = scores.detach()
        if experts.biased:  # DeepSeek-AI 2024, arXiv 2412.19437, equation 16
            judged = judged + self.parameters[name + "router.bias"].detach()
        if experts.groups:
            each = judged.unflatten(-1, (experts.groups, -1))
            best = each.topk(experts.group_best, -1)[0].sum(-1).topk(experts.kept_groups, -1)[1]
            kept = torch.zeros_like(each[..., 0], dtype=torch.bool).scatter(-1, best, True)
            judged = each.masked_fill(~kept[..., None], -torch.inf).flatten(-2)
        choice = judged.topk(experts.chosen, -1)[1]
        weights = scores.gather(-1, choice)
        if experts.normalizes:
            weights = weights / weights.sum(-1, keepdim=True)
        return choice, weights * experts.factor

    @staticmethod
    def linear_of(x, weight):
        return x @ weight.T

    def gated_mlp(self, x, first, second):
        gate, up = self.linear_of(x, first).chunk(2, -1)
        return self.linear_of(self.activate(gate) * up, second)

    def expert(self, experts, name, number, x):
        """OpenAI 2025, arXiv 2508.10925, where it is clamped."""
        def of(which):
            return self.parameters[name + which].unflatten(0, (experts.count, -1))[number]

        x = self.linear_of(x, of("experts.fc1.weight"))
        if experts.linear_biases:
            x = x + of("experts.fc1.bias")
        gate, up = x.chunk(2, -1)
        if experts.limit:
            gate, up = gate.clamp(max=experts.limit), up.clamp(-experts.limit, experts.limit)
            made = gate * torch.sigmoid(1.702 * gate) * (up + 1)
        else:
            made = self.activate(gate) * up
        y = self.linear_of(made, of("experts.fc2.weight"))
        return y + of("experts.fc2.bias") if experts.linear_biases else y

    def mixture(self, experts, name, x):
        rows = x.reshape(-1, x.shape[-1])
        choice, weights = self.choose(experts, name, rows)
        self.loads[name] = torch.bincount(choice.reshape(-1), minlength=experts.count)
        made = torch.zeros_like(rows)
        for expert in range(experts.count):
            row, place = torch.where(choice == expert)
            weight = weights[row, place][:, None]
            if experts.weighs_inputs:
                of_expert = self.expert(experts, name, expert, rows[row] * weight)
            else:
                of_expert = self.expert(experts, name, expert, rows[row]) * weight
            made = made.index_add(0, row, of_expert)
        if experts.shared_ffn:
            shared = self.gated_mlp(rows, *(self.parameters[f"{name}shared_{fc}.weight"] for fc in ("fc1", "fc2")))
            if experts.shared_gate:
                gate = torch.sigmoid(self.linear_of(rows, self.parameters[name + "shared_gate.weight"]))
                shared = shared * gate
            made = made + shared
        return made.reshape(x.shape)

    def mlp(self, name, layer, x):
        if experts := self.shape.experts_of(layer):
            return self.mixture(experts, name, x)
        x = self.linear(name + "fc1", x)
        if not self.shape.gated():
            return self.linear(name + "fc2", self.activate(x))
        gate, up = x.chunk(2, -1)  # Shazeer 2020
        if self.shape.activation == "geglu_tanh":
            gate = F.gelu(gate, approximate="tanh")
        else:
            gate = self.activate(gate)
        return self.linear(name + "fc2", gate * up)

    def layer(self, name, layer, x):
        if self.shape.parallel_block:
            normed = self.norm(name + "norm1", x)
            other = normed if self.shape.shared_norm else self.norm(name + "norm2", x)
            return x + self.attention(name, layer, normed) + self.mlp(name, layer, other)
        before = self.norm if self.shape.norm_before else lambda _, branch: branch
        after = self.norm if self.shape.norm_after else lambda _, branch: branch
        x = x + after(name + "post_norm1", self.attention(name, layer, before(name + "norm1", x)))
        return x + after(name + "post_norm2", self.mlp(name, layer, before(name + "norm2", x)))

    def loss_of(self, x, targets):
        """Mean over all tokens of −log of the target's probability."""
        shape = self.shape
        head = self.parameters["embedding.weight" if shape.tied else "head.weight"]
        logits = x @ head.T
        if shape.logit_cap:
            logits = shape.logit_cap * torch.tanh(logits / shape.logit_cap)
        chosen = logits.gather(-1, targets[..., None]).squeeze(-1)
        return (torch.logsumexp(logits, -1) - chosen).mean()

    def further_loss(self, state, targets):
        """Of the token after the next one, which the last position does not have (DeepSeek-AI 2024, arXiv 2412.19437,
        equations 21 to 25; the state is that behind the last norm, as Megatron-LM and vLLM hand it on)."""
        name = f"layer.{self.shape.layers}/"
        embedded = self.parameters["embedding.weight"][targets] * self.shape.embedding_scale
        merged = torch.cat([self.norm(name + "enorm", embedded), self.norm(name + "hnorm", state)], -1)
        x = self.layer(name, self.shape.layers, self.linear(name + "eh_proj", merged))
        return self.loss_of(self.norm(name + "mtp_norm", x)[:, :-1], targets[:, 1:])

    def losses(self, inputs, targets):
        """Of the next token and, where it is predicted, of the one after it; inputs and targets [samples, positions]."""
        shape = self.shape
        x = self.parameters["embedding.weight"][inputs] * shape.embedding_scale
        if shape.position_rows:
            x = x + self.parameters["positions.weight"][torch.arange(inputs.shape[1]) + shape.position_offset]
        if shape.embedding_norm:
            x = self.norm("embedding_norm", x)
        for i in range(shape.layers):
            x = self.layer(f"layer.{i}/", i, x)
        state = self.norm("final_norm", x)
        own = self.loss_of(state, targets)
        return own, self.further_loss(state, targets) if shape.further else None
