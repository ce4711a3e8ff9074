"""A training step of GPT-2 124M in orrery against PyTorch: same scenario, same cores, in turns, so that a machine that is
slow for a while is slow for both. Prints one JSON object; "ratio" above 1 says that orrery is faster.

step_against_pytorch.py --orrery-run build/release/bin/orrery-run [--python PYTHON-WITH-TORCH] [--threads N] [--rounds N]
                        [--steps N] [SCENARIO]"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
WARM_UP = 1  # steps of each run


def json_lines(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def orrery_seconds(asked):
    lines = json_lines([asked.orrery_run, "train", asked.scenario, "--json", "--steps", str(WARM_UP + asked.steps),
                             "--set", f"run.threads_per_rank={asked.threads}"])
    return [line["time_s"] for line in lines if line["event"] == "step"][WARM_UP:]


def pytorch_seconds(asked):
    line = json_lines([asked.python, HERE / "pytorch_step.py", asked.scenario, "--threads", str(asked.threads),
                            "--steps", str(asked.steps)])[-1]
    return line["seconds"], line["torch"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", nargs="?", type=pathlib.Path, default=HERE / "gpt2-124m-cpu.json")
    parser.add_argument("--orrery-run", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3, help="of each round, after one of warm-up")
    asked = parser.parse_args()
    ours, theirs, torch = [], [], ""
    for _ in range(asked.rounds):
        ours += orrery_seconds(asked)
        seconds, torch = pytorch_seconds(asked)
        theirs += seconds
    medians = statistics.median(ours), statistics.median(theirs)
    print(json.dumps({"scenario": asked.scenario.name, "threads": asked.threads, "torch": torch, "orrery_s": ours,
                      "pytorch_s": theirs, "orrery_median_s": medians[0], "pytorch_median_s": medians[1],
                      "ratio": medians[1] / medians[0]}))


if __name__ == "__main__":
    main()
