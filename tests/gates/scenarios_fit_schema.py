"""Every scenario, cluster and preset that is shipped fits the JSON Schema that `orrery schema` prints, and every
golden error that such a schema can see does not: usage: scenarios_fit_schema.py ROOT ORRERY."""

import json
import pathlib
import re
import subprocess
import sys

import jsonschema

root = pathlib.Path(sys.argv[1])
schema = json.loads(subprocess.run([sys.argv[2], "schema"], check=True, capture_output=True).stdout)
jobs_schema = json.loads(subprocess.run([sys.argv[2], "schema", "--jobs"], check=True, capture_output=True).stdout)
for each in schema, jobs_schema:
    jsonschema.Draft202012Validator.check_schema(each)


def read(path):
    """JSON with // comments, as the reader takes it; a string never has two slashes before one here."""
    return json.loads(re.sub(r"(?m)(?<![:\"\w])//.*$", "", path.read_text()))


def object_of(*keys):
    """The schema of an object that may stand at these keys."""
    at = schema
    for key in keys:
        at = at["properties"][key]
        at = next(each for each in at.get("anyOf", [at]) if each.get("type") == "object")
    return at


faults = []
checked = 0
for folder, wanted in (
    ("scenarios/runs", schema),
    ("scenarios/clusters", object_of("cluster")),
    ("scenarios/frameworks", object_of("training", "framework")),
    ("scenarios/jobs", jobs_schema),
):
    validator = jsonschema.Draft202012Validator(wanted)
    for path in sorted((root / folder).glob("*.json")):
        checked += 1
        for fault in validator.iter_errors(read(path)):
            faults.append(f"{path}: /{'/'.join(map(str, fault.absolute_path))}: {fault.message}")

# Unknown keys, wrong types, values out of range, unknown words, in the scenario's own text; not a key that another
# one's value leaves without a meaning.
FORM = {"S004", "S006", "S007", "S008"}
# A schedule may be the name of a file; which stages may be empty depends on where they are; a degree may be left open
# for a search.
NOT_OF_FORM = {"unknown_schedule.json", "layers_array_empty_stage.json", "degree_left_open.json"}
validator = jsonschema.Draft202012Validator(schema)
for path in sorted((root / "tests/golden/errors").glob("*.json")):
    told = path.with_suffix(".txt").read_text()
    codes = set(re.findall(r"^error\[(S\d+)\](?!.* means nothing here)", told, re.M))
    own = re.findall(rf"--> {re.escape(path.name)}:/(?!model|run/elastic)", told)
    if not codes or not codes <= FORM or not own or path.name in NOT_OF_FORM or path.with_suffix(".set").exists():
        continue
    checked += 1
    if validator.is_valid(read(path)):
        faults.append(f"{path}: fits, but the reader says\n{told}")

print(f"{checked} files, {len(faults)} faults")
print("\n".join(faults))
sys.exit(1 if faults or checked < 80 else 0)
