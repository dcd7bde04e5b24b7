# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Generates tasks with many processes, once, into the cache.

A generated task is a function from the number of an example to a row, so the data are the same for any number of
processes.
"""

import hashlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from datasets import DatasetDict, Features
from datasets.utils import tqdm

from hf_longseq.data.columns import Row, as_table
from hf_longseq.data.converted import load_converted
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
        distinct_column: Column of integer lists in which no row may appear twice over all splits; None: no check.
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

    @property
    def parts(self) -> list[tuple[str, range]]:
        """Numbers of the examples that are computed together, with their split."""
        found, first = [], 0
        for split, count in self.splits.items():
            starts = range(first, first + count, self.rows_per_part)
            first += count
            found += [(split, range(start, min(start + self.rows_per_part, first))) for start in starts]
        return found


def load_generated(
    task: GeneratedTask, cache_dir: str | Path | None = None, num_workers: int | None = None
) -> DatasetDict:
    """The task's splits, memory-mapped; generates them first if need be, with all cores by default."""
    names = ("name", "version", "seed", "parameters", "splits")
    options = {name: getattr(task, name) for name in names}
    rows = partial(generate, task, num_workers or os.cpu_count() or 1)
    return load_converted(task.name, options, [], task.features, rows, cache_dir, tuple(task.splits))


def generate(task: GeneratedTask, num_workers: int = 1) -> Iterator[tuple[str, pa.Table]]:
    """The rows of the task in their order, some at a time, each with its split."""
    parts = task.parts
    seen: set[bytes] = set()
    with ExitStack() as stack:
        bar = stack.enter_context(tqdm(total=sum(task.splits.values()), unit="ex", desc=task.name))
        tables: Iterable[pa.Table] = map(partial(_make_table, task), (numbers for _, numbers in parts))
        if min(num_workers, len(parts)) > 1:
            # Children only run the task's own code, never torch, so forking is safe and needs no import guard.
            context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
            pool = stack.enter_context(ProcessPoolExecutor(min(num_workers, len(parts)), context, end_with_parent))
            stack.callback(pool.shutdown, cancel_futures=True)
            tables = pool.map(partial(_make_table, task), [numbers for _, numbers in parts])
        for (split, numbers), table in zip(parts, tables, strict=True):
            yield split, _distinct(task, table, numbers, seen)
            bar.update(len(numbers))


def _make_table(task: GeneratedTask, numbers: Iterable[int], draw: int = 0) -> pa.Table:
    rows = [task.make_row(task.parameters, task.seed, number, draw) for number in numbers]
    return as_table(rows, task.features)


def _distinct(task: GeneratedTask, table: pa.Table, numbers: range, seen: set[bytes]) -> pa.Table:
    """The rows with those drawn again whose content an earlier row has, so that splits share no example."""
    if task.distinct_column is None:
        return table
    redrawn: dict[int, pa.Table] = {}
    for row, digest in enumerate(_row_digests(table[task.distinct_column])):
        draw = 0
        while digest in seen:
            draw += 1
            if draw > MAX_REDRAWS:
                raise HfLongSeqError(
                    f"{task.name} has no {sum(task.splits.values())} distinct examples with {task.parameters}: "
                    "ask for fewer examples, or for a wider range of lengths."
                )
            redrawn[row] = _make_table(task, [numbers[row]], draw)
            digest = _row_digests(redrawn[row][task.distinct_column])[0]
        seen.add(digest)
    place = {row: len(table) + position for position, row in enumerate(redrawn)}
    order = [place.get(row, row) for row in range(len(table))]
    return pa.concat_tables([table, *redrawn.values()]).take(order) if redrawn else table


def _row_digests(column: pa.ChunkedArray) -> list[bytes]:
    values = pc.list_flatten(column).to_numpy()
    ends = pc.list_value_length(column).to_numpy().cumsum()
    starts = [0, *ends[:-1]]
    return [
        hashlib.blake2b(values[start:end].tobytes(), digest_size=16).digest()
        for start, end in zip(starts, ends, strict=True)
    ]
