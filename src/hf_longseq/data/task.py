# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What a task is, and how to get one by name.

Columns of every task's `DatasetDict` (train / validation / test):

- tokens: `input_ids`, a list of int32 (and `input_ids_2` for pairs of documents);
- values: `input_values`, a list of float32 for one channel, an array (length, channels) for several. Integers in this
  column are grey levels 0..255, the compact form in which images are stored; the collators map them linearly
  onto `TaskSpec.value_range`;
- `labels`: an int64 class, a float32 target, or a list of float32 for several targets; where every position has a
  label, a list of int16 classes or of float32 targets, or an array (length, labels), with -100 where none is scored.

A loader may add a split `unlabelled` with inputs alone, which only pretraining reads.
"""

import importlib
import inspect
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from hf_longseq.errors import HfLongSeqError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from datasets import Dataset, DatasetDict


class MissingDataError(HfLongSeqError, FileNotFoundError):
    """Data that have to be fetched first; the message holds the command."""


@dataclass(frozen=True)
class TaskSpec:
    """Everything a model, a collator and a report need to know about a task.

    Args:
        name: Name under which `load_task` knows the task.
        modality: "tokens" (integer ids) or "values" (real numbers with channels).
        max_length: Longest sequence, in steps, end-of-sequence token included.
        vocab_size: Number of token ids, special ones included; None for values.
        num_channels: Numbers per step; None for tokens.
        pad_token_id, mask_token_id, eos_token_id: Special ids; None where the task has none.
        labels: Class names in the order of the integer labels; empty for regression.
        problem_type: As in `transformers`: "single_label_classification", "multi_label_classification", "regression";
            None where there is nothing to predict.
        unit: Unit of the numbers to predict, in words.
        metric: Metric of the published results, for example "accuracy" or "rmse".
        mask_ratio: Share of positions that the paper masks in pretraining.
        num_levels: Number of grey levels to predict with cross-entropy; None means L1 on the values.
        value_range: Lowest and highest input value; maps values to levels and stored grey levels to values.
        normalization: Means and deviations per channel that the values were standardised with; None: not at all.
        pair: True if an example is two documents.
        per_position: True if every position has a label (token classification).
        image_shape: Height and width of an image laid out in raster order; None otherwise.
        image_fit: How pictures of another size come to this one, see `LongSeqImageProcessor`.
        sampling_rate: Samples per second of sounds; None otherwise.
        peak: Largest absolute value to which each recording was scaled, freed of its mean; None: it was not.
        vocabulary: The symbols in the order of their ids, where ids are not simply bytes or levels.
        source: Where the data come from, in words.
        license: Licence of the data.
        note: What a reader of results must know, such as a split that differs from the published one.
    """

    name: str
    modality: str
    max_length: int
    vocab_size: int | None = None
    num_channels: int | None = None
    pad_token_id: int | None = None
    mask_token_id: int | None = None
    eos_token_id: int | None = None
    labels: tuple[str, ...] = ()
    problem_type: str | None = "single_label_classification"
    unit: str = ""
    metric: str = "accuracy"
    mask_ratio: float = 0.5
    num_levels: int | None = None
    value_range: tuple[float, float] | None = None
    normalization: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    pair: bool = False
    per_position: bool = False
    image_shape: tuple[int, int] | None = None
    image_fit: str = "bilinear"
    sampling_rate: int | None = None
    peak: float | None = None
    vocabulary: tuple[str, ...] = ()
    source: str = ""
    license: str = ""
    note: str = ""

    def __post_init__(self):
        if self.modality not in ("tokens", "values"):
            raise HfLongSeqError(f"TaskSpec.modality is {self.modality!r}: use 'tokens' or 'values'.")
        if self.modality == "tokens" and not self.vocab_size:
            raise HfLongSeqError(
                f"TaskSpec {self.name!r} has modality 'tokens' but no vocab_size: state the number of ids."
            )
        if self.modality == "values" and not self.num_channels:
            raise HfLongSeqError(f"TaskSpec {self.name!r} has modality 'values' but no num_channels: state it.")

    @property
    def num_labels(self) -> int:
        """Number of outputs of a classifier for this task (1 for regression)."""
        return len(self.labels) or 1


@dataclass(frozen=True)
class TaskEntry:
    """One line of the task table: the function that loads a task, and what is said about it before loading.

    Args:
        loader: "module:function", imported only when the task is loaded.
        summary: One line for listings.
        source: "generated", "embedded", "package", "hub" or "files": how the data are obtained.
        size: Examples per split, and steps per example, in words.
        options: Fixed arguments of the loader, for functions that serve several names.
    """

    loader: str
    summary: str
    source: str
    size: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def function(self) -> "Callable[..., tuple[DatasetDict, TaskSpec]]":
        """The loader."""
        module, name = self.loader.split(":")
        return getattr(importlib.import_module(module), name)

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """Options of the loader that a user may set."""
        every = inspect.signature(self.function).parameters
        return {name: parameter for name, parameter in every.items() if name not in self.options}


_TABLE = yaml.safe_load((Path(__file__).parent / "tasks.yaml").read_text(encoding="utf-8"))
TASKS = {name: TaskEntry(**entry) for name, entry in _TABLE.items()}
# Small real data sets that travel with the package: `<task>-<split>.parquet` and `<task>.md` (origin, licence).
EMBEDDED = Path(__file__).parent / "embedded"
OWN_FILES = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".npy", ".npz")


def load_task(name: str, **options) -> "tuple[DatasetDict, TaskSpec]":
    """Load a task by name.

    Args:
        name: A key of `TASKS`.
        **options: Arguments of the task's loader, such as `cache_dir`, `data_dir`, `num_workers`; each loader's
            docstring lists its own. With `source="hub:owner/name@revision"` any task comes from a data set that
            `hf-longseq tasks publish` made, with the same rows.

    Returns:
        `splits, spec`: a `DatasetDict` (train, validation, test; rows in numpy format) and the `TaskSpec` that says
        what they hold. Both go to a trainer: `SPTTrainer(..., train_dataset=splits["train"], spec=spec)`.

    Raises:
        HfLongSeqError: If the name or an option is unknown, or the data are damaged.
        MissingDataError: If the data are missing; the message holds the command that gets them.

    Example:

        >>> splits, spec = load_task("listops", train_examples=20, eval_examples=5, min_length=4, max_length=40)
        >>> splits["train"].num_rows, spec.modality, len(spec.labels)
        (20, 'tokens', 10)
    """
    if name not in TASKS:
        raise unknown_task(name)
    if options.get("source") is not None:
        from hf_longseq.data.published import load_published

        splits, spec = load_published(name, options.pop("source"), options)
        return splits.with_format("numpy"), spec
    entry = TASKS[name]
    known = entry.parameters
    for key in options:
        if key not in known:
            raise HfLongSeqError(
                f"Task {name!r} has no option {key!r}{did_you_mean(key, known)}: its options are {', '.join(known)}."
            )
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in options:
            raise HfLongSeqError(f"Task {name!r} needs the option {key!r}: {entry.summary}.")
    splits, spec = entry.function(**entry.options, **options)
    return splits.with_format("numpy"), spec


def unknown_task(name: str) -> HfLongSeqError:
    """The error of a name that is no task; a file is own data."""
    if Path(name).suffix.lower() in OWN_FILES or Path(name).exists():
        return HfLongSeqError(
            f"There is no task {name!r}, which is a file: own data are load_task('own-data', data={name!r}), and "
            f"--data {name} on the command line."
        )
    return HfLongSeqError(f"There is no task {name!r}{did_you_mean(name, TASKS)}: known are {', '.join(TASKS)}.")


def describe_task(name: str) -> TaskSpec | None:
    """The description of a task with its default options, without its data; None where it depends on the data."""
    entry = TASKS[name]
    describe = getattr(inspect.getmodule(entry.function), "task_spec", None)
    if describe is None:
        return None
    options = {key: parameter.default for key, parameter in entry.parameters.items()} | entry.options
    spec = describe(**{key: options[key] for key in inspect.signature(describe).parameters})
    return replace(spec, num_levels=options.get("num_levels", spec.num_levels))


def cached_bytes(name: str) -> int:
    """Size of what the cache holds of a task's generated or converted data."""
    folder = cache_directory() / name
    return sum(file.stat().st_size for file in folder.rglob("*.parquet")) if folder.is_dir() else 0


