"""Writes docs/fusions.md: the utilisation of one H200 that is predicted of Orrery's training backend, switch by switch,
beside the nearest step that was measured. From the repository root:

    python3 tests/bench/fusions.py > docs/fusions.md

Takes some seconds. Numbers are predictions, the same on any machine. ORRERY_PROGRAM names another program than the
release build's."""

import json
import os
import pathlib
import string
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("ORRERY_PROGRAM", str(ROOT / "build/release/bin/orrery"))
RUN = "scenarios/runs/gpt2-124m-h200.json"
MEASURED = "docs/measured/h100-80gb-2026-11-26"
PEAK = 989e12
TIMED_ROWS = 32768  # the profile's timings of products have no more rows
ALL = ["training.dropout=0"]

# Name; settings beside the batch; sequence; micro-batches that are tried, the one that the tables have.
MODELS = [
    ("GPT-2 124M", ["model=models/gpt2.json"], 1024, [8, 16, 32, 64], 32),
    ("GPT-2 1.5B", ["model=models/gpt2-xl.json"], 1024, [4, 8, 16, 32], 16),
    ("Llama 3.2 1B", ["model=models/llama3.2-1b.json"], 4096, [1, 2, 4, 8, 16], 8),
    ("Llama 3 8B, 8 of 32 layers", ["model=models/llama3-8b.json", "model.num_hidden_layers=8"], 4096, [1, 2, 4, 8], 2),
]
TOKENS = 131072  # of a step

SWITCHES = ["training.norm_kernel=fused_add", "training.residual_kernel=epilogue",
            "training.activation_kernel=epilogue", "training.bias_gradient_kernel=epilogue",
            "training.cuda_graphs=per_layer"]
REFUSED = {"S066": "refused (S066): no GELU", "S067": "refused (S067): no biases"}
WORTH = 0.005  # of a step, which a fusion must take off to be worth a kernel
ROTARY = MODELS[2:]
UNPRICED = ["training.deterministic=false", "run.product_choices=choices.json", "run.cudnn=false"]
IN_PLACE = "training.loss_logits=in_place"
UNDONE = [["training.attention_kernel=unfused"], [IN_PLACE], [IN_PLACE, "training.loss_kernel=composed"],
          ["training.norm_kernel=composed"]]
AS_THEN = [IN_PLACE]  # when the H100 was timed
ON_H100 = ["cluster=clusters/h100-sxm-1.json"]
AS_MEASURED = [f"cluster.profile={ROOT / MEASURED / 'profile.json'}", "cluster.device=h100-sxm-orrery"]


def hold(claim, right):
    """What the page says in words."""
    if not right:
        sys.exit(f"not so any more, mend tests/bench/fusions.md: {claim}")


