"""Runs that are killed at random, for as long as one likes: what they leave is what a run leaves that nobody touched.

soak.py [--programs DIR] [--seconds N] [--kills N] [--seed N]
First `kills` random SIGKILLs over layouts that shard differently, with a checkpoint each step: every step that was
published is the undisturbed run's, bit for bit, and so is the end. Then two, and eight, runs at once on one folder with
exporters beside them, each for N seconds: one run at a time holds the folder, the others end with 8 and its owner's
name, every export is of an undisturbed step."""

import argparse
import hashlib
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAST = 12  # steps of a run that is killed
SMALL = ["model.n_layer=4", "model.n_embd=32", "layout.global_batch_size=8", "training.sequence_length=16",
         "run.checkpoint.every_steps=1", "training.schedule.decay=constant"]
NO_CHECKPOINT_YET, STORAGE = 5, 8
EXPORTERS = 2


def layout(tensor=1, pipeline=1, data=1, *more):
    return [f"layout.tensor_parallel={tensor}", f"layout.pipeline_parallel={pipeline}", f"layout.data_parallel={data}",
            *(f"layout.{key}" for key in more)]


LAYOUTS = {
    "one rank": layout(),
    "tensor 2": layout(2),
    "tensor 2, sequence": layout(2, 1, 1, "sequence_parallel=true"),
    "pipeline 2": layout(1, 2),
    "interleaved": layout(1, 2, 1, "schedule=interleaved", "virtual_pipeline=2"),
    "data 2": layout(1, 1, 2),
    "ZeRO-1": layout(1, 1, 2, "zero_stage=1"),
    "ZeRO-2": layout(1, 1, 4, "zero_stage=2"),
    "ZeRO-3": layout(1, 1, 4, "zero_stage=3"),
    "context 2": layout(1, 1, 1, "context_parallel=2"),
    "tensor 2, pipeline 2": layout(2, 2),
    "pipeline 2, ZeRO-1": layout(1, 2, 2, "zero_stage=1"),
}


