"""Our search beside Calculon's on one space of layouts: layouts a second of one core, and which of them fit.

    search_beside_calculon.py PROGRAM CALCULON [BATCH]

CALCULON is a checkout of github.com/calculon-ai/calculon (needs numpy, pandas, psutil). GPT-3 175B on 64 A100 of 80 GB,
all of what both vary: tensor and pipeline degrees, chunks, micro-batch, recomputation, sharing of optimizer states,
sequence parallelism. What Calculon varies besides (offload, networks, kinds of overlap) is held at one value.
Rates are of processor time: Calculon's of its own model of each layout, ours of the whole command. Then each layout is
simulated in full, and the two verdicts on memory are held against each other.
"""

import collections
import itertools
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import time

RUN = "scenarios/runs/gpt3-175b-a100x1024.json"
GPUS, NODE = 64, 8
RECOMPUTE = {"none": "none", "attn_only": "selective", "full": "full"}


def divisors(number):
    return [one for one in range(1, number + 1) if number % one == 0]


def layouts(batch, layers=96):
    """t, p, v, micro-batch, recomputation (Calculon's word), optimizer states shared, sequence parallel."""
    for t in divisors(NODE):
        for p in divisors(GPUS // t):
            if layers % p:
                continue
            data = GPUS // t // p
            chunks = divisors(layers // p) if p > 1 else [1]
            for v, b, r in itertools.product(chunks, divisors(batch // data), RECOMPUTE):
                for z, s in itertools.product([False, True] if data > 1 else [False],
                                              [False, True] if t > 1 else [False]):
                    yield t, p, v, b, r, z, s


def execution(layout, batch):
    t, p, v, b, r, z, s = layout
    data = GPUS // t // p
    return {
        "num_procs": GPUS, "tensor_par": t, "pipeline_par": p, "data_par": data, "batch_size": batch,
        "tensor_par_net": 0, "pipeline_par_net": 1 if t * p > NODE else 0,
        "data_par_net": 1 if data > 1 else 0,
        "microbatch_size": b, "datatype": "float16", "fused_activation": True, "attention_type": "multihead",
        "activation_recompute": r, "pipeline_interleaving": v, "optimizer_sharding": z,
        "tensor_par_comm_type": "rs_ag" if s else "ar", "tensor_par_overlap": "none", "seq_par_ag_redo": False,
        "data_par_overlap": data > 1, "weight_offload": False, "activations_offload": False,
        "optimizer_offload": False, "training": True,
    }


def by_calculon(folder, batch, space):
    """Executions a second with its log and without, and bytes of each layout, of those that exceed memory too."""
    sys.path.insert(0, folder)
    import calculon
    from calculon.llm import Llm, System
    model = Llm.Application(calculon.io.read_json_file(os.path.join(folder, "models/gpt3-175B.json")))
    system = calculon.io.read_json_file(os.path.join(folder, "systems/a100_80g.json"))
    for network in system["networks"]:  # the layout decides which it takes, not whether it is filled
        network["must_be_filled"] = False
    system = System(system)

    def rate(level):
        logging.getLogger().setLevel(level)
        start = time.process_time()
        found = {}
        for layout in space:
            one = Llm(model, logging.Logger("sub", level))
            try:
                one.compile(system, Llm.Execution.from_json(execution(layout, batch)))
                one.run(system)
                one.get_stats_json(False)
            except Llm.Error as fault:
                assert "tier1 needs" in str(fault), fault
            found[layout] = one.get_mem_tier1_cap_req()
        return len(space) / (time.process_time() - start), found

    shipped, found = rate(logging.NOTSET)
    silent, again = rate(logging.CRITICAL)
    assert found == again
    return shipped, silent, found


def keys(batch):
    nodes = GPUS // NODE
    return [f"cluster.nodes={nodes}", f"layout.global_batch_size={batch}", "layout.data_parallel=auto",
            "layout.context_parallel=1", "training.framework=megatron-2021", "training.precision=fp16",
            "training.dropout=0.1", "training.context_mb=0", "training.communicator_mb=0", "training.fragmentation=0"]


def varied(space):
    """The values that occur; their combinations have all layouts of the space, and others, which are no layouts."""
    def of(place):
        return sorted({one[place] for one in space})
    return {
        "layout.tensor_parallel": of(0), "layout.pipeline_parallel": of(1), "layout.virtual_pipeline": of(2),
        "layout.micro_batch_size": of(3), "layout.recompute": RECOMPUTE.values(), "layout.zero_stage": [0, 1],
        "layout.sequence_parallel": [str(one).lower() for one in of(6)],
        "layout.schedule": [word for word in ("1f1b", "interleaved")
                            if word == "interleaved" and max(of(2)) > 1 or word == "1f1b" and min(of(2)) == 1],
    }


def command(program, name, batch, space, *more):
    asked = [program, name, RUN, "--json", *more]
    for one in keys(batch):
        asked += ["--set", one]
    for key, values in varied(space).items():
        asked += ["--vary", f"{key}={','.join(str(value) for value in values)}"]
    return asked


def by_search(program, batch, space):
    """Layouts priced a second of processor time by the whole command, which simulates the best one."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(subprocess.run(command(program, "search", batch, space, "--top", "1"), check=True,
                                      stdout=subprocess.PIPE).stdout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return found["priced"] / seconds, found


def by_simulation(program, batch, space):
    """Of each layout that breaks no rule here what its full simulation says, its fullest rank's bytes among it."""
    word = {ours: theirs for theirs, ours in RECOMPUTE.items()}
    found = {}
    for t, interleaved in itertools.product(sorted({one[0] for one in space}), (False, True)):
        some = [one for one in space if one[0] == t and (one[2] > 1) == interleaved]
        if not some:
            continue
        asked = command(program, "sweep", batch, some)
        points = json.loads(subprocess.run(asked, check=True, stdout=subprocess.PIPE).stdout)["points"]
        for point in points:
            if "peak_bytes" not in point:
                continue
            of = point["set"]
            layout = (t, of["layout.pipeline_parallel"], of["layout.virtual_pipeline"], of["layout.micro_batch_size"],
                      word[of["layout.recompute"]], of["layout.zero_stage"] == 1, of["layout.sequence_parallel"])
            found[layout] = point
    return found


def compare(space, ours, theirs):
    """Who lets which layouts fit, by bytes within one device's 80 GiB, and how the bytes lie to each other."""
    capacity = 80 * 2**30
    verdicts = collections.Counter()
    ratios = collections.defaultdict(list)
    for layout in space:
        if layout not in ours:
            verdicts["no layout here"] += 1
            continue
        mine, other = ours[layout]["peak_bytes"], theirs[layout]
        verdicts[(mine <= capacity, other <= capacity)] += 1
        ratios[(layout[4], "interleaved" if layout[2] > 1 else "1f1b")].append(mine / other)
    print(f"fit in both {verdicts[(True, True)]}, in neither {verdicts[(False, False)]}, here alone "
          f"{verdicts[(True, False)]}, there alone {verdicts[(False, True)]}; "
          f"{verdicts['no layout here']} are no layouts here")
    for of, values in sorted(ratios.items()):
        twentieths = statistics.quantiles(values, n=20)
        print(f"  bytes here over there, {of[0]:9} {of[1]:11} {len(values):5} layouts: "
              f"median {statistics.median(values):.2f}, nine in ten from {twentieths[0]:.2f} to {twentieths[18]:.2f}")


def main():
    program, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    batch = int(sys.argv[3]) if len(sys.argv) > 3 else 64
    space = list(layouts(batch))
    shipped, silent, theirs = by_calculon(folder, batch, space)
    ours, found = max((by_search(program, batch, space) for _ in range(3)), key=lambda one: one[0])
    print(f"{len(space)} layouts; Calculon {shipped:.0f} a second, {silent:.0f} without its log; search {ours:.0f} "
          f"({found['priced']} priced of {found['evaluated']}): {ours / shipped:.0f} and {ours / silent:.0f} times")
    compare(space, by_simulation(program, batch, space), theirs)


if __name__ == "__main__":
    main()
