# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""One layer, or one training step, beside the official design: processor time of one thread, taking turns.

python benchmarks/official_speed.py [--arch s4 dlr] [--shape 32x196x64 ...] [--steps | --grid] [--out FILE.csv]

The official design is our own writing of what the authors' code does where it has no compiled extension: a Cauchy
kernel (S4) or a complex einsum over all powers (DLR), the FFT, channels first throughout. Both sides share their
parameters, read both directions, end with the gated output layer, and return the gradient of their input.

Axes: B batch, L length, H channels.
"""

import contextlib
import copy
import ctypes
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from command import machine, parse, run_command, save
from encoder_speed import training_step
from hf_longseq.cli.options import Parser
from hf_longseq.errors import HfLongSeqError
from hf_longseq.models import (
    DLRConfig,
    DLRForSequenceClassification,
    S4Config,
    S4ForSequenceClassification,
)
from layer_speed import PlainDLR, PlainLayer, PlainS4, build_layers, estimate_bytes
from plain_kernels import fft_convolution
from side_by_side import available_bytes

SHAPES = {
    "s4": ((32, 196, 64), (32, 1024, 64), (16, 1024, 128), (4, 1024, 128), (4, 2048, 128), (1, 16384, 128)),
    "dlr": ((16, 1024, 128), (4, 2048, 128), (1, 16384, 128)),
}
"""What people train with first, long single sequences last."""

GRID = [(b, length, h) for h in (32, 128, 256) for b in (1, 8, 64) for length in (64, 256, 1024, 4096, 16384, 65536)]

STEPS = {
    "small": {"batch": 32, "length": 196, "hidden_size": 64, "layers": 2},
    "pathfinder": {"batch": 8, "length": 1024, "hidden_size": 256, "layers": 6},
}
"""Sizes of whole training steps, of a small classifier with either architecture and of `pathfinder/s4`."""

STATES = {"s4": 64, "dlr": 1024}
MODELS = {"s4": (S4ForSequenceClassification, S4Config), "dlr": (DLRForSequenceClassification, DLRConfig)}
SLOW = 20.0
"""Seconds of the official design after which greater lengths of the grid are left out."""


class PlainMixer(nn.Module):
    """Puts a plain path where a model expects a mixer."""

    def __init__(self, plain: nn.Module):
        super().__init__()
        self.plain = plain

    def forward(self, hidden_states: torch.Tensor, **kwargs) -> tuple[torch.Tensor, None]:
        return self.plain(hidden_states), None


class HalfS4(PlainS4):
    """Sums over one half of each conjugate pair, as the authors' fallback does: half the work of the right kernel."""

    whole_pairs = False


PLAIN = {"s4": HalfS4, "dlr": PlainDLR}


class OfficialLayer(nn.Module):
    """The official design of a layer, (B, H, L) to (B, H, L), on the parameters of a mixer of ours."""

    def __init__(self, plain: PlainLayer):
        super().__init__()
        self.plain = plain

    def forward(self, u_BHL: torch.Tensor) -> torch.Tensor:
        mixer = self.plain.mixer
        y_BHL = fft_convolution(u_BHL, self.plain.kernel(u_BHL.shape[-1])) + mixer.skip_D[:, None] * u_BHL
        weight, bias = mixer.output_projection.weight, mixer.output_projection.bias
        return F.glu(torch.einsum("bul,vu->bvl", F.gelu(y_BHL), weight) + bias[:, None], dim=1)


def layer_runs(arch: str, batch: int, length: int, channels: int) -> tuple[Callable, Callable]:
    """One forward and backward pass of the official layer and of ours."""
    ours = build_layers((arch,), hidden_size=channels)[arch]
    official = OfficialLayer(PLAIN[arch](ours))
    u_BLH = torch.randn(batch, length, channels)
    u_BHL = u_BLH.transpose(1, 2).contiguous()
    return partial(_pass, official, u_BHL.requires_grad_()), partial(_pass, ours, u_BLH.requires_grad_())


def _pass(layer: nn.Module, u: torch.Tensor) -> None:
    y = layer(u)
    (y[0] if isinstance(y, tuple) else y).square().mean().backward()
    layer.zero_grad(set_to_none=True)
    u.grad = None


def step_runs(arch: str, batch: int, length: int, hidden_size: int, layers: int) -> tuple[Callable, Callable]:
    """One training step of a classifier with official mixers in our trunk, and with ours."""
    model_class, config_class = MODELS[arch]
    sizes = {"hidden_size": hidden_size, "num_hidden_layers": layers, "state_size": STATES[arch]}
    ours = model_class(config_class(vocab_size=256, num_labels=4, bidirectional=True, **sizes)).train()
    official = copy.deepcopy(ours)
    for block in official.model.layers:
        block.mixer = PlainMixer(PLAIN[arch](block.mixer))
    ids, labels = torch.randint(256, (batch, length)), torch.randint(4, (batch,))
    runs = []
    for model in (official, ours):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
        runs.append(partial(training_step, model, optimizer, input_ids=ids, labels=labels))
    return tuple(runs)


