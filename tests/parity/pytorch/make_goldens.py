"""Writes golden/FAMILY.json: what PyTorch makes of five steps of training, for tests/parity/pytorch_test.cpp.

In a virtual environment with torch (any build) and numpy:  python3 tests/parity/pytorch/make_goldens.py

"windows_shown" is the window of the data file that each sample is, "last_tokens" how that file ends.
Of each parameter, of its gradient in the first step (before clipping) and of what it is after the last, a file holds
three numbers [√Σx², ⟨x, r1⟩, ⟨x, r2⟩] with r by formulas.symmetric of the parameter's name and "#1" or "#2": who has
them right has the tensor right. All but "fp32" was computed in fp64."""

import json
import pathlib

import torch

import formulas
from decoder import Decoder
from families import FAMILIES

TRAINING = {"sequence_length": 32, "global_batch_size": 8, "steps": 5, "seed": 1234,
            "windows": 25,  # of the data file: the 40 samples are more than an epoch
            "optimizer": {"kind": "adamw", "learning_rate": 1e-3, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8,
                          "weight_decay": 0.1, "clip_norm": 1.0}}


def windows_shown():
    """The window of each sample of the run."""
    samples = TRAINING["steps"] * TRAINING["global_batch_size"]
    return [formulas.window(TRAINING["seed"], sample, TRAINING["windows"]) for sample in range(samples)]


def stream(vocabulary):
    """The data file."""
    return formulas.tokens(TRAINING["windows"] * TRAINING["sequence_length"] + 1, vocabulary)


def batch(step, vocabulary):
    """Inputs and targets of step 0, 1, …"""
    length, samples = TRAINING["sequence_length"], TRAINING["global_batch_size"]
    tokens = torch.from_numpy(stream(vocabulary))
    shown = windows_shown()[step * samples : (step + 1) * samples]
    taken = torch.stack([tokens[length * window : length * (window + 1) + 1] for window in shown])
    return taken[:, :-1], taken[:, 1:]


def three_numbers(name, tensor):
    flat = tensor.detach().reshape(-1).to(torch.float64)
    rays = [torch.from_numpy(formulas.symmetric(f"{name}#{i}", flat.numel())) for i in (1, 2)]
    return [torch.linalg.vector_norm(flat).item(), *((flat * ray).sum().item() for ray in rays)]


def adamw(parameters):
    asked = TRAINING["optimizer"]
    groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": asked["weight_decay"]},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=asked["learning_rate"], betas=(asked["beta1"], asked["beta2"]),
                             eps=asked["epsilon"])


BIAS_RATE = 0.001  # of a router's bias, by the sign of what each expert has more of than the mean


def biases_of(model):
    """Of routers, with their layers' loads; no gradient reaches them."""
    return [(p, model.loads[name.removesuffix("router.bias")])
            for name, p in model.parameters.items() if name.endswith("router.bias")]


def train(shape, dtype):
    """Losses, gradient norms before clipping, and three numbers of each parameter at first, of its gradient, at last."""
    model = Decoder(shape, dtype)
    parameters = [p for name, p in model.parameters.items() if not name.endswith("router.bias")]
    optimizer = adamw(parameters)
    losses, further_losses, norms = [], [], []
    tensors = {name: {"shape": list(p.shape), "initial": three_numbers(name, p)}
               for name, p in model.parameters.items()}
    for step in range(TRAINING["steps"]):
        loss, further = model.losses(*batch(step, shape.vocabulary))
        optimizer.zero_grad()
        (loss if further is None else loss + shape.further * further).backward()
        for bias, load in biases_of(model):
            bias.grad = (load - load.to(dtype).mean()).to(dtype)
        if step == 0:
            for name, p in model.parameters.items():
                tensors[name]["gradient"] = three_numbers(name, p.grad)
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, TRAINING["optimizer"]["clip_norm"]).item())
        optimizer.step()
        with torch.no_grad():
            for bias, _ in biases_of(model):
                bias -= BIAS_RATE * bias.grad.sign()
        losses.append(loss.item())
        if further is not None:
            further_losses.append(further.item())
    for name, p in model.parameters.items():
        tensors[name]["final"] = three_numbers(name, p)
    further = {"further_losses": further_losses} if further_losses else {}
    return {"losses": losses, **further, "gradient_norms": norms}, tensors


def text(golden):
    """JSON with a line for each tensor and each list of numbers."""
    lines = [f'  "{key}": {json.dumps(value)},' for key, value in golden.items() if key != "tensors"]
    tensors = [f'    "{name}": {json.dumps(value)}' for name, value in golden["tensors"].items()]
    return "\n".join(["{", *lines, '  "tensors": {', ",\n".join(tensors), "  }", "}"]) + "\n"


def main():
    folder = pathlib.Path(__file__).parent / "golden"
    folder.mkdir(exist_ok=True)
    for family in FAMILIES:
        config, shape = family()
        fp64, tensors = train(shape, torch.float64)
        fp32, _ = train(shape, torch.float32)
        golden = {"torch": torch.__version__.split("+")[0], "model": config, "training": TRAINING,
                  "windows_shown": windows_shown(), "last_tokens": stream(shape.vocabulary)[-8:].tolist(),
                  "fp64": fp64, "fp32": fp32, "tensors": tensors}
        (folder / f"{family.__name__}.json").write_text(text(golden), encoding="utf-8")
        print(family.__name__, *(f"{loss:.6f}" for loss in fp64["losses"]))


if __name__ == "__main__":
    main()