class Soak:
    def __init__(self, programs, folder, chance):
        self.program, self.folder, self.chance = programs / "orrery-run", folder, chance
        self.faults = []

    def fault(self, text):
        self.faults.append(text)
        print(text, flush=True)

    def start(self, saved, sets, *options):
        words = [self.program, "train", ROOT / "scenarios/runs/tiny-gpt.json", "--json", "--resume", *options]
        for each in [*SMALL, *sets, f"run.checkpoint.path={saved}"]:
            words += ["--set", each]
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)

    def perform(self, saved, sets, *options):
        """To its end; returns the seconds."""
        begun = time.monotonic()
        run = self.start(saved, sets, *options)
        said = run.communicate()[1].decode(errors="replace")
        if run.returncode != 0:
            self.fault(f"{saved}: exit {run.returncode}: {said}")
        return time.monotonic() - begun

    def compare(self, name, saved, sound):
        """Every published step with the undisturbed run's; returns how many."""
        steps = steps_in(saved)
        for step, path in steps.items():
            if bytes_of(path) != bytes_of(sound / path.name):
                self.fault(f"{name}: step {step} is not the undisturbed run's")
        return len(steps)

    def kill_at_random(self, kills):
        undisturbed, seconds = {}, {}
        for name, sets in LAYOUTS.items():
            undisturbed[name] = self.folder / "sound" / name.replace(" ", "-").replace(",", "")
            seconds[name] = self.perform(undisturbed[name], sets, "--steps", str(LAST))
        names = list(LAYOUTS)
        done = resumed = compared = 0
        while done < kills:
            name = names[resumed % len(names)]
            resumed += 1
            saved = self.folder / "killed"
            shutil.rmtree(saved, ignore_errors=True)
            while True:
                run = self.start(saved, LAYOUTS[name], "--steps", str(LAST))
                try:
                    run.wait(self.chance.uniform(0, 0.7 * seconds[name]))
                except subprocess.TimeoutExpired:
                    run.kill()
                    done += 1
                said = run.communicate()[1].decode(errors="replace")
                compared += self.compare(name, saved, undisturbed[name])
                if run.returncode == 0:
                    break
                if run.returncode != -signal.SIGKILL:
                    self.fault(f"{name}: exit {run.returncode}: {said}")
                    break
            if LAST not in steps_in(saved):
                self.fault(f"{name}: no step {LAST}")
        print(f"{done} kills in {resumed} runs of {len(names)} layouts, {compared} checkpoints held against undisturbed "
              f"ones", flush=True)

    def crowd(self, runs, seconds):
        saved = self.folder / f"crowd-{runs}"
        sets = [*LAYOUTS["tensor 2"], "run.checkpoint.keep=5"]
        until = time.monotonic() + seconds
        counts = {"killed": 0, "refused": 0, "exports": 0}
        exported = {}  # hash by step
        lock = threading.Lock()

        def count(name):
            with lock:
                counts[name] += 1

        def train(chance):
            while time.monotonic() < until:
                run = self.start(saved, sets, "--steps", "1000000")
                try:
                    run.wait(chance.uniform(0, 2))
                except subprocess.TimeoutExpired:
                    run.kill()
                said = run.communicate()[1].decode(errors="replace")
                if run.returncode == -signal.SIGKILL:
                    count("killed")
                elif run.returncode == STORAGE and "is written by process" in said:
                    count("refused")
                else:
                    self.fault(f"one of {runs} runs: exit {run.returncode}: {said}")

        def export(number):
            into = self.folder / f"exported-{runs}-{number}"
            while time.monotonic() < until:
                some = bool(steps_in(saved))
                run = subprocess.run([self.program, "export", saved, "--hf", into, "--force"], capture_output=True,
                                     check=False)
                if run.returncode == 0:
                    step = exported_step(run.stdout.decode())
                    with lock:
                        counts["exports"] += 1
                        exported[step] = hash_of(into / "model.safetensors")
                elif run.returncode != NO_CHECKPOINT_YET or some:
                    self.fault(f"export beside {runs} runs: exit {run.returncode}: {run.stderr.decode()}")

        threads = [threading.Thread(target=train, args=(random.Random(self.chance.random()),)) for _ in range(runs)]
        threads += [threading.Thread(target=export, args=(number,)) for number in range(EXPORTERS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.perform(saved, sets, "--steps", str(max(steps_in(saved), default=0) + 1))  # it goes on
        sound = self.folder / f"sound-{runs}"
        last = max([*steps_in(saved), *exported])
        self.perform(sound, LAYOUTS["tensor 2"], "--steps", str(last))
        compared = self.compare(f"{runs} runs", saved, sound)
        for step, digest in exported.items():
            into = self.folder / "of-sound"
            subprocess.run([self.program, "export", sound / f"step-{step:08}", "--hf", into, "--force"], check=True,
                           capture_output=True)
            if hash_of(into / "model.safetensors") != digest:
                self.fault(f"beside {runs} runs: the export of step {step} is not the undisturbed run's")
        if min(counts["killed"], counts["exports"]) == 0:
            self.fault(f"{runs} runs: nothing was tried")
        print(f"{runs} runs at once for {seconds} s: {counts['killed']} killed, {counts['refused']} refused, "
              f"{counts['exports']} exports of {len(exported)} steps; step {last} reached, {compared} checkpoints held "
              f"against undisturbed ones", flush=True)


def steps_in(saved):
    return {int(each.name[5:]): each for each in saved.glob("step-????????") if (each / "manifest.json").exists()}


def bytes_of(checkpoint):
    return {shard.name: shard.read_bytes() for shard in checkpoint.glob("*.safetensors")}


def hash_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def exported_step(said):
    return int(re.search(r" of step (\d+) as ", said)[1])


def main():
    reader = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    reader.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bin")
    reader.add_argument("--seconds", type=float, default=60)
    reader.add_argument("--kills", type=int, default=200)
    reader.add_argument("--seed", type=int, default=None)
    asked = reader.parse_args()
    seed = random.randrange(1 << 32) if asked.seed is None else asked.seed
    print(f"seed {seed}", flush=True)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="orrery-soak-", dir=memory) as folder:
        soak = Soak(asked.programs.resolve(), pathlib.Path(folder), random.Random(seed))
        soak.kill_at_random(asked.kills)
        for runs in (2, 8):
            soak.crowd(runs, asked.seconds)
    if soak.faults:
        sys.exit(f"{len(soak.faults)} faults")


if __name__ == "__main__":
    main()
