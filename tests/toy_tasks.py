"""Tasks of a few rows, made on the spot, for the tests of training; `conftest.py` puts them into the task table."""

import functools

import numpy as np
from datasets import Dataset, DatasetDict

from hf_longseq.data.task import TaskSpec


def _splits(make_row, train_examples: int) -> DatasetDict:
    sizes = {"train": train_examples, "validation": 13, "test": 11}
    return DatasetDict(
        {
            name: Dataset.from_list([make_row(np.random.default_rng([number, row])) for row in range(size)])
            for number, (name, size) in enumerate(sizes.items())
        }
    )


@functools.cache
def waves(train_examples: int = 32, broken_label: bool = False):
    """Slow or fast waves of 12 to 20 steps, one channel: two classes."""

    def row(generator):
        label = int(generator.integers(2))
        steps = np.arange(int(generator.integers(12, 21)))
        values = np.sin((0.4 + 0.8 * label) * steps + generator.uniform(0, 6.3))
        return {"input_values": values.astype(np.float32).tolist(), "labels": 7 if broken_label else label}

    spec = TaskSpec(
        "waves", "values", 20, num_channels=1, labels=("slow", "fast"), mask_ratio=0.3, value_range=(-1, 1)
    )
    return _splits(row, train_examples), spec


@functools.cache
def heights(train_examples: int = 32):
    """Two channels whose offset is to be regressed."""

    def row(generator):
        offset = float(generator.normal())
        values = offset + generator.normal(size=(14, 2))
        return {"input_values": values.astype(np.float32).tolist(), "labels": offset}

    spec = TaskSpec("heights", "values", 14, num_channels=2, problem_type="regression", metric="rmse", mask_ratio=0.3)
    return _splits(row, train_examples), spec


@functools.cache
def tags(train_examples: int = 32):
    """Which of two tokens occur: several labels at once."""

    def row(generator):
        ids = generator.integers(2, 9, size=int(generator.integers(5, 12)))
        return {"input_ids": ids.tolist(), "labels": [float(3 in ids), float(4 in ids)]}

    spec = TaskSpec(
        "tags", "tokens", 12, vocab_size=9, pad_token_id=0, mask_token_id=1, labels=("three", "four"),
        problem_type="multi_label_classification", metric="f1", mask_ratio=0.3,
    )  # fmt: skip
    return _splits(row, train_examples), spec


@functools.cache
def twins(train_examples: int = 32):
    """Do two documents begin alike? Pairs of token sequences."""

    def row(generator):
        first, second = (generator.integers(2, 9, size=int(generator.integers(5, 12))) for _ in range(2))
        label = int(generator.integers(2))
        if label:
            second[0] = first[0]
        return {"input_ids": first.tolist(), "input_ids_2": second.tolist(), "labels": label}

    spec = TaskSpec(
        "twins", "tokens", 12, vocab_size=9, pad_token_id=0, mask_token_id=1, labels=("no", "yes"), pair=True,
        mask_ratio=0.3,
    )  # fmt: skip
    return _splits(row, train_examples), spec
