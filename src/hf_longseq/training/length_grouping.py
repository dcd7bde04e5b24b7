# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Batches of examples of similar length, which hold little padding.

The grouping is that of transformers, but its own sampler draws from torch's global generator, so that the order would
change with the number of processes, with dropout and on resuming. Here it depends on the seed and the epoch alone.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch.utils.data import Sampler
from transformers.trainer_pt_utils import get_length_grouped_indices

if TYPE_CHECKING:
    from datasets import Dataset


class LengthGroupedOrder(Sampler[int]):
    """A random order in which consecutive examples, a batch at a time, are of similar length.

    The batch with the longest example comes first, so that too little memory shows at once; the others come in random
    order, and an incomplete one last. `batch_size` counts the examples of an optimiser step over all processes, and
    `epoch` says which one begins.
    """

    def __init__(self, lengths: list[int], batch_size: int, seed: int, epoch: Callable[[], int]):
        self.lengths = lengths
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch())
        indices = get_length_grouped_indices(self.lengths, self.batch_size, generator=generator)
        starts = list(range(0, len(indices), self.batch_size))
        incomplete = [starts.pop()] if len(indices) % self.batch_size else []
        first, others = starts[:1], starts[1:]
        shuffled = [others[i] for i in torch.randperm(len(others), generator=generator)]
        for start in first + shuffled + incomplete:
            yield from indices[start : start + self.batch_size]

    def set_epoch(self, epoch: int) -> None:
        """For loaders that announce epochs; the order asks for itself."""


def sequence_lengths(dataset: "Dataset") -> list[int]:
    """Length of every example of a data set, of the longer document for pairs, without decoding the rows."""
    names = [name for name in dataset.column_names if name.startswith(("input_ids", "input_values"))]
    lengths: list[int] = []
    for table in dataset.select_columns(names).with_format("arrow").iter(batch_size=1000):
        columns = [table.column(name).combine_chunks() for name in names]
        # arrays with channels are stored under a type of their own
        lists = [column.storage if isinstance(column, pa.ExtensionArray) else column for column in columns]
        lengths += map(max, zip(*(pc.list_value_length(column).to_pylist() for column in lists), strict=True))
    return lengths
