"""Who may include whom. Includes are written from the repository root, so link edges alone cannot forbid one.
Inner folders are stages of a flow, too: no folder may reach itself through the includes of others."""

import graphlib
import pathlib
import re
import sys

ALLOWED = {
    "plan": {"plan"},
    "trace": {"plan", "trace"},
    "sim": {"plan", "trace", "sim"},
    "runtime": {"plan", "trace", "runtime"},
    "calib/fit": {"plan", "trace", "sim", "calib/fit"},
    "calib/compare": {"plan", "trace", "sim", "calib/compare"},
    "calib/measure": {"plan", "trace", "runtime", "calib/fit", "calib/measure"},
    "calib/preflight": {"plan", "trace", "sim", "runtime", "calib/measure", "calib/preflight"},
}
ALLOWED["cli"] = set(ALLOWED) | {"cli"}
# What the command line prints, the library answers and the desktop application shows: by the same code.
ALLOWED["api"] = {"plan", "trace", "sim", "calib/fit", "calib/compare", "cli", "api"}
ALLOWED["gui"] = {"plan", "trace", "sim", "calib/fit", "calib/compare", "cli", "gui"}
EVERYTHING = set(ALLOWED)
ALLOWED["tests"] = EVERYTHING | {"tests"}
FOLDERS = sorted({module.split("/")[0] for module in ALLOWED})

