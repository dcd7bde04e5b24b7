# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Columns of Arrow from what the loaders make: sequences of any length as numpy arrays, and labels."""

from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Array2D, Features, List, Value

# Values under the names of their columns; sequences are arrays (L,) or (L, C).
Row = dict[str, Any]


def as_table(rows: list[Row], features: Features) -> pa.Table:
    """A table of the columns that `features` names."""
    columns = {}
    for name, kind in features.items():
        columns[name] = [row[name] for row in rows]
        if isinstance(kind, List | Array2D):
            columns[name] = sequence_array(columns[name], getattr(kind, "feature", kind).dtype)
    return pa.table(columns, schema=features.arrow_schema)


def sequence_feature(dtype: str, num_channels: int = 1) -> List | Array2D:
    """Column type of sequences: a list for one channel, else an array (length, channels).

    A list of lists would say the same, but takes a hundred times longer to read.
    """
    return List(Value(dtype)) if num_channels == 1 else Array2D((None, num_channels), dtype)


def sequence_array(rows: list[np.ndarray], dtype: str) -> pa.Array:
    """Column from sequences of any lengths: (L,) each, or (L, C) each."""
    offsets = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int32)
    flat = np.concatenate(rows)
    values = pa.array(flat.reshape(-1), Value(dtype).pa_type)
    if flat.ndim == 1:
        return pa.ListArray.from_arrays(pa.array(offsets), values)
    starts = np.arange(len(flat) + 1, dtype=np.int32) * flat.shape[1]
    storage = pa.ListArray.from_arrays(pa.array(offsets), pa.ListArray.from_arrays(pa.array(starts), values))
    return pa.ExtensionArray.from_storage(Array2D((None, flat.shape[1]), dtype)(), storage)
