"""A search of some ten thousand layouts, by the command and from Python in turn: time of the processor, and the ratio.

    search_from_python.py PROGRAM FOLDER [ROUNDS]     FOLDER holds the package orrery: build/release/python

What both find must be the same. The least of each is compared: what else the machine does only adds.
"""

import json
import os
import resource
import subprocess
import sys

RUN = "scenarios/runs/llama3-70b-h100x256.json"
VARY = {
    "layout.tensor_parallel": "1,2,4,8",
    "layout.pipeline_parallel": "1,2,4,8,16",
    "layout.virtual_pipeline": "1..5",
    "layout.micro_batch_size": "1,2,4,8",
    "layout.recompute": "none,selective,full",
    "layout.zero_stage": "0..3",
    "layout.schedule": "1f1b,interleaved,zb-h1",
}


def measured(command, environment):
    """Seconds of the processor, and what the command printed but its own seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(out)
    del found["seconds"]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, found


def main():
    program, folder = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    command = [program, "search", RUN, "--json"]
    for key, values in VARY.items():
        command += ["--vary", f"{key}={values}"]
    script = f"import orrery, sys; sys.stdout.write(orrery.search({RUN!r}, vary={VARY!r}).to_json())"
    python = [sys.executable, "-c", script]
    environment = dict(os.environ, PYTHONPATH=os.path.abspath(folder))
    of_command, of_python = [], []
    for _ in range(rounds):
        seconds, found = measured(command, environment)
        of_command.append(seconds)
        seconds, same = measured(python, environment)
        of_python.append(seconds)
        assert found == same, "the two do not find the same"
    print(f"{found['evaluated']} layouts, {found['priced']} priced: {min(of_command):.2f} s by the command, "
          f"{min(of_python):.2f} s from Python, {min(of_python) / min(of_command):.2f} x")


if __name__ == "__main__":
    main()
