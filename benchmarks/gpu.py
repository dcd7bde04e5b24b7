# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Everything this package wants to know of a GPU, in one table: python benchmarks/gpu.py [--quick] [--out FILE.csv]

- convolution and scan forward at (B, L, H), against torch's FFT, and where they are installed cuDNN's
  `fft_causal_conv1d` and `subquadratic_ops_torch`; each with its error against float64
- the same with TF32 products, inside a bfloat16 autocast of the whole layer, and replayed as a CUDA graph
- a Mamba-2 layer of `mamba_ssm` where that is installed

A contestant that is missing or fails is a row that says why. Nothing here is needed to install the package.

Axes: B batch, L length, H channels.
"""

import statistics
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module

import torch

from command import machine, parse, run_command, save
from hf_longseq.cli.options import Parser
from hf_longseq.errors import HfLongSeqError
from hf_longseq.models.ssm_convolution import long_convolution
from hf_longseq.models.ssm_plan import METHODS, forced
from layer_speed import build_layers
from plain_kernels import fft_convolution

SHAPES = ((32, 4096, 256), (16, 1024, 128), (4, 2048, 128), (1, 16384, 128), (1, 65536, 128))
BAR_MS = 0.4
"""What the forward pass at the first shape should take."""


def median_ms(run: Callable[[], object], repeats: int, device: torch.device) -> float:
    """Median time of one call by the device's own clock; on a CPU that of one call by the processor's."""
    for _ in range(3):
        run()
    if device.type != "cuda":
        import time

        times = []
        for _ in range(repeats):
            start = time.process_time()
            run()
            times.append(1000 * (time.process_time() - start))
        return statistics.median(times)
    marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    for start, end in marks:
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in marks)


def graphed(run: Callable[[], object]) -> Callable[[], object]:
    """``run`` captured once, to be replayed without launching its kernels one by one."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def causal_contestants(u_HBL: torch.Tensor, taps_HL: torch.Tensor) -> dict[str, Callable[[], torch.Tensor]]:
    """Causal convolutions with kernels that are there already, each to (H, B, L) or (B, H, L); missing ones raise."""
    u_BHL = u_HBL.transpose(0, 1).contiguous()

    def cudnn() -> torch.Tensor:
        return import_module("cudnn").ops.fft_causal_conv1d(u_BHL, taps_HL)

    def subquadratic() -> torch.Tensor:
        return import_module("subquadratic_ops_torch.fft_causal_conv1d").fft_causal_conv1d(u_BHL, taps_HL)

    return {
        "convolution of this package": lambda: long_convolution(u_HBL, taps_HL[None]),
        "torch FFT": lambda: fft_convolution(u_BHL, taps_HL[None]),
        "cuDNN fft_causal_conv1d": cudnn,
        "subquadratic-ops-torch": subquadratic,
    }


@torch.no_grad()
def convolution_rows(shape: tuple[int, int, int], repeats: int, device: torch.device) -> list[dict]:
    """Forward time and error of every causal convolution."""
    batch, length, channels = shape
    u_HBL = torch.randn(channels, batch, length, device=device)
    decay = torch.exp(-torch.arange(length, device=device) / length * 8)
    taps_HL = torch.randn(channels, length, device=device) * decay
    few = slice(0, 4)
    exact = fft_convolution(u_HBL[few].double().transpose(0, 1), taps_HL[None, few].double())
    rows = []
    for name, run in causal_contestants(u_HBL, taps_HL).items():
        row = {"what": "causal convolution, forward", "contestant": name}

        def measured(run=run, name=name):
            y = run()
            y_BHL = y.transpose(0, 1) if name.startswith("convolution of") else y
            error = (y_BHL[:, few].double() - exact).norm() / exact.norm()
            return {"ms": median_ms(run, repeats, device), "error": float(error)}

        rows.append(row | attempt(measured))
    return rows


