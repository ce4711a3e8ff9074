"""Predicted steps of CPU ranks beside measured ones.

In each round this computer is timed anew (orrery calibrate), then every layout is predicted by that profile and
trained, so that a prediction and its run are minutes apart; with --paired the computer is timed before every layout, by
the short calibration of the profile this-machine, so that they are seconds apart. Of a layout the table gives the median over rounds of
predicted over measured, a round's measured step being the median over its steps but the first three, and the spread
of measured steps between rounds, which no prediction can undercut. Nothing else should run on the computer."""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "scenarios/runs/tiny-gpt.json"
WARM_UP = 3
WIDE = ["model.n_embd=256", "model.n_inner=1024"]
LONG = ["training.sequence_length=256"]
LAYOUTS = {
    "one rank": ["layout.data_parallel=1"],
    "one rank, wide": ["layout.data_parallel=1", *WIDE],
    "data 2": ["layout.data_parallel=2"],
    "data 2, wide": ["layout.data_parallel=2", *WIDE],
    "ZeRO-1": ["layout.data_parallel=2", "layout.zero_stage=1"],
    "ZeRO-3": ["layout.data_parallel=2", "layout.zero_stage=3"],
    "ZeRO-3, wide": ["layout.data_parallel=2", "layout.zero_stage=3", *WIDE],
    "pipeline 1f1b": ["layout.pipeline_parallel=2"],
    "pipeline 1f1b, wide": ["layout.pipeline_parallel=2", *WIDE],
    "pipeline gpipe": ["layout.pipeline_parallel=2", "layout.schedule=gpipe", *LONG],
    "pipeline interleaved": ["layout.pipeline_parallel=2", "layout.schedule=interleaved", "layout.virtual_pipeline=2"],
    "pipeline zb-h1": ["layout.pipeline_parallel=2", "layout.schedule=zb-h1"],
    "tensor 2": ["layout.tensor_parallel=2"],
    "tensor 2, wide": ["layout.tensor_parallel=2", *WIDE],
    "tensor 2, sequence": ["layout.tensor_parallel=2", "layout.sequence_parallel=true"],
    "tensor 2, sequence, wide": ["layout.tensor_parallel=2", "layout.sequence_parallel=true", *WIDE],
}


def settings(of):
    """A cluster of as many ranks as the layout has."""
    degrees = {"layout.tensor_parallel": "1", "layout.pipeline_parallel": "1", "layout.data_parallel": "1"}
    keys = degrees | dict(each.split("=") for each in of)
    keys["cluster.devices_per_node"] = str(math.prod(int(keys[key]) for key in degrees))
    return [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]


def printed(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=23)
    parser.add_argument("--profile", type=pathlib.Path, help="in place of a calibration in each round")
    parser.add_argument("--paired", action="store_true", help="a short calibration before each layout")
    parser.add_argument("--only", default="", help="layouts whose names contain this")
    parser.add_argument("--threads", default="1", help="per rank")
    options = parser.parse_args()
    layouts = {name: of for name, of in LAYOUTS.items() if options.only in name}
    run = options.programs / "orrery-run"
    ratios, measured, predicted = ({name: [] for name in layouts} for _ in range(3))
    with tempfile.TemporaryDirectory() as folder:
        for round_ in range(options.rounds):
            profile = options.profile or pathlib.Path(folder) / f"profile-{round_}.json"
            if options.paired:
                profile = "this-machine"
                os.environ["XDG_CACHE_HOME"] = folder
            elif not options.profile:
                printed([run, "calibrate", "--backend", "cpu", "--ranks", "2", "--threads-per-rank", options.threads,
                         "-o", profile])
            for name, of in layouts.items():
                if options.paired:
                    printed([run, "calibrate", "--this-machine", "--threads-per-rank", options.threads])
                sets = [*settings(of), "--set", f"cluster.profile={profile}",
                        "--set", f"run.threads_per_rank={options.threads}"]
                step = json.loads(printed([options.programs / "orrery", "simulate", SCENARIO, "--json", *sets]))["step"]
                told = printed([run, "train", SCENARIO, "--json", "--steps", str(options.steps), *sets])
                events = [json.loads(line) for line in told.splitlines()]
                steps = [each["time_s"] for each in events if each["event"] == "step"][WARM_UP:]
                measured[name].append(statistics.median(steps))
                predicted[name].append(step["time_s"])
                ratios[name].append(predicted[name][-1] / measured[name][-1])
    print("medians of rounds")
    print(f"{'layout':26} {'predicted':>10} {'measured':>10} {'error':>8} {'rounds differ by':>17}")
    errors = []
    for name in layouts:
        error = statistics.median(ratios[name]) - 1
        errors.append(error)
        spread = max(measured[name]) / min(measured[name]) - 1
        print(f"{name:26} {statistics.median(predicted[name]) * 1e3:7.1f} ms {statistics.median(measured[name]) * 1e3:7.1f} ms"
              f" {error:+8.1%} {spread:17.1%}")
    print(f"mean error {statistics.mean(map(abs, errors)):.1%}, mean {statistics.mean(errors):+.1%},"
          f" largest {max(map(abs, errors)):.1%}")


main()
