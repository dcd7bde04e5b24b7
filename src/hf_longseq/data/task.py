# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The table of tasks, and how to load one by name; `task_spec.py` says what a task is."""

import importlib
import inspect
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from hf_longseq.data.task_spec import TaskSpec, cache_directory
from hf_longseq.errors import HfLongSeqError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from datasets import Dataset, DatasetDict


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
    """The error of a name that is not a task; a file is own data."""
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
    return sum(file.stat().st_size for file in folder.rglob("*.arrow")) if folder.is_dir() else 0


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
