# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The rows of a run: inputs of pretraining, the labelled subset, validation and test."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from datasets import concatenate_datasets

from hf_longseq.data.row_hashes import INPUTS, ROW_HASH
from hf_longseq.data.task import TaskSpec, limit_examples, load_task
from hf_longseq.data.unlabelled import read_unlabelled, without_held_out
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.arguments import DataSection
from hf_longseq.training.assemble import all_labels

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict


@dataclass(frozen=True)
class TaskData:
    """The splits a run uses: inputs of pretraining and of its evaluation, the labelled subset, validation and test."""

    spec: TaskSpec
    pretrain: "Dataset"
    pretrain_validation: "Dataset"
    labelled: "Dataset"
    validation: "Dataset"
    test: "Dataset"


# The share of the labels that `data.validation=labels` chooses on.
VALIDATION_SHARE = 0.2
# Validation and test are cut to the same examples in every run, so that scores can be compared.
HELD_OUT_SEED = 42


def load_data(section: DataSection, seed: int = 0) -> TaskData:
    """Load the task and take the subsets that the section asks for, the same for the same section and seed.

    Where `subset_seed` is "run", the seed of the run draws the labelled subset.
    """
    splits, spec = load_task(section.task, **section.options)
    train = splits["train"]
    subset_seed = seed if section.subset_seed == "run" else section.subset_seed
    classes = spec.problem_type == "single_label_classification"
    by_class = classes and not spec.per_position
    limit = section.num_train_examples if section.train_fraction is None else section.train_fraction

    labelled = train
    if limit is not None:
        option = "num_train_examples" if section.train_fraction is None else "train_fraction"
        labelled = limit_examples(train, limit, subset_seed, by_class, f"data.{option}")
        if classes:
            check_classes(labelled, spec)
    held_out = {}
    for name in ("validation", "test"):
        limit = getattr(section, f"num_{name}_examples")
        whole = splits[name]
        held_out[name] = whole if limit is None else limit_examples(whole, min(limit, len(whole)), seed=HELD_OUT_SEED)
    if section.pretrain_inputs in ("unlabelled", "all+unlabelled"):
        pretrain = _with_unlabelled(section, splits, spec)
    elif isinstance(section.pretrain_inputs, int):  # in the order of the labelled subsets
        pretrain = limit_examples(train, section.pretrain_inputs, subset_seed, by_class, "data.pretrain_inputs")
    else:
        pretrain = {"subset": labelled, "all": train}[section.pretrain_inputs]
    validation = held_out["validation"]
    if section.validation == "labels":
        subset = section.pretrain_inputs == "subset"
        labelled, validation = _cut_labels(labelled, spec, by_class)
        pretrain = labelled if subset else pretrain
    return TaskData(spec, pretrain, held_out["validation"], labelled, validation, held_out["test"])


def _cut_labels(labelled: "Dataset", spec: TaskSpec, by_class: bool) -> "tuple[Dataset, Dataset]":
    """Labelled rows for training and, a fifth of them, for every choice."""
    count = max(round(VALIDATION_SHARE * len(labelled)), 1)
    if count == len(labelled):
        raise HfLongSeqError("data.validation is labels, and there is one labelled row: label more, or use separate.")
    ordered = limit_examples(labelled, len(labelled), HELD_OUT_SEED, by_class)
    train, validation = ordered.select(range(count, len(ordered))), ordered.select(range(count))
    if by_class:
        check_classes(train, spec)
    return train, validation


def _with_unlabelled(section: DataSection, splits: "DatasetDict", spec: TaskSpec) -> "Dataset":
    """Inputs without labels that equal no held-out input, after those of train if the section asks for all."""
    more = [splits["unlabelled"]] if "unlabelled" in splits else []
    if section.unlabelled is not None:
        options = {name: section.options[name] for name in ("input_column", "cache_dir") if name in section.options}
        more.append(read_unlabelled(section.unlabelled, spec, splits["train"], **options))
    alone = section.pretrain_inputs == "unlabelled"
    if not more:
        if alone:
            raise HfLongSeqError(
                f"data.pretrain_inputs is unlabelled, but task {section.task!r} has labels for all its inputs: "
                "name others by data.unlabelled."
            )
        return splits["train"]
    inputs = [name for name in splits["train"].column_names if name in (*INPUTS, ROW_HASH)]
    unlabelled = concatenate_datasets([rows.select_columns(inputs) for rows in more])
    unlabelled = without_held_out(unlabelled, (splits["validation"], splits["test"]))
    return unlabelled if alone else concatenate_datasets([splits["train"].select_columns(inputs), unlabelled])


def check_classes(labelled: "Dataset", spec: TaskSpec) -> None:
    """Raise if the labelled subset lacks a class, for a classifier could never learn it."""
    absent = set(range(len(spec.labels))) - set(np.unique(all_labels(labelled)).tolist())
    if absent:
        name = spec.labels[min(absent)]
        raise HfLongSeqError(
            f"the labelled subset of {len(labelled)} examples has none of class {name!r}: "
            "use more examples or another data.subset_seed."
        )
