# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Writes generated tasks: many processes, resumable, parquet files with a manifest.

A generated task is a function from example numbers to rows, so the data are the same for any number of processes, and
an interrupted run resumes. A folder holds `<split>-00003-of-00096.parquet` files and a
`manifest.json` with everything the data depend on and the hash of every file; it says whether the set is finished.
"""

import hashlib
import json
import multiprocessing
import multiprocessing.connection
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from datasets import Dataset, DatasetDict, Features
from filelock import FileLock, Timeout
from tqdm.auto import tqdm

from hf_longseq.data.columns import Columns, as_table
from hf_longseq.data.task import cache_directory
from hf_longseq.errors import HfLongSeqError

MANIFEST = "manifest.json"
MAX_REDRAWS = 1000

# (parameters, seed, example numbers, draw) -> columns; draw > 0 asks for other examples under the same numbers.
RowMaker = Callable[[dict[str, Any], int, Sequence[int], int], Columns]


@dataclass(frozen=True)
class GeneratedTask:
    """A data set that is computed, not collected.

    Args:
        name: Name of the task.
        version: Raised whenever the same seed and parameters would give other data.
        make_rows: Module-level function that computes rows from example numbers.
        features: Columns of the data set.
        parameters: Everything besides seed and number that the rows depend on; plain JSON values.
        splits: Examples per split; numbers run through the splits in this order.
        seed: Seed of the whole set.
        distinct_column: Column of integer lists in which no row may appear twice over all splits; None: no check.
        rows_per_file: Rows in a file; the unit of resuming and of progress.
    """

    name: str
    version: int
    make_rows: RowMaker
    features: Features
    parameters: dict[str, Any]
    splits: dict[str, int]
    seed: int = 0
    distinct_column: str | None = None
    rows_per_file: int = 1000
    file_ranges: dict[str, tuple[int, int]] = field(init=False, repr=False)

    def __post_init__(self):
        for split, count in self.splits.items():
            if count < 1:
                raise HfLongSeqError(f"Split {split!r} of {self.name} has {count} examples: ask for at least 1.")
        ranges: dict[str, tuple[int, int]] = {}
        first = 0
        for split, count in self.splits.items():
            files = -(-count // self.rows_per_file)
            for number in range(files):
                start = first + number * self.rows_per_file
                stop = min(start + self.rows_per_file, first + count)
                ranges[f"{split}-{number:05d}-of-{files:05d}.parquet"] = (start, stop)
            first += count
        object.__setattr__(self, "file_ranges", ranges)

    def description(self) -> dict[str, Any]:
        """What the data depend on, as JSON."""
        parts = ("name", "version", "seed", "parameters", "splits", "rows_per_file")
        return json.loads(json.dumps({part: getattr(self, part) for part in parts}))

    def folder(self, cache_dir: str | Path | None = None) -> Path:
        """Where the set lives in the cache: a name that changes with everything the data depend on."""
        digest = hashlib.sha256(json.dumps(self.description(), sort_keys=True).encode()).hexdigest()[:12]
        return Path(cache_dir or cache_directory()) / self.name / f"seed{self.seed}-{digest}"


def generate(
    task: GeneratedTask, folder: str | Path | None = None, num_workers: int | None = None, progress: bool = True
) -> Path:
    """Write the task's files, or finish what an interrupted run began; a finished folder is left as it is.

    Args:
        task: What to generate.
        folder: Where to; default: the task's place in the cache.
        num_workers: Processes; default: all cores. Any number gives the same files.
        progress: Show a progress bar.

    Returns:
        The folder.

    Raises:
        HfLongSeqError: If the folder holds other data, or another process is writing there.
    """
    folder = Path(folder) if folder is not None else task.folder()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=0):
            manifest = _open_manifest(task, folder)
            if not manifest["complete"]:
                _write_files(task, folder, manifest, num_workers or os.cpu_count() or 1, progress)
                if task.distinct_column is not None:
                    _replace_duplicates(task, folder, manifest)
                manifest["complete"] = True
                _write_json(folder / MANIFEST, manifest)
    except Timeout:
        # whoever holds the lock may only be looking at a finished set, as several jobs at a time do
        if not ((folder / MANIFEST).exists() and _matching_manifest(task, folder)["complete"]):
            raise HfLongSeqError(
                f"{folder} is being written by another process: wait for it, or choose another folder."
            ) from None
    return folder


def load_generated(
    task: GeneratedTask,
    cache_dir: str | Path | None = None,
    num_workers: int | None = None,
    progress: bool = True,
) -> DatasetDict:
    """The task's splits, memory-mapped; generates them first if need be."""
    folder = generate(task, task.folder(cache_dir), num_workers, progress)
    return read_folder(folder, task.splits, cache_dir)


def read_folder(folder: Path, splits: Sequence[str] | dict, cache_dir: str | Path | None = None) -> DatasetDict:
    """Open `<split>-*.parquet` files as a memory-mapped `DatasetDict`."""
    arrow_cache = str(Path(cache_dir) / "arrow") if cache_dir is not None else None
    files = {split: sorted(str(path) for path in Path(folder).glob(f"{split}-*.parquet")) for split in splits}
    return DatasetDict(
        {split: Dataset.from_parquet(paths, split=split, cache_dir=arrow_cache) for split, paths in files.items()}
    )