def limit_examples(
    dataset: "Dataset", limit: float, seed: int = 42, by_class: bool = False, option: str = "limit"
) -> "Dataset":
    """Keep a random part of a training split; a smaller limit always gives a subset of a larger one's examples.

    Args:
        dataset: The training split.
        limit: A number of examples if > 1 (or an int), a fraction if a float in (0, 1].
        seed: Seed of the order from which the first examples are taken.
        by_class: Whether every class of the column `labels` keeps its share in the part.
        option: How messages name the limit.

    Example:
        >>> from datasets import Dataset
        >>> rows = Dataset.from_dict({"labels": [0] * 50 + [1] * 50})
        >>> sum(limit_examples(rows, 10, by_class=True)["labels"])
        5
    """
    import numpy as np
    import pandas as pd

    count = limit if isinstance(limit, int) else round(limit * len(dataset)) if limit <= 1 else int(limit)
    if not 1 <= count <= len(dataset):
        raise HfLongSeqError(
            f"{option} is {limit}, but there are {len(dataset)} training examples: ask for at least one and at most "
            "that many."
        )
    order = np.random.RandomState(seed).permutation(len(dataset))
    if by_class:
        # the k-th of the n examples of a class stands at the share (k + 1/2) / n of the order
        classes = pd.Series(np.asarray(dataset["labels"][:])[order])
        classes = classes.groupby(classes)
        order = order[np.argsort((classes.cumcount() + 0.5) / classes.transform("size"), kind="stable")]
    return dataset.select(order[:count])


def cache_directory() -> Path:
    """Folder for generated and converted data: `HF_LONGSEQ_CACHE`, else `longseq` in the Hugging Face home."""
    stated = os.environ.get("HF_LONGSEQ_CACHE")
    if stated:
        return Path(stated).expanduser()
    from huggingface_hub.constants import HF_HOME

    return Path(HF_HOME) / "longseq"
