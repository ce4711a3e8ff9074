"""Records the traces beside it: a GPT of two layers on one thread of a CPU, by PyTorch's profiler.

    python record_gpt.py gpt-1                                       gpt-1.json.gz
    RANK=r WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 \
        python record_gpt.py gpt-2                                   gpt-2-rank<r>.json.gz, by gloo
"""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile, schedule

LAYERS, HIDDEN, HEADS, VOCABULARY, SEQUENCE, BATCH, MICRO_BATCHES = 2, 256, 4, 512, 128, 2, 2


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(HIDDEN)
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.proj = nn.Linear(HIDDEN, HIDDEN)
        self.norm2 = nn.LayerNorm(HIDDEN)
        self.fc1 = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.fc2 = nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, HIDDEN // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, HIDDEN))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, HIDDEN)
        self.positions = nn.Embedding(SEQUENCE, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(SEQUENCE))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def main(name):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = net = Gpt()
    rank = os.environ.get("RANK")
    if rank is not None:
        dist.init_process_group("gloo")
        net = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    path = name + ("" if rank is None else f"-rank{rank}") + ".json.gz"
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=2, active=1),
        record_shapes=True,
        on_trace_ready=lambda done: done.export_chrome_trace(path),
    ) as profiler:
        for _ in range(4):
            for _ in range(MICRO_BATCHES):
                tokens = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE))
                loss = F.cross_entropy(net(tokens).view(-1, VOCABULARY), tokens.view(-1))
                (loss / MICRO_BATCHES).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            profiler.step()


main(sys.argv[1])
