"""tests/gpu/check.py on a machine without a GPU: programs that answer as the real ones would, right, wrong or late."""

import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = {"doctor": "doctor", "kernels": "kernels against the CPU", "layouts": "losses of tiny-gpt and tiny-moe",
         "calibrate": "calibration", "predict": "predicted steps", "speed": "tokens/s and MFU",
         "sanitize": "compute-sanitizer"}
LEFT = {"kernels.log", "layouts.log", "predict.log", "speed.log", "sanitize.log", "profile.json", "summary.json",
        "summary.md"}

RUNS_OF_LAYOUTS = 19  # 14 layouts of tiny-gpt, 3 of tiny-moe, each model on the CPU

# What each program says; WRONG names what is to fail, LATE words of a command that does not end: as a run not even when
# it is asked to, with another program in a process group of its own, as ranks are. CALLS gets a line for each call, and
# CALLS.late the numbers of processes that are late.
PROGRAM = '''#!{python}
import json, os, pathlib, signal, subprocess, sys, time
wrong, late = os.environ.get("WRONG", ""), os.environ.get("LATE", "")
name, words = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
with open(os.environ["CALLS"], "a") as calls:
    calls.write(" ".join([name, *words]) + "\\n")
if late and all(word in " ".join(words) for word in late.split()):
    print("going to be late", flush=True)
    if name == "orrery-run":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        rank = subprocess.Popen(["sleep", "1000"], preexec_fn=lambda: os.setpgid(0, 0))
        numbers = pathlib.Path(os.environ["CALLS"] + ".late")
        numbers.with_suffix(".new").write_text(f"{{os.getpid()}} {{rank.pid}}")
        numbers.with_suffix(".new").rename(numbers)
    time.sleep(1000)
if name == "compute-sanitizer":
    sys.exit(9 if wrong == "sanitize" else 0)
if name == "orrery-gpu-check":
    if not words:
        print("products\\nsteps")
        sys.exit(0)
    bad = wrong == "kernels" and words[1] == "products"
    print(json.dumps({{"op": "gemm", "dtype": "bf16", "right": not bad, "worst_of_bound": 2.0 if bad else 0.5}}))
    sys.exit(7 if bad else 0)
if words[0] == "doctor":
    print(json.dumps({{"gpus": [{{"name": os.environ.get("GPU", "NVIDIA H100 80GB HBM3")}}]}}))
    sys.exit(6 if wrong == "doctor" else 0)
if words[0] == "simulate":
    fits = wrong != "memory" or "model=models/gpt2-xl.json" not in words
    print(json.dumps({{"step": {{"time_s": 0.11}}, "memory": {{"fits": fits}},
                       "throughput": {{"mfu": 0.5, "mfu_causal": 0.45, "peak_tflops": 1000.0}}}}))
    sys.exit(0 if fits else 4)
elif words[0] == "calibrate":
    if wrong == "calibrate":
        print("what went wrong")
        sys.exit(6)
    pathlib.Path(words[words.index("-o") + 1]).write_text("{{}}")
elif words[0] == "train":
    steps = int(words[words.index("--steps") + 1])
    shift = 1.01 if wrong and wrong in words[1] and "--ranks-per-gpu" in words else 1.0
    print(json.dumps({{"event": "start", "parameters": 10, "tokens_per_step": 2000, "model_flops_per_step": 2e12}}))
    for step in range(1, steps + 1):
        print(json.dumps({{"event": "step", "step": step, "loss": 5.0 / step * shift, "time_s": 0.1}}))
    print(json.dumps({{"event": "end", "arena_bytes_by_rank": [1000], "other_bytes_by_rank": [10],
                       "step_time_s": 0.1, "tokens_per_s": 400000.0}}))
'''


class Check:
    """A folder with programs, and calls of check.py there."""

    def __init__(self, folder):
        self.folder = folder
        self.programs = folder / "bin"
        self.programs.mkdir()
        for name in ("orrery", "orrery-run", "orrery-gpu-check", "compute-sanitizer"):
            path = self.programs / name
            path.write_text(PROGRAM.format(python=sys.executable))
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def start(self, into, words, environment):
        """A call whose results are in the folder `into`."""
        self.calls = self.folder / "calls"
        self.calls.write_text("")
        return subprocess.Popen([sys.executable, str(ROOT / "tests/gpu/check.py"), "--bin", str(self.programs), "--out",
                                 str(self.folder / into), *words],
                                env={"PATH": f"{self.programs}:/usr/bin:/bin", "CALLS": str(self.calls), **environment},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)

    def __call__(self, into, words=(), **environment):
        """(exit code, summary, its text, what programs were called)."""
        process = self.start(into, words, environment)
        said = process.communicate()[0]
        if not (self.folder / into / "summary.json").exists():
            raise AssertionError(said)
        return (process.returncode, self.summary(into), (self.folder / into / "summary.md").read_text(),
                self.calls.read_text().splitlines())

    def summary(self, into):
        return json.loads((self.folder / into / "summary.json").read_text())

    def late(self):
        """Numbers of the processes that are late, once they are."""
        numbers = self.folder / "calls.late"
        for _ in range(6000):
            if numbers.exists():
                break
            time.sleep(0.01)
        found = [int(number) for number in numbers.read_text().split()]
        numbers.unlink()
        return found

    def left(self, into):
        return {path.name for path in (self.folder / into).iterdir()}


