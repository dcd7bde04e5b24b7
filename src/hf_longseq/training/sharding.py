# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""A Trainer whose several processes train as one does.

- An epoch shows every example once, in the order of one process.
- State-space parameters stay in float32 when parameters are sharded (FSDP2).
- Dropout draws differently in every process, for each has other examples.

All processes must take the same number of batches of the same size, so an epoch that does not divide has to be filled.
Accelerate fills it with examples from its beginning, which are then learned twice. Here the filling rows carry no
label that counts: they cost nothing, add no gradient, and the order of the real examples is that of one process.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from accelerate.data_loader import SeedableRandomSampler
from torch.utils.data import DataLoader, Dataset, Sampler
from transformers import PreTrainedModel, Trainer, TrainerCallback

from hf_longseq.data.collators import IGNORE

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
    """The random order that one process would take, which is that of accelerate's own sampler, then the filling rows.

    `epoch` is asked which one begins, and not told by the loader, because accelerate's loaders do not pass it on to
    the sampler when several processes go on in the middle of an epoch.
    """

    def __init__(self, dataset: FilledDataset, seed: int, epoch: Callable[[], int]):
        self.filled = len(dataset)
        self.real = len(dataset.dataset)
        self.order = SeedableRandomSampler(dataset.dataset, data_seed=seed)
        self.epoch = epoch

    def __len__(self) -> int:
        return self.filled

    def __iter__(self) -> Iterator[int]:
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


class ShardedTrainer(Trainer):
    """transformers' Trainer, made exact for several processes; with one it is the stock Trainer."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._plain_class = type(self.model)
        if self.args.world_size > 1:
            self.add_callback(DropoutOfItsOwn())
        if self.is_fsdp_enabled:
            from torch.distributed.fsdp import MixedPrecisionPolicy

            # accelerate's own policy would round every parameter to bfloat16, time steps and eigenvalues included.
            # Gathered as they are, and computed with under autocast, they are treated as on one device.
            self.accelerator.state.fsdp_plugin.mixed_precision_policy = MixedPrecisionPolicy()

    def autocast_smart_context_manager(self, cache_enabled: bool | None = True):
        """Autocast for sharded models; others are wrapped in it by accelerate."""
        if self.is_fsdp_enabled:
            return self.accelerator.autocast()
        return super().autocast_smart_context_manager(cache_enabled)

    def get_train_dataloader(self) -> DataLoader:
        """As the stock one, but an epoch that does not divide is filled with rows that do not count."""
        if self.args.world_size == 1:
            return super().get_train_dataloader()
        dataset, collator = self.train_dataset, self.data_collator
        self.train_dataset = FilledDataset(dataset, self.args.train_batch_size * self.args.world_size)
        self.data_collator = FillerCollator(collator)
        try:
            return super().get_train_dataloader()
        finally:
            self.train_dataset, self.data_collator = dataset, collator

    def _get_train_sampler(self, train_dataset=None) -> Sampler | None:
        if self.args.world_size == 1:
            return super()._get_train_sampler(train_dataset)
        return FilledSampler(self.train_dataset, self.args.data_seed, self.epoch_begun)

    def epoch_begun(self) -> int:
        """Number of the epoch that begins: a whole number up to rounding."""
        return int((self.state.epoch or 0) + 1e-6)

    def whole_model(self) -> PreTrainedModel:
        """The model with all its weights, to save, in the main process. Every process must call it.

        A sharded model is no such thing: each process has a part, and its class is one of torch's making.
        """
        if not self.is_fsdp_enabled:
            return self.model
        weights = self.accelerator.get_state_dict(self.model_wrapped)
        if not self.is_world_process_zero():
            return self.model
        with torch.device("meta"):
            whole = self._plain_class(self.model.config)
        whole.load_state_dict(weights, assign=True)
        return whole


class DropoutOfItsOwn(TrainerCallback):
    """Gives every process but the first a stream of random numbers of its own when training begins.

    Weights are drawn before; order and masks have their own seeds. A resumed run restores each process's stream.
    """

    def on_train_begin(self, args, state, control, **kwargs):
        if args.process_index > 0:
            torch.manual_seed(args.seed + 1_000_003 * args.process_index)
