"""Times a training step of a GPT-2 scenario in PyTorch on CPU: fp32, standard modules, fused attention and AdamW.

pytorch_step.py [--threads N] [--steps N] [SCENARIO]

SCENARIO is gpt2-124m-cpu.json beside this file unless given. Prints one JSON object. Micro-batches, sequence length,
optimizer and the model's shape are the scenario's; dropout must be off there (training.dropout 0), and the vocabulary
is padded as framework orrery pads it, to a multiple of 128."""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
SCENARIOS = HERE.parents[1] / "scenarios"
WARM_UP = 1  # steps: memory is allocated, states of the optimizer are made


class Layer(nn.Module):
    def __init__(self, hidden, heads, ffn, epsilon):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden, eps=epsilon), nn.LayerNorm(hidden, eps=epsilon)
        self.qkv, self.projection = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.fc1, self.fc2 = nn.Linear(hidden, ffn), nn.Linear(ffn, hidden)

    def forward(self, x):
        batch, length, hidden = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, -1))
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(context.transpose(1, 2).reshape(batch, length, hidden))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden, epsilon = config["n_embd"], config["layer_norm_epsilon"]
        self.embedding = nn.Embedding(-(-config["vocab_size"] // 128) * 128, hidden)
        self.positions = nn.Embedding(config["n_positions"], hidden)
        self.layers = nn.ModuleList(Layer(hidden, config["n_head"], config["n_inner"], epsilon)
                                    for _ in range(config["n_layer"]))
        self.final_norm = nn.LayerNorm(hidden, eps=epsilon)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, inputs, targets):
        x = self.embedding(inputs) + self.positions.weight[: inputs.shape[1]]
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(self.final_norm(x), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def optimizer_of(model, asked):
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": asked["weight_decay"]},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=asked["learning_rate"], betas=(asked["beta1"], asked["beta2"]),
                             eps=asked["epsilon"], fused=True)


def step(model, optimizer, scenario, text, first):
    """One optimizer step over the micro-batches of a global batch; returns its mean loss."""
    length = scenario["training"]["sequence_length"]
    size = scenario["layout"]["micro_batch_size"]
    micro_batches = scenario["layout"]["global_batch_size"] // size
    optimizer.zero_grad()
    total = 0.0
    for i in range(micro_batches):
        starts = [length * (first + i * size + j) % (len(text) - length - 1) for j in range(size)]
        taken = torch.stack([text[start : start + length + 1] for start in starts])
        loss = model(taken[:, :-1], taken[:, 1:]) / micro_batches
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), scenario["training"]["optimizer"]["clip_norm"])
    optimizer.step()
    return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", nargs="?", type=pathlib.Path, default=HERE / "gpt2-124m-cpu.json")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--steps", type=int, default=5)
    asked = parser.parse_args()
    scenario = json.loads(asked.scenario.read_text(encoding="utf-8"))
    if scenario["training"].get("dropout") != 0 or scenario["training"]["precision"] != "fp32":
        sys.exit(f"{asked.scenario}: only fp32 without dropout is measured")
    config = json.loads((SCENARIOS / scenario["model"]).read_text(encoding="utf-8"))
    text = torch.frombuffer(bytearray((SCENARIOS / scenario["run"]["data"]).read_bytes()), dtype=torch.uint8).long()

    torch.manual_seed(1234)
    torch.set_num_threads(asked.threads)
    model = Gpt2(config)
    optimizer = optimizer_of(model, scenario["training"]["optimizer"])
    seconds, losses = [], []
    for i in range(WARM_UP + asked.steps):
        start = time.perf_counter()
        losses.append(step(model, optimizer, scenario, text, i * scenario["layout"]["global_batch_size"]))
        seconds.append(time.perf_counter() - start)
    tokens = scenario["layout"]["global_batch_size"] * scenario["training"]["sequence_length"]
    median = statistics.median(seconds[WARM_UP:])
    print(json.dumps({"torch": torch.__version__, "threads": asked.threads, "tokens_per_step": tokens,
                      "median_s": median, "tokens_per_s": tokens / median, "seconds": seconds[WARM_UP:],
                      "losses": losses}))


if __name__ == "__main__":
    main()
