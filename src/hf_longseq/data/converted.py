# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Keeps data read from other formats as parquet in the cache, parsed once and memory-mapped after."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from datasets import DatasetDict, Features

from hf_longseq.data.columns import Columns, as_table
from hf_longseq.data.generate import MANIFEST, read_folder
from hf_longseq.data.task import cache_directory
from hf_longseq.errors import HfLongSeqError

SPLITS = ("train", "validation", "test")

# A function that yields (split, columns of some rows, as `as_table` takes them).
Chunks = Callable[[], Iterator[tuple[str, Columns]]]


def load_converted(
    name: str,
    depends_on: dict[str, Any],
    features: Features,
    chunks: Chunks,
    cache_dir: str | Path | None = None,
    splits: Sequence[str] = SPLITS,
) -> DatasetDict:
    """Open the converted data; convert them first if the cache lacks them.

    Args:
        name: Name of the task, the folder in the cache.
        depends_on: Everything the result depends on as JSON values: options, a version, `fingerprint` of the files.
        features: Columns; the split `unlabelled` has all but `labels`.
        chunks: Yields the rows. The result is used only if it ran to the end.
        cache_dir: Cache folder; default: `cache_directory()`.
        splits: Splits of which rows must come.
    """
    description = json.loads(json.dumps(depends_on))
    digest = hashlib.sha256(json.dumps([description, str(features)], sort_keys=True).encode()).hexdigest()[:12]
    folder = Path(cache_dir or cache_directory()) / name / f"converted-{digest}"
    if not (folder / MANIFEST).exists():
        _convert(folder, description, features, chunks, splits)
    return read_folder(folder, splits, cache_dir)


def fingerprint(files: Iterable[Path]) -> list[tuple[str, int, int]]:
    """Name, size and time of change of each file: enough to notice that a source has changed."""
    return [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]


def _convert(folder: Path, description: dict, features: Features, chunks: Chunks, splits: Sequence[str]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f"{folder.name}.tmp-{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    writers: dict[str, pq.ParquetWriter] = {}
    rows: dict[str, int] = {}
    inputs = Features({name: kind for name, kind in features.items() if name != "labels"})
    try:
        for split, columns in chunks():
            kept = inputs if split == "unlabelled" else features
            if split not in writers:
                path = temporary / f"{split}-00000-of-00001.parquet"
                writers[split] = pq.ParquetWriter(path, kept.arrow_schema, compression="zstd")
                rows[split] = 0
            table = as_table(columns, kept)
            writers[split].write_table(table, row_group_size=1000)
            rows[split] += len(table)
        for writer in writers.values():
            writer.close()
        for split in splits:
            if not rows.get(split):
                raise HfLongSeqError(f"The source of {folder.parent.name} has no {split} examples: is it complete?")
        (temporary / MANIFEST).write_text(json.dumps({"depends_on": description, "rows": rows}, indent=1) + "\n")
        if folder.exists():  # another process was faster, or an old folder without manifest is in the way
            if (folder / MANIFEST).exists():
                return
            shutil.rmtree(folder)
        os.replace(temporary, folder)
    finally:
        for writer in writers.values():
            writer.close()
        shutil.rmtree(temporary, ignore_errors=True)
