"""Runs every fuzzer of build/fuzz for some seconds; fails on a crash, leak, timeout or too much memory.

fuzz.py [--seconds N] [--jobs N] [TARGET ...]
What a fuzzer finds to be new stays in build/fuzz/corpus for the next run, what broke it in build/fuzz/found.
A found input becomes a test: fix the cause, minimise the file and put it into tests/fuzz/regressions/TARGET."""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/fuzz"
OPTIONS = ["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1", "-reload=0", "-verbosity=1"]
SANITIZERS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
MARGIN_S = 120  # beyond the fuzzing itself: reading the corpus, one last input


def write_seeds():
    """Fills build/fuzz/seeds; returns the longest input by target."""
    printed = subprocess.run([BUILD / "bin/write_seeds", BUILD / "seeds"], check=True, capture_output=True, text=True)
    return {name: int(length) for name, length in (line.split() for line in printed.stdout.splitlines())}


def fuzz(target, longest, asked, folder):
    """Runs one fuzzer; returns (exit status, log)."""
    corpus = BUILD / "corpus" / target
    found = BUILD / "found"
    corpus.mkdir(parents=True, exist_ok=True)
    found.mkdir(exist_ok=True)
    known = ROOT / "tests/fuzz/regressions" / target
    command = [BUILD / "bin/orrery_fuzz", *OPTIONS, f"-max_total_time={asked.seconds}", f"-seed={asked.seed}",
               f"-max_len={longest}",
               f"-dict={BUILD / 'seeds/words.dict'}", f"-artifact_prefix={found}/{target}-",
               corpus, BUILD / "seeds" / target, *([known] if known.is_dir() else [])]
    environment = {**os.environ, **SANITIZERS, "ORRERY_FUZZ_TARGET": target, "TMPDIR": folder}
    try:
        run = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, timeout=asked.seconds + MARGIN_S, check=False)
    except subprocess.TimeoutExpired as hung:
        return 1, (hung.stdout or b"").decode(errors="replace") + f"\nstill running after {asked.seconds + MARGIN_S} s"
    return run.returncode, run.stdout.decode(errors="replace")


COLUMNS = {  # of the table: where libFuzzer's log has the number
    "executions": r"stat::number_of_executed_units: +(\d+)",
    "per second": r"stat::average_exec_per_sec: +(\d+)",
    "edges": r" cov: (\d+)",
    "features": r" ft: (\d+)",
    "corpus": r" corp: (\d+)",
    "MiB": r"stat::peak_rss_mb: +(\d+)",
}


def numbers(log):
    """The last of each in the log, by column; 0 where there is none."""
    found = {name: re.findall(pattern, log) for name, pattern in COLUMNS.items()}
    return {name: int(values[-1]) if values else 0 for name, values in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="per target")
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("targets", nargs="*", help="all, if none is named")
    asked = parser.parse_args()
    longest = write_seeds()
    unknown = set(asked.targets) - set(longest)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}; known: {', '.join(longest)}")

    failed = []
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    print(f"{'target':16}" + "".join(f"{name:>12}" for name in COLUMNS))
    with tempfile.TemporaryDirectory(dir=memory) as folder, \
            concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        runs = {target: pool.submit(fuzz, target, longest[target], asked, folder)
                for target in asked.targets or longest}
        for target, run in runs.items():
            status, log = run.result()
            reached = numbers(log)
            print(f"{target:16}" + "".join(f"{reached[name]:12}" for name in COLUMNS)
                  + ("" if status == 0 else f"   FAILED, exit {status}"), flush=True)
            if status == 0 and reached["executions"] == 0:
                status, log = 1, log + "\nnothing was executed"
            if status != 0:
                failed.append((target, log))
    for target, log in failed:
        print(f"\n{target}: the end of its log")
        print("\n".join(log.splitlines()[-50:]))
    if failed:
        print(f"\n{len(failed)} failed: {', '.join(target for target, _ in failed)}; inputs in {BUILD / 'found'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