def layer_rows(shape: tuple[int, int, int], repeats: int, device: torch.device) -> list[dict]:
    """An S4 layer by either method, forward and with its backward pass, in several precisions and as a graph."""
    batch, length, channels = shape
    layer = build_layers(("s4",), hidden_size=channels)["s4"].to(device)
    u_BLH = torch.randn(batch, length, channels, device=device, requires_grad=True)
    with torch.no_grad():
        exact = layer(u_BLH)[0].double()

    def both():
        layer(u_BLH)[0].square().mean().backward()

    def forward():
        with torch.no_grad():
            return layer(u_BLH)[0]

    def half():
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16):
            return layer(u_BLH)[0]

    rows = []
    for method in METHODS:
        with forced(method):
            for name, run in (("forward", forward), ("forward, bf16 autocast", half), ("forward and backward", both)):
                rows.append({"what": f"S4 layer, {name}", "contestant": method} | _timed(run, exact, repeats, device))
            torch.backends.cuda.matmul.allow_tf32 = True
            rows.append(
                {"what": "S4 layer, forward, TF32", "contestant": method} | _timed(forward, exact, repeats, device)
            )
            torch.backends.cuda.matmul.allow_tf32 = False
            if device.type == "cuda":
                row = {"what": "S4 layer, forward, CUDA graph", "contestant": method}
                rows.append(row | attempt(lambda: {"ms": median_ms(graphed(forward), repeats, device)}))
    return rows


def _timed(run: Callable, exact: torch.Tensor, repeats: int, device: torch.device) -> dict:
    def measured():
        y = run()
        found = {} if y is None else {"error": float((y.double() - exact).norm() / exact.norm())}
        return found | {"ms": median_ms(run, repeats, device)}

    return attempt(measured)


def mamba_rows(shape: tuple[int, int, int], repeats: int, device: torch.device) -> list[dict]:
    """A Mamba-2 layer with its compiled kernels."""
    batch, length, channels = shape

    def measured():
        layer = import_module("mamba_ssm").Mamba2(d_model=channels, d_state=64, headdim=32).to(device)
        u_BLH = torch.randn(batch, length, channels, device=device)
        with torch.no_grad():
            return {"ms": median_ms(lambda: layer(u_BLH), repeats, device)}

    return [{"what": "Mamba-2 layer, forward", "contestant": "mamba_ssm"} | attempt(measured)]


def attempt(measured: Callable[[], dict]) -> dict:
    """What was measured, or the reason why not: other people's kernels fail in ways of their own."""
    row = {"ms": None, "error": None, "skipped": ""}
    try:
        return row | measured()
    except Exception as error:
        return row | {"skipped": f"{type(error).__name__}: {error}".splitlines()[0][:120]}


def measure(shapes: tuple, repeats: int, device: torch.device) -> list[dict]:
    """Rows of all shapes, printed as they come."""
    rows = []
    for shape in shapes:
        found = convolution_rows(shape, repeats, device) + layer_rows(shape, repeats, device)
        for row in found + mamba_rows(shape, repeats, device):
            rows.append(dict(zip(("batch", "length", "hidden_size"), shape, strict=True)) | row)
            print(line(rows[-1]), flush=True)
    return rows


def line(row: dict) -> str:
    """One line of the table."""
    shape = f"({row['batch']}, {row['length']:,}, {row['hidden_size']})"
    result = f"not run: {row['skipped']}" if row["ms"] is None else f"{row['ms']:10.3f} ms"
    error = "" if row["error"] is None else f"   error {row['error']:.1e}"
    return f"{shape:18} {row['what']:32} {row['contestant']:28} {result}{error}"


def run(argv: list[str]) -> None:
    """Parse, measure, show, save."""
    parser = Parser(prog="gpu.py", description="Layers and convolutions on a GPU.")
    parser.add_argument("--quick", action="store_true", help="the first shape alone")
    parser.add_argument("--repeats", type=int, default=20, help="timed calls [20]")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to try the script [cuda]")
    options = parse(parser, argv)
    if options.device == "cuda" and not torch.cuda.is_available():
        raise HfLongSeqError("there is no GPU that PyTorch can use: run this where torch.cuda.is_available() is true.")

    torch.manual_seed(0)
    found = machine()
    rows = measure(SHAPES[:1] if options.quick else SHAPES, options.repeats, torch.device(options.device))
    best = min((row["ms"] for row in rows if row["what"] == "S4 layer, forward" and row["ms"]), default=None)
    if best is not None:
        print(f"S4 layer, forward, best: {best:.3f} ms (bar at {SHAPES[0]}: {BAR_MS} ms)")
    save(options.out, [row | found for row in rows])


main = partial(run_command, "gpu", run)

if __name__ == "__main__":
    sys.exit(main())
