# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Writes generated tasks: many processes, resumable, parquet files with a manifest.

A generated task is a function from the number of an example to a row, so the data are the same for any number of
processes, and an interrupted run resumes. A folder holds `<split>-00003-of-00096.parquet` files and a `manifest.json`
with everything the data depend on, which says whether the set is finished.
"""

import hashlib
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from datasets import Dataset, DatasetDict, Features
from datasets.utils import tqdm
from filelock import FileLock, Timeout

from hf_longseq.data.columns import Row, as_table
from hf_longseq.data.task import cache_directory
from hf_longseq.errors import HfLongSeqError
from hf_longseq.processes import end_with_parent

MANIFEST = "manifest.json"
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
        rows_per_file: Rows in a file; the unit of resuming and of progress.
    """

    name: str
    version: int
    make_row: RowMaker
    features: Features
    parameters: dict[str, Any]
    splits: dict[str, int]
    seed: int = 0
    distinct_column: str | None = None
    rows_per_file: int = 1000

    def __post_init__(self):
        for split, count in self.splits.items():
            if count < 1:
                raise HfLongSeqError(f"Split {split!r} of {self.name} has {count} examples: ask for at least 1.")

    @cached_property
    def file_ranges(self) -> dict[str, tuple[int, int]]:
        """Numbers of the examples, first and end, that each file holds."""
        ranges, first = {}, 0
        for split, count in self.splits.items():
            starts = range(0, count, self.rows_per_file)
            for number, start in enumerate(starts):
                stop = min(start + self.rows_per_file, count)
                ranges[f"{split}-{number:05d}-of-{len(starts):05d}.parquet"] = (first + start, first + stop)
            first += count
        return ranges

    def description(self) -> dict[str, Any]:
        """What the data depend on, as JSON."""
        parts = ("name", "version", "seed", "parameters", "splits", "rows_per_file")
        return json.loads(json.dumps({part: getattr(self, part) for part in parts}))

    def folder(self, cache_dir: str | Path | None = None) -> Path:
        """Where the set lives in the cache: a name that changes with everything the data depend on."""
        digest = hashlib.sha256(json.dumps(self.description(), sort_keys=True).encode()).hexdigest()[:12]
        return Path(cache_dir or cache_directory()) / self.name / f"seed{self.seed}-{digest}"


def generate(task: GeneratedTask, folder: str | Path, num_workers: int | None = None) -> Path:
    """Write the task's files into its folder, or finish what an interrupted run began; a whole set is left as it is.

    Any number of processes (all cores by default) gives the same files. While another process writes there, this
    raises.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=0):
            if not _is_finished(task, folder):
                _write_manifest(task, folder, complete=False)
                _write_files(task, folder, num_workers or os.cpu_count() or 1)
                if task.distinct_column is not None:
                    _replace_duplicates(task, folder)
                _write_manifest(task, folder, complete=True)
    except Timeout:
        # whoever holds the lock may only be looking at a finished set, as several jobs at a time do
        if not _is_finished(task, folder):
            raise HfLongSeqError(
                f"{folder} is being written by another process: wait for it, or choose another folder."
            ) from None
    return folder


def load_generated(
    task: GeneratedTask, cache_dir: str | Path | None = None, num_workers: int | None = None
) -> DatasetDict:
    """The task's splits, memory-mapped; generates them first if need be."""
    folder = generate(task, task.folder(cache_dir), num_workers)
    return read_folder(folder, task.splits, cache_dir)


def read_folder(folder: Path, splits: Sequence[str] | dict, cache_dir: str | Path | None = None) -> DatasetDict:
    """Open `<split>-*.parquet` files as a memory-mapped `DatasetDict`."""
    arrow_cache = str(Path(cache_dir) / "arrow") if cache_dir is not None else None
    files = {split: sorted(str(path) for path in Path(folder).glob(f"{split}-*.parquet")) for split in splits}
    return DatasetDict(
        {split: Dataset.from_parquet(paths, split=split, cache_dir=arrow_cache) for split, paths in files.items()}
    )