def _open_manifest(task: GeneratedTask, folder: Path) -> dict[str, Any]:
    """The folder's manifest, checked against the task; a new one if there is none."""
    path = folder / MANIFEST
    if not path.exists():
        others = [entry.name for entry in folder.iterdir() if entry.name != ".lock" and ".tmp-" not in entry.name]
        if others:
            raise HfLongSeqError(f"{folder} holds {others[0]!r} but no {MANIFEST}: choose an empty folder.")
        manifest = {**task.description(), "complete": False, "files": {}}
        _write_json(path, manifest)
        return manifest
    manifest = _matching_manifest(task, folder)
    for leftover in folder.glob("*.tmp-*"):
        leftover.unlink()
    if not manifest["complete"]:
        there = {name: entry for name, entry in manifest["files"].items() if (folder / name).exists()}
        manifest["files"] = {name: entry for name, entry in there.items() if _sha256(folder / name) == entry["sha256"]}
        return manifest
    missing = next((name for name in manifest["files"] if not (folder / name).exists()), None)
    if missing is not None:
        raise HfLongSeqError(
            f"{folder} lacks {missing!r}, which its {MANIFEST} lists: delete the folder and generate again."
        )
    return manifest


def _matching_manifest(task: GeneratedTask, folder: Path) -> dict[str, Any]:
    manifest = json.loads((folder / MANIFEST).read_text())
    for key, value in task.description().items():
        if manifest.get(key) != value:
            raise HfLongSeqError(
                f"{folder} holds data with {key}={manifest.get(key)!r}, not {value!r}: choose another folder."
            )
    return manifest


def _write_files(task: GeneratedTask, folder: Path, manifest: dict, num_workers: int, progress: bool) -> None:
    todo = [name for name in task.file_ranges if name not in manifest["files"]]
    done_rows = sum(entry["rows"] for entry in manifest["files"].values())
    num_workers = min(num_workers, len(todo))
    with ExitStack() as stack:
        bar = stack.enter_context(
            tqdm(total=sum(task.splits.values()), initial=done_rows, unit="ex", desc=task.name, disable=not progress)
        )
        if num_workers <= 1:
            finished = (_write_file(task, folder, name) for name in todo)
        else:
            # Children only run the task's own code, never torch, so forking is safe and needs no import guard.
            context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
            pool = stack.enter_context(ProcessPoolExecutor(num_workers, context, _end_with_parent))
            stack.callback(pool.shutdown, cancel_futures=True)
            futures = [pool.submit(_write_file, task, folder, name) for name in todo]
            finished = (future.result() for future in as_completed(futures))
        for name, entry in finished:
            manifest["files"][name] = entry
            _write_json(folder / MANIFEST, manifest)
            bar.update(entry["rows"])


def _end_with_parent() -> None:
    """Let a worker end when the process that started it is gone, even if that was killed."""

    def wait() -> None:
        multiprocessing.connection.wait([multiprocessing.parent_process().sentinel])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _write_file(task: GeneratedTask, folder: Path, name: str) -> tuple[str, dict]:
    return name, _write_parquet(folder / name, _make_table(task, range(*task.file_ranges[name]), 0))


def _make_table(task: GeneratedTask, numbers: Sequence[int], draw: int) -> pa.Table:
    return as_table(task.make_rows(task.parameters, task.seed, numbers, draw), task.features)


def _write_parquet(path: Path, table: pa.Table) -> dict:
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    pq.write_table(table, temporary, compression="zstd", row_group_size=100)
    entry = {"rows": len(table), "sha256": _sha256(temporary)}
    os.replace(temporary, path)
    return entry


def _replace_duplicates(task: GeneratedTask, folder: Path, manifest: dict) -> None:
    """Draw again every row whose content an earlier row has, so that splits share no example."""
    seen: set[bytes] = set()
    for name, (start, _) in task.file_ranges.items():
        table = pq.read_table(folder / name, columns=[task.distinct_column])
        digests = _row_digests(table[task.distinct_column])
        redrawn: dict[int, pa.Table] = {}
        for row, digest in enumerate(digests):
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
            manifest["files"][name] = _write_parquet(
                folder / name, pa.concat_tables([whole, *redrawn.values()]).take(order)
            )
            _write_json(folder / MANIFEST, manifest)


def _row_digests(column: pa.ChunkedArray) -> list[bytes]:
    values = pc.list_flatten(column).to_numpy()
    ends = pc.list_value_length(column).to_numpy().cumsum()
    starts = [0, *ends[:-1]]
    return [
        hashlib.blake2b(values[start:end].tobytes(), digest_size=16).digest()
        for start, end in zip(starts, ends, strict=True)
    ]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write_json(path: Path, content: dict) -> None:
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    temporary.write_text(json.dumps(content, indent=1) + "\n")
    os.replace(temporary, path)
