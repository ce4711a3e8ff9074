"""What nvcc makes of the kernels in runtime/cuda, looked at for sm_80: no kernel keeps data in local memory or spills
registers there, and kernels that go over rows read and write global memory by 16 bytes; but for what EXCEPTIONS and
NARROW list. A kernel that is better than its line fails too: then the line is wrong, and goes or gets less.

    ptxas.py BUILD [--jobs N]     BUILD: a configured build with CUDA, whose flags are taken

Compiled is what has changed since the last time, into BUILD/machine-code.
"""

import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys

ARCHITECTURE = "80"
RELEASE = "13.0"  # of nvcc, whose numbers these are; with another one kernels are held to the names here alone

# Kernels of a source with a stack frame: bytes of it, of spill stores and of spill loads.
EXCEPTIONS = {
    # In fp32, for what tensor cores do not do: arrays that loops index which are not unrolled.
    "attention": {
        "attention_kernel<Tile<64, false>>": (240, 0, 0),
        "attention_kernel<Tile<64, true>>": (240, 0, 0),
        "attention_kernel<Tile<128, false>>": (192, 0, 0),
        "attention_kernel<Tile<128, true>>": (192, 0, 0),
        "attention_kernel<Tile<256, false>>": (16, 0, 0),
        "attention_kernel<Tile<256, true>>": (16, 0, 0),
    },
    "attention_backward": {
        "key_gradient_kernel<Tile<64, false>>": (560, 196, 320),
        "key_gradient_kernel<Tile<64, true>>": (400, 0, 0),
        "key_gradient_kernel<Tile<128, false>>": (416, 184, 380),
        "key_gradient_kernel<Tile<128, true>>": (344, 100, 156),
        "key_gradient_kernel<Tile<256, false>>": (128, 152, 468),
        "key_gradient_kernel<Tile<256, true>>": (16, 0, 0),
        "query_gradient_kernel<Tile<64, false>>": (304, 0, 0),
        "query_gradient_kernel<Tile<64, true>>": (336, 28, 64),
        "query_gradient_kernel<Tile<128, false>>": (160, 0, 0),
        "query_gradient_kernel<Tile<128, true>>": (144, 0, 0),
        "query_gradient_kernel<Tile<256, false>>": (16, 0, 0),
        "query_gradient_kernel<Tile<256, true>>": (16, 0, 0),
    },
    # On tensor cores: more sums than a thread has registers; "false" are those that do more to scores than scale them.
    "attention_core": {
        "attention_core_kernel<CoreTile<BFloat16, 256, 256, false>>": (40, 40, 72),
        "attention_core_kernel<CoreTile<Half, 256, 256, false>>": (40, 40, 72),
    },
    "attention_core_backward": {
        "key_gradient_core_kernel<CoreTile<BFloat16, 64, 64, false>>": (112, 116, 184),
        "key_gradient_core_kernel<CoreTile<Half, 64, 64, false>>": (112, 116, 184),
        "key_gradient_core_kernel<CoreTile<BFloat16, 128, 128, false>>": (88, 64, 116),
        "key_gradient_core_kernel<CoreTile<Half, 128, 128, false>>": (88, 64, 116),
        "key_gradient_core_kernel<CoreTile<BFloat16, 192, 128, false>>": (176, 172, 256),
        "key_gradient_core_kernel<CoreTile<Half, 192, 128, false>>": (176, 172, 256),
        "key_gradient_core_kernel<CoreTile<BFloat16, 192, 128, true>>": (8, 8, 8),
        "key_gradient_core_kernel<CoreTile<Half, 192, 128, true>>": (8, 8, 8),
        "query_gradient_core_kernel<CoreTile<BFloat16, 192, 128, false>>": (8, 8, 32),
        "query_gradient_core_kernel<CoreTile<Half, 192, 128, false>>": (8, 8, 32),
    },
    "elementwise": {  # four random words, of which an element takes one
        "dropout_backward_kernel": (16, 0, 0),
        "dropout_kernel": (16, 0, 0),
    },
    # The sine of CUDA's library, for angles that are large.
    "latent_heads": {"latent_heads_backward_kernel": (40, 0, 0), "latent_heads_kernel": (40, 0, 0)},
    "rope": {"rope_kernel": (40, 0, 0)},
}

