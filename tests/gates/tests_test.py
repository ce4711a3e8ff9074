"""tests.py with a ctest and a program that answer as the real ones would: what fails, dies or hangs is told, and no
test is lost behind it."""

import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Of a suite "S": what each test does is its name, and how often the process was started stands in a file.
PROGRAM = '''#!{python}
import os, pathlib, sys, time
starts = pathlib.Path(__file__).with_name("starts")
starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
status = 0
for name in sys.argv[1].partition("=")[2].split(":"):
    print(f"[ RUN      ] {{name}}", flush=True)
    if name == "S.Dies":
        print("the last words", flush=True)
        os.kill(os.getpid(), 11)
    if name == "S.Hangs":
        time.sleep(60)
    if name == "S.IsNotThere":
        continue
    verdict = {{"S.Fails": "  FAILED  ", "S.Skips": "  SKIPPED "}}.get(name, "       OK ")
    status = status or int(name == "S.Fails")
    value = ", where GetParam() = 4" if name == "S.Fails" else ""
    print(f"[{{verdict}}] {{name}}{{value}} (3 ms)", flush=True)
    if name == "S.Leaks":
        status = 23
sys.exit(status)
'''
CTEST = '''#!{python}
import pathlib
print(pathlib.Path(__file__).with_name("shown.json").read_text())
'''


def run(folder, names, *options):
    """(exit status, output, starts of the program)"""
    program = folder / "test_s"
    for path, text in ((program, PROGRAM), (folder / "ctest", CTEST)):
        path.write_text(text.format(python=sys.executable))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    properties = [{"name": "TIMEOUT", "value": 2.0}]
    (folder / "shown.json").write_text(json.dumps({"tests": [
        {"name": f"s/{name}", "command": [str(program), f"--gtest_filter={name}"],
         "properties": properties + ([{"name": "DISABLED", "value": True}] if name == "S.Off" else [])}
        for name in names]}))
    (folder / "starts").unlink(missing_ok=True)
    asked = subprocess.run([sys.executable, ROOT / "tests/gates/tests.py", "dev", *options],
                           capture_output=True, text=True,
                           env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}, check=False)
    return asked.returncode, asked.stdout + asked.stderr, len((folder / "starts").read_text())


def expect(told, what):
    if not told:
        sys.exit(f"not so: {what}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        status, said, starts = run(folder, ["S.Passes", "S.Skips", "S.Off", "S.PassesToo"])
        expect(status == 0 and starts == 1 and "3 tests, 0 failed, 1 skipped" in said, f"all pass at once:\n{said}")
        for names, failed, processes, told in (
                (["S.Passes", "S.Fails", "S.PassesToo"], 1, 1, "s/S.Fails (Failed)"),
                (["S.Passes", "S.Dies", "S.PassesToo"], 1, 2, "the last words\nexit status -11"),
                (["S.Passes", "S.Hangs", "S.PassesToo"], 1, 2, "no end after 2 s"),
                (["S.Passes", "S.IsNotThere", "S.PassesToo"], 1, 1, "s/S.IsNotThere (Failed)"),
                (["S.Passes", "S.Leaks"], 1, 1, "after these tests: exit status 23")):
            status, said, starts = run(folder, names)
            expect(status == 1 and starts == processes and told in said and
                   f"{len(names)} tests, {failed} failed, 0 skipped" in said,
                   f"{names}: status {status}, {starts} processes\n{said}")
        names = [f"S.Layout{number}" for number in range(60)] + ["S.Passes"]
        status, said, _ = run(folder, names, "--one-in", "3", "Layout")
        left = int(said.split(" tests in ")[0])
        expect(status == 0 and 10 < left < 40, f"about a third of 60 and one of another name:\n{said}")
        expect(run(folder, ["S.Passes", "S.PassesToo"], "--one-in", "1000000", "Layout")[1].startswith("2 tests"),
               "what the expression does not match stays")
    print("as ctest would")


if __name__ == "__main__":
    main()