def _is_finished(task: GeneratedTask, folder: Path) -> bool:
    """Whether the whole set is there; that it is this one is said by the name of its folder."""
    manifest = folder / MANIFEST
    complete = manifest.exists() and json.loads(manifest.read_text())["complete"]
    return complete and all((folder / name).exists() for name in task.file_ranges)


def _write_manifest(task: GeneratedTask, folder: Path, complete: bool) -> None:
    temporary = folder / f"{MANIFEST}.tmp-{os.getpid()}"
    temporary.write_text(json.dumps({**task.description(), "complete": complete}, indent=1) + "\n")
    os.replace(temporary, folder / MANIFEST)


def _is_written(path: Path, rows: int) -> bool:
    """Whether an earlier run wrote the file to its end."""
    try:
        return path.exists() and pq.read_metadata(path).num_rows == rows
    except pa.ArrowInvalid:
        return False


def _write_files(task: GeneratedTask, folder: Path, num_workers: int) -> None:
    for leftover in folder.glob("*.tmp-*"):
        leftover.unlink()
    sizes = {name: stop - start for name, (start, stop) in task.file_ranges.items()}
    todo = [name for name, rows in sizes.items() if not _is_written(folder / name, rows)]
    done_rows = sum(sizes.values()) - sum(sizes[name] for name in todo)
    num_workers = min(num_workers, len(todo))
    write = partial(_write_file, task, folder)
    with ExitStack() as stack:
        total = sum(sizes.values())
        bar = stack.enter_context(tqdm(total=total, initial=done_rows, unit="ex", desc=task.name))
        if num_workers <= 1:
            finished = map(write, todo)
        else:
            # Children only run the task's own code, never torch, so forking is safe and needs no import guard.
            context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
            pool = stack.enter_context(ProcessPoolExecutor(num_workers, context, end_with_parent))
            stack.callback(pool.shutdown, cancel_futures=True)
            finished = (future.result() for future in as_completed([pool.submit(write, name) for name in todo]))
        for name in finished:
            bar.update(sizes[name])


def _write_file(task: GeneratedTask, folder: Path, name: str) -> str:
    _write_parquet(folder / name, _make_table(task, range(*task.file_ranges[name]), 0))
    return name


def _make_table(task: GeneratedTask, numbers: Sequence[int], draw: int) -> pa.Table:
    rows = [task.make_row(task.parameters, task.seed, number, draw) for number in numbers]
    return as_table(rows, task.features)


def _write_parquet(path: Path, table: pa.Table) -> None:
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    pq.write_table(table, temporary, compression="zstd", row_group_size=100)
    os.replace(temporary, path)


def _replace_duplicates(task: GeneratedTask, folder: Path) -> None:
    """Draw again every row whose content an earlier row has, so that splits share no example."""
    seen: set[bytes] = set()
    for name, (start, _) in task.file_ranges.items():
        table = pq.read_table(folder / name, columns=[task.distinct_column])
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
                redrawn[row] = _make_table(task, [start + row], draw)
                digest = _row_digests(redrawn[row][task.distinct_column])[0]
            seen.add(digest)
        if redrawn:
            whole = pq.read_table(folder / name)
            place = {row: len(whole) + position for position, row in enumerate(redrawn)}
            order = [place.get(row, row) for row in range(len(whole))]
            _write_parquet(folder / name, pa.concat_tables([whole, *redrawn.values()]).take(order))


def _row_digests(column: pa.ChunkedArray) -> list[bytes]:
    values = pc.list_flatten(column).to_numpy()
    ends = pc.list_value_length(column).to_numpy().cumsum()
    starts = [0, *ends[:-1]]
    return [
        hashlib.blake2b(values[start:end].tobytes(), digest_size=16).digest()
        for start, end in zip(starts, ends, strict=True)
    ]
