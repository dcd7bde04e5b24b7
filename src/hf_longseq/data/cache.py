# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Keeps data that were generated, or read from other formats, in the cache; memory-mapped from then on.

Rows come one by one, their sequences as numpy arrays of any length, and are kept as columns of Arrow. A generated row
is a function of its number, so the data are the same for any number of processes.
"""

import hashlib
import json
import multiprocessing
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import joblib
import pyarrow as pa
from datasets import Array2D, Dataset, DatasetDict, Features, List, Value
from datasets.arrow_writer import ArrowWriter
from datasets.utils import tqdm
from filelock import FileLock

from hf_longseq.data.row_hashes import hash_of
from hf_longseq.data.task_spec import cache_directory
from hf_longseq.errors import HfLongSeqError
from hf_longseq.processes import end_with_parent

SPLITS = ("train", "validation", "test")
CHUNK = 500
MAX_REDRAWS = 1000

# Values under the names of their columns; sequences are arrays (L,) or (L, C).
Row = dict[str, Any]
# (parameters, seed, number of the example, draw) -> row; draw > 0 asks for another example under the same number.
RowMaker = Callable[[dict[str, Any], int, int, int], Row]


def load_converted(
    name: str,
    options: dict[str, Any],
    files: Iterable[Path],
    features: Features,
    rows: Callable[[], Iterator[tuple[str, Row | pa.Table]]],
    cache_dir: str | Path | None = None,
    splits: Sequence[str] = SPLITS,
) -> DatasetDict:
    """Open the converted data of a task; convert them first if the cache lacks them.

    Args:
        options: What the rows depend on beside the files, as JSON values: options of the loader, a version.
        files: What is read; another size or time of change makes other data.
        features: Columns; the split `unlabelled` has all but `labels`.
        rows: Yields (split, row), or (split, table of some rows). The result is used only if it ran to the end.
        splits: Splits of which rows must come.
    """
    sources = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    what = json.dumps({"options": options, "files": sources, "features": str(features)}, sort_keys=True)
    folder = Path(cache_dir or cache_directory()) / name / hashlib.sha256(what.encode()).hexdigest()[:12]
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if not folder.is_dir():  # else another process made it meanwhile
                _convert(folder, features, rows(), splits, name)
    return DatasetDict({split: Dataset.from_file(str(folder / f"{split}.arrow"), split=split) for split in splits})


def _convert(folder: Path, features: Features, rows: Iterator, splits: Sequence[str], name: str) -> None:
    """Write the rows into a folder, a file for every split; it takes its name when it is whole."""
    fresh = folder.with_suffix(".incomplete")
    shutil.rmtree(fresh, ignore_errors=True)  # of a process that was killed
    fresh.mkdir()
    inputs = Features({column: kind for column, kind in features.items() if column != "labels"})
    writers: dict[str, ArrowWriter] = {}
    try:
        with ExitStack() as stack:
            for split, row in rows:
                columns = inputs if split == "unlabelled" else features
                if split not in writers:
                    writer = ArrowWriter(features=columns, path=str(fresh / f"{split}.arrow"), writer_batch_size=CHUNK)
                    writers[split] = stack.enter_context(writer)
                if isinstance(row, pa.Table):
                    writers[split].write_table(row)
                else:
                    writers[split].write({column: row[column] for column in columns})
            for writer in writers.values():
                writer.finalize()
        missing = set(splits) - set(writers)
        if missing:
            raise HfLongSeqError(f"The source of {name} has no {min(missing)} examples: is it complete?")
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


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
    make, numbers = partial(make_row, parameters, seed), range(sum(splits.values()))

    def generate() -> Iterator[tuple[str, Row]]:
        split_of = chain.from_iterable(repeat(split, count) for split, count in splits.items())
        processes = min(num_workers or joblib.cpu_count(), -(-len(numbers) // rows_per_part))
        seen: set[int] = set()
        with ExitStack() as stack:
            rows: Iterable[Row] = map(make, numbers, repeat(0))
            if processes > 1:
                # Children only run the task's own code, never torch, so forking is safe and needs no import guard.
                context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
                pool = ProcessPoolExecutor(processes, context, end_with_parent)
                stack.callback(pool.shutdown, cancel_futures=True)
                rows = pool.map(make, numbers, repeat(0), chunksize=rows_per_part)
            bar = tqdm(rows, total=len(numbers), unit="ex", desc=name)
            for number, split, row in zip(numbers, split_of, bar, strict=True):
                draw = 0
                # a row that an earlier one equals is drawn again, so that splits share no example
                while distinct_column and (content := hash_of([row[distinct_column].tobytes()])) in seen:
                    draw += 1
                    if draw > MAX_REDRAWS:
                        raise HfLongSeqError(
                            f"{name} has no {len(numbers)} distinct examples with {parameters}: ask for fewer "
                            "examples, or for a wider range of lengths."
                        )
                    row = make(number, draw)
                if distinct_column:
                    seen.add(content)
                yield split, row

    options = {"version": version, "seed": seed, "parameters": parameters, "splits": splits}
    return load_converted(name, options, [], features, generate, cache_dir, tuple(splits))


def sequence_feature(dtype: str, num_channels: int = 1) -> List | Array2D:
    """Column type of sequences: a list for one channel, else an array (length, channels).

    A list of lists would say the same, but takes a hundred times longer to read.
    """
    return List(Value(dtype)) if num_channels == 1 else Array2D((None, num_channels), dtype)
