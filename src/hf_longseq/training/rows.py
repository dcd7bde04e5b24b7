# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""From any `datasets.Dataset` to rows that the collators take, and to the `TaskSpec` that describes them.

A row holds `input_ids`, `input_values`, or `text`. A tokenizer (by default that of bytes) turns texts into
`input_ids`. The row's class or number stands in `labels` or `label`.
"""

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from hf_longseq.data.own_sources import rows_of
from hf_longseq.data.processors import byte_tokenizer, cut_length, special_as_text, task_processor
from hf_longseq.data.task import TaskSpec
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.sampling import sequence_lengths

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

TEXT_COLUMNS = ("text", "sentence")


def opened(dataset: Any) -> Any:
    """A split, or named splits: a `Dataset` or a stream as it is, other objects as `rows_of` reads them."""
    from datasets import Dataset, IterableDataset

    if dataset is None or isinstance(dataset, Dataset | IterableDataset):
        return dataset
    if isinstance(dataset, str | os.PathLike):
        raise HfLongSeqError(f"The data set is {str(dataset)!r}: open it by load_task('own-data', data=...).")
    return {name: opened(split) for name, split in dataset.items()} if isinstance(dataset, dict) else rows_of(dataset)


def model_rows(
    dataset: "Dataset | IterableDataset | list[dict] | dict | None",
    processing_class: Any = None,
    described: bool = False,
) -> "Dataset | IterableDataset | dict[str, Dataset | IterableDataset] | None":
    """Rows with `input_ids` or `input_values`, and `labels` where there are any, of a split or of named splits.

    Without a tokenizer as `processing_class`, texts are read as bytes. A stream has to be `described` by a spec.
    """
    from datasets import IterableDataset

    rows = opened(dataset)
    if rows is None:
        return None
    if isinstance(rows, dict):
        return {name: model_rows(split, processing_class, described) for name, split in rows.items()}
    streams = isinstance(rows, IterableDataset)
    if streams and not described:
        raise HfLongSeqError(
            "The data set is a stream, which cannot be looked through for its vocabulary and classes: give its spec "
            "(a TaskSpec), a Dataset, or a model and a data_collator."
        )
    if not streams and len(rows) == 0:
        raise HfLongSeqError("The data set has no rows: give at least one.")
    names = list(rows.column_names or next(iter(rows)))
    if "label" in names and "labels" not in names:
        rows = rows.rename_column("label", "labels")
    if "input_ids" in names or "input_values" in names:
        return rows
    text = next((name for name in TEXT_COLUMNS if name in names), None)
    if text is None:
        raise HfLongSeqError(
            f"The data set has columns {', '.join(names)}: a row needs input_ids, input_values or text; pictures, "
            "sounds and tables are read by load_task('own-data', data=...)."
        )
    if processing_class is not None and not isinstance(processing_class, PreTrainedTokenizerBase):
        raise HfLongSeqError(
            f"column {text!r} holds texts, and {type(processing_class).__name__} reads none: give a tokenizer as "
            "processing_class, or the spec of texts."
        )
    options = {"tokenizer": processing_class or byte_tokenizer(), "column": text}
    shown = {} if streams else {"desc": "Tokenizing"}
    return rows.map(_tokenize, batched=True, remove_columns=[text], fn_kwargs=options, **shown)


def _tokenize(batch: dict[str, list], tokenizer: Any, column: str) -> dict[str, list]:
    cut = cut_length(tokenizer)
    for cell in batch[column]:
        if not isinstance(cell, str | list):
            held = "an empty cell (None)" if cell is None else repr(cell)
            raise HfLongSeqError(f"column {column!r} holds {held} in the place of a text: remove or mend its row.")
    options = {"truncation": cut is not None, "max_length": cut, **special_as_text(tokenizer)}
    return {"input_ids": tokenizer(batch[column], **options)["input_ids"]}


def default_processor(dataset: Any, spec: TaskSpec | None) -> Any:
    """What turns raw inputs into rows: that of the task; without a task, bytes for texts and nothing for others."""
    if spec is not None:
        return task_processor(spec)
    first = next(iter(dataset.values()), None) if isinstance(dataset, dict) else dataset
    names = getattr(first, "column_names", None) or ()
    return byte_tokenizer() if set(TEXT_COLUMNS) & set(names) and "input_ids" not in names else None


def describe(rows: "Dataset", processing_class: Any = None, labelled: bool = False, head: str = "") -> TaskSpec:
    """What rows of `model_rows` hold, found in the rows themselves; their labels only if they are `labelled`. As many
    decimal numbers as positions are one for each, unless the class of a given model, `head`, is for sequences.

    A tokenizer knows the vocabulary and the special ids; without it, the ids above the highest one in the rows become
    those of the mask and of padding.
    """
    tokenizer = processing_class if isinstance(processing_class, PreTrainedTokenizerBase) else None
    spec = _describe_tokens(rows, tokenizer) if "input_ids" in rows.column_names else _describe_values(rows)
    pair = any(name in rows.column_names for name in ("input_ids_2", "input_values_2"))
    labels = _describe_labels(rows, head) if labelled else {"problem_type": None}
    return replace(spec, pair=pair, **labels)


def _describe_tokens(rows: "Dataset", tokenizer: Any) -> TaskSpec:
    if tokenizer is not None:
        size, mask = len(tokenizer), tokenizer.mask_token_id
        if mask is None:
            size, mask = size + 1, size
        pad, end = tokenizer.pad_token_id, tokenizer.eos_token_id
    else:
        mask = _highest(rows, [name for name in rows.column_names if name.startswith("input_ids")]) + 1
        size, pad, end = mask + 2, mask + 1, None
    ids = {"vocab_size": size, "pad_token_id": pad, "mask_token_id": mask, "eos_token_id": end}
    return TaskSpec("own-data", "tokens", max(sequence_lengths(rows)), mask_ratio=0.15, **ids)


def _highest(rows: "Dataset", names: list[str]) -> int:
    for name in names:
        kind = getattr(rows.features[name], "feature", None)
        if not str(getattr(kind, "dtype", kind)).lstrip("u").startswith(("int", "bool")):
            raise HfLongSeqError(
                f"column {name!r} holds {rows[0][name]!r}: give a list of whole numbers in every row."
            )
    tables = rows.select_columns(names).with_format("arrow").iter(batch_size=1000)
    return max(pc.max(pc.list_flatten(table.column(name))).as_py() or 0 for table in tables for name in names)


def _describe_values(rows: "Dataset") -> TaskSpec:
    first = np.asarray(rows[0]["input_values"])
    return TaskSpec(
        name="own-data",
        modality="values",
        max_length=max(sequence_lengths(rows)),
        num_channels=first.shape[1] if first.ndim == 2 else 1,
        value_range=(-1.0, 1.0) if first.dtype.kind in "iu" else None,  # integers are grey levels
        mask_ratio=0.25,
    )


def check_classes(config: PreTrainedConfig, datasets: dict[str, Any]) -> None:
    """Raise if a data set has no labels, or gives one of the model's classes another number."""
    from datasets import ClassLabel

    known = {name: number for number, name in (config.id2label or {}).items()}
    for name, dataset in datasets.items():
        for rows in dataset.values() if isinstance(dataset, dict) else [dataset]:
            columns, features = getattr(rows, "column_names", None), getattr(rows, "features", None) or {}
            if columns and "labels" not in columns:
                raise HfLongSeqError(f"{name} has columns {', '.join(columns)}, and no labels to score: add labels.")
            stated = getattr(features.get("labels"), "feature", features.get("labels"))
            names = stated.names if isinstance(stated, ClassLabel) else []
            if any(known.get(one, number) != number for number, one in enumerate(names)):
                raise HfLongSeqError(
                    f"{name} numbers its classes in the order {', '.join(names)}, but the model in the order "
                    f"{', '.join(sorted(known, key=known.__getitem__))}: cast both to one ClassLabel."
                )