# Kernels that take eight elements at once: loads and stores of global memory that are narrower than 16 bytes all the
# same, which the comment names, and whether there are stores of 16 bytes; loads there are in each.
NARROW = {
    "activation": {"activation_kernel": (0, 0, True), "activation_backward_kernel": (0, 0, True)},
    "bias_gradient": {"bias_gradient_kernel": (3, 4, False)},  # a column's sum, in three types
    "cross_entropy": {
        "max_kernel": (0, 1, False),  # one number of a row
        "sum_kernel": (6, 4, False),  # likewise, and the target's logit
        "backward_kernel": (4, 0, True),  # targets and numbers of rows
        "rescale_kernel": (13, 3, True),  # likewise, and the gradient of the hidden state
    },
    "elementwise": {"add_kernel": (0, 0, True), "cast_kernel": (0, 0, True)},
    "embedding": {"embedding_kernel": (1, 0, True), "embedding_backward_kernel": (14, 0, True)},  # which rows
    "expert_vectors": {  # of which expert a row is; its weight
        "expert_activation_kernel": (10, 0, True),
        "expert_activation_backward_kernel": (10, 3, True),
        "expert_bias_gradient_kernel": (21, 3, False),
    },
    "norm": {
        "norm_kernel": (0, 2, True),  # statistics of a row
        "residual_norm_kernel": (0, 10, True),  # and what dropout left, a byte an element
        "norm_backward_kernel": (2, 16, True),  # statistics; sums of a block's rows, once a block
        "norm_weight_gradient_kernel": (5, 4, False),
    },
    # A bucket's runs, whose ends go one by one, in three types; the norm, and what skips the step.
    "optimizer": {"gradient_norm_kernel": (10, 0, False), "adamw_kernel": (43, 30, True)},
    "residual_add": {"residual_add_kernel": (0, 8, True)},  # what dropout left
}


def kernel_name(demangled):
    """attention_kernel<Tile<64, true>> of a signature."""
    name = demangled.replace("(anonymous namespace)::", "").replace("orrery::runtime::", "").replace("cuda::", "")
    return re.sub(r"^void ", "", name).split("(")[0].replace(" >", ">")


def demangle(names):
    """{mangled: the kernel's name}."""
    names = sorted(names)
    said = subprocess.run(["c++filt"], input="\n".join(names), stdout=subprocess.PIPE, universal_newlines=True,
                          check=True).stdout.splitlines()
    return {name: kernel_name(text) for name, text in zip(names, said)}


FRAME = re.compile(r"Function properties for (\S+)\s+(\d+) bytes stack frame, (\d+) bytes spill stores, "
                   r"(\d+) bytes spill loads")


def frames_of(report):
    """{mangled: (frame, stores, loads)} of what `ptxas -v` says."""
    return {name: tuple(map(int, numbers)) for name, *numbers in FRAME.findall(report)}


ENTRY = re.compile(r"\.entry (\w+)\(.*?^\}$", re.DOTALL | re.MULTILINE)
ACCESS = re.compile(r"^\s*(?:@!?%p\d+ )?(ld|st)\.([\w.]+)\s", re.MULTILINE)


def accesses_of(ptx):
    """{mangled: {(operation "ld" or "st", whether it is wide): how many}}, of global memory."""
    found = {}
    for entry in ENTRY.finditer(ptx):
        counts = dict.fromkeys([(operation, wide) for operation in ("ld", "st") for wide in (False, True)], 0)
        for operation, suffixes in ACCESS.findall(entry.group(0)):
            words = suffixes.split(".")
            if not {"shared", "local", "param", "const"}.isdisjoint(words):  # none of them: global, or unknown
                continue
            lanes = [int(word[1:]) for word in words if re.fullmatch(r"v\d", word)]
            bits = int(re.search(r"\d+$", words[-1]).group(0)) * (lanes[0] if lanes else 1)
            counts[operation, bits >= 128] += 1
        found[entry.group(1)] = counts
    return found


def listed(numbers):
    return "{} bytes of stack, {} of spill stores, {} of spill loads".format(*numbers)


def by_source_and_kernel(table):
    return {(source, kernel): line for source, kernels in table.items() for kernel, line in kernels.items()}


def frame_faults(frames, exceptions, exact):
    """frames: {(source, kernel): numbers} of all kernels."""
    faults = []
    known = by_source_and_kernel(exceptions)
    for at, numbers in sorted(frames.items()):
        expected = known.get(at, (0, 0, 0))
        if numbers == expected or (at in known and not exact):
            continue
        fault = f"{at[0]}.cu: {at[1]}: {listed(numbers)}"
        if at in known:
            better = all(found <= most for found, most in zip(numbers, expected))
            fault += f"; EXCEPTIONS says {listed(expected)}" + (": it is better, say so there" if better else "")
        faults.append(fault)
    faults += [f"{source}.cu: {kernel}: EXCEPTIONS lists it, and it is not there"
               for source, kernel in sorted(known.keys() - frames.keys())]
    return faults