SOURCES = {".cpp", ".hpp", ".cu", ".cuh", ".h", ".cc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
CUDA = re.compile(
    r"^(cuda|cublas|cudnn|cufft|curand|cusolver|cusparse|cupti|nvml|nvrtc|nvToolsExt|nccl|cutlass|cute|cub|thrust"
    r"|nvtx3|cooperative_groups|mma\.h|device_launch_parameters)")
# The backend is a library that not every build has: what it shows to the programs, and to whom. Its
# neighbours in runtime/ (kernels, streams, launch, …) must do without it.
EMULATED_CUDA = "tests/gpu/emulation/"  # stands where CUDA's own headers and libraries are
CUDA_PROGRAMS = "tests/gpu/program/"  # of preset `cuda` alone
SHOWN_BY_CUDA = {"runtime/cuda/cuda_backend.hpp", "runtime/cuda/nccl_driver.hpp"}
USERS_OF_CUDA = ("cli/run/", "tests/")


# Of Qt, by the names of its headers and of the folders that they are in.
QT = re.compile(r"^(Qt[A-Z]\w*/|Q[A-Z]\w*$|q[a-z0-9]+\.h$|qt\w+/)")
USERS_OF_QT = ("gui/", "tests/gui/", "tests/bench/gui/")


# What an op computes is in its fields: a label is for people.
DECIDES_BY_LABEL = re.compile(
    r"\blabel\s*(==|!=|<(?!<))|\blabel\.(compare|starts_with|ends_with|contains|find|rfind)\(|(==|!=)\s*[\w.>-]*\blabel\b")
BEFORE_THE_PLAN = ("plan/scenario/", "plan/blocks/", "plan/passes/", "plan/assemble/")
# Who does without what, and why.
WITHOUT = [
    (re.compile(r"gui/.*"), ("cli/run/",), (), "the desktop application starts runs as processes"),
    (re.compile(r"runtime/.*"), ("plan/blocks/", "plan/passes/", "plan/assemble/"), (), "the runtime builds no plan"),
    # The run section is read where ranks meet, where data is, and where a run's health is watched.
    (re.compile(r"runtime/(?!launch/|data/|train/health\.hpp).*"), ("plan/scenario/",), ("plan/scenario/diagnostic.hpp",),
     "the runtime reads the plan, not the scenario that it was built from"),
    # Where two scenarios differ is told to people.
    (re.compile(r"calib/compare/trace_\w+\.[ch]pp"), BEFORE_THE_PLAN + ("sim/",), ("plan/scenario/differing_keys.hpp",),
     "two traces are compared by what they say"),
]


def module_of(path):
    """The layer that a path from the root belongs to, or None."""
    parts = path.split("/")
    for module in ("/".join(parts[:2]), parts[0]):
        if module in ALLOWED and len(parts) > module.count("/") + 1:
            return module
    return None


def faults_of_line(root, path, line):
    """What is wrong with one line of the file at `path` (from the root)."""
    if DECIDES_BY_LABEL.search(line) and not path.startswith("tests/"):
        return [f"decides by a label: {line.strip()}"]
    found = INCLUDE.match(line)
    if not found:
        return []
    quote, target = found.groups()
    if CUDA.match(target) and not path.startswith("runtime/cuda/"):
        return [f"{target}: only runtime/cuda sees a CUDA header"]
    if quote == "<" and QT.match(target) and not path.startswith(USERS_OF_QT):
        return [f"{target}: only gui sees a header of Qt"]
    if quote == "<" and target.split("/")[0] not in FOLDERS:
        return []
    if not (root / target).is_file():
        return [] if quote == "<" else [f'"{target}": no such file from the repository root']
    if target.startswith("runtime/cuda/") and not path.startswith(("runtime/cuda/", EMULATED_CUDA, CUDA_PROGRAMS)):
        if target not in SHOWN_BY_CUDA or not path.startswith(USERS_OF_CUDA):
            return [f'"{target}": only cli/run and tests see runtime/cuda, by {", ".join(sorted(SHOWN_BY_CUDA))}']
    for who, without, but, why in WITHOUT:
        if who.fullmatch(path) and target.startswith(without) and target not in but:
            return [f'"{target}": {why}']
    layer, wanted = module_of(path), module_of(target)
    if wanted not in ALLOWED[layer]:
        return [f'"{target}": {layer} may include {", ".join(sorted(ALLOWED[layer]))}, not {wanted}']
    return []


def faults_of_file(root, path):
    if module_of(path) is None:
        return [f"{path}: belongs to no layer; known: {', '.join(sorted(ALLOWED))}"]
    text = (root / path).read_text(encoding="utf-8")
    return [f"{path}:{number}: {fault}"
            for number, line in enumerate(text.splitlines(), 1)
            for fault in faults_of_line(root, path, line)]


def includes_between_folders(root, paths):
    """{(folder, included folder): the first include that leads there}."""
    found = {}
    for path in paths:
        for line in (root / path).read_text(encoding="utf-8").splitlines():
            include = INCLUDE.match(line)
            if include and (root / include[2]).is_file():
                edge = path.rpartition("/")[0], include[2].rpartition("/")[0]
                if edge[0] != edge[1]:
                    found.setdefault(edge, f'{path} includes "{include[2]}"')
    return found


def faults_of_folders(root, paths):
    """A circle of folders that include each other, if there is one."""
    edges = includes_between_folders(root, paths)
    folders = {}
    for folder, included in edges:
        folders.setdefault(folder, set()).add(included)
    try:
        graphlib.TopologicalSorter(folders).prepare()
    except graphlib.CycleError as error:
        circle = error.args[1]  # each is included by the next
        return ["folders in a circle: " + "; ".join(edges[b, a] for a, b in zip(circle, circle[1:]))]
    return []


def check(root):
    """All faults of the tree at `root`, and the number of files looked at."""
    root = pathlib.Path(root)
    paths = sorted(file.relative_to(root).as_posix()
                   for folder in FOLDERS for file in (root / folder).rglob("*") if file.suffix in SOURCES)
    inside = [path for path in paths if not path.startswith("tests/")]  # tests mirror the tree
    return [fault for path in paths for fault in faults_of_file(root, path)] + faults_of_folders(root, inside), len(paths)


def main():
    faults, files = check(sys.argv[1])
    print(*faults, f"{files} files, {len(faults)} faults", sep="\n")
    sys.exit(1 if faults or not files else 0)


if __name__ == "__main__":
    main()
