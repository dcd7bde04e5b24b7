# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Inputs without labels, for pretraining: read from a source of the user's, and kept apart from held-out rows."""

import logging
from collections.abc import Iterable, Iterator

import numpy as np
from datasets import Dataset, Features, Value

from hf_longseq.data.cache import Row, load_converted
from hf_longseq.data.own_reader import content_of
from hf_longseq.data.own_sources import open_source
from hf_longseq.data.processors import task_processor
from hf_longseq.data.raw_inputs import Encoder
from hf_longseq.data.row_hashes import INPUTS, ROW_HASH, hash_of, row_hashes
from hf_longseq.data.task_spec import TaskSpec
from hf_longseq.errors import HfLongSeqError

logger = logging.getLogger(__name__)


def read_unlabelled(
    source: str, spec: TaskSpec, train: Dataset, input_column: str | None = None, cache_dir: str | None = None
) -> Dataset:
    """Read inputs for pretraining on a task: every row of a source as `--data` takes it, in the form of the task's
    rows, as the task's tokenizer or processor encodes it.

    `train` is the task's training split, whose input column the result resembles and alone has. The first row that
    does not fit the task's modality or channels raises.
    """
    if spec.pair:
        raise HfLongSeqError(f"task {spec.name!r} reads pairs of inputs, so data.unlabelled cannot be {source!r}.")
    opened = open_source(source, cache_dir=cache_dir)
    known = opened.first.column_names
    column = input_column if input_column is not None and input_column in known else opened.input_name()
    encoder = Encoder(task_processor(spec))
    modality = encoder.check(opened, column, f"task {spec.name!r}")
    name = next(name for name in INPUTS if name in train.column_names)
    kind = train.features[name]

    def rows() -> Iterator[tuple[str, Row]]:
        for number, raw in enumerate(opened.column(column)):
            where = opened.where(number)
            array = encoder.encode(raw, where)[1][: spec.max_length]
            if spec.vocab_size is not None and array.max() >= spec.vocab_size:
                raise HfLongSeqError(
                    f"{where} holds id {array.max()}, but task {spec.name!r} has ids below {spec.vocab_size}: remove "
                    "the row."
                )
            stored = getattr(kind, "feature", kind).dtype
            if stored == "uint8" and array.dtype.kind == "f" and spec.value_range is not None:
                low, high = spec.value_range  # the 256 levels in which the task stores its values
                array = np.clip(np.round((array - low) / (high - low) * 255), 0, 255).astype(np.uint8)
            array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
            yield "unlabelled", {name: array, ROW_HASH: hash_of([content_of(raw, modality, where)])}

    options = {"version": 5, "rows": opened.fingerprints, "column": column, "spec": repr(spec)}
    features = Features({name: kind, ROW_HASH: Value("int64")})
    splits = load_converted("unlabelled", options, [], features, rows, cache_dir, ("unlabelled",))
    unlabelled = splits["unlabelled"].with_format("numpy")
    return unlabelled if ROW_HASH in train.column_names else unlabelled.remove_columns(ROW_HASH)


def without_held_out(unlabelled: Dataset, held_out: Iterable[Dataset]) -> Dataset:
    """The unlabelled inputs that equal no validation or test input; the number of the others is logged."""
    known = np.concatenate([row_hashes(rows) for rows in held_out])
    kept = np.flatnonzero(~np.isin(row_hashes(unlabelled), known))
    if left_out := len(unlabelled) - len(kept):
        logger.info("%d unlabelled inputs left out: they equal validation or test inputs", left_out)
    return unlabelled.select(kept)
