# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Which examples a batch holds: every one once per epoch, in an order of seed and epoch alone.

Several processes must take the same number of batches of the same size, so an epoch that does not divide has to be
filled. Accelerate fills it with examples from its beginning, to be learned twice. Here the filling rows carry
no label that counts: they cost nothing, add no gradient, and the order of the real examples is that of one process.

Examples may be grouped by length as in transformers, whose own sampler draws from torch's global generator: its order
would change with the number of processes, with dropout and on resuming.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import torch
from accelerate.data_loader import SeedableRandomSampler
from torch.utils.data import Dataset, Sampler
from transformers.trainer_pt_utils import get_length_grouped_indices

from hf_longseq.data.collators import IGNORE
from hf_longseq.errors import HfLongSeqError

if TYPE_CHECKING:
    import datasets

FILLER = "_filler"


class FilledDataset(Dataset):
    """A data set whose length is rounded up; what lies beyond its end are marked copies of its first rows.

    The length becomes a multiple of the examples that all processes together take at a time.
    """

    def __init__(self, dataset, multiple: int):
        self.dataset = dataset
        self.missing = -len(dataset) % multiple

    def __len__(self) -> int:
        return len(self.dataset) + self.missing

    def __getitem__(self, index: int) -> dict[str, Any]:
        filler = index >= len(self.dataset)
        row = self.dataset[index % len(self.dataset)]
        return {**row, FILLER: True} if filler else row


class FilledSampler(Sampler[int]):
    """The order that one process would take, by default that of accelerate's random sampler, then the filling rows.

    `epoch` is asked which one begins, and not told by the loader, because accelerate's loaders do not pass it on to
    the sampler when several processes go on in the middle of an epoch.
    """

    def __init__(self, dataset: FilledDataset, seed: int, epoch: Callable[[], int], order: Sampler | None = None):
        self.filled = len(dataset)
        self.real = len(dataset.dataset)
        self.order = order or SeedableRandomSampler(dataset.dataset, data_seed=seed)
        self.epoch = epoch

    def __len__(self) -> int:
        return self.filled

    def __iter__(self) -> Iterator[int]:
        if isinstance(self.order, SeedableRandomSampler):
            self.order.set_epoch(self.epoch())
        yield from self.order
        yield from range(self.real, self.filled)


class FillerCollator:
    """A collator for filled data sets: of the rows that fill, no label counts. A pair of documents may become two rows
    of the batch, all first documents before all second ones.
    """

    def __init__(self, collator: Callable):
        self.collator = collator

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        filler = torch.tensor([bool(row.get(FILLER)) for row in rows])
        batch = self.collator([{name: value for name, value in row.items() if name != FILLER} for row in rows])
        if filler.any():
            for name in batch.keys() & {"labels", "labels_backward"}:
                batch[name][filler.repeat(len(batch[name]) // len(rows))] = IGNORE
        return batch


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


def sequence_lengths(dataset: "datasets.Dataset") -> list[int]:
    """Length of every example of a data set, of the longer document for pairs, without decoding the rows."""
    names = [name for name in dataset.column_names if name.startswith(("input_ids", "input_values"))]
    lengths: list[int] = []
    for table in dataset.select_columns(names).with_format("arrow").iter(batch_size=1000):
        columns = [table.column(name).combine_chunks() for name in names]
        # arrays with channels are stored under a type of their own
        lists = [column.storage if isinstance(column, pa.ExtensionArray) else column for column in columns]
        counts = [pc.list_value_length(column).to_pylist() for column in lists]
        for name, found in zip(names, counts, strict=True):
            if None in found:
                row = len(lengths) + found.index(None) + 1
                raise HfLongSeqError(f"{name} is empty in row {row}: remove the row.")
        lengths += map(max, zip(*counts, strict=True))
    return lengths
