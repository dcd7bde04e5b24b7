# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Generates tasks with many processes, once, into the cache.

A generated task is a function from the number of an example to a row, so the data are the same for any number of
processes.
"""

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from datasets import DatasetDict, Features
from datasets.utils import tqdm

from hf_longseq.data.converted import Row, load_converted
from hf_longseq.data.row_hashes import hash_of
from hf_longseq.errors import HfLongSeqError
from hf_longseq.processes import end_with_parent

MAX_REDRAWS = 1000

# (parameters, seed, number of the example, draw) -> row; draw > 0 asks for another example under the same number.
RowMaker = Callable[[dict[str, Any], int, int, int], Row]


@dataclass(frozen=True)
class GeneratedTask:
    """A data set that is computed, not collected.

    Args:
        name: Name of the task.
        version: Raised whenever the same seed and parameters would give other data.
        make_row: Module-level function that computes a row from the number of an example.
        features: Columns of the data set.
        parameters: Everything besides seed and number that the rows depend on; plain JSON values.
        splits: Examples per split; numbers run through the splits in this order.
        seed: Seed of the whole set.
        distinct_column: Column in which no row may appear twice over all splits; None: no check.
        rows_per_part: Rows that a process computes at a time.
    """

    name: str
    version: int
    make_row: RowMaker
    features: Features
    parameters: dict[str, Any]
    splits: dict[str, int]
    seed: int = 0
    distinct_column: str | None = None
    rows_per_part: int = 1000

    def __post_init__(self):
        for split, count in self.splits.items():
            if count < 1:
                raise HfLongSeqError(f"Split {split!r} of {self.name} has {count} examples: ask for at least 1.")


def load_generated(
    task: GeneratedTask, cache_dir: str | Path | None = None, num_workers: int | None = None
) -> DatasetDict:
    """The task's splits, memory-mapped; generates them first if need be, with all cores by default."""
    names = ("name", "version", "seed", "parameters", "splits")
    options = {name: getattr(task, name) for name in names}
    rows = partial(generate, task, num_workers or os.cpu_count() or 1)
    return load_converted(task.name, options, [], task.features, rows, cache_dir, tuple(task.splits))


def generate(task: GeneratedTask, num_workers: int = 1) -> Iterator[tuple[str, Row]]:
    """The rows of the task in their order, each with its split."""
    make = partial(task.make_row, task.parameters, task.seed)
    numbers = range(sum(task.splits.values()))
    split_of = chain.from_iterable(repeat(split, count) for split, count in task.splits.items())
    num_workers = min(num_workers, -(-len(numbers) // task.rows_per_part))
    seen: set[int] = set()
    with ExitStack() as stack:
        rows: Iterable[Row] = map(make, numbers, repeat(0))
        if num_workers > 1:
            # Children only run the task's own code, never torch, so forking is safe and needs no import guard.
            context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
            pool = ProcessPoolExecutor(num_workers, context, end_with_parent)
            stack.callback(pool.shutdown, cancel_futures=True)
            rows = pool.map(make, numbers, repeat(0), chunksize=task.rows_per_part)
        bar = stack.enter_context(tqdm(total=len(numbers), unit="ex", desc=task.name))
        for number, split, row in zip(numbers, split_of, rows, strict=True):
            yield split, row if task.distinct_column is None else _distinct(task, row, number, seen)
            bar.update()


def _distinct(task: GeneratedTask, row: Row, number: int, seen: set[int]) -> Row:
    """The row, drawn again while an earlier one has its content, so that splits share no example."""
    draw = 0
    while (content := hash_of([row[task.distinct_column].tobytes()])) in seen:
        draw += 1
        if draw > MAX_REDRAWS:
            raise HfLongSeqError(
                f"{task.name} has no {sum(task.splits.values())} distinct examples with {task.parameters}: "
                "ask for fewer examples, or for a wider range of lengths."
            )
        row = task.make_row(task.parameters, task.seed, number, draw)
    seen.add(content)
    return row