def runs(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def left_of(processes):
    """Those that still run once a signal that nobody waits for has had its time."""
    for _ in range(6000):
        if not any(runs(process) for process in processes):
            break
        time.sleep(0.01)
    return [process for process in processes if runs(process)]


def all_right(check, expect):
    code, summary, text, _ = check("right")
    expect("exit code of a machine that is right", code, 0)
    expect("its checks", [(one["part"], one["name"], one["passed"], one["finished"]) for one in summary["checks"]],
           [(part, name, True, True) for part, name in NAMES.items()])
    found = {one["part"]: one["found"] for one in summary["checks"]}
    expect("files that it leaves", check.left("right"), LEFT)
    expect("at most eight", len(LEFT) <= 8, True)
    expect("predicted error", round(found["predict"]["mean_abs_error"], 9), 0.1)
    expect("rows of the table of steps", text.count("| 100.0 ms | 110.0 ms | +10.0% |"), 10)
    expect("layouts", sorted(found["layouts"]["worst_relative_difference"])[-3:],
           ["tiny-moe, experts 2", "tiny-moe, experts 2, deduplicated", "tiny-moe, one rank"])
    # 2e12 FLOPs of 2,000 tokens are 1e9 of one; 4e5 tokens/s of these are 40 % of 1,000 TFLOP/s, and with attention at
    # half nine tenths of that.
    expect("MFU", {(round(row["mfu"], 9), round(row["mfu_unmasked"], 9)) for row in found["speed"]["speed"]},
           {(0.36, 0.4)})
    expect("rows of the table of speed", text.count("| 100.0 ms | 400,000 | 36.0% | 40.0% | 1000.0 |"), 4)
    log = (check.folder / "right" / "layouts.log").read_text()
    expect("the log of a part has all its runs", log.count("== tiny-"), RUNS_OF_LAYOUTS)
    expect("and what each printed", log.count('"event": "end"'), RUNS_OF_LAYOUTS)


def one_wrong(check, expect):
    for wrong in ("kernels", "tiny-gpt", "tiny-moe", "calibrate", "sanitize", "doctor"):
        part = "layouts" if wrong.startswith("tiny") else wrong
        code, summary, text, _ = check(wrong, WRONG=wrong)
        expect(f"exit code where {wrong} is wrong", code, 6 if wrong == "doctor" else 1)
        # Without the profile of calibrate nothing is predicted.
        expect(f"what failed where {wrong} is wrong", [one["part"] for one in summary["checks"] if not one["passed"]],
               [part, "predict"] if wrong == "calibrate" else [part])
        expect(f"the summary names {part}", f"| {part} | {NAMES[part]} | **failed** |" in text, True)
        expect(f"files where {wrong} is wrong", check.left(wrong) - LEFT, set())
    _, summary, _, _ = check("calibrate", ["--only", "calibrate"], WRONG="calibrate")
    said = {one["part"]: one.get("said", "") for one in summary["checks"]}
    expect("what a part without a log said", "what went wrong" in said["calibrate"], True)
    code, summary, text, _ = check("kernels", ["--only", "kernels,layouts", "--only", "speed"])
    expect("exit code once the wrong part is done again", code, 0)
    expect("parts of both calls", [(one["part"], one["passed"]) for one in summary["checks"]],
           [(part, True) for part in NAMES])
    code, summary, text, _ = check("tiny-moe", ["--only", "kernels"])
    expect("exit code where another call's part was wrong", code, 1)


def speed_of(check, expect):
    code, summary, text, calls = check("memory", ["--only", "speed"], WRONG="memory")
    expect("exit code where a model does not fit", code, 0)
    expect("it is left out", text.count("| does not fit into the device's memory |"), 1)
    expect("and not trained", [call for call in trained(calls) if "gpt2-xl" in call], [])
    expect("the profile of the device that is there",
           [call for call in trained(calls) if "cluster.profile=profiles/h100-sxm.json" not in call], [])
    code, summary, text, _ = check("unknown", ["--only", "speed"], GPU="NVIDIA of tomorrow")
    expect("exit code on a device of no shipped profile", code, 0)
    rows = summary["checks"][-1]["found"]["speed"]
    expect("no MFU of it", [row["mfu"] for row in rows], [None] * 4)
    expect("but its speed", text.count("| 100.0 ms | 400,000 |  |  | unknown |"), 4)


def trained(calls):
    return [call for call in calls if call.startswith("orrery-run train ")]


LATE = "tiny-gpt --ranks-per-gpu layout.tensor_parallel=2"


def out_of_time(check, expect):
    """A part is ended when its time is over, says so, and goes on behind what it had."""
    code, summary, text, first = check("late", ["--only", "layouts", "--part-seconds", "8"], LATE=LATE)
    layouts = summary["checks"][-1]
    expect("exit code of a part that is ended", code, 1)
    expect("it has not passed, nor finished", (layouts["passed"], layouts["finished"]), (False, False))
    expect("and says how to go on", layouts["reason"],
           "8 s were over in tiny-gpt, tensor 2; --only layouts goes on")
    expect("also in the table", "| **not finished** |" in text, True)
    expect("what it had is kept", sorted(layouts["rows"]),
           [f"tiny-gpt, {name}" for name in ("bias gradients", "captured", "cpu", "epilogues", "one rank", "residuals")])
    expect("none of its programs is left", left_of(check.late()), [])
    log = (check.folder / "late" / "layouts.log").read_text()
    expect("its log has what was printed", "going to be late" in log, True)
    shutil.copytree(str(check.folder / "late"), str(check.folder / "other programs"))

    code, summary, text, second = check("late", ["--only", "layouts"])
    expect("exit code once it has finished", code, 0)
    expect("its check", [(one["part"], one["passed"], one["finished"]) for one in summary["checks"]],
           [("doctor", True, True), ("layouts", True, True)])
    expect("runs of the second call", len(trained(second)), RUNS_OF_LAYOUTS - 6)
    expect("of which one has been before", set(trained(first)) & set(trained(second)), {trained(first)[-1]})
    expect("its log goes on", (check.folder / "late" / "layouts.log").read_text().startswith(log), True)
    expect("files of a part in two calls", check.left("late"), {"layouts.log", "summary.json", "summary.md"})
    _, _, _, third = check("late", ["--only", "layouts"])
    expect("a part that has finished is checked anew", len(trained(third)), RUNS_OF_LAYOUTS)

    os.utime(str(check.programs / "orrery-run"), (1, 1))
    _, _, _, calls = check("other programs", ["--only", "layouts"])
    expect("rows are of the programs that made them", len(trained(calls)), RUNS_OF_LAYOUTS)

    code, summary, text, _ = check("at once", ["--only", "kernels", "--part-seconds", "8"], LATE="products")
    kernels = summary["checks"][-1]
    expect("of several at once one is late", (code, kernels["finished"], list(kernels["rows"])), (1, False, ["steps"]))
    code, summary, text, calls = check("at once", ["--only", "kernels"])
    expect("and alone is run again", (code, [call.split()[-1] for call in calls if "scenarios" in call]),
           (0, ["products"]))


def killed(check, expect):
    """A queue that ends check.py itself leaves what it had found, to go on with, and no program."""
    process = check.start("killed", ["--only", "layouts"], {"LATE": LATE})
    late = check.late()
    process.terminate()
    process.communicate()
    expect("its exit code", process.returncode, 128 + signal.SIGTERM)
    expect("its programs", left_of(late), [])
    layouts = check.summary("killed")["checks"][-1]
    expect("a part that was killed", (layouts["part"], layouts["passed"], layouts["finished"], len(layouts["rows"])),
           ("layouts", False, False, 6))
    code, _, _, calls = check("killed", ["--only", "layouts"])
    expect("goes on", (code, len(trained(calls))), (0, RUNS_OF_LAYOUTS - 6))


def main():
    failures = []

    def expect(what, found, wanted):
        if found != wanted:
            failures.append(f"{what}: {found!r}, not {wanted!r}")

    with tempfile.TemporaryDirectory() as name:
        check = Check(pathlib.Path(name))
        for part in (all_right, one_wrong, speed_of, out_of_time, killed):
            part(check, expect)
    print("\n".join(failures) or "gpu check: as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
