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


def load_generated(
    name: str,
    version: int,
    make_row: RowMaker,
    features: Features,
    parameters: dict[str, Any],
    splits: dict[str, int],
    seed: int = 0,
    distinct_column: str | None = None,
    rows_per_part: int = 1000,
    num_workers: int | None = None,
    cache_dir: str | Path | None = None,
) -> DatasetDict:
    """The splits of a data set that is computed, memory-mapped; computed first if need be, with all cores by default.

    Args:
        version: Raised whenever the same seed and parameters would give other data.
        make_row: Module-level function that computes a row from the number of an example.
        features: Columns of the data set.
        parameters: Everything besides seed and number that the rows depend on; plain JSON values.
        splits: Examples per split; numbers run through the splits in this order.
        seed: Seed of the whole set.
        distinct_column: Column in which no row may appear twice over all splits; None: no check.
        rows_per_part: Rows that a process computes at a time.
    """
    for split, count in splits.items():
        if count < 1:
            raise HfLongSeqError(f"Split {split!r} of {name} has {count} examples: ask for at least 1.")
    make = partial(make_row, parameters, seed)
    options = {"version": version, "seed": seed, "parameters": parameters, "splits": splits}
    rows = partial(_generate, name, make, splits, distinct_column, rows_per_part, num_workers or os.cpu_count() or 1)
    return load_converted(name, options, [], features, rows, cache_dir, tuple(splits))


def _generate(
    name: str,
    make: partial[Row],
    splits: dict[str, int],
    distinct_column: str | None,
    rows_per_part: int,
    num_workers: int,
) -> Iterator[tuple[str, Row]]:
    """The rows in their order, each with its split."""
    numbers = range(sum(splits.values()))
    split_of = chain.from_iterable(repeat(split, count) for split, count in splits.items())
    num_workers = min(num_workers, -(-len(numbers) // rows_per_part))
    seen: set[int] = set()
    with ExitStack() as stack:
        rows: Iterable[Row] = map(make, numbers, repeat(0))
        if num_workers > 1:
            # Children only run the task's own code, never torch, so forking is safe and needs no import guard.
            context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
            pool = ProcessPoolExecutor(num_workers, context, end_with_parent)
            stack.callback(pool.shutdown, cancel_futures=True)
            rows = pool.map(make, numbers, repeat(0), chunksize=rows_per_part)
        bar = stack.enter_context(tqdm(total=len(numbers), unit="ex", desc=name))
        for number, split, row in zip(numbers, split_of, rows, strict=True):
            draw = 0
            # a row that an earlier one equals is drawn again, so that splits share no example
            while distinct_column and (content := hash_of([row[distinct_column].tobytes()])) in seen:
                draw += 1
                if draw > MAX_REDRAWS:
                    raise HfLongSeqError(
                        f"{name} has no {len(numbers)} distinct examples with {make.args[0]}: ask for fewer examples, "
                        "or for a wider range of lengths."
                    )
                row = make(number, draw)
            if distinct_column:
                seen.add(content)
            yield split, row
            bar.update()
