# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Keeps data that were generated, or read from other formats, as parquet in the cache; memory-mapped from then on."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset, DatasetDict, Features
from filelock import FileLock

from hf_longseq.data.columns import Row, as_table
from hf_longseq.data.task_spec import cache_directory
from hf_longseq.errors import HfLongSeqError

SPLITS = ("train", "validation", "test")
CHUNK = 500
# of the files in a folder; earlier ones kept several parquet files a split
LAYOUT = 2


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
    what = {"layout": LAYOUT, "options": options, "files": sources, "features": str(features)}
    description = json.dumps(what, sort_keys=True)
    digest = hashlib.sha256(description.encode()).hexdigest()[:12]
    folder = Path(cache_dir or cache_directory()) / name / f"converted-{digest}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not folder.is_dir():
        with _alone(Path(f"{folder}.lock")):
            if not folder.is_dir():  # else another process made it meanwhile
                _fill(folder, partial(_write, features=features, rows=rows, splits=splits, name=name))
    arrow_cache = str(Path(cache_dir) / "arrow") if cache_dir is not None else None
    files_of = {split: str(folder / f"{split}.parquet") for split in splits}
    return DatasetDict(
        {split: Dataset.from_parquet(file, split=split, cache_dir=arrow_cache) for split, file in files_of.items()}
    )


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a lock, whose file is removed at the end."""
    with FileLock(path):
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _fill(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a new folder, which takes its name when it is whole."""
    for left in folder.parent.glob(f"{folder.name}.tmp-*"):  # of a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.tmp-", dir=folder.parent) as scratch:
        fresh = Path(scratch) / "whole"
        fresh.mkdir()
        write(fresh)
        os.replace(fresh, folder)


def _write(folder: Path, features: Features, rows: Callable[[], Iterator], splits: Sequence[str], name: str) -> None:
    inputs = Features({column: kind for column, kind in features.items() if column != "labels"})
    writers: dict[str, pq.ParquetWriter] = {}
    with ExitStack() as stack:
        for split, some in _in_chunks(rows()):
            kept = inputs if split == "unlabelled" else features
            if split not in writers:
                writer = pq.ParquetWriter(folder / f"{split}.parquet", kept.arrow_schema, compression="zstd")
                writers[split] = stack.enter_context(writer)
            writers[split].write_table(as_table(some, kept), row_group_size=1000)
    missing = next((split for split in splits if split not in writers), None)
    if missing is not None:
        raise HfLongSeqError(f"The source of {name} has no {missing} examples: is it complete?")


def _in_chunks(rows: Iterator[tuple[str, Row | pa.Table]]) -> Iterator[tuple[str, list[Row] | pa.Table]]:
    """Up to `CHUNK` rows of a split at a time; tables as they are."""
    waiting: dict[str, list[Row]] = {}
    for split, row in rows:
        if isinstance(row, pa.Table):
            yield split, row
            continue
        waiting.setdefault(split, []).append(row)
        if len(waiting[split]) == CHUNK:
            yield split, waiting.pop(split)
    yield from waiting.items()
