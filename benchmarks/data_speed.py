# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""How fast data come: examples per second that generators make, and that the input pipeline hands to a model.

The pipeline is what training uses: memory-mapped rows, the denoising collator, one process. Every row says how busy
the machine was, for generators use all of its cores.
"""

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

import joblib
from torch.utils.data import DataLoader

from hf_longseq.data.collators import DataCollatorForMaskedDenoising
from hf_longseq.data.task import TASKS, cached_bytes, load_task

# examples to generate: (a look, the amounts of the stated bars)
COUNTS = {
    "listops": (10_000, 100_000),
    "pathfinder": (10_000, 100_000),
    "pathfinder-16": (10_000, 100_000),
    "pathx": (1_000, 20_000),
    "pathx-256": (500, 5_000),
}
BATCH = 32


def names_at_hand() -> list[str]:
    """Tasks that need no download: generated, embedded, or cached already."""
    at_hand = [name for name, entry in TASKS.items() if entry.source in ("generated", "embedded")]
    return at_hand + [name for name in TASKS if name not in at_hand and name != "own-data" and cached_bytes(name)]


def benchmark_data(
    names: Iterable[str],
    workers: int | None = None,
    full: bool = False,
    seconds: float = 5.0,
    listener: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """Measure tasks.

    Args:
        names: Tasks.
        workers: Processes of generators; default: one per core.
        full: Generate the amounts for which bars are stated, instead of a tenth or less.
        seconds: How long the pipeline of each task is run.
        listener: Told what is being measured.

    Returns:
        Rows with `task`, `stage` ("generate" or "batch"), `examples`, `seconds`, `examples_per_second`,
        `steps_per_second` (sequence steps), `workers`, `load` (processes that wanted a core when it began).
    """
    workers = workers or joblib.cpu_count()
    rows = []
    for name in names:
        listener(name)
        with tempfile.TemporaryDirectory() as cache:
            options: dict[str, Any] = {}
            if TASKS[name].source == "generated":
                count = COUNTS[name][full]
                _generate(name, 16, workers, os.path.join(cache, "warm"))
                load, started = os.getloadavg()[0], time.perf_counter()
                options = _generate(name, count, workers, cache)
                rows.append(_row(name, "generate", count, time.perf_counter() - started, None, workers, load))
            rows.append(_batches(name, options, seconds))
    return rows


def _generate(name: str, count: int, workers: int, cache: str) -> dict[str, Any]:
    """Generate `count` examples and return the options that load them."""
    held_out = max(1, count // 100)
    options = {"train_examples": count - 2 * held_out, "eval_examples": held_out}
    options |= {"num_workers": workers, "cache_dir": cache}
    load_task(name, **options)
    return options


def _batches(name: str, options: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Rows of train through the denoising collator, for some time after the first batch."""
    splits, spec = load_task(name, **options)
    batch = min(BATCH, len(splits["train"]))
    loader = DataLoader(
        splits["train"], batch, shuffle=True, collate_fn=DataCollatorForMaskedDenoising.from_task(spec)
    )
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    next(iter(loader))
    load, examples, steps, started = os.getloadavg()[0], 0, 0, time.perf_counter()
    while (passed := time.perf_counter() - started) < seconds:
        mask = next(batches)["attention_mask"]
        examples += len(mask)
        steps += int(mask.sum())
    return _row(name, "batch", examples, passed, steps, 0, load)


def _row(
    name: str, stage: str, examples: int, seconds: float, steps: int | None, workers: int, load: float
) -> dict[str, Any]:
    return {
        "task": name,
        "stage": stage,
        "examples": examples,
        "seconds": round(seconds, 3),
        "examples_per_second": round(examples / seconds, 1),
        "steps_per_second": None if steps is None else round(steps / seconds),
        "workers": workers,
        "load": round(load, 2),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as aligned text."""
    lines = [f"{'task':<16}{'stage':<10}{'examples':>10}{'seconds':>9}{'examples/s':>12}{'steps/s':>14}{'load':>7}"]
    for row in rows:
        steps = "" if row["steps_per_second"] is None else f"{row['steps_per_second']:,}"
        lines.append(
            f"{row['task']:<16}{row['stage']:<10}{row['examples']:>10,}{row['seconds']:>9.1f}"
            f"{row['examples_per_second']:>12,.1f}{steps:>14}{row['load']:>7.1f}"
        )
    return "\n".join(lines)
