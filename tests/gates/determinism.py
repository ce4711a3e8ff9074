"""One prediction, whoever compiled it: the program of each preset simulates every shipped run, and report and trace
must be the same bytes."""

import concurrent.futures
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OK, INFEASIBLE = 0, 4  # the result is printed with both


def simulate(preset, scenario):
    """(exit code, report, digest of the trace, stderr) of one run; file names are the same for every preset."""
    folder = ROOT / "build/gates/determinism" / preset / scenario.stem
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    program = ROOT / "build" / preset / "bin/orrery"
    done = subprocess.run([program, "simulate", scenario, "--json", "--trace", "out.orrery"],
                          cwd=folder, capture_output=True, check=False)
    trace = folder / "out.orrery"
    digest = hashlib.sha256(trace.read_bytes()).hexdigest() if trace.exists() else None
    trace.unlink(missing_ok=True)
    (folder / "report.json").write_bytes(done.stdout)
    return done.returncode, done.stdout, digest, done.stderr.decode(errors="replace")


def first_difference(one, other):
    for number, (left, right) in enumerate(zip(one.splitlines(), other.splitlines()), 1):
        if left != right:
            return f"line {number}: {left[:120]!r} against {right[:120]!r}"
    return f"{len(one)} bytes against {len(other)}"


def faults_of(scenario, presets, results):
    code, report, trace, messages = results[0]
    if code not in (OK, INFEASIBLE) or not report or trace is None:
        return [f"{presets[0]}: exit {code}, {len(report)} bytes of report, trace {trace}\n{messages}"]
    faults = []
    for preset, (other_code, other_report, other_trace, other_messages) in zip(presets[1:], results[1:]):
        if other_code != code:
            faults.append(f"{preset}: exit {other_code}, {presets[0]} exit {code}\n{other_messages}")
        elif other_report != report:
            faults.append(f"{preset}: report differs from {presets[0]}: {first_difference(report, other_report)}")
        elif other_trace != trace:
            faults.append(f"{preset}: trace differs from {presets[0]}")
    return faults


def main():
    presets = sys.argv[1:]
    scenarios = sorted((ROOT / "scenarios/runs").glob("*.json"))
    if not scenarios:
        sys.exit("no scenarios/runs/*.json: nothing to compare")
    failed = False
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        pending = {scenario: [pool.submit(simulate, preset, scenario) for preset in presets] for scenario in scenarios}
        for scenario, runs in pending.items():
            faults = faults_of(scenario, presets, [run.result() for run in runs])
            print(scenario.name, "differs" if faults else f"same on {', '.join(presets)}", *faults, sep="\n  ")
            failed = failed or bool(faults)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
