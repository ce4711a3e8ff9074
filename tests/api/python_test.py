"""The package orrery as people use it: its answers are those of the command line, its types are what it has, what it
raises carries what is wrong, an interrupt ends what it is at. PYTHONPATH has it, ORRERY_PROGRAM is the program."""

import ast
import json
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import orrery

TREE = pathlib.Path(__file__).resolve().parents[2]
RUNS = TREE / "scenarios/runs"
TINY = RUNS / "tiny-gpt.json"


def printed(*arguments):
    """What the program prints."""
    return subprocess.run([os.environ["ORRERY_PROGRAM"], *map(str, arguments)], check=False, capture_output=True,
                          text=True).stdout


def examples(page):
    """The blocks of Python on a page, one program."""
    return "\n".join(re.findall(r"```python\n(.*?)```", (TREE / page).read_text(), re.DOTALL))


class Answers(unittest.TestCase):
    def test_simulate_is_the_command(self):
        step = orrery.simulate(TINY, {"layout.zero_stage": 1, "layout.schedule": "gpipe"})
        out = printed("simulate", TINY, "--json", "--set", "layout.zero_stage=1", "--set", "layout.schedule=gpipe")
        self.assertEqual(step.to_json(), out)
        answer = json.loads(out)
        self.assertEqual(step.to_dict(), answer)
        self.assertEqual(step.step_time, answer["step"]["time_s"])
        self.assertEqual(list(step.interval), answer["step"]["interval_s"])
        self.assertEqual(step.breakdown, answer["step"]["breakdown_s"])
        self.assertEqual(step.verdict, answer["memory"]["verdict"])
        self.assertEqual(step.mfu, answer["throughput"]["mfu"])
        self.assertEqual(step.days, answer["run"]["days"])
        self.assertEqual([stage.peak_bytes for stage in step.stages],
                         [stage["peak_bytes"] for stage in answer["memory"]["stages"]])
        self.assertIn(step.verdict, repr(step))

    def test_search_is_the_command(self):
        found = orrery.search(str(TINY), vary={"layout.zero_stage": "0..1", "layout.schedule": ["gpipe", "1f1b"]}, top=2)
        answer = json.loads(printed("search", TINY, "--json", "--top", "2", "--vary", "layout.zero_stage=0..1",
                                    "--vary", "layout.schedule=gpipe,1f1b"))
        ours = found.to_dict()
        answer.pop("seconds")
        self.assertGreater(ours.pop("seconds"), 0)
        self.assertEqual(ours, answer)
        self.assertEqual(found.evaluated, 4)
        best = found.layouts[0]
        self.assertEqual(best.step_time, answer["layouts"][0]["step_time_s"])
        self.assertEqual(orrery.simulate(TINY, best.overrides).step_time, best.step_time)
        self.assertEqual(orrery.simulate(found.scenario()).step_time, best.step_time)
        self.assertIn(best.overrides["layout.schedule"], ["1f1b", "gpipe"])
        self.assertIs(type(best.overrides["layout.zero_stage"]), int)

    def test_scenarios_are_paths_mappings_and_what_was_read(self):
        mapping = json.loads(TINY.read_text())
        here = os.getcwd()
        os.chdir(RUNS)  # whence a mapping's references are looked for
        try:
            of_mapping = orrery.Scenario(mapping)
        finally:
            os.chdir(here)
        self.assertEqual(of_mapping.to_dict(), orrery.Scenario(TINY).to_dict())
        changed = orrery.Scenario(TINY, {"layout.zero_stage": 1}).with_overrides({"layout.zero_stage": 2})
        self.assertEqual(changed.to_dict()["layout"]["zero_stage"], 2)
        self.assertEqual(changed.overrides, {"layout.zero_stage": 2})
        self.assertEqual(changed.diagnostics, [])
        self.assertEqual(orrery.simulate(changed, {"layout.zero_stage": 0}).to_json(), orrery.simulate(
            TINY, {"layout.zero_stage": 0}).to_json())

    def test_values_are_what_they_are_in_python(self):
        layout = orrery.Scenario(TINY, {
            "description": "4", "layout.sequence_parallel": True, "layout.layers_per_stage": [1, 3],
            "training.tokens": 1e9}).to_dict()
        self.assertEqual(layout["description"], "4")
        self.assertIs(layout["layout"]["sequence_parallel"], True)
        self.assertEqual(layout["layout"]["layers_per_stage"], [1, 3])
        self.assertEqual(layout["training"]["tokens"], 1e9)

    def test_traces_are_written(self):
        step = orrery.simulate(TINY)
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = pathlib.Path(folder, "ours.pftrace"), pathlib.Path(folder, "theirs.pftrace")
            step.write_trace(ours)
            printed("simulate", TINY, "--trace", theirs)
            self.assertEqual(ours.read_bytes(), theirs.read_bytes())
            notes = pathlib.Path(folder, "notes.json")
            notes.write_text("[]")
            with self.assertRaises(orrery.UsageError):
                step.write_trace(notes)
            self.assertEqual(notes.read_text(), "[]")
            step.write_trace(notes, overwrite=True)
            self.assertIn("traceEvents", json.loads(notes.read_text()))
            with self.assertRaises(orrery.FileError) as raised:
                step.write_trace(pathlib.Path(folder, "nowhere", "a.orrery"))
            self.assertEqual(raised.exception.exit_code, 8)

    def test_pages(self):
        for page in ("README.md", "docs/library.md"):
            program = examples(page)
            self.assertGreaterEqual(program.count("\n"), 5, page)
            with tempfile.TemporaryDirectory() as folder:  # where examples write
                for link in ("scenarios", "run.json"):
                    os.symlink(RUNS / "llama2-7b-a100x8.json" if link == "run.json" else TREE / link,
                               pathlib.Path(folder, link))
                done = subprocess.run([sys.executable, "-c", program], cwd=folder, check=False, capture_output=True,
                                      text=True)
            self.assertEqual(done.returncode, 0, page + done.stderr)
            shown = re.findall(r"^.*#  *prints (.*)$", program, re.MULTILINE)
            self.assertEqual(shown, done.stdout.splitlines(), page)


