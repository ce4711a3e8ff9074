"""Writes docs/ladder.md: which layouts a search finds for models of each size, beside what the field uses, and where
published layouts stand among all. From the repository root:

    python3 tests/bench/ladder.py > docs/ladder.md

Takes some minutes: each line is one or two whole searches. Numbers are predictions, of the same for any machine."""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ACCOUNTS = {"recompute": "recomputation", "exposed_tensor": "tensor communication", "exposed_data": "data communication",
            "exposed_context": "context communication", "exposed_pipeline": "pipeline transfers", "bubble": "bubble",
            "imbalance": "imbalance", "compute": "slower kernels", "launch": "launches", "optimizer": "the optimizer",
            "other": "other waiting", "exposed_expert": "expert communication"}

ZERO_3 = ["layout.tensor_parallel=1", "layout.pipeline_parallel=1", "layout.context_parallel=1", "layout.zero_stage=3",
          "layout.zero_group_size=all,8,16,32,64", "layout.micro_batch_size=1,2,4,8", "layout.recompute=none,full"]
TENSOR_AND_SHARDS = ["layout.tensor_parallel=2,4,8", "layout.pipeline_parallel=1", "layout.context_parallel=1",
                     "layout.zero_stage=2,3", "layout.zero_group_size=all,8,16,32,64", "layout.micro_batch_size=1,2,4,8",
                     "layout.recompute=none,full",
                     "layout.sequence_parallel=true"]
THREE_D = ["layout.tensor_parallel=2,4,8", "layout.pipeline_parallel=2,4,5,6,7,8,9,12,16,18,32,64", "layout.context_parallel=1",
           "layout.virtual_pipeline=1..12", "layout.schedule=1f1b,interleaved", "layout.zero_stage=0,1",
           "layout.micro_batch_size=1,2,4", "layout.recompute=none,full", "layout.sequence_parallel=true"]
# Size; model, cluster, nodes, sequence, batch; what the field uses, as a name and as a space.
LADDER = [
    ("below 1B", "qwen3-0.6b", "h100-sxm-1", 1, 4096, 64, "one GPU", None),
    ("1–7B", "llama2-7b", "h100-sxm-8", 1, 4096, 256, "ZeRO-3", ZERO_3),
    ("1–7B", "llama2-7b", "h100-sxm-256", 8, 4096, 1024, "ZeRO-3", ZERO_3),
    ("7–70B", "llama2-13b", "h100-sxm-256", 16, 4096, 1024, "tensor + FSDP", TENSOR_AND_SHARDS),
    ("7–70B", "llama3-70b", "h100-sxm-256", 32, 8192, 512, "tensor + FSDP", TENSOR_AND_SHARDS),
    ("70–400B", "gpt3-175b", "a100-80gb-sxm-1024", 128, 2048, 1536, "3D", THREE_D),
    ("70–400B", "megatron-310b", "selene-a100-3072", 240, 2048, 1920, "3D", THREE_D),
    ("above 400B", "llama3.1-405b", "h100-sxm-16384", 2048, 8192, 2048, "3D", THREE_D),
    ("above 400B", "megatron-1t", "selene-a100-3072", 384, 2048, 3072, "3D", THREE_D),
]

# SC21, table 1: model, nodes, tensor, pipeline, chunks, micro-batch, batch.
SC21 = [("megatron-1.7b", 4, 1, 1, 1, 16, 512), ("megatron-3.6b", 8, 2, 1, 1, 16, 512), ("megatron-7.5b", 16, 4, 1, 1, 16, 512),
        ("megatron-18b", 32, 8, 1, 1, 8, 1024), ("megatron-39b", 64, 8, 2, 1, 4, 1536), ("megatron-76b", 128, 8, 4, 3, 2, 1792),
        ("megatron-145b", 192, 8, 8, 2, 2, 2304), ("megatron-310b", 240, 8, 16, 2, 1, 2160),
        ("megatron-530b", 315, 8, 35, 3, 1, 2520), ("megatron-1t", 384, 8, 64, 1, 1, 3072)]


def orrery(*words):
    done = subprocess.run([str(ROOT / "build/release/bin/orrery"), *words, "--json"], cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 4):
        sys.exit(f"orrery {' '.join(words)}: exit code {done.returncode}")
    return json.loads(done.stdout)


def scenario(folder, model, cluster, nodes, sequence, layout, framework):
    path = pathlib.Path(folder) / f"{model}-{nodes}-{framework}.json"
    path.write_text(json.dumps({"model": f"models/{model}.json", "cluster": f"clusters/{cluster}.json", "layout": layout,
                                "training": {"sequence_length": sequence, "precision": "bf16", "framework": framework}}))
    return [str(path), "--set", f"cluster.nodes={nodes}"]


def search(words, space=()):
    varied = [word for value in space for word in ("--vary", value)]
    return orrery("search", *words, *varied, "--top", "1")


def words_of(layout):
    names = [("tensor", "tensor_parallel"), ("context", "context_parallel"), ("pipeline", "pipeline_parallel"),
             ("data", "data_parallel")]
    said = [f"{name} {layout[key]}" for name, key in names if layout[key] > 1]
    if layout["pipeline_parallel"] > 1:
        chunks = layout["virtual_pipeline"]
        said.append(layout["schedule"] + (f" of {chunks}" if chunks > 1 else ""))
    if layout["data_parallel"] * layout["context_parallel"] > 1:
        group = layout.get("zero_group_size", "all")
        said.append(f"ZeRO-{layout['zero_stage']}" + ("" if group == "all" else f" in groups of {group}"))
    said.append(f"micro-batch {layout['micro_batch_size']}")
    if layout["recompute"] != "none":
        said.append(f"{layout['recompute']} recomputation")
    return ", ".join(said)


