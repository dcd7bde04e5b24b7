# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Hashes of splits and of rows, and the file that tells which rows a checkpoint was trained on.

A row's hash is that of its inputs: of own data as the source holds them (column `row_hash`), so that a cut, a scale or
a label leaves it as it is; of other tasks as the task's rows hold them.
"""

import hashlib
import logging
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
from datasets import Dataset

from hf_longseq.errors import explained

logger = logging.getLogger(__name__)

INPUTS = ("input_ids", "input_values", "input_ids_2", "input_values_2")
# Rows that are hashed at a time for the hash of a split.
BATCH = 256
ROW_HASH = "row_hash"
# The hash of a row's group, where own data have a `group_column`.
GROUP = "group"
FILE = "trained_on.npy"


def hash_of(contents: Iterable[bytes]) -> int:
    """The hash of a row with these inputs, a whole number of 64 bits."""
    digest = hashlib.blake2b(digest_size=8)
    for content in contents:
        digest.update(len(content).to_bytes(8, "little") + content)
    return int.from_bytes(digest.digest(), "little", signed=True)


def row_hashes(rows: Dataset) -> np.ndarray:
    """Hashes of all rows, (N,) int64."""
    if ROW_HASH in rows.column_names:
        return np.asarray(rows.with_format("numpy")[ROW_HASH][:], np.int64)
    columns = [name for name in INPUTS if name in rows.column_names]
    batches = rows.select_columns(columns).with_format("numpy").iter(batch_size=500)
    found = [
        hash_of(np.ascontiguousarray(array).tobytes() for array in inputs)
        for batch in batches
        for inputs in zip(*(batch[name] for name in columns), strict=True)
    ]
    return np.array(found, np.int64)


def content_hash(split: Dataset) -> str:
    """Hash of a split's rows in their order; independent of how the rows are chunked or cached on disk."""
    digest = hashlib.sha256()
    for table in split.with_format("arrow").iter(batch_size=BATCH):
        add_to(digest, table)
    return digest.hexdigest()


def add_to(digest, table: pa.Table) -> None:
    """Add some rows of a split, a multiple of `BATCH` before the last, to its hash."""
    # an empty part beside it makes combine_chunks copy: of a part of a larger array, arrow writes whole words, and so
    # some bytes of the rows that follow
    batch = pa.concat_tables([table, table.slice(0, 0)]).combine_chunks().replace_schema_metadata(None)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_table(batch)
    digest.update(sink.getvalue())


def save_trained_on(folder: Path, rows: Dataset, start: Path | None = None) -> None:
    """Record in a checkpoint's folder the rows it was trained on, and those of the checkpoint it started from."""
    earlier = [] if start is None else [_read(start)]
    np.save(folder / FILE, np.unique(np.concatenate([row_hashes(rows), *earlier])))


def count_trained_on(folder: Path, rows: Dataset, name: str) -> int:
    """How many rows, of the split called `name`, a checkpoint was trained on; a warning says so if there are any."""
    count = int(np.isin(row_hashes(rows), known).sum()) if len(known := _read(folder)) else 0
    if count:
        logger.warning(
            "%d of %d %s rows were among those that %s was trained on: their scores say little about new rows.",
            count, len(rows), name, folder,
        )  # fmt: skip
    return count


def _read(folder: Path) -> np.ndarray:
    """The hashes that a checkpoint's folder records; none where it records nothing."""
    path = Path(folder) / FILE
    if not path.is_file():
        return np.array([], np.int64)
    kinds = (OSError, ValueError, EOFError)
    with explained(f"{path} could not be read", *kinds, remedy="restore it, or delete it"):
        known = np.load(path, allow_pickle=False)
        if known.ndim != 1 or known.dtype != np.int64:
            raise ValueError(f"it holds {known.dtype} of shape {known.shape}")
    return known