class Step:
    """A step as it was predicted, or, with `seconds`, measured."""

    def __init__(self, result, seconds=None):
        self.result = result
        self.seconds = seconds or result["step"]["time_s"]
        model, training = result["scenario"]["model"], result["scenario"]["training"]
        heads = model.get("num_attention_heads", model.get("n_head"))
        width = model.get("hidden_size", model.get("n_embd"))
        self.tokens = result["conserved"]["tokens_per_step"]
        self.layers = result["conserved"]["layers"]
        self.channels = heads * model.get("head_dim", width // heads)
        self.sequence = training["sequence_length"]
        # What simulate counts is 6 N + 12 L C T (docs/model.md, "model FLOPs per step").
        self.attention = self.layers * self.channels * self.sequence
        self.weights = (result["conserved"]["model_flops_per_step"] / self.tokens - 12 * self.attention) / 6

    def tokens_per_s(self):
        return self.tokens / self.seconds

    def mfu(self, of_attention, seconds=None):
        flops = 6 * self.weights + of_attention * self.attention
        return self.tokens / (seconds or self.seconds) * flops / PEAK

    def interval(self):
        return self.result["step"]["interval_s"]

    def peak_bytes(self):
        return self.result["memory"]["stages"][0]["peak_bytes"]

    def verdict(self):
        return {"fits": "fits", "tight": "tight"}.get(self.result["memory"]["verdict"], "does not fit")


def orrery(command, settings):
    words = [command, RUN, *(word for setting in settings for word in ("--set", setting)), "--json"]
    done = subprocess.run([PROGRAM, *words], cwd=ROOT, capture_output=True, check=False)
    result = json.loads(done.stdout) if done.stdout else {}
    refused = done.returncode == 3 and result["errors"][0]["code"] in REFUSED
    if done.returncode not in (0, 4) and not refused:
        sys.exit(f"orrery {' '.join(words)}: exit code {done.returncode}\n{done.stderr.decode()}")
    return done.returncode, result


def simulate(settings):
    """The step, or the code of what refuses it."""
    code, result = orrery("simulate", settings)
    if code == 3:
        return result["errors"][0]["code"]
    return Step(result)


def settings_of(model, micro_batch=None):
    _, own, sequence, _, chosen = model
    return ALL + own + [f"training.sequence_length={sequence}", f"layout.micro_batch_size={micro_batch or chosen}",
                        f"layout.global_batch_size={TOKENS // sequence}"]


def ms(seconds):
    return f"{1e3 * seconds:,.1f} ms" if seconds < 1 else f"{1e3 * seconds:,.0f} ms"


def percent(share):
    return f"{100 * share:.1f} %"


def change(new, old):
    share = 100 * (new / old - 1)
    return "0" if new == old else f"{share:+.1f} %".replace("-", "−")


def row_of(name, step, before):
    early, late = step.interval()
    return (f"| {name} | {ms(step.seconds)} | {change(step.seconds, before.seconds) if before else ''} | "
            f"{ms(early)} to {ms(late)} | {step.tokens_per_s():,.0f} | **{percent(step.mfu(6))}** | "
            f"{percent(step.mfu(6, late))} to {percent(step.mfu(6, early))} | {percent(step.mfu(12))} |")


def ladder(model, machine=()):
    """The steps with ever more switches, each with its name; a code in place of a step where one is refused."""
    settings = settings_of(model) + list(machine)
    found = [("the backend's default", simulate(settings))]
    for switch in SWITCHES:
        step = simulate(settings + [switch])
        if isinstance(step, Step):
            settings.append(switch)
        found.append((f"+ `{switch.removeprefix('training.')}`", step))
    return found, settings


def steps_of(rungs):
    return [step for _, step in rungs if isinstance(step, Step)]


def table_of(model, rungs):
    first = rungs[0][1]
    accounts = (f"N {first.weights / 1e6:,.1f} M, L {first.layers}, C {first.channels:,}, T {first.sequence:,}; "
                f"{TOKENS // first.sequence // model[4]} micro-batches of {model[4]}, no recomputation, "
                f"{first.peak_bytes() / 1e9:.0f} of {first.result['memory']['capacity_bytes'] / 1e9:.0f} GB.")
    lines = [f"### {model[0]}", "", accounts, "",
             "| switches | step | to the row above | 90 % interval | tokens/s | MFU | its interval | MFU with 12·L·C·T |",
             "|---|---:|---:|---:|---:|---:|---:|---:|"]
    before = None
    for name, step in rungs:
        if not isinstance(step, Step):
            lines.append(f"| {name} | {REFUSED[step]} | | | | | | |")
            continue
        lines.append(row_of(name, step, before))
        before = step
    return "\n".join(lines)


def micro_batches(model):
    said, best = [], (0, 0)
    for size in model[3]:
        step = simulate(settings_of(model, size))
        notes = [f"{step.peak_bytes() / 1e9:.0f} GB"]
        if step.verdict() != "fits":
            notes.append(step.verdict())
        if size * step.sequence > TIMED_ROWS:
            notes.append("beyond the timings")
        if len(notes) == 1:
            best = max(best, (step.mfu(6), size))
        said.append(f"{size}: {percent(step.mfu(6))} ({', '.join(notes)})")
    hold(f"micro-batches of {model[4]} are {model[0]}'s fastest", best[1] == model[4])
    return f"| {model[0]} | {'; '.join(said)} | {model[4]} |"


def path(settings):
    return orrery("explain", settings)[1]["critical_path"]["parts"]


def parts(settings):
    """What the step's time goes to, in seconds."""
    found = {"products": 0, "attention": 0, "other kernels": 0, "the optimizer": 0}
    for part in path(settings):
        kind = ("the optimizer" if part["account"] == "optimizer" else
                "products" if part["kind"] == "gemm" else
                "attention" if part["kind"] in ("attention", "attention_backward") else "other kernels")
        found[kind] += part["time_s"]
    return found


def products_rate(default, found):
    """In FLOP/s, of the words that the model has."""
    return 6 * default.weights * default.tokens / found["products"]


def parts_row(model, default, found):
    cells = [percent(seconds / sum(found.values())) for seconds in found.values()]
    rate = products_rate(default, found)
    return f"| {model[0]} | {' | '.join(cells)} | {rate / 1e12:.0f} TFLOP/s, {percent(rate / PEAK)} |"


def of_kind(settings, kind):
    """The share of a step that ops of a kind take."""
    found = path(settings)
    return sum(part["time_s"] for part in found if part["kind"] == kind) / sum(part["time_s"] for part in found)


def rope_row(model):
    forward, backward = (of_kind(settings_of(model), kind) for kind in ("rope", "rope_backward"))
    # What joins the kernel before or behind it spares a reading and a writing: all but a constant.
    hold("positions in backward are under half a percent of a step", 0 < backward < WORTH)
    return f"| {model[0]} | {100 * forward:.2f} % | {100 * backward:.2f} % |"


def undone_row(model, default):
    cells = []
    for keys in UNDONE:
        step = simulate(settings_of(model) + keys)
        note = "" if step.verdict() == "fits" else f", {step.verdict()}"
        cells.append(f"{change(step.seconds, default.seconds)}{note}")
    return f"| {model[0]} | {' | '.join(cells)} |"


def measured(shape):
    """A step of one H100 by its name in what was measured: the time, and its settings."""
    for row in json.loads((ROOT / MEASURED / "summary.json").read_text())["steps"]["rows"]:
        if row["shape"] == shape:
            return row["measured_s"], row["settings"] + AS_THEN
    sys.exit(f"{MEASURED}/summary.json: no {shape}")


def nearest_row(name, step, seconds, interval=True):
    early, late = step.interval()
    return (f"| {name} | {ms(step.seconds)} | {change(step.seconds, seconds) if step.seconds != seconds else ''} | "
            f"{f'{ms(early)} to {ms(late)}' if interval else ''} | {step.tokens_per_s():,.0f} | {percent(step.mfu(6))} | "
            f"{percent(step.mfu(12))} |")


def nearest():
    seconds, settings = measured("no dropout, heads of 64")
    h200, h100, own = (simulate(settings + list(machine)) for machine in ((), ON_H100, AS_MEASURED))
    rows = [nearest_row("measured on one H100", Step(h100.result, seconds), seconds, interval=False),
            nearest_row("predicted for it, by the profile that was measured there", own, seconds),
            nearest_row("predicted for it, by the shipped profile of the H100", h100, seconds),
            nearest_row("predicted for an H200, by the shipped profile", h200, seconds)]
    early, late = h100.interval()
    hold("the measured step is within the interval", early < seconds < late)
    return "\n".join(rows), seconds / h100.seconds


def by_measured_profile(model):
    steps = steps_of(ladder(model, AS_MEASURED)[0])
    cells = []
    for step in (steps[0], steps[-1]):
        early, late = step.interval()
        cells.append(f"{ms(step.seconds)} | {percent(step.mfu(6))}, {percent(step.mfu(6, late))} to "
                     f"{percent(step.mfu(6, early))}")
    note = "" if steps[0].verdict() == "fits" else f" ({steps[0].verdict()} there)"
    return f"| {model[0]}{note} | {' | '.join(cells)} | {change(steps[-1].seconds, steps[0].seconds)} |"


def spread(shares):
    low, high = (f"{100 * share:.1f}" for share in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def gains(ladders, switch):
    """What a switch takes off the step, as shares, of the models that have it."""
    found = []
    for rungs in ladders:
        before = rungs[0][1]
        for name, step in rungs[1:]:
            if not isinstance(step, Step):
                continue
            if name == f"+ `{switch}`":
                found.append(1 - step.seconds / before.seconds)
            before = step
    return found


def one_pass(model, rungs):
    """What a pass over the logits takes."""
    return simulate(settings_of(model) + [IN_PLACE]).seconds - rungs[0][1].seconds


def kernel_deviation(rungs, at):
    return 100 * steps_of(rungs)[at].result["step"]["interval_parts"]["kernel"]["late"]


def main():
    found = [ladder(model) for model in MODELS]
    ladders = [rungs for rungs, _ in found]
    steps = [step for rungs in ladders for step in steps_of(rungs)]
    hold("all rows fit", all(step.verdict() == "fits" for step in steps))
    hold("no H200 was timed", not any(step.result["software"]["timed_on_device"] for step in steps))
    hold("graphs take nothing off", not any(gains(ladders, "cuda_graphs=per_layer")))
    for key in UNPRICED:
        hold(f"{key} is not priced", all(simulate(settings + [key]).seconds == steps_of(rungs)[-1].seconds
                                         for rungs, settings in found))
    shipped = json.loads((ROOT / "scenarios/profiles/h200-sxm.json").read_text())
    hold("the H200's profile has no timings of dropout", "dropout" not in shipped["attention"])
    nearest_rows, ratio = nearest()
    dropped, dropped_settings = measured("micro-batch 16")
    with_dropout = simulate(dropped_settings)
    launches = max(step.result["step"]["breakdown_s"]["launch"] for step in steps)
    accounts = [parts(settings_of(model)) for model in MODELS]
    rates = [products_rate(rungs[0][1], account) / 1e12 for rungs, account in zip(ladders, accounts)]
    more = parts(settings_of(MODELS[3], 8))["products"]
    curve = shipped["gemm"]["bf16"]
    long_run = curve["rate_tflops"] * curve["sustained"]["value"]
    own = json.loads((ROOT / MEASURED / "profile.json").read_text())["attention"]["forward"]["128"]
    first, last = (steps_of(ladders[0])[at] for at in (0, -1))
    capacity = steps[0].result["memory"]["capacity_bytes"]
    page = string.Template((ROOT / "tests/bench/fusions.md").read_text())
    print(page.substitute(
        TOKENS=f"{TOKENS:,}", CAPACITY=f"{capacity / 1e9:.0f}", GIB=f"{capacity / 2**30:.1f}", PEAK=f"{PEAK / 1e12:.0f}",
        TABLES="\n\n".join(table_of(model, rungs) for model, rungs in zip(MODELS, ladders)),
        MICRO_BATCHES="\n".join(micro_batches(model) for model in MODELS),
        UNDONE="\n".join(undone_row(model, rungs[0][1]) for model, rungs in zip(MODELS, ladders)),
        PARTS="\n".join(parts_row(model, rungs[0][1], account)
                        for model, rungs, account in zip(MODELS, ladders, accounts)),
        SLOWEST=f"{min(rates):.0f}", FASTEST=f"{max(rates):.0f}", NEAREST=nearest_rows, RATIO=f"{ratio:.2f}",
        FIRST=percent(first.mfu(6)), FIRST_THEN=percent(first.mfu(6) / ratio), LAST=percent(last.mfu(6)),
        LAST_THEN=percent(last.mfu(6) / ratio), LONG_RUN=f"{long_run:.0f}", OF_PEAK=percent(1e12 * long_run / PEAK),
        PRODUCTS_2=ms(accounts[3]["products"]), PRODUCTS_8=ms(more), TIMED_ROWS=f"{TIMED_ROWS:,}",
        LOSS_SMALL=ms(one_pass(MODELS[0], ladders[0])), LOSS_LARGE=ms(one_pass(MODELS[1], ladders[1])),
        OWN_SEQUENCE=f"{own['sequence'][1]:,}",
        BY_MEASURED="\n".join(by_measured_profile(model) for model in MODELS),
        OF_NORM=spread(gains(ladders, "norm_kernel=fused_add")),
        OF_RESIDUAL=spread(gains(ladders, "residual_kernel=epilogue")), ROPE="\n".join(rope_row(model) for model in ROTARY),
        WORTH=f"{100 * WORTH:g}",
        OF_GELU=spread(gains(ladders, "activation_kernel=epilogue")),
        OF_BIAS=spread(gains(ladders, "bias_gradient_kernel=epilogue")),
        SUSTAINED=f"{curve['sustained']['value']:g}", LAUNCHES=f"{1e6 * launches:.0f}",
        BEFORE=f"{kernel_deviation(ladders[1], 0):.1f}", AFTER=f"{kernel_deviation(ladders[1], -1):.1f}",
        DROPPED=ms(dropped), KEPT=ms(measured("no dropout, heads of 64")[0]), WITH_DROPOUT=ms(with_dropout.seconds),
        COMMAND=" \\\n        ".join(["orrery train " + RUN + " --backend cuda --steps 20"]
                                      + [f"--set {setting}" for setting in found[0][1]])), end="")


if __name__ == "__main__":
    main()
