# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Inputs without labels, for pretraining: read from a source of the user's, and kept apart from held-out rows."""

import logging
from collections.abc import Iterator, Sequence

import numpy as np
from datasets import Dataset, Features, Value, concatenate_datasets

from hf_longseq.data.cache import Row, load_converted
from hf_longseq.data.own_reader import content_of, groups_of
from hf_longseq.data.own_sources import open_source
from hf_longseq.data.processors import task_processor
from hf_longseq.data.raw_inputs import Encoder
from hf_longseq.data.row_hashes import GROUP, INPUTS, ROW_HASH, hash_of, row_hashes
from hf_longseq.data.task_spec import TaskSpec
from hf_longseq.errors import HfLongSeqError

logger = logging.getLogger(__name__)

# Series whose difference is a smaller share of their norm are copies, in other decimals or as float32 (6e-8 a value).
SAME = 1e-5


def read_unlabelled(
    source: str,
    spec: TaskSpec,
    train: Dataset,
    input_column: str | None = None,
    cache_dir: str | None = None,
    group_column: str | None = None,
) -> Dataset:
    """Read inputs for pretraining on a task: every row of a source as `--data` takes it, in the form of the task's
    rows, as the task's tokenizer or processor encodes it.

    `train` is the task's training split, whose input column the result resembles and alone has, beside the hashes of
    rows if it has them, and of groups if the source has the `group_column`; if not, a warning says so. The first row
    that does not fit the task's modality or channels, or has no group, raises.
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

    options = {"version": 6, "rows": opened.fingerprints, "column": column, "spec": repr(spec)}
    features = Features({name: kind, ROW_HASH: Value("int64")})
    splits = load_converted("unlabelled", options, [], features, rows, cache_dir, ("unlabelled",))
    unlabelled = splits["unlabelled"].with_format("numpy")
    if ROW_HASH not in train.column_names:
        unlabelled = unlabelled.remove_columns(ROW_HASH)
    if group_column is None:
        return unlabelled
    if group_column not in known:
        text = "%s has no column %r, so pretraining may read groups of validation and test: give it that column."
        logger.warning(text, opened.name, group_column)
        return unlabelled
    groups = [hash_of([group.encode()]) for group in groups_of(opened, group_column)]
    return unlabelled.add_column(GROUP, np.array(groups))


def without_held_out(unlabelled: Dataset, held_out: Sequence[Dataset]) -> Dataset:
    """The unlabelled inputs that equal no validation or test input, and are of none of their groups; the number of the
    others is logged."""
    out = np.isin(row_hashes(unlabelled), np.concatenate([row_hashes(rows) for rows in held_out]))
    if GROUP in unlabelled.column_names:
        out |= np.isin(unlabelled[GROUP][:], np.concatenate([rows[GROUP][:] for rows in held_out]))
    names = [name for name in INPUTS if name in unlabelled.column_names]
    kind = unlabelled.features[names[0]]
    if len(names) == 1 and getattr(kind, "feature", kind).dtype.startswith("float"):
        known = concatenate_datasets([rows.select_columns(names) for rows in held_out])
        out |= _copies(unlabelled.select_columns(names), known)
    if out.any():
        text = "%d unlabelled inputs left out: they equal validation or test inputs, or are of their groups"
        logger.info(text, out.sum())
    return unlabelled.select(np.flatnonzero(~out))


def _copies(rows: Dataset, held_out: Dataset) -> np.ndarray:
    """Which series equal a held-out one up to rounding, (N,) bool; both have one column, of arrays (L,) or (L, C).

    Rounding changes every hash. A series is compared with those alone whose sum, under weights of scattered phases,
    is about its own.
    """
    (sums, norms, sizes), (known, _, known_sizes) = _weighted_sums(rows), _weighted_sums(held_out)
    order = np.argsort(known.real)
    known, known_sizes, apart = known[order], known_sizes[order], 5 * SAME * norms
    first = np.searchsorted(known.real, sums.real - apart)
    last = np.searchsorted(known.real, sums.real + apart, "right")
    found = np.zeros(len(rows), bool)
    (name,), rows, held_out = rows.column_names, rows.with_format("numpy"), held_out.with_format("numpy")
    for row in np.flatnonzero(first < last).tolist():
        here = slice(first[row], last[row])
        near = (np.abs(known[here] - sums[row]) <= apart[row]) & (known_sizes[here] == sizes[row])
        for other in order[here][near].tolist():
            one, two = rows[row][name], held_out[other][name]
            if one.shape == two.shape and np.linalg.norm(one - two) <= SAME * norms[row]:
                found[row] = True
                break
    return found


def _weighted_sums(rows: Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums of series under weights of size 1, (N,) complex, their norms and their sizes, (N,)."""
    weights, sums, norms, sizes = np.ones(0), [], [], []
    for batch in rows.with_format("numpy").iter(batch_size=500):
        for series in next(iter(batch.values())):
            values = np.ravel(series).astype(np.float64)
            if len(values) > len(weights):
                weights = np.exp(1j * np.square(np.arange(2.0 * len(values))))
            sums.append(weights[: len(values)] @ values)
            norms.append(np.linalg.norm(values))
            sizes.append(len(values))
    return np.array(sums), np.array(norms), np.array(sizes)