def _describe_labels(rows: "Dataset", head: str) -> dict[str, Any]:
    from datasets import ClassLabel

    if "labels" not in rows.column_names:
        raise HfLongSeqError(
            f"The data set has columns {', '.join(rows.column_names)}: name the column of classes or numbers labels "
            "or label, or pretrain with SPTTrainer, which needs none."
        )
    feature = rows.features["labels"]
    within = getattr(feature, "feature", None)
    if isinstance(feature, ClassLabel):
        return {"labels": tuple(feature.names)}
    whole = isinstance(within, ClassLabel) or str(getattr(within, "dtype", "")).startswith("int")
    first = rows.select([0])
    if whole and len(first["labels"][0]) == sequence_lengths(first)[0]:  # a label for every position
        names = getattr(within, "names", None) or map(str, range(max(_highest(rows, ["labels"]) + 1, 2)))
        return {"labels": tuple(names), "per_position": True, "metric": "token_f1"}
    cells = rows.with_format(None)["labels"][:]
    if None in cells:
        raise HfLongSeqError(f"labels is empty in row {cells.index(None) + 1}: remove the row, or pretrain on it.")
    uneven = isinstance(cells[0], list) and len(set(map(len, cells))) > 1
    labels = np.array(None) if uneven else np.asarray(cells)
    if labels.dtype.kind in "iub" and labels.ndim == 1:
        return {"labels": tuple(str(index) for index in range(max(int(labels.max()) + 1, 2)))}
    if labels.dtype.kind in "iuf" and labels.ndim == 2 and np.isin(labels, (0, 1)).all():
        several = {"problem_type": "multi_label_classification", "metric": "f1"}
        return {"labels": tuple(str(index) for index in range(labels.shape[1])), **several}
    one, of_rows = np.asarray(cells[0]), head.endswith("ForSequenceClassification")
    each = one.dtype.kind == "f" and one.ndim in (1, 2) and not of_rows
    if each and list(map(len, cells)) == sequence_lengths(rows):
        return {"problem_type": "regression", "metric": "rmse", "per_position": True}
    if labels.dtype.kind == "f" and labels.ndim in (1, 2):
        return {"problem_type": "regression", "metric": "rmse"}
    raise HfLongSeqError(
        f"labels holds {rows[0]['labels']!r}: give whole numbers from 0 for classes, a list of them for classes of "
        "positions, 0 or 1 for each of several labels, or decimal numbers to predict, as many in every row; "
        "dataset.class_encode_column('labels') numbers words."
    )