def measure(runs: tuple[Callable, Callable], pairs: int) -> dict:
    """Medians of the processor times of this thread, in ms, and of the ratios of turns that followed each other."""
    taken = []
    for turn in range(pairs + 1):
        times = []
        for run in runs:
            start = time.thread_time()
            run()
            times.append(1000 * (time.thread_time() - start))
        if turn or pairs == 0:
            taken.append(times)
        elif times[0] > 1000 * SLOW:
            return _row([times])
    return _row(taken)


def _row(taken: list[list[float]]) -> dict:
    ratios = [official / ours for official, ours in taken]
    middle = [statistics.median(times) for times in zip(*taken, strict=True)]
    row = {"official_ms": middle[0], "ours_ms": middle[1], "ratio": statistics.median(ratios)}
    row |= {"ratio_min": min(ratios), "ratio_max": max(ratios)}
    return {name: round(value, 2) for name, value in row.items()} | {"pairs": len(taken)}


def measure_layers(arch: str, shapes: list[tuple[int, int, int]], pairs: int) -> list[dict]:
    """A row per shape; left out where the official design does not fit or was too slow when shorter."""
    rows, too_long = [], {}
    for batch, length, channels in shapes:
        name = {"s4": "s4_cauchy_fft", "dlr": "dlr_einsum_fft"}[arch]
        needed = estimate_bytes(name, batch, length, channels, STATES["s4"], STATES["dlr"])
        needed += 40 * batch * length * channels * 4
        if needed > 0.8 * available_bytes(torch.device("cpu")) or length > too_long.get((batch, channels), length):
            continue
        row = {"what": "layer", "arch": arch, "batch": batch, "length": length, "hidden_size": channels}
        rows.append(row | measure(layer_runs(arch, batch, length, channels), pairs))
        show(rows[-1])
        if rows[-1]["official_ms"] > 1000 * SLOW:
            too_long[batch, channels] = length
    return rows


def measure_steps(arch: str, pairs: int) -> list[dict]:
    """A row per entry of :data:`STEPS`."""
    rows = []
    for name, sizes in STEPS.items():
        row = {"what": f"step of {name}", "arch": arch} | {k: v for k, v in sizes.items() if k != "layers"}
        rows.append(row | measure(step_runs(arch, **sizes), pairs))
        show(rows[-1])
    return rows


def show(row: dict) -> None:
    """One line of the table."""
    shape = f"({row['batch']}, {row['length']:,}, {row['hidden_size']})"
    times = f"official {row['official_ms']:9,.1f} ms   ours {row['ours_ms']:8,.1f} ms"
    ratio = f"ratio {row['ratio']:5.1f} ({row['ratio_min']:.1f} to {row['ratio_max']:.1f})"
    print(f"{row['arch']:4} {row['what']:18} {shape:18} {times}   {ratio}", flush=True)


def run(argv: list[str]) -> None:
    """Parse, measure, show, save."""
    parser = Parser(prog="official_speed.py", description="Layers and training steps beside the official design.")
    parser.add_argument("--arch", nargs="+", choices=list(SHAPES), default=list(SHAPES), help="architectures [both]")
    parser.add_argument("--shape", nargs="+", help="batch x length x channels, for example 32x196x64 [a list]")
    parser.add_argument("--pairs", type=int, default=5, help="turns of each after the warm-up [5]")
    parser.add_argument("--steps", action="store_true", help="whole training steps instead of layers")
    parser.add_argument("--grid", action="store_true", help="a grid of shapes instead of the list")
    options = parse(parser, argv)
    chosen = [read_shape(word) for word in options.shape or []] or (GRID if options.grid else None)

    torch.set_num_threads(1)
    keep_freed_memory()
    found, rows = machine(), []
    for arch in options.arch:
        torch.manual_seed(0)
        if options.steps:
            rows += measure_steps(arch, options.pairs)
        else:
            rows += measure_layers(arch, chosen or list(SHAPES[arch]), options.pairs)
    if rows:
        worst = min(rows, key=lambda row: row["ratio"])
        print(f"worst ratio: {worst['ratio']:.1f}")
    save(options.out, [row | found for row in rows])


def keep_freed_memory() -> None:
    """glibc returns freed blocks to the system, which clears them at their next use. Whether it keeps small ones
    depends on what the process did before. Here both sides keep theirs."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        for option in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            ctypes.CDLL(None).mallopt(option, 1 << 30)


def read_shape(word: str) -> tuple[int, int, int]:
    """ "32x196x64" as numbers."""
    parts = word.split("x")
    if len(parts) != 3 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise HfLongSeqError(f"--shape {word}: write batch x length x channels, for example 32x196x64.")
    return tuple(int(part) for part in parts)


main = partial(run_command, "official_speed", run)

if __name__ == "__main__":
    sys.exit(main())
