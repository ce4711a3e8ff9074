"""Records llama.json.gz beside it: a Llama of two layers with grouped queries, each layer run again in backward, on one
thread of a CPU, by PyTorch's profiler. Its queries, keys and values are one product, and so are the gate and what it
gates, as Megatron-LM has them.

    python record_llama.py
"""
import gzip
import json
import os

import torch
from torch import nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.checkpoint import checkpoint

LAYERS, HIDDEN, HEADS, KV_HEADS, INNER, VOCABULARY = 2, 128, 8, 2, 352, 640
SEQUENCE, BATCH, MICRO_BATCHES = 96, 2, 3
HEAD = HIDDEN // HEADS
KEPT = ("Input Dims", "Input type")  # of what an event says besides: the rest is larger than all else


def turned(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.RMSNorm(HIDDEN, eps=1e-6)
        self.qkv = nn.Linear(HIDDEN, (HEADS + 2 * KV_HEADS) * HEAD, bias=False)
        self.proj = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.norm2 = nn.RMSNorm(HIDDEN, eps=1e-6)
        self.up = nn.Linear(HIDDEN, 2 * INNER, bias=False)
        self.down = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).split((HEADS * HEAD, KV_HEADS * HEAD, KV_HEADS * HEAD), dim=-1)
        q, k, v = (y.view(b, t, -1, HEAD).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(
            turned(q, cos, sin), turned(k, cos, sin), v, is_causal=True, enable_gqa=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, HIDDEN))
        gate, up = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(HIDDEN, eps=1e-6)
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)
        turns = 10000 ** (-torch.arange(0, HEAD, 2) / HEAD)
        angles = torch.arange(SEQUENCE)[:, None] * turns.repeat(2)[None, :]
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens):
        x = self.tokens(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, self.cos, self.sin, use_reentrant=False)
        return self.head(self.norm(x))


def export(done):
    done.export_chrome_trace("whole.json")
    with open("whole.json", encoding="utf-8") as file:
        trace = json.load(file)
    os.remove("whole.json")
    events = [event for event in trace["traceEvents"] if event["ph"] in "XM"]
    begin = min(event["ts"] for event in events if event["ph"] == "X")
    for event in events:
        event["ts"] = round(event["ts"] - begin, 3) if event["ph"] == "X" else 0
        if event.get("cat") == "cpu_op":
            event["args"] = {key: value for key, value in event.get("args", {}).items() if key in KEPT}
    trace["traceEvents"] = events
    with gzip.GzipFile("llama.json.gz", "wb", 9, mtime=0) as file:
        file.write(json.dumps(trace, separators=(",", ":")).encode())


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=2, active=1),
        record_shapes=True,
        on_trace_ready=export,
    ) as profiler:
        for _ in range(4):
            for _ in range(MICRO_BATCHES):
                tokens = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE))
                loss = F.cross_entropy(model(tokens).view(-1, VOCABULARY), tokens.view(-1))
                (loss / MICRO_BATCHES).backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()


main()