def seconds(value):
    return f"{value:.3g} s"


def ladder_row(folder, size, model, cluster, nodes, sequence, batch, name, space):
    words = scenario(folder, model, cluster, nodes, sequence, {"global_batch_size": batch}, "orrery")
    best = search(words)["layouts"][0]
    row = f"| {size} | {model} | {best['gpus']:,} | {words_of(best['layout'])} | {seconds(best['step_time_s'])} | "
    if space is None:
        return row + f"{name}: the same | |"
    found = search(words, space)["layouts"]
    if not found:
        return row + f"{name}: none fits | |"
    own = found[0]
    more = own["step_time_s"] / best["step_time_s"] - 1
    if own["step_time_s"] <= best["step_time_s"]:
        return row + f"{name}: the same | |"
    paid = {key: own["breakdown_s"][key] - best["breakdown_s"][key] for key in own["breakdown_s"]}
    account = max(paid, key=paid.get)
    return (row + f"{name}: {words_of(own['layout'])} | +{100 * more:.1f} %: {ACCOUNTS[account]} "
            f"(+{seconds(paid[account])}) |")


def place(result):
    better, all_of = result["own"]["better_by_estimate"], result["may_fit"]
    if all_of == 0:
        return "none fits"
    return f"{better:,} of {all_of:,} ({100 * better / all_of:.1f} %)"


def published_row(name, words, theirs):
    everything, then = search(words), search(words, theirs)
    own, best = everything["own"], everything["layouts"][0]
    if own is None:
        sys.exit(f"{name}: the published layout is no valid scenario")
    best_then = then["layouts"][0]
    print(f"{name}: done", file=sys.stderr)
    return (f"| {name} | {own['gpus']:,} | {words_of(own['layout'])} | {seconds(own['step_time_s'])} | {place(then)} | "
            f"{100 * (own['step_time_s'] / best_then['step_time_s'] - 1):+.1f} % | {place(everything)} | "
            f"{words_of(best['layout'])}: {seconds(best['step_time_s'])} |")


def divisors(devices, most):
    return ",".join(str(n) for n in range(1, most + 1) if devices % n == 0)


def space_then(devices, layers, recompute, chunks=True):
    schedules = "1f1b,interleaved" if chunks else "1f1b"
    return ["layout.tensor_parallel=1,2,4,8", f"layout.pipeline_parallel={divisors(devices, layers)}",
            f"layout.schedule={schedules}", "layout.virtual_pipeline=1..6", "layout.micro_batch_size=1,2,4,8,16",
            f"layout.recompute={recompute}"]


def published(folder):
    rows = []
    for model, nodes, tensor, pipeline, chunks, micro_batch, batch in SC21:
        layout = {"tensor_parallel": tensor, "pipeline_parallel": pipeline, "virtual_pipeline": chunks,
                  "schedule": "interleaved" if chunks > 1 else "1f1b", "recompute": "full",
                  "micro_batch_size": micro_batch, "global_batch_size": batch}
        words = scenario(folder, model, "selene-a100-3072", nodes, 2048, layout, "megatron-2021")
        rows.append(published_row(f"SC21 {model}", words, space_then(8 * nodes, 128, "full")))
    bloom = {"tensor_parallel": 4, "pipeline_parallel": 12, "layers_per_stage": [5] + 10 * [6] + [5], "zero_stage": 1, "recompute": "full", "micro_batch_size": 2,
             "global_batch_size": 2048}
    rows.append(published_row("BLOOM", scenario(folder, "bloom-176b", "jean-zay-a100-384", 48, 2048, bloom, "bigscience"),
                              space_then(384, 72, "full", chunks=False)))
    mt_nlg = {"tensor_parallel": 8, "pipeline_parallel": 35, "recompute": "full", "micro_batch_size": 1,
              "global_batch_size": 1920}
    rows.append(published_row("MT-NLG 530B", scenario(folder, "megatron-530b", "selene-a100-3072", 280, 2048, mt_nlg,
                                                      "megatron-deepspeed"),
                              space_then(2240, 105, "full", chunks=False)))
    for name, run, extra in (("Llama 3.1 405B, 8K", "llama3.1-405b-h100x16384", ""),
                             ("Llama 3.1 405B, 128K", "llama3.1-405b-128k-h100x16384", ",16,32")):
        rows.append(published_row(name, [f"scenarios/runs/{run}.json"],
                                  ["layout.tensor_parallel=1,2,4,8", f"layout.context_parallel=1,2,4,8{extra}",
                                   "layout.pipeline_parallel=1,2,4,8,16,32,64", "layout.schedule=1f1b,interleaved",
                                   "layout.virtual_pipeline=1..8", "layout.micro_batch_size=1,2,4",
                                   "layout.zero_stage=1,2", "layout.recompute=none,full"]))
    return rows


def main():
    page = (ROOT / "tests/bench/ladder.md").read_text()
    with tempfile.TemporaryDirectory() as folder:
        ladder = []
        for rung in LADDER:
            ladder.append(ladder_row(folder, *rung))
            print(f"{rung[1]} on {rung[3]} nodes: done", file=sys.stderr)
        print(page.replace("LADDER", "\n".join(ladder)).replace("PUBLISHED", "\n".join(published(folder))), end="")


if __name__ == "__main__":
    main()
