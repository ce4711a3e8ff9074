"""tests/gpu/check.py on a machine without a GPU: programs that answer as the real ones would, right or wrong."""

import json
import pathlib
import stat
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What each program says; WRONG names the check that is to fail.
PROGRAM = '''#!{python}
import json, os, pathlib, sys
wrong = os.environ.get("WRONG", "")
name, words = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
if name == "orrery-gpu-check":
    if not words:
        print("products\\nsteps")
        sys.exit(0)
    bad = wrong == "kernels" and words[1] == "products"
    print(json.dumps({{"op": "gemm", "dtype": "bf16", "right": not bad, "worst_of_bound": 2.0 if bad else 0.5}}))
    sys.exit(7 if bad else 0)
if words[0] == "doctor":
    print(json.dumps({{"devices": []}}))
    sys.exit(6 if wrong == "doctor" else 0)
if words[0] == "simulate":
    print(json.dumps({{"step": {{"time_s": 0.11}}}}))
elif words[0] == "calibrate":
    pathlib.Path(words[words.index("-o") + 1]).write_text("{{}}")
elif words[0] == "train":
    steps = int(words[words.index("--steps") + 1])
    shift = 1.01 if wrong and wrong in words[1] and "--ranks-per-gpu" in words else 1.0
    for step in range(1, steps + 1):
        print(json.dumps({{"event": "step", "step": step, "loss": 5.0 / step * shift, "time_s": 0.1}}))
    print(json.dumps({{"event": "end", "arena_bytes_by_rank": [1000], "other_bytes_by_rank": [10]}}))
'''


def check(folder, wrong, only=(), into=None):
    """(exit code, summary) of a run whose programs are wrong in `wrong`, of the parts `only`, into the folder of the
    run that was wrong in `into`."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name in ("orrery", "orrery-run", "orrery-gpu-check", "compute-sanitizer"):
        path = programs / name
        text = PROGRAM.format(python=sys.executable)
        if name == "compute-sanitizer":
            text = '#!/bin/sh\n[ "$WRONG" = sanitizer ] && exit 9\nexit 0\n'
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    out = folder / f"out-{wrong if into is None else into}"
    done = subprocess.run([sys.executable, str(ROOT / "tests/gpu/check.py"), "--bin", str(programs), "--out", str(out),
                           *(word for parts in only for word in ("--only", parts))],
                          env={"PATH": f"{programs}:/usr/bin:/bin", "WRONG": wrong}, capture_output=True, text=True,
                          check=False)
    if not (out / "summary.json").exists():
        raise AssertionError(done.stdout + done.stderr)
    return done.returncode, json.loads((out / "summary.json").read_text()), (out / "summary.md").read_text()


def main():
    failures = []

    def expect(what, found, wanted):
        if found != wanted:
            failures.append(f"{what}: {found!r}, not {wanted!r}")

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        code, summary, text = check(folder, "")
        expect("exit code of a machine that is right", code, 0)
        expect("its checks", [one["passed"] for one in summary["checks"]], [True] * 7)
        expect("predicted error", round(summary["checks"][-2]["found"]["mean_abs_error"], 9), 0.1)
        expect("rows of the table of steps", text.count("| 100.0 ms | 110.0 ms | +10.0% |"), 9)
        for wrong, failed in (("kernels", "kernels against the CPU"), ("tiny-gpt", "losses of tiny-gpt"), ("tiny-moe", "losses of tiny-moe"),
                              ("sanitizer", "compute-sanitizer"), ("doctor", "doctor")):
            code, summary, text = check(folder, wrong)
            expect(f"exit code where {wrong} is wrong", code, 6 if wrong == "doctor" else 1)
            expect(f"what failed where {wrong} is wrong",
                   [one["name"] for one in summary["checks"] if not one["passed"]], [failed])
            expect(f"the summary names {failed}", f"| {failed} | **failed** |" in text, True)
        code, summary, text = check(folder, "", only=["kernels,losses", "experts"], into="kernels")
        expect("exit code once the wrong part is done again", code, 0)
        expect("parts of both calls", [(one["name"], one["passed"]) for one in summary["checks"]],
               [(name, True) for name in ("doctor", "kernels against the CPU", "losses of tiny-gpt", "losses of tiny-moe",
                                          "calibration", "predicted steps", "compute-sanitizer")])
        code, summary, text = check(folder, "tiny-moe", only=["losses"], into="tiny-moe")
        expect("exit code where another call's part was wrong", code, 1)
    print("\n".join(failures) or "gpu check: as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
