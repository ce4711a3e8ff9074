"""One answer, whoever compiled it: the program of each preset is asked the same, and what it prints and writes must be
the same bytes. Asked are every shipped run, what no shipped run has (recipes of fp8, devices that are not alike, ranks
one by one, what-ifs), imports, predictions of published runs and constants fitted to them."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build/gates/determinism"
RUNS = ROOT / "scenarios/runs"
IMPORTS = ROOT / "tests/cli/imports"
OK, INFEASIBLE = 0, 4  # the result is printed with both
TRACE = "out.orrery"
EVERY = 40  # of the published runs one in so many: all of them take minutes


def simulate(run, *options):
    return ["simulate", RUNS / f"{run}.json", "--json", "--trace", TRACE, *options]


def sets(*pairs):
    return [word for pair in pairs for word in ("--set", pair)]


def eight_bit(recipe, device="h100-sxm"):
    return simulate("llama3-8b-h200x8", *sets("training.precision=fp8", f"training.fp8_recipe={recipe}",
                                              f"cluster.device={device}", f"cluster.profile=profiles/{device}.json"))


def uneven(key, value):
    return simulate("llama2-7b-a100x8", *sets(f"cluster.{key}={json.dumps(value)}"))


def some_published(pattern, every):
    """A file of records, the same for every preset."""
    records = []
    for path in sorted((ROOT / "scenarios/published").glob(f"{pattern}.json")):
        records += json.loads(path.read_text())[::every]
    path = WORK / f"{every}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(records))
    return path


def questions():
    """{name: arguments}"""
    asked = {run.stem: simulate(run.stem) for run in sorted(RUNS.glob("*.json"))}
    if not asked:
        sys.exit("no scenarios/runs/*.json: nothing to compare")
    for recipe in ("delayed", "tensorwise", "rowwise", "blockwise"):
        asked[f"fp8 {recipe}"] = eight_bit(recipe)
    asked["fp8 mxfp8"] = eight_bit("mxfp8", "b200-sxm")
    asked["slow device"] = uneven("slow_devices", [{"device": 3, "factor": 1.3}])
    asked["slow link"] = uneven("slow_links", [{"device": 1, "link": "intra_node", "factor": 1.7}])
    asked["stragglers"] = uneven("stragglers", {"slow": [{"of": "device", "share": 0.3, "factor": 1.2}], "common_sd": 0.01})
    asked["jitter lognormal"] = uneven("jitter", {"distribution": "lognormal", "relative_sd": 0.1})
    asked["jitter of devices"] = uneven("jitter", {"distribution": "normal", "relative_sd": 0.1, "per": "device"})
    asked["unfolded"] = simulate("gpt2-xl-a100x8", "--unfolded")
    asked["explain"] = ["explain", RUNS / "llama2-7b-a100x8.json", "--json"]
    cluster = ("--cluster", "clusters/a100-80gb-sxm-1024.json")
    asked["import Megatron-LM"] = ["import", IMPORTS / "gpt3-175b.sh", *cluster, "--json"]
    asked["import torchtitan"] = ["import", IMPORTS / "llama3-70b.toml", "--cluster", "clusters/h100-sxm-256.json",
                                  "--gpus", "256", "--json"]
    asked["import DeepSpeed"] = ["import", IMPORTS / "llama2-7b-zero3.json", "--model", "models/llama2-7b.json",
                                 "--cluster", "clusters/a100-80gb-sxm-8.json", "--gpus", "8", "--json",
                                 *sets("training.sequence_length=4096", "training.framework=orrery")]
    asked["validate"] = ["validate", some_published("*", EVERY), "--json"]
    asked["constants"] = ["constants", some_published("torchtitan", 3), "--constant",
                          "training.attention_factor=1:0.3", "--json"]
    return asked


def ask(preset, name, arguments):
    """(exit code, output, digest of the trace, stderr); file names are the same for every preset."""
    folder = WORK / preset / name.replace(" ", "-")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    program = ROOT / "build" / preset / "bin/orrery"
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, check=False)
    trace = folder / TRACE
    digest = hashlib.sha256(trace.read_bytes()).hexdigest() if trace.exists() else None
    trace.unlink(missing_ok=True)
    (folder / "output.json").write_bytes(done.stdout)
    return done.returncode, done.stdout, digest, done.stderr.decode(errors="replace")


def first_difference(one, other):
    for number, (left, right) in enumerate(zip(one.splitlines(), other.splitlines()), 1):
        if left != right:
            return f"line {number}: {left[:120]!r} against {right[:120]!r}"
    return f"{len(one)} bytes against {len(other)}"


def faults_of(arguments, presets, results):
    code, output, trace, messages = results[0]
    if code not in (OK, INFEASIBLE) or not output or (TRACE in arguments and trace is None):
        return [f"{presets[0]}: exit {code}, {len(output)} bytes of output, trace {trace}\n{messages}"]
    faults = []
    for preset, (other_code, other_output, other_trace, other_messages) in zip(presets[1:], results[1:]):
        if other_code != code:
            faults.append(f"{preset}: exit {other_code}, {presets[0]} exit {code}\n{other_messages}")
        elif other_output != output:
            faults.append(f"{preset}: output differs from {presets[0]}: {first_difference(output, other_output)}")
        elif other_trace != trace:
            faults.append(f"{preset}: trace differs from {presets[0]}")
    return faults


def main():
    presets = sys.argv[1:]
    asked = questions()
    failed = False
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        pending = {name: [pool.submit(ask, preset, name, arguments) for preset in presets]
                   for name, arguments in asked.items()}
        for name, answers in pending.items():
            faults = faults_of(asked[name], presets, [answer.result() for answer in answers])
            print(name, "differs" if faults else f"same on {', '.join(presets)}", *faults, sep="\n  ")
            failed = failed or bool(faults)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