def width_faults(accesses, narrow, exact):
    """accesses: {(source, kernel): counts} of all kernels."""
    faults = []
    known = by_source_and_kernel(narrow)
    eights = {(source, kernel[:-len("<8>")]): counts for (source, kernel), counts in accesses.items()
              if kernel.endswith("<8>")}
    for (source, kernel), counts in sorted(eights.items()):
        name = f"{source}.cu: {kernel}<8>"
        if (source, kernel) not in known:
            faults.append(f"{name}: NARROW does not list it")
            continue
        loads, stores, stores_wide = known[source, kernel]
        if counts["ld", True] == 0:
            faults.append(f"{name}: no load of 16 bytes")
        if (counts["st", True] > 0) != stores_wide:
            faults.append(f"{name}: {counts['st', True]} stores of 16 bytes")
        found = (counts["ld", False], counts["st", False])
        if exact and found != (loads, stores):
            faults.append("{}: {} loads and {} stores of less than 16 bytes; NARROW says {} and {}".format(
                name, *found, loads, stores))
    faults += [f"{source}.cu: {kernel}<8>: NARROW lists it, and it is not there"
               for source, kernel in sorted(known.keys() - eights.keys())]
    return faults


def flags_of(command):
    """(nvcc, flags) of a line of compile_commands.json, without what is of its input, its output and its devices."""
    words = shlex.split(command)
    while not pathlib.Path(words[0]).name.startswith("nvcc"):  # ccache
        words.pop(0)
    flags, rest = [], iter(words[1:])
    for word in rest:
        if word in ("-o", "-c", "-x", "-MT", "-MF", "-gencode", "--generate-code", "-arch"):
            next(rest)
        elif not word.startswith(("--generate-code=", "-gencode=", "-arch=", "-MD")):
            flags.append(word)
    return words[0], flags


def compile_all(build, jobs):
    """{source's stem: (report of ptxas, PTX)}, and nvcc."""
    commands = [command for command in json.loads((build / "compile_commands.json").read_text())
                if command["file"].endswith(".cu")]
    if not commands:
        sys.exit(f"ptxas: {build} compiles no .cu: ./orrery build cuda-sm80")
    folder = build / "machine-code"
    folder.mkdir(exist_ok=True)
    lines = ["rule ptx",
             "  command = $nvcc $flags -ptx -MD -MF $out.d -o $out -x cu $in",
             "  depfile = $out.d",
             "  deps = gcc",
             "rule cubin",
             "  command = $nvcc $flags -cubin -Xptxas=-v -o $out $in >$out.report 2>&1 || { cat $out.report; exit 1; }"]
    for command in commands:
        nvcc, flags = flags_of(command["command"])
        stem = pathlib.Path(command["file"]).stem
        source, built = (re.sub(r"([$: ])", r"$\1", name) for name in (command["file"], stem))
        given = " ".join(map(shlex.quote, flags)).replace("$", "$$")
        for edge, device in ((f"{built}.ptx: ptx {source}", "compute"), (f"{built}.cubin: cubin {built}.ptx", "sm")):
            lines += [f"build {edge}", f"  nvcc = {nvcc}", f"  flags = {given} -arch={device}_{ARCHITECTURE}"]
    (folder / "build.ninja").write_text("\n".join(lines) + "\n")
    subprocess.run(["ninja", "-C", str(folder), "-j", str(jobs), "--quiet"], check=True)
    stems = [pathlib.Path(command["file"]).stem for command in commands]
    return {stem: ((folder / f"{stem}.cubin.report").read_text(), (folder / f"{stem}.ptx").read_text())
            for stem in stems}, nvcc


def by_kernel(by_source):
    """{(source, kernel's name): what} of {source: {mangled: what}}."""
    names = demangle({name for kernels in by_source.values() for name in kernels})
    found = {}
    for source, kernels in by_source.items():
        for mangled, what in kernels.items():
            if (source, names[mangled]) in found:
                sys.exit(f"ptxas: {source}.cu has two kernels of one name, {names[mangled]}")
            found[source, names[mangled]] = what
    return found


def faults_of(compiled, exceptions, narrow, exact):
    frames = by_kernel({source: frames_of(report) for source, (report, _) in compiled.items()})
    accesses = by_kernel({source: accesses_of(ptx) for source, (_, ptx) in compiled.items()})
    missing = sorted(accesses.keys() - frames.keys())  # the report has another form than is read here
    return (frame_faults(frames, exceptions, exact) + width_faults(accesses, narrow, exact) +
            [f"{source}.cu: {kernel}: ptxas says nothing of it" for source, kernel in missing]), len(frames)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    compiled, nvcc = compile_all(asked.build.resolve(), asked.jobs)
    said = subprocess.run([nvcc, "--version"], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    release = re.search(r"release ([\d.]+)", said).group(1)
    if release != RELEASE:
        print(f"nvcc is of release {release}, the numbers are of {RELEASE}: only names are compared")
    faults, kernels = faults_of(compiled, EXCEPTIONS, NARROW, release == RELEASE)
    print("\n".join(faults) if faults else f"{kernels} kernels, of which {sum(map(len, EXCEPTIONS.values()))} are "
          "excepted from having no stack frame")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
