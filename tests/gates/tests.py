"""The tests that ctest knows of a preset, many to a process: most of them take less time than their process, and
tests of one file share what they are held against.

tests.py PRESET [-R REGEX] [--one-in N REGEX ...] [--seconds N] [-j JOBS] [--times FILE]
A test that takes its process along fails, and those after it run in another one. Which folder and which minutes
each test had is as with ctest; so is what it may find in its process: nothing that it can count on."""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST = 40  # tests of a process
ALONE = "test_gui"  # an application is the only one of its process
STARTED = re.compile(r"^\[ RUN      \] (\S+)")
ENDED = re.compile(r"\[(       OK |  SKIPPED |  FAILED  )\] (\S+?)(?:, where .*)? \((\d+) ms\)$")
USUAL_TIMEOUT_S = 300.0

Test = collections.namedtuple("Test", "name program words filter timeout_s folder environment")
Ended = collections.namedtuple("Ended", "test verdict seconds output")  # verdict: OK, SKIPPED, FAILED


def known_tests(preset, regex):
    """Every test that ctest would run, those that are switched off left out."""
    asked = ["ctest", "--preset", preset, "--show-only=json-v1", *(["-R", regex] if regex else [])]
    said = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True)
    if said.returncode != 0 or not said.stdout:  # a filter with too many parentheses ends it with status 0
        sys.exit(f"ctest lists no tests of {preset}: {said.stderr.strip()}")
    tests = []
    for test in json.loads(said.stdout)["tests"]:
        told = {each["name"]: each["value"] for each in test.get("properties", [])}
        if told.get("DISABLED"):
            continue
        program, *words = test["command"]
        chosen = [word.partition("=")[2] for word in words if word.startswith("--gtest_filter=")]
        tests.append(Test(test["name"], program, words, chosen[0] if chosen else None,
                          float(told.get("TIMEOUT", USUAL_TIMEOUT_S)), told.get("WORKING_DIRECTORY", str(ROOT)),
                          tuple(told.get("ENVIRONMENT", []))))
    return tests


def some_of(tests, one_in):
    """The tests without most of those that a regular expression of one_in matches: which ones stay follows from their
    names, so that it is the same ones on every machine until one is renamed."""
    for every, regex in one_in:
        matches = re.compile(regex).search
        tests = [test for test in tests if not matches(test.name) or zlib.crc32(test.name.encode()) % int(every) == 0]
    return tests


def environment_of(preset):
    presets = {each["name"]: each for each in json.loads((ROOT / "CMakePresets.json").read_text())["testPresets"]}
    return {**os.environ, **presets[preset].get("environment", {})}


def in_parts(tests):
    """Lists of tests for a process each, in the order of ctest."""
    parts = []
    for test in tests:
        last = parts[-1] if parts else None
        alike = last and test.filter and last[0].filter and last[0][1:2] + last[0][5:] == test[1:2] + test[5:]
        if alike and len(last) < MOST and pathlib.Path(test.program).name != ALONE:
            last.append(test)
        else:
            parts.append([test])
    return parts


class Process:
    """One run of some tests of a program; killed, children too, when none of them has ended for too long."""

    def __init__(self, tests, environment):
        first = tests[0]
        words = first.words
        if first.filter:
            words = ["--gtest_filter=" + ":".join(test.filter for test in tests)]
        own = dict(pair.split("=", 1) for pair in first.environment)
        self.waited_too_long = False
        self.last_news = time.monotonic()
        self.timeout_s = first.timeout_s
        self.running = subprocess.Popen([first.program, *words], cwd=first.folder, env={**environment, **own},
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, errors="replace", start_new_session=True)
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while self.running.poll() is None:
            if time.monotonic() - self.last_news > self.timeout_s:
                self.waited_too_long = True
                os.killpg(self.running.pid, 9)
                return
            time.sleep(0.5)

    def lines(self):
        for line in self.running.stdout:
            yield line
        self.running.wait()


