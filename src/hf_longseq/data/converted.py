# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Keeps data read from other formats as parquet in the cache, parsed once and memory-mapped after."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import DatasetDict, Features

from hf_longseq.data.columns import Row, as_table
from hf_longseq.data.generate import MANIFEST, read_folder
from hf_longseq.data.task import cache_directory
from hf_longseq.errors import HfLongSeqError

SPLITS = ("train", "validation", "test")
CHUNK = 500


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
    description = json.loads(json.dumps({"options": options, "files": sources, "features": str(features)}))
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:12]
    folder = Path(cache_dir or cache_directory()) / name / f"converted-{digest}"
    if not (folder / MANIFEST).exists():
        _convert(folder, description, features, rows(), splits)
    return read_folder(folder, splits, cache_dir)


def _convert(
    folder: Path,
    description: dict,
    features: Features,
    rows: Iterator[tuple[str, Row | pa.Table]],
    splits: Sequence[str],
) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    inputs = Features({name: kind for name, kind in features.items() if name != "labels"})
    writers: dict[str, pq.ParquetWriter] = {}
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.tmp-", dir=folder.parent) as scratch, ExitStack() as stack:
        fresh = Path(scratch) / folder.name
        fresh.mkdir()
        for split, some in _in_chunks(rows):
            kept = inputs if split == "unlabelled" else features
            if split not in writers:
                path = fresh / f"{split}-00000-of-00001.parquet"
                writers[split] = stack.enter_context(pq.ParquetWriter(path, kept.arrow_schema, compression="zstd"))
            writers[split].write_table(as_table(some, kept), row_group_size=1000)
        stack.close()
        missing = next((split for split in splits if split not in writers), None)
        if missing is not None:
            raise HfLongSeqError(f"The source of {folder.parent.name} has no {missing} examples: is it complete?")
        (fresh / MANIFEST).write_text(json.dumps(description, indent=1) + "\n")
        if (folder / MANIFEST).exists():  # another process was faster
            return
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(fresh, folder)


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
