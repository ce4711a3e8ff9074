"""Goodput held against runs: supervised runs whose ranks are killed at random, beside what orrery goodput predicts.

planted_failures.py [--programs DIR] [--runs N] [--steps N] [--seed N] [--rate-factor X] [--within SHARE]
                    [--measure-every N]
A run of four CPU ranks goes on under `train --supervise` and is killed at exponential times of training: each rank
fails as often as a node of OPT-175B's training did (scenarios/reliability/opt-175b.json), X = 1e5 times sooner. What
a failure and a checkpoint take is measured of other runs between them, with another seed, and said in a section
`reliability`; `orrery goodput` predicts the share of the wall clock in steps that count, and the mean of N runs must
lie within SHARE of it."""

import argparse
import contextlib
import json
import math
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RANKS = 4
EVERY = 25  # steps from checkpoint to checkpoint
SETS = ["layout.tensor_parallel=1", "layout.pipeline_parallel=1", f"layout.data_parallel={RANKS}",
        "layout.global_batch_size=8", "training.sequence_length=64", "training.schedule.decay=constant",
        f"run.checkpoint.every_steps={EVERY}", "run.checkpoint.keep=2"]
PRESET = "opt-175b"


class Run:
    """One supervised run, killed after `lifetimes` of training; the last goes on to the end."""

    def __init__(self, programs, folder, steps, lifetimes):
        self.saved, self.lifetimes = folder / "saved", iter(lifetimes)
        shutil.rmtree(self.saved, ignore_errors=True)
        words = [programs / "orrery-run", "train", ROOT / "scenarios/runs/tiny-gpt.json", "--json", "--supervise",
                 "--steps", str(steps)]
        for each in [*SETS, f"run.checkpoint.path={self.saved}"]:
            words += ["--set", each]
        # Of steps that count: what was done again replaces what was lost. From the end of the step before, as that is
        # the pace of training; the first of an attempt, by itself.
        self.step_s = {}
        self.stalls, self.writes, self.recoveries, self.lost = [], [], [], []
        self.failures = 0
        self.perform(words)

    def perform(self, words):
        timer = killed = begun = victim = None
        lock = threading.Lock()

        def strike():
            nonlocal killed
            with lock:
                if victim is None:
                    return
                killed = time.monotonic()
                with contextlib.suppress(ProcessLookupError):  # it ended in this moment
                    os.kill(victim, signal.SIGKILL)

        program = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)
        said = []
        reader = threading.Thread(target=lambda: said.extend(program.stderr))
        reader.start()
        reached, last = 0, None
        for line in program.stdout:
            event = json.loads(line)
            now = time.monotonic()
            kind = event["event"]
            if kind == "attempt":
                victim = event["process"]
            elif kind == "resume":
                self.lost.append(reached - event["step"])
                reached = event["step"]
            elif kind == "step":
                if timer is None:  # training goes on: this step began its time ago
                    since = now - event["time_s"]
                    begun = since if begun is None else begun
                    if killed is not None:
                        self.recoveries.append(since - killed)
                    lifetime = next(self.lifetimes, math.inf)
                    if lifetime < math.inf:
                        timer = threading.Timer(max(0.0, lifetime - event["time_s"]), strike)
                        timer.start()
                    else:
                        timer = threading.Timer(0, lambda: None)
                reached = event["step"]
                self.step_s[reached] = event["time_s"] if last is None else now - last
                last = now
            elif kind == "checkpoint":
                self.stalls.append(event["stall_s"])
                self.writes.append(event["write_s"])
            elif kind == "restart":
                self.failures += 1
                timer = last = None
            elif kind == "end":
                with lock:
                    victim = None
        if timer is not None:
            timer.cancel()
        reader.join()
        if program.wait() != 0:
            sys.exit(f"exit {program.returncode}: {''.join(said)}")
        self.wall_s = last - begun
        self.steps_s = sum(self.step_s.values()) - sum(self.stalls)  # saves stand between steps
        self.effective = self.steps_s / self.wall_s


def lifetimes(chance, mean_s):
    while True:
        yield chance.expovariate(1 / mean_s)