def run_part(tests, environment):
    """Ended of each of them."""
    if not tests[0].filter:
        return [run_whole(tests[0], environment)]
    ended = []
    left = {test.filter: test for test in tests}
    while left:
        process = Process(list(left.values()), environment)
        before, running, output = [], None, []
        for line in process.lines():
            started = STARTED.match(line)
            if started:
                running, output = left.get(started[1]), []
                process.last_news = time.monotonic()
            output.append(line)
            over = ENDED.search(line.rstrip("\n"))
            if over and running is not None and over[2] == running.filter:
                ended.append(Ended(running, over[1].strip(), int(over[3]) / 1000, "".join(output)))
                del left[running.filter]
                process.last_news = time.monotonic()
                before, running, output = [], None, []
        if running is not None:  # took its process along
            why = f"no end after {process.timeout_s:.0f} s" if process.waited_too_long else \
                f"exit status {process.running.returncode}"
            ended.append(Ended(running, "FAILED", time.monotonic() - process.last_news, "".join(output) + why))
            del left[running.filter]
        elif left:  # names that the program does not have, or an end before its first test
            said = "".join(before + output) + f"exit status {process.running.returncode}"
            ended += [Ended(test, "FAILED", 0.0, "did not run\n" + said) for test in left.values()]
            return ended
        elif process.running.returncode != 0 and all(each.verdict != "FAILED" for each in ended):
            last = ended.pop()  # a leak, say, that is told at the end
            ended.append(last._replace(verdict="FAILED", output="".join(output) +
                                       f"after these tests: exit status {process.running.returncode}"))
    return ended


def run_whole(test, environment):
    """A test that is no part of a program of GoogleTest."""
    start = time.monotonic()
    process = Process([test], environment)
    output = "".join(process.lines())
    verdict = "OK" if process.running.returncode == 0 else "FAILED"
    return Ended(test, verdict, time.monotonic() - start, output)


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("preset")
    words.add_argument("-R", dest="regex", default="", help="only tests whose name this matches")
    words.add_argument("--one-in", nargs=2, action="append", default=[], metavar=("N", "REGEX"),
                       help="of tests whose name this matches only one in so many")
    words.add_argument("--seconds", type=float, help="that a test may take, in place of what ctest knows")
    words.add_argument("-j", dest="jobs", type=int, default=os.cpu_count())
    words.add_argument("--times", type=pathlib.Path, help="a file for the seconds of each test, slowest first")
    asked = words.parse_args()

    # A shell's background job ignores Ctrl-C, and so would the runs that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tests = some_of(known_tests(asked.preset, asked.regex), asked.one_in)
    if asked.seconds:
        tests = [test._replace(timeout_s=asked.seconds) for test in tests]
    if not tests:
        sys.exit(f"no test of {asked.preset} matches '{asked.regex}'")
    environment = environment_of(asked.preset)
    parts = in_parts(tests)
    print(f"{len(tests)} tests in {len(parts)} processes", flush=True)
    all_ended = []
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        for ended in concurrent.futures.as_completed([pool.submit(run_part, part, environment) for part in parts]):
            for each in ended.result():
                if each.verdict == "FAILED":
                    print(f"{each.output}\n{each.test.name} (Failed)", flush=True)
            all_ended += ended.result()

    def names_of(verdict):
        return [each.test.name for each in all_ended if each.verdict == verdict]

    skipped, failed = names_of("SKIPPED"), names_of("FAILED")
    took = collections.Counter()
    for each in all_ended:
        took[each.test.name.split("/")[0]] += each.seconds
    print("seconds: " + ", ".join(f"{folder} {seconds:.0f}" for folder, seconds in took.most_common()))
    slowest_first = sorted(all_ended, key=lambda ended: -ended.seconds)
    for each in slowest_first[:12]:
        print(f"{each.seconds:8.1f} s  {each.test.name}")
    if asked.times:
        asked.times.write_text("".join(f"{each.seconds:.3f}\t{each.test.name}\n" for each in slowest_first))
    if skipped:
        print("skipped: " + ", ".join(sorted(skipped)))
    for name in failed:
        print(f"{name} (Failed)")
    print(f"{len(all_ended)} tests, {len(failed)} failed, {len(skipped)} skipped")
    sys.exit(1 if failed or len(all_ended) != len(tests) else 0)


if __name__ == "__main__":
    main()
