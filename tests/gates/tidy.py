"""clang-tidy over the sources of a built folder. A clean file is remembered under build/tidy by all that could change
the answer (its text, its headers', the checks, the command, the tool) and not looked at again."""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLEAN = ROOT / "build/tidy"
LINES_OF_A_FILE = 30  # the analyzer's path to one fault can be hundreds


def read_headers(build):
    """object -> headers, from what ninja recorded when it compiled them."""
    headers, current = {}, None
    listing = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        if line.startswith("    "):
            headers[current].append(line.strip())
        elif ": #deps" in line:
            current = line.split(": #deps")[0]
            headers[current] = []
    return headers


def key_of(entry, headers, settings, digests):
    key = hashlib.sha256(settings + entry["command"].encode())
    for header in headers:
        path = (pathlib.Path(entry["directory"]) / header).resolve()
        if path not in digests:
            digests[path] = hashlib.sha256(path.read_bytes()).digest()
        key.update(str(path).encode() + digests[path])
    return key.hexdigest()


def tidy(build, file):
    start = time.monotonic()
    done = subprocess.run(["clang-tidy", "--quiet", "-p", build, file], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + (done.stderr if done.returncode else ""), time.monotonic() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", help="folder with compile_commands.json, already built")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()

    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    settings = version + (ROOT / ".clang-tidy").read_bytes()
    headers = read_headers(arguments.build)
    entries = json.loads(pathlib.Path(arguments.build, "compile_commands.json").read_text())
    if not entries:
        sys.exit("nothing to look at")

    CLEAN.mkdir(parents=True, exist_ok=True)
    digests, todo = {}, []
    for entry in entries:
        words = shlex.split(entry["command"])
        depends = headers.get(words[words.index("-o") + 1])
        if not depends:
            sys.exit(f"{entry['file']} is not built: no recorded headers")
        remembered = CLEAN / key_of(entry, depends, settings, digests)
        if not remembered.exists():
            todo.append((entry["file"], remembered))

    faulty = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = pool.map(lambda item: tidy(arguments.build, item[0]), todo)
        for (file, remembered), (status, output, seconds) in zip(todo, results):
            print(f"{seconds:6.1f} s  {pathlib.Path(file).relative_to(ROOT)}")
            if status == 0:
                remembered.touch()
            else:
                faulty += 1
                print(*output.splitlines()[:LINES_OF_A_FILE], sep="\n")
    print(f"{len(entries)} files, {len(entries) - len(todo)} known to be clean, {faulty} with faults")
    sys.exit(1 if faulty else 0)


if __name__ == "__main__":
    main()
