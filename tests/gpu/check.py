"""Checks the CUDA backend on a machine that has a GPU, from an installed folder: every kernel against the CPU's,
training runs in layouts of one rank and of several that share the GPU, memory under compute-sanitizer, a calibration
that then predicts steps it has not seen, and how fast shipped models train: all parts or those that --only names. Each
has four minutes; one that needs more is ended, and goes on where it was when it is called again. Leaves summary.json,
summary.md, profile.json and a log of each part that runs many programs. Exit code 0: all passed; 1: one failed or was
ended; 6: there is no GPU; 2: usage.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import statistics
import sys
import time

sys.dont_write_bytecode = True  # it would lie beside this file, in an installation
from check_part import Failed, OutOfTime, Part

HERE = pathlib.Path(__file__).resolve().parent
RUNS = HERE.parents[1] / "scenarios" / "runs"  # in the source tree and in an installed folder
TINY_GPT = str(RUNS / "tiny-gpt.json")
TINY_MOE = str(RUNS / "tiny-moe.json")
GPT2 = str(RUNS / "gpt2-124m-h200.json")
PART_SECONDS = 240  # two parts and their starts are in ten minutes, which is what queues give
PROGRAM_SECONDS = 120
KERNEL_CHECKS_AT_ONCE = 6  # most of their time is the CPU's
LOSS_STEPS = 20
EXPERTS_LOSS_STEPS = 3  # a token whose two best experts are within rounding goes elsewhere, sooner or later
# Between devices sums are in another order: fp32's 6e-8 grows through 20 steps of AdamW, whose first updates are
# signs of gradients. Layouts of CPU ranks stay within 5e-6 of one another; this is ten times as much.
LOSS_TOLERANCE = 5e-5
FIRST_LOSS_TOLERANCE = 1e-5  # before any update
WARM_UP_STEPS = 3  # as many as train leaves out of what it says of its steps
MEASURED_STEPS = 10

# One rank, and ranks that share the GPU; what products take along and what is captured in CUDA graphs. NCCL refuses two
# ranks on one device of a machine; train --ranks-per-gpu lets it see several machines, which speak through sockets.
LAYOUTS = {
    "one rank": (1, []),
    "captured": (1, ["training.cuda_graphs=per_layer"]),
    "epilogues": (1, ["training.activation_kernel=epilogue"]),
    "residuals": (1, ["training.residual_kernel=epilogue"]),
    "bias gradients": (1, ["training.bias_gradient_kernel=epilogue"]),
    "tensor 2": (2, ["layout.tensor_parallel=2"]),
    "pipeline 2": (2, ["layout.pipeline_parallel=2"]),
    "data 2": (2, ["layout.data_parallel=2"]),
    "data 2, ZeRO-1": (2, ["layout.data_parallel=2", "layout.zero_stage=1"]),
    "data 2, ZeRO-2": (2, ["layout.data_parallel=2", "layout.zero_stage=2"]),
    "data 2, ZeRO-3": (2, ["layout.data_parallel=2", "layout.zero_stage=3"]),
    "context 2, ring": (2, ["layout.context_parallel=2"]),
    "tensor 2, captured": (2, ["layout.tensor_parallel=2", "training.cuda_graphs=per_layer"]),
    "tensor 2, pipeline 2": (4, ["layout.tensor_parallel=2", "layout.pipeline_parallel=2"]),
}
LAYOUTS_OF_EXPERTS = {
    "one rank": (1, []),
    "experts 2": (2, ["layout.data_parallel=2", "layout.expert_parallel=2"]),
    "experts 2, deduplicated": (2, ["layout.data_parallel=2", "layout.expert_parallel=2",
                                    "layout.expert_dispatcher=deduplicated"]),
}
ONE_RANK = ["layout.tensor_parallel=1", "layout.pipeline_parallel=1", "layout.data_parallel=1",
            "layout.expert_parallel=1"]

# GPT-2's 124M in bf16 on one GPU: what changes from shape to shape is what a planner asks about.
SHAPES = {
    "micro-batch 4": ["layout.micro_batch_size=4", "layout.global_batch_size=16"],
    "captured": ["layout.micro_batch_size=4", "layout.global_batch_size=16", "training.cuda_graphs=per_layer"],
    "epilogues": ["layout.micro_batch_size=4", "layout.global_batch_size=16",
                  "training.activation_kernel=epilogue"],
    "residuals": ["layout.micro_batch_size=4", "layout.global_batch_size=16", "training.dropout=0",
                  "training.residual_kernel=epilogue"],
    "bias gradients": ["layout.micro_batch_size=4", "layout.global_batch_size=16",
                       "training.bias_gradient_kernel=epilogue"],
    "micro-batch 16": ["layout.micro_batch_size=16", "layout.global_batch_size=16"],
    "sequence 512": ["layout.micro_batch_size=8", "layout.global_batch_size=16", "training.sequence_length=512"],
    "recomputed": ["layout.micro_batch_size=8", "layout.global_batch_size=16", "layout.recompute=full"],
    "width 1536": ["layout.micro_batch_size=4", "layout.global_batch_size=8", "model.n_embd=1536",
                   "model.n_inner=6144", "model.n_head=24"],
    "experts": ["layout.micro_batch_size=4", "layout.global_batch_size=8", "model=" + json.dumps({
        "model_type": "qwen3_moe", "num_hidden_layers": 8, "hidden_size": 1024, "num_attention_heads": 16,
        "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 3072, "moe_intermediate_size": 768,
        "num_experts": 16, "num_experts_per_tok": 2, "norm_topk_prob": True, "vocab_size": 32000})],
}

# Shipped models as speed is published of them: bf16, no dropout, batches for 80 GB. Of the 8B so many layers as fit.
NO_DROPOUT = ["model.resid_pdrop=0", "model.embd_pdrop=0", "model.attn_pdrop=0"]
SPEED_SHAPES = {
    "GPT-2 124M, 1,024": [*NO_DROPOUT, "layout.micro_batch_size=32", "layout.global_batch_size=64"],
    "GPT-2 XL 1.5B, 1,024": ["model=models/gpt2-xl.json", *NO_DROPOUT, "layout.micro_batch_size=8",
                             "layout.global_batch_size=16"],
    "Llama 3.2 1B, 4,096": ["model=models/llama3.2-1b.json", "training.sequence_length=4096",
                            "layout.micro_batch_size=2", "layout.global_batch_size=4"],
    "Llama 3 8B, 4 of 32 layers, 8,192": ["model=models/llama3-8b.json", "model.num_hidden_layers=4",
                                          "training.sequence_length=8192", "layout.micro_batch_size=1",
                                          "layout.global_batch_size=2"],
}
# Shipped profiles, whose peaks are the vendor's, by what the driver calls the device.
PROFILES = {"NVIDIA A100-SXM4-40GB": "a100-40gb-sxm", "NVIDIA A100-SXM4-80GB": "a100-80gb-sxm",
            "NVIDIA A100 80GB PCIe": "a100-80gb-pcie", "NVIDIA H100 80GB HBM3": "h100-sxm",
            "NVIDIA H100 PCIe": "h100-80gb-pcie", "NVIDIA H200": "h200-sxm", "NVIDIA B200": "b200-sxm",
            "NVIDIA L40S": "l40s", "NVIDIA GeForce RTX 4090": "rtx-4090"}


def sets(settings):
    return [word for setting in settings for word in ("--set", setting)]


def events(output):
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def losses(output):
    return [event["loss"] for event in events(output) if event["event"] in ("step", "skip")]


def train(part, name, arguments):
    return part.must(name, "orrery-run", ["train", *arguments, "--json"], PROGRAM_SECONDS)


def train_measured(part, name, scenario):
    steps = WARM_UP_STEPS + MEASURED_STEPS
    return train(part, name, [*scenario, "--backend", "cuda", "--steps", str(steps)])


def check_doctor(part):
    report = json.loads(part.must("doctor", "orrery-run", ["doctor", "--backend", "cuda", "--json"], 30))
    return {"report": report}


def check_kernels(part):
    names = part.must("names", "orrery-gpu-check", [], 30).split()

    def check(name):
        code, output, _ = part.run(name, "orrery-gpu-check", [str(RUNS.parent), name], 200)
        cases = [line for line in events(output) if "op" in line]
        bounds = [[case["worst_of_bound"], f"{case['op']} {case['dtype']}"] for case in cases
                  if "worst_of_bound" in case]
        return {"code": code, "ends": bool(events(output)), "outputs": len(cases), "worst": max(bounds, default=None),
                "wrong": [f"{case['op']} {case['dtype']}" for case in cases if not case["right"]]}

    with concurrent.futures.ThreadPoolExecutor(KERNEL_CHECKS_AT_ONCE) as pool:
        done = dict(zip(names, pool.map(lambda name: part.once(name, lambda: check(name)), names)))
    outputs = sum(row["outputs"] for row in done.values())
    wrong = [what for row in done.values() for what in row["wrong"]]
    failed = [f"{name}: exit code {row['code']}" for name, row in done.items() if row["code"] or not row["ends"]]
    if failed:
        raise Failed("; ".join(failed) + f"; {len(wrong)} of {outputs} outputs wrong"
                     + (f": {', '.join(sorted(set(wrong))[:8])}" if wrong else ""))
    worst, where = max(row["worst"] for row in done.values() if row["worst"])
    return {"outputs": outputs, "worst_of_bound": worst, "worst": where}


def compare_losses(name, found, expected):
    if len(found) != len(expected):
        raise Failed(f"{name}: {len(found)} steps instead of {len(expected)}")
    worst = max(abs(a - b) / abs(b) for a, b in zip(found, expected))
    first = abs(found[0] - expected[0]) / abs(expected[0])
    if not worst <= LOSS_TOLERANCE or not first <= FIRST_LOSS_TOLERANCE:
        raise Failed(f"{name}: losses are up to {worst:.1e} from the CPU's (the first one {first:.1e})")
    return worst


def compare_layouts(part, scenario, steps, layouts):
    """({layout: how far its losses are from the CPU's}, [what failed])."""
    run = [scenario, "--steps", str(steps)]
    stem = pathlib.Path(scenario).stem
    expected = part.once(f"{stem}, cpu", lambda: losses(train(part, f"{stem}, cpu", [*run, *sets(ONE_RANK)])))
    worst, failures = {}, []

    def compare(name, ranks, settings):
        merged = {setting.split("=")[0]: setting for setting in ONE_RANK + settings}
        shared = ["--ranks-per-gpu", str(ranks)] if ranks > 1 else []
        output = train(part, name, [*run, "--backend", "cuda", *shared, *sets(merged.values())])
        return compare_losses(name, losses(output), expected)

    for layout, (ranks, settings) in layouts.items():
        name = f"{stem}, {layout}"
        try:
            worst[name] = part.once(name, lambda: compare(name, ranks, settings))
        except Failed as failure:  # the other layouts say more about why
            failures.append(str(failure))
    return worst, failures


def check_layouts(part):
    worst, failures = compare_layouts(part, TINY_GPT, LOSS_STEPS, LAYOUTS)
    of_experts, more_failures = compare_layouts(part, TINY_MOE, EXPERTS_LOSS_STEPS, LAYOUTS_OF_EXPERTS)
    if failures + more_failures:
        raise Failed("; ".join(failures + more_failures))
    return {"steps": LOSS_STEPS, "steps_of_experts": EXPERTS_LOSS_STEPS,
            "worst_relative_difference": {**worst, **of_experts}, "ranks_that_share_a_gpu": "correctness only"}


def check_sanitizer(part):
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.access(sanitizer, os.X_OK):
        raise Failed("compute-sanitizer was not found: it comes with the CUDA toolkit (cuda-sanitizer)")
    once = {"gpt": [TINY_GPT, *sets([*ONE_RANK, "model.n_layer=2"])],
            "moe": [TINY_MOE, *sets([*ONE_RANK, "model.num_hidden_layers=2"])],
            "eight": [TINY_MOE, *sets([*ONE_RANK, "model.num_hidden_layers=2", "training.precision=fp8",
                                       "training.fp8_recipe=mxfp8"])]}

    # Poisoned memory is initialised memory: initcheck then looks at the arena's gaps alone.
    def check(tool, model):
        return part.run(f"{tool} {model}", sanitizer, [
            "--tool", tool, "--error-exitcode", "9", str(part.programs / "orrery-run"), "train", *once[model],
            *sets(["layout.global_batch_size=2", "training.sequence_length=32"]), "--backend", "cuda", "--steps", "1",
            "--check-memory", "--json"], 150)[0]

    jobs = [(tool, model) for tool in ("memcheck", "racecheck", "initcheck") for model in once]
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        codes = pool.map(lambda job: part.once(" ".join(job), lambda: check(*job)), jobs)
        found = {" ".join(job): code for job, code in zip(jobs, codes)}
    if any(found.values()):
        raise Failed(f"exit codes {found}; see {part.log.name}")
    return {"runs": sorted(found)}


def check_calibration(part, profile, name):
    report = part.must("calibrate", "orrery-run",
                       ["calibrate", "--backend", "cuda", "-o", str(profile), "--device", name, "--seconds",
                        str(PART_SECONDS - 40)], PART_SECONDS - 10)
    return {"profile": profile.name, "report": report}


def check_prediction(part, profile, device):
    if not profile.exists():
        raise Failed(f"there is no {profile.name}: --only calibrate measures it")

    def measure(name, scenario):
        found = events(train_measured(part, f"{name}, measured", scenario))
        steps = [event["time_s"] for event in found if event["event"] == "step"]
        return {"losses": [event["loss"] for event in found if event["event"] == "step"][:2],
                "measured_s": statistics.median(steps[WARM_UP_STEPS:]),
                "arena_bytes": found[-1]["arena_bytes_by_rank"][0],
                "other_bytes": found[-1]["other_bytes_by_rank"][0]}

    rows = []
    for name, settings in SHAPES.items():
        scenario = [GPT2, *sets([*settings, f"cluster.profile={profile}", f"cluster.device={device}"])]
        measured = part.once(name, lambda: measure(name, scenario))
        predicted = json.loads(part.must(f"{name}, predicted", "orrery", ["simulate", *scenario, "--json"], 60))
        predicted_s = predicted["step"]["time_s"]
        rows.append({"shape": name, "settings": settings, **measured, "predicted_s": predicted_s,
                     "error": predicted_s / measured["measured_s"] - 1})
    return {"predictions": rows, "mean_abs_error": statistics.mean(abs(row["error"]) for row in rows)}


def check_speed(part, doctors):
    """Tokens/s, and as MFU the model's FLOPs over the vendor's dense peak of bf16: 6N + 6LCT of a token (attention at
    half, as it is causal) and 6N + 12LCT (as many publish), with N the weights of matrices that multiply."""
    gpus = doctors.get("report", {}).get("gpus", [])
    device = PROFILES.get(gpus[0]["name"]) if gpus else None

    def measure(name, scenario):
        found = {event["event"]: event for event in events(train_measured(part, name, scenario))}
        start, end = found["start"], found["end"]
        return {"parameters": start["parameters"], "tokens_per_step": start["tokens_per_step"],
                "flops_per_token": start["model_flops_per_step"] / start["tokens_per_step"],
                "step_time_s": end["step_time_s"], "tokens_per_s": end["tokens_per_s"]}

    rows = []
    for name, settings in SPEED_SHAPES.items():
        of_device = [f"cluster.profile=profiles/{device}.json", f"cluster.device={device}"] if device else []
        scenario = [GPT2, *sets([*settings, *of_device])]
        _, output, errors = part.run(f"{name}, FLOPs", "orrery", ["simulate", *scenario, "--json"], 60)
        if not output:
            raise Failed(f"orrery simulate {name}: {errors.strip()}")
        account = json.loads(output)
        row = {"shape": name, "settings": settings, "device": device}
        rows.append(row)
        if not account["memory"]["fits"]:
            row["left_out"] = "does not fit into the device's memory"
            continue
        row.update(part.once(name, lambda: measure(name, scenario)))
        throughput = account["throughput"]
        row["peak_tflops"] = throughput["peak_tflops"] if device else None  # else it is the scenario's own device's
        mfu = row["flops_per_token"] * row["tokens_per_s"] / (throughput["peak_tflops"] * 1e12)
        row["mfu"] = mfu * throughput["mfu_causal"] / throughput["mfu"] if device else None
        row["mfu_unmasked"] = mfu if device else None
    return {"speed": rows, "gpu": gpus[0]["name"] if gpus else None}


def share(part):
    return "" if part is None else f"{part:.1%}"


def verdict(check):
    if not check.get("finished", True):
        return "**not finished**"
    return "passed" if check["passed"] else "**failed**"


def markdown(summary):
    lines = ["# The CUDA backend on this machine", "", f"{summary['date']}, {summary['seconds']:.0f} s", "",
             "| part | check | result | seconds | |", "|---|---|---|---|---|"]
    for check in summary["checks"]:
        said = check.get("reason") or brief(check)
        lines.append(f"| {check['part']} | {check['name']} | {verdict(check)} | {check['seconds']:.0f} | {said} |")
    found = {check["part"]: check.get("found", {}) for check in summary["checks"]}
    if found.get("layouts"):
        lines += ["", "| layout | losses from the CPU's |", "|---|---|"]
        lines += [f"| {name} | {value:.1e} |"
                  for name, value in found["layouts"]["worst_relative_difference"].items()]
    if found.get("predict"):
        lines += ["", "| step of GPT-2 124M, bf16 | measured | predicted | error |", "|---|---|---|---|"]
        lines += [f"| {row['shape']} | {row['measured_s'] * 1e3:.1f} ms | {row['predicted_s'] * 1e3:.1f} ms "
                  f"| {row['error']:+.1%} |" for row in found["predict"]["predictions"]]
    if found.get("speed"):
        lines += ["", "| bf16, no dropout | a step | tokens/s | MFU, 6N + 6LCT | MFU, 6N + 12LCT | of TFLOP/s |",
                  "|---|---|---|---|---|---|"]
        lines += [f"| {row['shape']} | {row['left_out']} | | | | |" if "left_out" in row else
                  f"| {row['shape']} | {row['step_time_s'] * 1e3:.1f} ms | {row['tokens_per_s']:,.0f} "
                  f"| {share(row['mfu'])} | {share(row['mfu_unmasked'])} | {row['peak_tflops'] or 'unknown'} |"
                  for row in found["speed"]["speed"]]
    return "\n".join(lines) + "\n"


def brief(check):
    found = check.get("found", {})
    if "outputs" in found:
        return f"{found['outputs']} outputs; worst {found['worst_of_bound']:.2f} of its bound ({found['worst']})"
    if "worst_relative_difference" in found:
        worst = found["worst_relative_difference"]
        return f"{len(worst)} layouts, at most {max(worst.values()):.1e} from the CPU's losses"
    if "mean_abs_error" in found:
        return f"mean error {found['mean_abs_error']:.1%}"
    return found.get("gpu") or ""


class Summary:
    """What is known of each part, by this call and by earlier ones into the same folder."""

    def __init__(self, out, order):
        self.out = out
        self.order = order
        self.checks = {}
        if (out / "summary.json").exists():
            before = json.loads((out / "summary.json").read_text())["checks"]
            self.checks = {check["part"]: check for check in before if check.get("part") in order}

    def put(self, check):
        """Written each time, whole: what ends this program leaves what it had found."""
        self.checks[check["part"]] = check
        checks = [self.checks[part] for part in self.order if part in self.checks]
        summary = {"date": time.strftime("%Y-%m-%d"), "seconds": sum(check["seconds"] for check in checks),
                   "passed": all(check["passed"] for check in checks), "checks": checks}
        for name, text in (("summary.json", json.dumps(summary, indent=2) + "\n"), ("summary.md", markdown(summary))):
            new = self.out / f"{name}.new"
            new.write_text(text)
            os.replace(str(new), str(self.out / name))
        return summary


def perform(part, name, check, programs, summary, seconds):
    """Performs a part, or the rest of one that these programs have not finished."""
    program = (programs / "orrery-run").stat()
    made = [program.st_size, int(program.st_mtime)]
    before = summary.checks.get(part, {})
    rows = before.get("rows", {}) if before.get("programs") == made else {}
    spent = before["seconds"] if rows else 0
    start = time.monotonic()
    result = {"part": part, "name": name, "passed": False, "finished": False, "seconds": spent, "programs": made,
              "reason": "this program was ended"}

    def keep(rows_now):
        summary.put({**result, "seconds": spent + time.monotonic() - start, "rows": rows_now})

    # What these two print is in the summary.
    log = None if part in ("doctor", "calibrate") else summary.out / f"{part}.log"
    bench = Part(programs, seconds, log, rows, keep)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda caught, _: bench.leave(128 + caught))
    try:
        found = check(bench)
        result.update(passed=True, finished=True, found=found)
        del result["reason"]
    except OutOfTime as where:
        result.update(reason=f"{seconds:.0f} s were over in {where}; --only {part} goes on", rows=bench.rows)
    except Failed as failure:
        result.update(finished=True, reason=str(failure))
    except (KeyError, ValueError, OSError, IndexError) as fault:
        result.update(finished=True, reason=f"{type(fault).__name__}: {fault}")
    if bench.said and not result["passed"]:
        result["said"] = bench.said
    result["seconds"] = spent + time.monotonic() - start
    shown = "passed" if result["passed"] else "FAILED" if result["finished"] else "NOT FINISHED"
    print(f"{shown}  {part}: {name}  {result['seconds']:.0f} s  {result.get('reason', '')}".rstrip(), flush=True)
    return summary.put(result)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-check"))
    parser.add_argument("--bin", type=pathlib.Path, help="where orrery and orrery-run are")
    parser.add_argument("--profile-name", default="cuda", help="the device's name in the profile that is measured")
    parser.add_argument("--only", action="append", metavar="PARTS",
                        help="parts, as kernels,layouts; what other parts left in OUT stays in its summary")
    parser.add_argument("--part-seconds", type=float, default=PART_SECONDS,
                        help=f"a part that takes longer is ended, to be called again (default: {PART_SECONDS})")
    arguments = parser.parse_args()
    installed = HERE.parents[3] / "bin" if len(HERE.parents) > 3 else HERE
    built = HERE.parents[1] / "build" / "cuda" / "bin"
    programs = arguments.bin or (installed if (installed / "orrery-run").exists() else built)
    if not (programs / "orrery-run").exists():
        print(f"check.sh: no orrery-run in {installed} nor in {built}; say --bin FOLDER", file=sys.stderr)
        return 2
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    profile = out / "profile.json"
    # What --only says, what the summary says, and the check.
    checks = [("doctor", "doctor", check_doctor),
              ("kernels", "kernels against the CPU", check_kernels),
              ("layouts", "losses of tiny-gpt and tiny-moe", check_layouts),
              ("calibrate", "calibration", lambda part: check_calibration(part, profile, arguments.profile_name)),
              ("predict", "predicted steps", lambda part: check_prediction(part, profile, arguments.profile_name)),
              ("speed", "tokens/s and MFU", lambda part: check_speed(part, summary.checks["doctor"].get("found", {}))),
              ("sanitize", "compute-sanitizer", check_sanitizer)]
    parts = [part for part, _, _ in checks]
    asked = [part for list_of in arguments.only or [] for part in list_of.split(",")]
    unknown = [part for part in asked if part not in parts]
    if unknown:
        print(f"check.sh: no check is called {', '.join(unknown)}; there are: {', '.join(parts)}", file=sys.stderr)
        return 2
    summary = Summary(out, parts)
    for part, name, check in checks:
        if not asked or part in ("doctor", *asked):
            all_of_it = perform(part, name, check, programs.resolve(), summary, arguments.part_seconds)
    print(f"{out / 'summary.md'}")
    if all_of_it["passed"]:
        return 0
    return 1 if summary.checks["doctor"]["passed"] else 6


if __name__ == "__main__":
    sys.exit(main())
