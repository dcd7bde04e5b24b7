# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Inputs without labels, for pretraining: read from a source of the user's, and kept apart from held-out rows."""

import logging
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from datasets import Dataset, Features, Value

from hf_longseq.data import byte_text
from hf_longseq.data.columns import Row
from hf_longseq.data.converted import load_converted
from hf_longseq.data.own_data import input_name, modality_of
from hf_longseq.data.own_reader import Reader
from hf_longseq.data.own_sources import Table, open_source
from hf_longseq.data.processors import task_processor
from hf_longseq.data.row_hashes import INPUTS, ROW_HASH, hash_of, row_hashes
from hf_longseq.data.task_spec import TaskSpec
from hf_longseq.errors import HfLongSeqError

logger = logging.getLogger(__name__)


def read_unlabelled(
    source: str,
    spec: TaskSpec,
    train: Dataset,
    input_column: str | None = None,
    cache_dir: str | None = None,
    **decoding: Any,
) -> Dataset:
    """Read inputs for pretraining on a task: every row of a source as `--data` takes it, in the form of the task's
    rows.

    `train` is the task's training split, whose input column the result resembles and alone has. The first row that
    does not fit the task's modality, channels, image size or sampling rate raises; `decoding` is as own data take it.
    """
    if spec.pair:
        raise HfLongSeqError(f"task {spec.name!r} reads pairs of inputs, so data.unlabelled cannot be {source!r}.")
    tables = list(open_source(source, cache_dir=cache_dir).values())
    columns = [input_column if input_column in table.names else input_name(table) for table in tables]
    modality = _fitting_modality(spec, tables[0], columns[0])
    reader = Reader(modality, max_length=spec.max_length, reference=f"task {spec.name!r}", **decoding)
    if spec.image_shape is not None:
        reader.shape = (*spec.image_shape, *((spec.num_channels,) if (spec.num_channels or 1) > 1 else ()))
    elif modality in ("values", "audio"):
        reader.shape, reader.rate = (spec.num_channels,), spec.sampling_rate if modality == "audio" else None
    name = next(column for column in INPUTS if column in train.column_names)
    kind = train.features[name]
    options = {
        "version": 3,
        "rows": [table.fingerprint for table in tables],
        "columns": columns,
        "spec": repr(spec),
        "decoding": decoding,
    }
    features = Features({name: kind, ROW_HASH: Value("int64")})
    rows = partial(_rows, tables, columns, reader, spec, name, kind)
    splits = load_converted("unlabelled", options, [], features, rows, cache_dir, ("unlabelled",))
    unlabelled = splits["unlabelled"].with_format("numpy")
    return unlabelled if ROW_HASH in train.column_names else unlabelled.remove_columns(ROW_HASH)


def without_held_out(unlabelled: Dataset, held_out: Iterable[Dataset]) -> Dataset:
    """The unlabelled inputs that equal no validation or test input; the number of the others is logged."""
    known = np.concatenate([row_hashes(rows) for rows in held_out])
    kept = np.flatnonzero(~np.isin(row_hashes(unlabelled), known))
    if len(kept) == len(unlabelled):
        return unlabelled
    logger.info("%d unlabelled inputs left out: they equal validation or test inputs", len(unlabelled) - len(kept))
    return unlabelled.select(kept)


def _fitting_modality(spec: TaskSpec, table: Table, column: str) -> str:
    """How to read the source's column for the task, or an error if it holds something else."""
    found = modality_of(table, column)
    if spec.image_shape is not None:
        wanted = ("image",)
    elif spec.modality == "values":
        wanted = ("values", "audio", "tokens")  # whole numbers are values, too
    elif byte_text.is_read_by(spec):
        wanted = ("text",)
    else:
        wanted = ("tokens", "text") if spec.vocabulary else ("tokens",)
    if found not in wanted:
        raise HfLongSeqError(
            f"data.unlabelled holds {found} in column {column!r} of {table.name}, but task {spec.name!r} reads "
            f"{wanted[0]}: give a source of the same kind."
        )
    return "values" if spec.modality == "values" and found == "tokens" else found


def _rows(
    tables: list[Table], columns: list[str], reader: Reader, spec: TaskSpec, name: str, kind: Any
) -> Iterator[tuple[str, Row]]:
    processor = task_processor(spec)
    dtype = getattr(kind, "feature", kind).dtype
    for table, column in zip(tables, columns, strict=True):
        for row, raw in enumerate(table.column(column), start=1):
            where = f"{table.name}, row {row},"
            array = _encode(raw, where, reader, spec, processor)
            row_hash = hash_of([reader.content(raw, where)])
            if dtype == "uint8" and array.dtype.kind == "f":
                low, high = spec.value_range  # the 256 levels in which the task stores its values
                array = np.clip(np.round((array - low) / (high - low) * 255), 0, 255).astype(np.uint8)
            yield "unlabelled", {name: array, ROW_HASH: row_hash}


def _encode(raw: Any, where: str, reader: Reader, spec: TaskSpec, processor) -> np.ndarray:
    """One input as a row of the task holds it."""
    if spec.vocabulary and isinstance(raw, str):
        return np.asarray(processor(raw)["input_ids"][: spec.max_length])
    array = reader.read(raw, where)
    if spec.image_shape is not None and spec.modality == "tokens":
        return np.asarray(processor(array.reshape(spec.image_shape))["input_ids"]).reshape(-1)
    if spec.modality == "tokens" and array.max() >= spec.vocab_size:
        raise HfLongSeqError(
            f"{where} holds id {array.max()}, but task {spec.name!r} has ids below {spec.vocab_size}: remove the row."
        )
    if reader.modality in ("values", "audio"):
        return processor.prepare(array.copy(), None).numpy()
    return array