def mean_lifetime_s(factor):
    """Of the whole run: causes of the preset that are counted by node, each rank being one."""
    causes = json.loads((ROOT / f"scenarios/reliability/{PRESET}.json").read_text())["causes"]
    return 3600 / (factor * RANKS * sum(1 / cause["mean_hours"] for cause in causes))


def predict(programs, steps, measured, mean_s):
    reliability = {"name": f"{PRESET}, planted", "rate_spread": 0, "detection_s": 0, "diagnosis_s": 0,
                   "restart_s": measured["recovery_s"], "spare_nodes": 1, "saving": "asynchronous",
                   "save_overhead_s": measured["stall_s"],
                   "causes": [{"cause": "killed", "of": "device", "mean_hours": mean_s * RANKS / 3600,
                               "replaces_node": False}]}
    # What a recovery takes was measured whole: loading is in it, and reading takes nothing more.
    storage = {"node_GBps": 1e6, "write_GBps": measured["write_GBps"]}
    words = [programs / "orrery", "goodput", ROOT / "scenarios/runs/tiny-gpt.json", "--json", "--runs", "2000",
             "--step-time", str(measured["step_s"])]
    for each in [*SETS, f"run.steps={steps}", "run.checkpoint.path=unused", "training.tokens=0",
                 f"reliability={json.dumps(reliability)}", f"storage={json.dumps(storage)}"]:
        words += ["--set", each]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def measured_of(runs, folder, steps):
    """What steps, checkpoints and failures take here."""
    recoveries = [seconds for run in runs for seconds in run.recoveries]
    if not recoveries:
        sys.exit("none of the measured runs failed: ask for more")
    write_s = statistics.fmean(seconds for run in runs for seconds in run.writes)
    size = sum(file.stat().st_size for file in max(folder.glob("saved/step-*")).glob("*.safetensors"))
    return {"step_s": sum(run.steps_s for run in runs) / (steps * len(runs)),
            "stall_s": statistics.fmean(seconds for run in runs for seconds in run.stalls),
            "write_GBps": size / write_s / 1e9,
            "recovery_s": statistics.fmean(recoveries)}


def main():
    reader = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    reader.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bin")
    reader.add_argument("--runs", type=int, default=20)
    reader.add_argument("--steps", type=int, default=400)
    reader.add_argument("--seed", type=int, default=1)
    reader.add_argument("--rate-factor", type=float, default=1e5)
    reader.add_argument("--within", type=float, default=0.05)
    reader.add_argument("--measure-every", type=int, default=2, help="runs to each that is measured")
    asked = reader.parse_args()
    mean_s = mean_lifetime_s(asked.rate_factor)
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        chance, apart = random.Random(asked.seed), random.Random(f"measured {asked.seed}")
        measuring, runs = [], []
        for number in range(asked.runs):
            # Between the others, so that a machine that others use is as busy for both.
            if number % asked.measure_every == 0:
                measuring.append(Run(asked.programs, place, asked.steps, lifetimes(apart, mean_s)))
            run = Run(asked.programs, place, asked.steps, lifetimes(chance, mean_s))
            runs.append(run)
            print(f"run {number + 1}: {run.wall_s:.1f} s, {run.failures} failures, effective {run.effective:.3f}",
                  flush=True)
        measured = measured_of(measuring, place, asked.steps)
    print("measured: " + json.dumps(measured))
    predicted = predict(asked.programs, asked.steps, measured, mean_s)
    effective = statistics.fmean(run.effective for run in runs)
    error = statistics.stdev(run.effective for run in runs) / math.sqrt(len(runs))
    off = effective / predicted["effective_fraction"] - 1
    print(f"{len(runs)} runs, one failure every {mean_s:.1f} s of training: effective {effective:.4f} ± {error:.4f} "
          f"measured, {predicted['effective_fraction']:.4f} predicted ({100 * off:+.1f} %); failures "
          f"{statistics.fmean(run.failures for run in runs):.2f} measured, {predicted['failures']:.2f} predicted; wall "
          f"{statistics.fmean(run.wall_s for run in runs):.1f} s measured, {predicted['days'] * 86400:.1f} s predicted")
    return 0 if abs(off) <= asked.within else 1


if __name__ == "__main__":
    sys.exit(main())
