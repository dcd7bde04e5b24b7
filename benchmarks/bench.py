# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Time and memory of layers, training steps and generation, side by side, as table and CSV.

python benchmarks/bench.py ops | encoders | generate | data [--help]
"""

import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import torch

import data_speed
import encoder_speed
import layer_speed
import token_speed
from command import machine, parse, run_command, save
from hf_longseq.cli.options import Parser, numbers
from hf_longseq.data.task import TASKS
from hf_longseq.errors import HfLongSeqError, did_you_mean

WHAT = {
    "ops": "one layer, forward and backward",
    "encoders": "a training step and a prediction of whole models, beside transformers' own encoders",
    "generate": "one token after a prompt",
}
DATA = "examples per second of generators and of the input pipeline"
QUICK_LENGTHS = {"ops": (1024, 4096, 16384), "encoders": (128, 512, 2048), "generate": (1000, 4000, 16000)}


MODULES: dict[str, ModuleType] = {"ops": layer_speed, "encoders": encoder_speed, "generate": token_speed}


def run(argv: list[str]) -> None:
    """Parse, measure, show, save."""
    if argv[:1] == ["data"]:
        _run_data(argv[1:])
        return
    if not argv or argv[0] not in (*WHAT, "-h", "--help"):
        word = argv[0] if argv else ""
        raise HfLongSeqError(
            f"bench.py does not know {word!r}{did_you_mean(word, [*WHAT, 'data'])}: say what to measure, "
            f"{', '.join(WHAT)} or data."
        )
    options = parse(_parser(), argv)
    lengths = numbers(options.length, int, "length") or None

    if options.threads:
        torch.set_num_threads(options.threads)
    found = machine()
    print(f"hf-longseq {found['hf_longseq']}: {WHAT[options.what]} ({_device(options.device)})", file=sys.stderr)
    rows = _measure(options, lengths)
    print(table(rows))
    save(options.out, [{"benchmark": options.what, **row, **found} for row in rows])
    if options.out and options.what == "encoders":
        encoder_speed.draw(rows, str(Path(options.out).with_suffix(".png")))


def _parser() -> Parser:
    lines = "; ".join(f"{name}: {text}" for name, text in (WHAT | {"data": DATA}).items())
    parser = Parser(prog="bench.py", description=f"What to measure: {lines}.")
    parser.add_argument("what", choices=list(WHAT), help="what to measure")
    parser.add_argument("--arch", nargs="+", help="contestants, for example s4 attention_sdpa [all]")
    parser.add_argument("--length", nargs="+", help="sequence lengths [three; 1k to 64k with --full]")
    parser.add_argument("--batch_size", type=int, help="sequences at once [1; encoders 8,192 positions]")
    parser.add_argument("--repeats", type=int, help="timed runs after the warm-up [3; 5 with --full; 32 tokens]")
    parser.add_argument("--threads", type=int, help="threads of PyTorch [its own choice]")
    parser.add_argument("--device", default="cpu", help="cpu or cuda [cpu]")
    parser.add_argument("--full", action="store_true", help="all lengths, and up to a minute for a single run")
    return parser


def _run_data(argv: list[str]) -> None:
    """Parse, measure and save what concerns data."""
    parser = Parser(prog="bench.py data", description=f"Measure {DATA}.")
    parser.add_argument("--task", nargs="+", help="tasks [all that need no download]")
    parser.add_argument("--workers", type=int, help="processes of generators [one per core]")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds per input pipeline [5]")
    parser.add_argument("--full", action="store_true", help="generate 100,000 ListOps or Pathfinder, 20,000 Path-X")
    options = parse(parser, argv)

    names = [name for word in options.task or [] for name in word.split(",") if name] or data_speed.names_at_hand()
    for name in names:
        if name not in TASKS:
            raise HfLongSeqError(f"there is no task {name!r}{did_you_mean(name, TASKS)}: known: {', '.join(TASKS)}.")
    found = machine()
    rows = data_speed.benchmark_data(names, options.workers, options.full, options.seconds, _show_progress)
    _show_progress("")
    print(data_speed.table(rows))
    save(options.out, [{"benchmark": "data", **row, **found} for row in rows])


def _measure(options, lengths: list[int] | None) -> list[dict]:
    module = MODULES[options.what]
    chosen = [name for word in options.arch or [] for name in word.split(",") if name]
    settings = {
        "lengths": sorted(lengths or (module.LENGTHS if options.full else QUICK_LENGTHS[options.what])),
        "names": chosen or module.NAMES,
        "device": options.device,
        "seconds_limit": 60.0 if options.full else 12.0,
        "listener": _show_progress,
    }
    if options.batch_size:
        settings["batch"] = options.batch_size
    if options.repeats or options.what != "generate":
        settings["repeats"] = options.repeats or (5 if options.full else 3)
    rows = getattr(module, f"benchmark_{options.what}")(**settings)
    _show_progress("")
    return rows


def _show_progress(line: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)


def _device(name: str) -> str:
    return torch.cuda.get_device_name() if name.startswith("cuda") else f"CPU, {torch.get_num_threads()} threads"


def table(rows: list[dict]) -> str:
    """Rows as aligned text; times in milliseconds."""
    extra = [name for name in ("cache_mib", "prompt_seconds", "what") if name in rows[0]]
    titles = [name.replace("_", " ").replace("mib", "MiB") for name in extra]
    lines = [["length", "batch", "", "median ms", "fastest ms", "CPU ms", "peak MiB", *titles]]
    for row in rows:
        line = [f"{row['length']:,}", str(row["batch"]), row["op"]]
        if row["skipped"]:
            lines.append([*line, f"not run: {row['skipped']}"])
            continue
        times = [f"{1000 * row[name]:,.1f}" for name in ("seconds", "seconds_min", "cpu_seconds")]
        others = [row[name] for name in ("peak_mib", *extra)]
        numbers = [other or "" if isinstance(other, str | None) else f"{other:,.1f}" for other in others]
        lines.append([*line, *times, *numbers])
    whole = [line for line in lines if len(line) == len(lines[0])]
    widths = [max(len(line[column]) for line in whole) for column in range(len(lines[0]))]
    return "\n".join(_align(line, widths) for line in lines)


def _align(line: list[str], widths: list[int]) -> str:
    words = [
        word.ljust(width) if column == 2 or "not run" in word else word.rjust(width)
        for column, (word, width) in enumerate(zip(line, widths, strict=False))
    ]
    return "  ".join(words).rstrip()


main = partial(run_command, "bench", run)

if __name__ == "__main__":
    sys.exit(main())
