"""layering.py finds what it is for: each test is a small tree with one fault, or none."""

import pathlib
import tempfile
import unittest

import layering


def faults(files):
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            file = pathlib.Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return layering.check(folder)[0]


HEADERS = {f"{module}/a.hpp": "" for module in layering.EVERYTHING}


def include(path, target):
    return faults(HEADERS | {path: f'#pragma once\n#include "{target}"\n'})


class Layering(unittest.TestCase):
    def test_downward_and_inside_is_fine(self):
        for path, target in [("plan/ir/b.hpp", "plan/a.hpp"), ("sim/engine/b.cpp", "trace/a.hpp"),
                             ("calib/fit/b.cpp", "sim/a.hpp"), ("calib/measure/b.cpp", "runtime/a.hpp"),
                             ("cli/b.cpp", "calib/compare/a.hpp"), ("gui/b.cpp", "sim/a.hpp"),
                             ("gui/b.cpp", "cli/a.hpp"),
                             ("tests/sim/b_test.cpp", "cli/a.hpp")]:
            self.assertEqual(include(path, target), [], (path, target))

    def test_upward_and_sideways_is_not(self):
        for path, target in [("plan/ir/b.hpp", "trace/a.hpp"), ("trace/b.cpp", "sim/a.hpp"),
                             ("sim/b.cpp", "runtime/a.hpp"), ("runtime/b.cpp", "sim/a.hpp"),
                             ("calib/fit/b.cpp", "calib/compare/a.hpp"), ("calib/compare/b.cpp", "calib/fit/a.hpp"),
                             ("calib/measure/b.cpp", "sim/a.hpp"), ("gui/b.cpp", "runtime/a.hpp"),
                             ("cli/b.cpp", "gui/a.hpp"), ("plan/b.cpp", "cli/a.hpp")]:
            found = include(path, target)
            self.assertEqual(len(found), 1, (path, target))
            self.assertTrue(found[0].startswith(f'{path}:2: "{target}": '), found)

    def test_qt_stays_in_the_desktop_application(self):
        for header in ["QApplication", "QtCharts/QChart", "QtWidgets/QWidget", "qglobal.h"]:
            line = f"#include <{header}>\n"
            for path in ["plan/b.cpp", "trace/b.cpp", "sim/b.cpp", "cli/b.cpp", "runtime/b.cpp", "tests/sim/b_test.cpp"]:
                self.assertEqual(faults(HEADERS | {path: line}), [f"{path}:1: {header}: only gui sees a header of Qt"])
            for path in ["gui/window/b.cpp", "tests/gui/b_test.cpp"]:
                self.assertEqual(faults(HEADERS | {path: line}), [], (path, header))
        self.assertEqual(faults(HEADERS | {"plan/b.cpp": "#include <queue>\n"}), [])

    def test_the_desktop_application_starts_runs_as_processes(self):
        found = faults(HEADERS | {"cli/run/a.hpp": "", "gui/b.cpp": '#include "cli/run/a.hpp"\n'})
        self.assertEqual(len(found), 1, found)
        self.assertIn("starts runs as processes", found[0])

    def test_folders_in_a_circle(self):
        around = {"plan/ir/b.hpp": '#include "plan/ops/b.hpp"\n', "plan/ops/b.hpp": '#include "plan/text/b.hpp"\n',
                  "plan/text/b.hpp": '#include "plan/ir/c.hpp"\n', "plan/ir/c.hpp": ""}
        found = faults(HEADERS | around)
        self.assertEqual(len(found), 1, found)
        for path in ["plan/ir/b.hpp", "plan/ops/b.hpp", "plan/text/b.hpp"]:
            self.assertIn(f"{path} includes", found[0])
        self.assertEqual(faults(HEADERS | around | {"plan/text/b.hpp": '#include "plan/text/d.hpp"\n',
                                                    "plan/text/d.hpp": ""}), [])

    def test_labels_decide_nothing(self):
        for line in ['if (op.label == "fc2") return 3;', 'return name != op->label;',
                     'if (op.label.ends_with("dgrad")) sum();', "label.find(' ')"]:
            self.assertEqual(len(faults(HEADERS | {"sim/b.cpp": line + "\n"})), 1, line)
            self.assertEqual(faults(HEADERS | {"tests/sim/b_test.cpp": line + "\n"}), [], line)
        for line in ['op.label = "fc2";', "text += op.label;", "out << label << name;"]:
            self.assertEqual(faults(HEADERS | {"sim/b.cpp": line + "\n"}), [], line)

    def test_the_runtime_has_its_plan_alone(self):
        headers = HEADERS | {"plan/scenario/a.hpp": "", "plan/scenario/diagnostic.hpp": "", "plan/assemble/a.hpp": "",
                             "plan/ops/a.hpp": ""}
        for target, count, where_a_run_is_read in [("plan/scenario/a.hpp", 1, 0), ("plan/assemble/a.hpp", 1, 1),
                                                   ("plan/scenario/diagnostic.hpp", 0, 0), ("plan/ops/a.hpp", 0, 0)]:
            text = f'#include "{target}"\n'
            for path, found in [("runtime/executor/performer_rows.cpp", count), ("runtime/train/b.cpp", count),
                                ("runtime/launch/b.cpp", where_a_run_is_read),
                                ("runtime/data/b.cpp", where_a_run_is_read), ("cli/run/b.cpp", 0)]:
                self.assertEqual(len(faults(headers | {path: text})), found, (path, target))

    def test_traces_are_compared_by_what_they_say(self):
        headers = HEADERS | {"plan/scenario/scenario.hpp": "", "plan/scenario/differing_keys.hpp": "",
                             "plan/assemble/a.hpp": "", "sim/engine/fold.hpp": ""}
        for target, count in [("plan/scenario/scenario.hpp", 1), ("plan/assemble/a.hpp", 1), ("sim/engine/fold.hpp", 1),
                              ("plan/scenario/differing_keys.hpp", 0), ("trace/a.hpp", 0)]:
            text = f'#include "{target}"\n'
            for path, found in [("calib/compare/trace_join.cpp", count), ("calib/compare/validate.cpp", 0)]:
                self.assertEqual(len(faults(headers | {path: text})), found, (path, target))

    def test_angle_brackets_hide_nothing(self):
        self.assertEqual(len(faults(HEADERS | {"plan/b.cpp": "#include <sim/a.hpp>"})), 1)

    def test_path_relative_to_the_file_is_a_fault(self):
        self.assertEqual(len(include("plan/ir/b.hpp", "../a.hpp")), 1)
        self.assertEqual(len(include("plan/b.hpp", "a.hpp")), 1)

    def test_cuda_headers_only_in_runtime_cuda(self):
        for header in ["cuda_runtime.h", "cublasLt.h", "nccl.h", "cub/cub.cuh"]:
            self.assertEqual(faults({"runtime/cuda/b.cpp": f"#include <{header}>"}), [])
            self.assertEqual(len(faults({"runtime/cpu/b.cpp": f"#include <{header}>"})), 1)

    def test_cuda_is_seen_by_programs_alone(self):
        inside = {f"runtime/cuda/{name}.hpp": "" for name in ("cuda_backend", "cuda_driver")}
        for path, target, number in [("runtime/cuda/b.cpp", "cuda_driver", 0), ("cli/run/b.cpp", "cuda_backend", 0),
                                     ("tests/gpu/b.cpp", "cuda_backend", 0), ("cli/run/b.cpp", "cuda_driver", 1),
                                     ("runtime/streams/b.cpp", "cuda_backend", 1), ("cli/b.cpp", "cuda_backend", 1)]:
            found = faults(HEADERS | inside | {path: f'#include "runtime/cuda/{target}.hpp"\n'})
            self.assertEqual(len(found), number, (path, target, found))

    def test_file_outside_the_layers_is_a_fault(self):
        self.assertEqual(len(faults({"calib/stray.cpp": ""})), 1)


if __name__ == "__main__":
    unittest.main()
