"""Checks the CUDA backend on a machine that has a GPU, from an installed folder, in some minutes: every kernel against
the CPU's, whole training runs on one rank and on several that share the GPU, memory under compute-sanitizer, and a
calibration that then predicts steps it has not seen, all of them or the parts that --only names. Leaves summary.json and summary.md in the output folder, beside
what each check printed. Exit code 0: all passed; 1: one failed; 6: there is no GPU; 2: usage.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
RUNS = HERE.parents[1] / "scenarios" / "runs"  # in the source tree and in an installed folder
TINY_GPT = str(RUNS / "tiny-gpt.json")
TINY_MOE = str(RUNS / "tiny-moe.json")
GPT2 = str(RUNS / "gpt2-124m-h200.json")
KERNEL_CHECKS_AT_ONCE = 6  # most of their time is the CPU's
LOSS_STEPS = 20
EXPERTS_LOSS_STEPS = 3  # a token whose two best experts are within rounding goes elsewhere, sooner or later
# Between devices sums are in another order: fp32's 6e-8 grows through 20 steps of AdamW, whose first updates are
# signs of gradients. Layouts of CPU ranks stay within 5e-6 of one another; this is ten times as much.
LOSS_TOLERANCE = 5e-5
FIRST_LOSS_TOLERANCE = 1e-5  # before any update
PREDICTION_WARM_UP = 3
PREDICTION_STEPS = 10

# Ranks that share the GPU, beside one rank; what is captured in CUDA graphs.
SHARED_LAYOUTS = {
    "tensor 2": (2, ["layout.tensor_parallel=2"]),
    "pipeline 2": (2, ["layout.pipeline_parallel=2"]),
    "data 2, ZeRO-1": (2, ["layout.data_parallel=2", "layout.zero_stage=1"]),
    "data 2, ZeRO-3": (2, ["layout.data_parallel=2", "layout.zero_stage=3"]),
    "context 2, ring": (2, ["layout.context_parallel=2"]),
    "captured": (1, ["training.cuda_graphs=per_layer"]),
    "epilogues": (1, ["training.activation_kernel=epilogue"]),
    "bias gradients": (1, ["training.bias_gradient_kernel=epilogue"]),
    "tensor 2, captured": (2, ["layout.tensor_parallel=2", "training.cuda_graphs=per_layer"]),
    "tensor 2, pipeline 2": (4, ["layout.tensor_parallel=2", "layout.pipeline_parallel=2"]),
}
SHARED_EXPERTS = {
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


class Failed(Exception):
    """A check that did not pass; the text says why."""


class Bench:
    def __init__(self, programs, out):
        self.programs = programs
        self.out = out

    def run(self, name, program, arguments, seconds):
        """Runs a program to its end; its output is kept beside the summary. Returns (exit code, stdout)."""
        command = [str(self.programs / program), *arguments]
        stem = self.out / name.replace(" ", "_").replace(",", "")
        with open(f"{stem}.err", "wb") as errors:
            try:
                done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, timeout=seconds, check=False)
                code, output = done.returncode, done.stdout.decode()
            except subprocess.TimeoutExpired as late:
                code, output = 124, (late.stdout or b"").decode()
        pathlib.Path(f"{stem}.out").write_text(output)
        return code, output

    def must(self, name, program, arguments, seconds):
        code, output = self.run(name, program, arguments, seconds)
        if code != 0:
            stem = self.out / name.replace(" ", "_").replace(",", "")
            said = pathlib.Path(f"{stem}.err").read_text(errors="replace").strip().splitlines()
            reason = "took too long" if code == 124 else f"exit code {code}"
            raise Failed(f"{program} {name}: {reason}" + (f": {said[-1]}" if said else ""))
        return output


def sets(settings):
    return [word for setting in settings for word in ("--set", setting)]


def events(output):
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def losses(output):
    return [event["loss"] for event in events(output) if event["event"] in ("step", "skip")]


def train(bench, name, arguments, seconds=120):
    return bench.must(name, "orrery-run", ["train", *arguments, "--json"], seconds)


def check_doctor(bench):
    report = json.loads(bench.must("doctor", "orrery-run", ["doctor", "--backend", "cuda", "--json"], 30))
    return {"report": report}


def check_kernels(bench):
    names = bench.must("kernels", "orrery-gpu-check", [], 30).split()

    def run(name):
        return bench.run(f"kernels {name}", "orrery-gpu-check", [str(RUNS.parent), name], 300)

    with concurrent.futures.ThreadPoolExecutor(KERNEL_CHECKS_AT_ONCE) as pool:
        done = dict(zip(names, pool.map(run, names)))
    cases = [line for _, output in done.values() for line in events(output) if "op" in line]
    wrong = [case for case in cases if not case["right"]]
    failed = [f"{name}: exit code {code}" for name, (code, output) in done.items() if code or not events(output)]
    if failed:
        worst = ", ".join(sorted({f"{case['op']} {case['dtype']}" for case in wrong})[:8])
        raise Failed("; ".join(failed) + f"; {len(wrong)} of {len(cases)} outputs wrong"
                     + (f": {worst}" if worst else ""))
    worst = max((case.get("worst_of_bound", 0), case["op"], case["dtype"]) for case in cases)
    return {"outputs": len(cases), "worst_of_bound": worst[0], "worst": f"{worst[1]} {worst[2]}"}


def compare_losses(name, found, expected):
    if len(found) != len(expected):
        raise Failed(f"{name}: {len(found)} steps instead of {len(expected)}")
    worst = max(abs(a - b) / abs(b) for a, b in zip(found, expected))
    first = abs(found[0] - expected[0]) / abs(expected[0])
    if not worst <= LOSS_TOLERANCE or not first <= FIRST_LOSS_TOLERANCE:
        raise Failed(f"{name}: losses are up to {worst:.1e} from the CPU's (the first one {first:.1e})")
    return worst


def check_losses(bench, scenario, steps, layouts):
    run = [scenario, "--steps", str(steps)]
    stem = pathlib.Path(scenario).stem
    expected = losses(train(bench, f"{stem} cpu", [*run, *sets(ONE_RANK)]))
    worst, failures = {}, []
    for name, (ranks, settings) in {"one rank": (1, []), **layouts}.items():
        merged = {setting.split("=")[0]: setting for setting in ONE_RANK + settings}
        shared = ["--ranks-per-gpu", str(ranks)] if ranks > 1 else []
        try:
            output = train(bench, f"{stem} cuda {name}", [*run, "--backend", "cuda", *shared, *sets(merged.values())])
            worst[name] = compare_losses(name, losses(output), expected)
        except Failed as failure:  # the other layouts say more about why
            failures.append(str(failure))
    if failures:
        raise Failed("; ".join(failures))
    return {"steps": steps, "worst_relative_difference": worst, "first_loss": expected[0],
            "last_loss": expected[-1], "ranks_that_share_a_gpu": "correctness only"}


def check_sanitizer(bench):
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.access(sanitizer, os.X_OK):
        raise Failed("compute-sanitizer was not found: it comes with the CUDA toolkit (cuda-sanitizer)")
    once = {"gpt": [TINY_GPT, *sets([*ONE_RANK, "model.n_layer=2"])],
            "moe": [TINY_MOE, *sets([*ONE_RANK, "model.num_hidden_layers=2"])]}

    # Poisoned memory is initialised memory: initcheck then looks at the arena's gaps alone.
    def run(job):
        tool, model = job
        command = [sanitizer, "--tool", tool, "--error-exitcode", "9", str(bench.programs / "orrery-run"), "train",
                   *once[model], *sets(["layout.global_batch_size=2", "training.sequence_length=32"]),
                   "--backend", "cuda", "--steps", "1", "--check-memory", "--json"]
        with open(bench.out / f"sanitizer_{tool}_{model}.log", "wb") as lines:
            try:
                return subprocess.run(command, stdout=lines, stderr=subprocess.STDOUT, timeout=150,
                                      check=False).returncode
            except subprocess.TimeoutExpired:
                return 124

    jobs = [(tool, model) for tool in ("memcheck", "racecheck", "initcheck") for model in once]
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        found = {f"{tool} {model}": code for (tool, model), code in zip(jobs, pool.map(run, jobs))}
    if any(found.values()):
        raise Failed(f"exit codes {found}; see sanitizer_*.log")
    return {"runs": sorted(found)}


def check_calibration(bench, profile, name):
    bench.must("calibrate", "orrery-run", ["calibrate", "--backend", "cuda", "-o", str(profile), "--device", name],
               240)
    return {"profile": profile.name, "report": (bench.out / "calibrate.out").read_text()}


def check_prediction(bench, profile, device):
    rows = []
    for name, settings in SHAPES.items():
        scenario = [GPT2, *sets([*settings, f"cluster.profile={profile}", f"cluster.device={device}"])]
        output = train(bench, f"measured {name}", [*scenario, "--backend", "cuda", "--steps",
                                                   str(PREDICTION_STEPS + PREDICTION_WARM_UP)])
        steps = [event["time_s"] for event in events(output) if event["event"] == "step"]
        end = events(output)[-1]
        predicted = json.loads(bench.must(f"predicted {name}", "orrery", ["simulate", *scenario, "--json"], 60))
        measured_s = statistics.median(steps[PREDICTION_WARM_UP:])
        predicted_s = predicted["step"]["time_s"]
        rows.append({"shape": name, "settings": settings, "losses": losses(output)[:2], "measured_s": measured_s, "predicted_s": predicted_s,
                     "error": predicted_s / measured_s - 1, "arena_bytes": end["arena_bytes_by_rank"][0],
                     "other_bytes": end["other_bytes_by_rank"][0]})
    return {"rows": rows, "mean_abs_error": statistics.mean(abs(row["error"]) for row in rows)}


def markdown(summary):
    lines = ["# The CUDA backend on this machine", "", f"{summary['date']}, {summary['seconds']:.0f} s", "",
             "| check | result | seconds | |", "|---|---|---|---|"]
    for check in summary["checks"]:
        said = check.get("reason") or brief(check)
        lines.append(f"| {check['name']} | {'passed' if check['passed'] else '**failed**'} | {check['seconds']:.0f} "
                     f"| {said} |")
    for check in summary["checks"]:
        rows = check.get("found", {}).get("rows")
        if not rows:
            continue
        lines += ["", "| step of GPT-2 124M, bf16 | measured | predicted | error |", "|---|---|---|---|"]
        lines += [f"| {row['shape']} | {row['measured_s'] * 1e3:.1f} ms | {row['predicted_s'] * 1e3:.1f} ms "
                  f"| {row['error']:+.1%} |" for row in rows]
    return "\n".join(lines) + "\n"


def brief(check):
    found = check.get("found", {})
    if "outputs" in found:
        return f"{found['outputs']} outputs; worst {found['worst_of_bound']:.2f} of its bound ({found['worst']})"
    if "worst_relative_difference" in found:
        worst = found["worst_relative_difference"]
        return "; ".join(f"{name} {value:.1e}" for name, value in worst.items()) + " from the CPU's losses"
    if "mean_abs_error" in found:
        return f"mean error {found['mean_abs_error']:.1%}"
    return ""


def earlier(out, anew):
    """What other calls have left in the summary: parts that are not checked anew."""
    summary = out / "summary.json"
    if not summary.exists():
        return []
    return [result for result in json.loads(summary.read_text())["checks"] if result["name"] not in anew]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-check"))
    parser.add_argument("--bin", type=pathlib.Path, help="where orrery and orrery-run are")
    parser.add_argument("--profile-name", default="cuda", help="the device's name in the profile that is measured")
    parser.add_argument("--only", action="append", metavar="PARTS", help="parts, as kernels,losses; what other parts left in OUT stays in its summary")
    arguments = parser.parse_args()
    installed = HERE.parents[3] / "bin" if len(HERE.parents) > 3 else HERE
    built = HERE.parents[1] / "build" / "cuda" / "bin"
    programs = arguments.bin or (installed if (installed / "orrery-run").exists() else built)
    if not (programs / "orrery-run").exists():
        print(f"check.sh: no orrery-run in {installed} nor in {built}; say --bin FOLDER", file=sys.stderr)
        return 2
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    bench = Bench(programs.resolve(), out)
    profile = out / "profile.json"
    # What --only says, what the summary says, and the check.
    checks = [("doctor", "doctor", lambda: check_doctor(bench)),
              ("kernels", "kernels against the CPU", lambda: check_kernels(bench)),
              ("losses", "losses of tiny-gpt", lambda: check_losses(bench, TINY_GPT, LOSS_STEPS, SHARED_LAYOUTS)),
              ("experts", "losses of tiny-moe",
               lambda: check_losses(bench, TINY_MOE, EXPERTS_LOSS_STEPS, SHARED_EXPERTS)),
              ("calibrate", "calibration", lambda: check_calibration(bench, profile, arguments.profile_name)),
              ("predict", "predicted steps", lambda: check_prediction(bench, profile, arguments.profile_name)),
              ("sanitize", "compute-sanitizer", lambda: check_sanitizer(bench))]
    parts = [part for part, _, _ in checks]
    asked = [part for list_of in arguments.only or [] for part in list_of.split(",")]
    unknown = [part for part in asked if part not in parts]
    if unknown:
        print(f"check.sh: no check is called {', '.join(unknown)}; there are: {', '.join(parts)}", file=sys.stderr)
        return 2
    order = [name for _, name, _ in checks]
    checks = [(name, check) for part, name, check in checks if not asked or part in ("doctor", *asked)]
    others = earlier(out, {name for name, _ in checks})
    results = []
    for name, check in checks:
        start = time.monotonic()
        result = {"name": name, "passed": True}
        try:
            result["found"] = check()
        except Failed as failure:
            result.update(passed=False, reason=str(failure))
        except (KeyError, ValueError, OSError, IndexError) as fault:
            result.update(passed=False, reason=f"{type(fault).__name__}: {fault}")
        result["seconds"] = time.monotonic() - start
        results.append(result)
        print(f"{'passed' if result['passed'] else 'FAILED'}  {name}  {result['seconds']:.0f} s"
              f"  {result.get('reason', '')}".rstrip(), flush=True)
    ready = results[0]["passed"]
    results = sorted(results + others, key=lambda result: order.index(result["name"]))
    summary = {"date": time.strftime("%Y-%m-%d"), "seconds": sum(result["seconds"] for result in results),
               "passed": all(result["passed"] for result in results), "checks": results}
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    (out / "summary.md").write_text(markdown(summary))
    print(f"{out / 'summary.md'}")
    if summary["passed"]:
        return 0
    return 1 if ready else 6


if __name__ == "__main__":
    sys.exit(main())