class Faults(unittest.TestCase):
    def test_diagnostics_are_values(self):
        with self.assertRaises(orrery.InvalidScenario) as raised:
            orrery.simulate(TINY, {"layout.tensor_parallel": 3, "layout.schedule": "gpip"})
        error = raised.exception
        self.assertIsInstance(error, ValueError)
        self.assertEqual(error.exit_code, 3)
        first = error.diagnostics[0]
        self.assertEqual((first.code, first.pointer, first.value, first.origin),
                         ("S008", "/layout/schedule", '"gpip"', "from --set layout.schedule=gpip"))
        self.assertTrue(any("gpipe" in line for line in first.help))
        self.assertGreater(len(error.diagnostics), 1)
        self.assertIn(first.message, str(error))
        self.assertEqual([one.code for one in orrery.Scenario(TINY, {"layout.schedule": "gpip"}).diagnostics], ["S008"])

    def test_kinds(self):
        with self.assertRaises(orrery.InvalidScenario) as raised:
            orrery.simulate("nowhere.json")
        self.assertEqual(raised.exception.exit_code, 5)
        with self.assertRaises(orrery.UsageError):
            orrery.search(TINY, top=0)
        with self.assertRaises(orrery.FileError):
            orrery.simulate(TINY, costs="nowhere.orrery")
        with self.assertRaises(TypeError):
            orrery.simulate(3)
        self.assertTrue(issubclass(orrery.UsageError, ValueError))

    def test_errors_cross_processes(self):
        error = pickle.loads(pickle.dumps(orrery.UsageError("no", 2)))
        self.assertEqual((str(error), error.exit_code), ("no", 2))


class Threads(unittest.TestCase):
    def test_others_run_while_it_computes(self):
        done = threading.Event()
        turns = 0

        def compute():
            orrery.search(RUNS / "llama2-7b-a100x8.json", top=1)
            done.set()

        thread = threading.Thread(target=compute)
        thread.start()
        while not done.is_set():
            turns += 1
            time.sleep(0.001)
        thread.join()
        self.assertGreater(turns, 5)  # none, if the lock were held

    def test_an_interrupt_ends_a_search(self):
        endless = {f"layout.{key}_parallel": "1..64" for key in ("tensor", "context", "pipeline")}
        endless.update({"layout.micro_batch_size": "1..64", "layout.virtual_pipeline": "1..64"})
        timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            orrery.search(RUNS / "llama3-70b-h100x256.json", vary=endless)  # of a billion layouts: hours
        timer.join()
        self.assertEqual(orrery.simulate(TINY).verdict, "fits")


def parameters_of(function):
    arguments = function.args
    names = [one.arg for one in arguments.args + arguments.kwonlyargs if one.arg != "self"]
    return names, len(arguments.kwonlyargs)


def documented_parameters(function):
    """Of the signature that pybind11 writes: names without types, and how many stand behind the star."""
    inside = re.match(r"\w+\((.*)\) ->", function.__doc__)[1]
    words = re.findall(r"(?:^|, )(\*|\w+)(?=:|,|$)", inside)
    words = [word for word in words if word != "self"]
    star = words.index("*") if "*" in words else len(words)
    return [word for word in words if word != "*"], max(0, len(words) - star - 1)


class Types(unittest.TestCase):
    """_orrery.pyi says what the module has: every name, every parameter."""

    stub = ast.parse((TREE / "api/python/orrery/_orrery.pyi").read_text())

    def test_names(self):
        module = sys.modules["orrery._orrery"]
        declared = {one.name: one for one in self.stub.body if isinstance(one, (ast.ClassDef, ast.FunctionDef))}
        self.assertEqual(set(declared), {name for name in vars(module) if not name.startswith("_")})
        for name, node in declared.items():
            if isinstance(node, ast.FunctionDef):
                self.assertEqual(parameters_of(node), documented_parameters(getattr(module, name)), name)
                continue
            ours = vars(getattr(module, name))
            members = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
            public = {member for member in ours if not member.startswith("_") or (member == "__init__" and "__init__" in members)}
            self.assertEqual(set(members), public, name)
            for member, one in members.items():
                if isinstance(ours[member], property):
                    self.assertTrue(one.decorator_list, member)
                else:
                    self.assertEqual(parameters_of(one), documented_parameters(ours[member]), name + "." + member)

    def test_all(self):
        for name in orrery.__all__:
            self.assertTrue(hasattr(orrery, name), name)
        self.assertTrue((pathlib.Path(orrery.__file__).parent / "py.typed").is_file())


if __name__ == "__main__":
    unittest.main()
