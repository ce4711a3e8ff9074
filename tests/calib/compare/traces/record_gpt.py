"""Records the traces beside it: a GPT of two layers on one thread of a CPU, by PyTorch's profiler.

    python record_gpt.py gpt-1                                       gpt-1.json.gz
    RANK=r WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 \
        python record_gpt.py gpt-2                                   gpt-2-rank<r>.json.gz, by gloo

gpt-2 is of DistributedDataParallel, gpt-fsdp of fully_shard, gpt-tp of tensor-parallel ranks that
share out vocabulary and loss, gpt-sp of such that share out the tokens of norms as well, gpt-pp of a
pipeline of two by 1F1B. Of the last four what nobody reads is left out of the files (slim).
"""
import contextlib
import gzip
import json
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
        self.heads = HEADS
        self.norm1 = nn.LayerNorm(HIDDEN)
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.proj = nn.Linear(HIDDEN, HIDDEN)
        self.norm2 = nn.LayerNorm(HIDDEN)
        self.fc1 = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.fc2 = nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        qkv = self.qkv(self.norm1(x))
        b, t, _ = qkv.shape
        q, k, v = qkv.view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, -1))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """Layers from `first` to `last`, with the embedding before all and the head behind all."""

    def __init__(self, first=0, last=LAYERS):
        super().__init__()
        self.share = slice(0, SEQUENCE)  # of the sequence, what lies between layers here
        if first == 0:
            self.tokens = nn.Embedding(VOCABULARY, HIDDEN)
            self.positions = nn.Embedding(SEQUENCE, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(first, last))
        if last == LAYERS:
            self.norm = nn.LayerNorm(HIDDEN)
            self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, x):
        if hasattr(self, "tokens"):
            x = self.tokens(x) + self.positions(torch.arange(SEQUENCE)[self.share])
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)) if hasattr(self, "head") else x


def loss_of(logits, tokens):
    return F.cross_entropy(logits.flatten(0, 1), tokens.view(-1))


def shard(model, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (world,))
    for module in [model.tokens, model.positions, *model.layers, model.norm, model.head, model]:
        fully_shard(module, mesh=mesh)


def cut(model, rank, world, tokens):
    """Over ranks that share out matrices; `tokens`: and between these the tokens."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module)

    mesh = init_device_mesh("cpu", (world,))
    between = Shard(1) if tokens else Replicate()

    def columns(**how):
        return ColwiseParallel(input_layouts=between, **how)

    def rows(**how):
        return RowwiseParallel(output_layouts=between, **how)

    def norms(*names):
        return {name: SequenceParallel(use_local_output=True) for name in names if tokens}

    if tokens:
        model.share = slice(rank * SEQUENCE // world, (rank + 1) * SEQUENCE // world)
    parallelize_module(model, mesh, {
        "tokens": rows(input_layouts=Replicate()), **norms("norm"),
        "head": columns(output_layouts=Shard(-1), use_local_output=False)})
    for layer in model.layers:
        layer.heads = HEADS // world
        parallelize_module(layer, mesh, {"qkv": columns(), "proj": rows(), "fc1": columns(),
                                         "fc2": rows(), **norms("norm1", "norm2")})


def slim(path):
    with gzip.open(path) as file:
        trace = json.load(file)
    for event in trace["traceEvents"]:
        for key in ["Input Strides", "Concrete Inputs", "Ev Idx", "External id", "Record function id",
                    "Fwd thread id", "Sequence number"]:
            event.get("args", {}).pop(key, None)
    with gzip.open(path, "wt") as file:
        json.dump(trace, file, separators=(",", ":"))


def main(name):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rank = os.environ.get("RANK")
    around = contextlib.nullcontext
    if rank is not None:
        dist.init_process_group("gloo")
        world = dist.get_world_size()
    model = net = Gpt() if name != "gpt-pp" else Gpt(int(rank) * LAYERS // 2,
                                                     (int(rank) + 1) * LAYERS // 2)
    if name == "gpt-2":
        net = nn.parallel.DistributedDataParallel(model)
    if name == "gpt-fsdp":
        shard(model, world)
    if name in ("gpt-tp", "gpt-sp"):
        from torch.distributed.tensor.parallel import loss_parallel as around

        cut(model, int(rank), world, name == "gpt-sp")
    if name == "gpt-pp":
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B

        stage = PipelineStage(model, int(rank), world, torch.device("cpu"))
        run = Schedule1F1B(stage, n_microbatches=2 * MICRO_BATCHES, loss_fn=loss_of)
    # Distributed tensors and others are not stepped by one kernel.
    how = {"foreach": False} if name in ("gpt-tp", "gpt-sp") else {"fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **how)

    def pass_through():
        if name == "gpt-pp":
            tokens = torch.randint(0, VOCABULARY, (2 * MICRO_BATCHES * BATCH, SEQUENCE))
            return run.step(tokens) if rank == "0" else run.step(target=tokens)
        for _ in range(MICRO_BATCHES):
            tokens = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE))
            with around():
                (loss_of(net(tokens), tokens) / MICRO_BATCHES).backward()

    path = name + ("" if rank is None else f"-rank{rank}") + ".json.gz"
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=2, active=1),
        record_shapes=True,
        on_trace_ready=lambda done: done.export_chrome_trace(path),
    ) as profiler:
        for _ in range(4):
            pass_through()
            if name not in ("gpt-tp", "gpt-sp", "gpt-pp"):
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            profiler.step()
    if name not in ("gpt-1", "gpt-2"):
        slim(path)
        dist.destroy_process_group()


main(sys.argv[1])
