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
    qk_norm: str = ""  # "heads", or "width"
    query_scalar: float = 0.0  # scores are divided by its root; 0: by that of head_dim
    score_cap: float = 0.0
    logit_cap: float = 0.0
    sinks: bool = False
    windowed: tuple = ()  # layers that see the window; (): all
    local_theta: float = 0.0  # of layers that see the window; 0: rope_theta
    frequency_factor: float = 1.0  # of layers without a window: linear stretching

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


def parameter_shapes(shape):
    """Name to shape, in the order of the model."""
    found = {"embedding.weight": [shape.vocabulary, shape.hidden]}
    if shape.position_rows:
        found["positions.weight"] = [shape.position_rows, shape.hidden]
    if shape.embedding_norm:
        found |= norm_shapes(shape, "embedding_norm")
    for i in range(shape.layers):
        layer = f"layer.{i}/"
        if shape.norm_before:
            found |= norm_shapes(shape, layer + "norm1")
        found |= linear_shapes(layer + "qkv", shape.qkv_width(), shape.hidden, shape.qkv_bias)
        if shape.qk_norm:
            each = shape.qk_norm == "heads"
            found[layer + "q_norm.weight"] = [shape.head_dim * (1 if each else shape.heads)]
            found[layer + "k_norm.weight"] = [shape.head_dim * (1 if each else shape.kv_heads)]
        if shape.sinks:
            found[layer + "sinks.weight"] = [shape.heads]
        found |= linear_shapes(layer + "projection", shape.hidden, shape.heads * shape.head_dim, shape.projection_bias)
        if shape.norm_after:
            found |= norm_shapes(shape, layer + "post_norm1") | norm_shapes(shape, layer + "post_norm2")
        if shape.norm_before and not shape.shared_norm:
            found |= norm_shapes(shape, layer + "norm2")
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
        if self.shape.qk_norm == "heads":
            q, k = (x.unflatten(-1, (-1, self.shape.head_dim)) for x in (q, k))
        return (self.norm(name + which, x).flatten(2) for which, x in (("q_norm", q), ("k_norm", k)))

    def attention(self, name, layer, x):
        shape = self.shape
        batch, length, _ = x.shape
        widths = [heads * shape.head_dim for heads in (shape.heads, shape.kv_heads, shape.kv_heads)]
        q, k, v = self.linear(name + "qkv", x).split(widths, -1)
        if shape.qk_norm:
            q, k = self.normed_heads(q, k, name)
        q, k, v = (part.reshape(batch, length, -1, shape.head_dim).transpose(1, 2) for part in (q, k, v))
        if shape.rotary_dim:
            frequencies = shape.frequencies_of(layer)
            q, k = self.rotate(q, frequencies), self.rotate(k, frequencies)
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

    def mlp(self, name, x):
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
            return x + self.attention(name, layer, normed) + self.mlp(name, other)
        before = self.norm if self.shape.norm_before else lambda _, branch: branch
        after = self.norm if self.shape.norm_after else lambda _, branch: branch
        x = x + after(name + "post_norm1", self.attention(name, layer, before(name + "norm1", x)))
        return x + after(name + "post_norm2", self.mlp(name, before(name + "norm2", x)))

    def loss(self, inputs, targets):
        """Mean over all tokens of −log of the target's probability; inputs and targets [samples, positions]."""
        shape = self.shape
        x = self.parameters["embedding.weight"][inputs] * shape.embedding_scale
        if shape.position_rows:
            x = x + self.parameters["positions.weight"][torch.arange(inputs.shape[1]) + shape.position_offset]
        if shape.embedding_norm:
            x = self.norm("embedding_norm", x)
        for i in range(shape.layers):
            x = self.layer(f"layer.{i}/", i, x)
        head = self.parameters["embedding.weight" if shape.tied else "head.weight"]
        logits = self.norm("final_norm", x) @ head.T
        if shape.logit_cap:
            logits = shape.logit_cap * torch.tanh(logits / shape.logit_cap)
        chosen = logits.gather(-1, targets[..., None]).squeeze(-1)
        return (torch.logsumexp(logits, -1) - chosen).mean()
