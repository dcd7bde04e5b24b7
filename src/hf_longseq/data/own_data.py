# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Your own data as a task: text, token ids, series of numbers, pictures or sounds, with classes or numbers to predict,
for the whole or for every position (forms of such labels: `label_sequences.py`).

Rows of train without a label become the split "unlabelled", which pretraining reads; rows of validation and test are
never among its inputs. Results say how many rows have labels, how they are split, and how many inputs are open to
pretraining. Data without a label column are for pretraining alone.

Splits that the source has are kept; missing ones are taken out of train: whole groups if `group_column` is given (no
subject in two splits), else rows drawn evenly from every class, equal inputs together. The column `source_row` records
which row of the source each example is. Series and sounds are standardised with the mean and deviation of train.

With `--data` and no recipe, batches hold examples of similar length; `--pretrain.train_sampling_strategy random` and
`--finetune.train_sampling_strategy random` mix them.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from datasets import ClassLabel, DatasetDict, Features, Value
from huggingface_hub.constants import ENDPOINT

from hf_longseq.data import byte_text
from hf_longseq.data.columns import Row, sequence_feature
from hf_longseq.data.converted import SPLITS, load_converted
from hf_longseq.data.label_sequences import COLUMNS, LabelSequences, are_given
from hf_longseq.data.own_reader import MODALITIES, Reader, guess_modality
from hf_longseq.data.own_sources import AUDIO_ENDINGS, IMAGE_ENDINGS, Table, open_source
from hf_longseq.data.task import TaskSpec
from hf_longseq.errors import HfLongSeqError

logger = logging.getLogger(__name__)

INPUT_NAMES = ("text", "input_ids", "input_values", "sentence", "file", "image", "img", "audio", "x", "X", "input")
LABEL_NAMES = ("label", "labels", "y", "Y", "target", "class", *COLUMNS)
UNLABELLED = "unlabelled"
DROPPED = "dropped"
# Column and type in which inputs are kept.
KEPT = {"text": ("input_ids", "int32"), "tokens": ("input_ids", "int32"), "image": ("input_values", "uint8")}
KEPT |= dict.fromkeys(("values", "audio"), ("input_values", "float32"))


def load(
    data: str,
    input_column: str | None = None,
    label_column: str | None = None,
    second_input_column: str | None = None,
    group_column: str | None = None,
    modality: str | None = None,
    problem_type: str | None = None,
    max_length: int | None = None,
    validation_fraction: float = 0.1,
    test_fraction: float = 0.1,
    seed: int = 0,
    colour: bool = False,
    image_size: int | None = None,
    sampling_rate: int | None = None,
    mask_ratio: float | None = None,
    per_position: bool | None = None,
    outside_label: str | None = None,
    cache_dir: str | None = None,
) -> tuple[DatasetDict, TaskSpec]:
    """Load your own data.

    Args:
        data: A csv, tsv, jsonl, parquet, npy or npz file, a folder of such tables or of pictures or sounds (one folder
            per class), or the id of a data set on the Hub.
        input_column, label_column: Names; default: the first usual name that the data have. An empty label makes a row
            input for pretraining.
        second_input_column: Second document, for pairs.
        group_column: Rows with the same value (a subject, a recording) never get into different splits.
        modality: "text" (read as bytes), "tokens", "values", "image" or "audio"; default: by the content.
        problem_type: "regression" to predict numbers; default: classes.
        max_length: Longer inputs are cut; default: the longest.
        validation_fraction, test_fraction: Shares taken out of train where the source has no such split.
        seed: Seed of the split.
        colour: Three channels for pictures.
        image_size: Resize pictures to this many pixels a side.
        sampling_rate: Resample sounds to this rate in Hz.
        mask_ratio: Masked share in pretraining; default: 0.15 for text and tokens, 0.25 for series, 0.5 for pictures.
        per_position: Whether every position has a label of its own; default: by the name and the content of the label
            column.
        outside_label: The class of positions outside of every span, if it is not called "O".
        cache_dir: Where the converted data are kept; default: `cache_directory()`.
    """
    for name, value in {"max_length": max_length, "image_size": image_size, "sampling_rate": sampling_rate}.items():
        if value is not None and value < 1:
            raise HfLongSeqError(f"data.{name} is {value}: give a number of 1 or more.")
    tables = open_source(data)
    first = next(iter(tables.values()))
    input_column = input_column or usual_name(first, INPUT_NAMES, "input_column")
    label_column = label_column or next((name for name in LABEL_NAMES if name in first.names), None)
    if len(first) == 0:
        raise HfLongSeqError(f"{first.name} has no rows.")
    modality = modality or modality_of(first, input_column)
    if modality not in MODALITIES:
        raise HfLongSeqError(f"modality is {modality!r}: use {', '.join(MODALITIES)}.")
    rows = _Rows(tables, input_column, second_input_column, label_column, group_column)
    reader = partial(Reader, modality, colour, image_size, sampling_rate, max_length)
    class_names = first.class_names(label_column) if label_column else None
    first_labelled = int(np.argmin(rows.unlabelled)) if rows.labels is not None else 0
    labels = None
    if per_position is None and rows.labels is not None:
        lengths = partial(_lengths, *rows.raw(first_labelled)[0], reader())
        per_position = are_given(label_column, rows.labels[first_labelled], lengths)
    targets, names = np.zeros(len(rows), np.float32), ()
    if per_position:
        if len(rows.inputs) > 1:
            raise HfLongSeqError("Labels for every position are of one input: leave out --second_input_column.")
        cells = {row: rows.labels[row] for row in _labelled(rows)}
        texts = {row: rows.raw(row)[0][0] for row in cells} if modality == "text" else None
        labels = LabelSequences.read(cells, rows.names, texts, problem_type, class_names, outside_label)
    elif rows.labels is not None:
        labelled = _labelled(rows)
        found, names = _targets(rows, labelled, class_names, problem_type)
        targets = np.zeros(len(rows), found.dtype)  # 0 where a row has no label
        targets[labelled] = found
    digests, facts = _measure(rows, reader())
    shares = {"validation": validation_fraction, "test": test_fraction}
    split_of = _make_splits(rows, digests, targets, names, shares, seed)
    facts |= _scaling(facts, np.isin(split_of, ("train", UNLABELLED)))
    features = _features(rows, modality, facts, names, labels)
    description = {
        "version": 4,
        "options": [input_column, second_input_column, label_column, group_column, modality, problem_type, max_length],
        "split": [validation_fraction, test_fraction, seed],
        "decoding": [colour, image_size, sampling_rate],
        "content": hashlib.sha256("".join(digests).encode()).hexdigest(),
        "labels": hashlib.sha256(targets.tobytes()).hexdigest() if labels is None else labels.digest,
    }
    files = [file for table in tables.values() for file in table.files]
    converted = partial(_converted, rows, reader(), split_of, targets, facts, labels)
    given = (*SPLITS, UNLABELLED) if UNLABELLED in split_of else SPLITS
    splits = load_converted("own-data", description, files, features, converted, cache_dir, given)
    if rows.labels is None:
        splits = splits.remove_columns("labels")
    note = _report(split_of, targets, names, rows, group_column)
    logger.info("%s: %s", data, note)
    source = data if files else f"{ENDPOINT}/datasets/{data}"
    return splits, _spec(source, rows, modality, facts, names, labels, mask_ratio, note)


def _lengths(raw: Any, where: str, reader: Reader) -> set[int]:
    """Positions of an input, as labels for them may be counted."""
    if reader.modality == "text":
        return {len(raw), len(raw.encode())} if isinstance(raw, str) else set()
    return {len(replace(reader, max_length=None).read(raw, where))}


def modality_of(table: Table, column: str) -> str:
    """Modality of a column: as the data set states it, else by its first value."""
    stated = table.modality(column)
    if stated:
        return stated
    present = (value for value in table.column(column) if not _is_absent(value))
    value = next(present, None)
    if value is None:
        raise HfLongSeqError(f"{table.name}, column {column!r}, is empty: name another --input_column.")
    return guess_modality(value, f"{table.name}, column {column!r},")


class _Rows:
    """All rows of all tables, one after the other."""

    def __init__(self, tables: dict[str, Table], first: str, second: str | None, label: str | None, group: str | None):
        self.names = [f"{table.name}, row {i + 1}," for table in tables.values() for i in range(len(table))]
        self.given_split = [split for split, table in tables.items() for _ in range(len(table))]
        self.local = [(table, i) for table in tables.values() for i in range(len(table))]
        self.inputs = {name: {id(t): t.column(name) for t in tables.values()} for name in (first, second) if name}
        self.labels = [value for table in tables.values() for value in table.column(label)] if label else None
        self.unlabelled = np.array([_is_absent(value) for value in self.labels or ()], dtype=bool)
        self.groups = [value for table in tables.values() for value in table.column(group)] if group else None
        absent = next((i for i, value in enumerate(self.groups or ()) if _is_absent(value)), None)
        if absent is not None:
            raise HfLongSeqError(f"{self.names[absent]} has no {group}, so it belongs to no group: remove the row.")
        for row in np.flatnonzero(self.unlabelled):
            if self.given_split[row] in ("validation", "test"):
                raise HfLongSeqError(
                    f"{self.names[row]} is in {self.given_split[row]} and has no label: label it, remove it, or move "
                    "it to train, where pretraining reads it."
                )

    def __len__(self) -> int:
        return len(self.names)

    def _where(self, row: int, name: str, value: Any) -> str:
        """What messages call an input: a picture or sound by its file, anything else by row and column."""
        endings = IMAGE_ENDINGS + AUDIO_ENDINGS
        is_file = isinstance(value, str) and len(value) < 1000 and value.lower().endswith(endings)
        return f"{value} ({self.names[row].rstrip(',')})" if is_file else f"{self.names[row]} column {name!r},"

    def raw(self, row: int) -> list[tuple[Any, str]]:
        """Raw inputs of a row with their names for messages."""
        table, i = self.local[row]
        return [
            (value := columns[id(table)][i], self._where(row, name, value)) for name, columns in self.inputs.items()
        ]


def _is_absent(value: Any) -> bool:
    """Whether a cell of a table is empty: None, not a number, or blank text."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (np.ndim(value) == 0 and bool(value != value))


def usual_name(table: Table, names: tuple[str, ...], option: str) -> str:
    """The first of the usual names that a table has."""
    if len(table.names) == 1:
        return table.names[0]
    for name in names:
        if name in table.names:
            return name
    raise HfLongSeqError(f"{table.name} has columns {', '.join(table.names)}: say which one with --{option}.")


def _labelled(rows: "_Rows") -> np.ndarray:
    """Numbers of the rows that have a label; at least one."""
    labelled = np.flatnonzero(~rows.unlabelled)
    if len(labelled) == 0:
        raise HfLongSeqError(
            f"No row of {rows.local[0][0].name} has a label: fill in some, or leave the label column out to pretrain."
        )
    return labelled


def _targets(
    rows: _Rows, labelled: np.ndarray, class_names: list[str] | None, problem_type: str | None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Targets of the rows that have a label, and the names of the classes (none for regression)."""
    several = next((i for i in labelled if np.ndim(rows.labels[i]) and np.size(rows.labels[i]) != 1), None)
    if several is not None:
        raise HfLongSeqError(
            f"{rows.names[several]} has {np.size(rows.labels[several])} labels: give one class or one number per row."
        )
    labels = np.asarray([rows.labels[row] for row in labelled]).reshape(-1)
    if problem_type == "regression":
        try:
            return labels.astype(np.float32), ()
        except ValueError as error:
            raise HfLongSeqError(f"The labels are no numbers ({error}): leave out --problem_type.") from error
    if problem_type not in (None, "single_label_classification"):
        raise HfLongSeqError(f"problem_type is {problem_type!r}: use 'regression' or 'single_label_classification'.")
    if labels.dtype.kind == "f":
        odd = next((i for i, label in enumerate(labels) if label != np.floor(label)), None)
        if odd is not None:
            raise HfLongSeqError(
                f"{rows.names[labelled[odd]]} has label {labels[odd]}, which is no class: set "
                "problem_type='regression' to predict numbers."
            )
        labels = labels.astype(np.int64)
    classes, targets = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        source = rows.local[0][0].name
        raise HfLongSeqError(
            f"Every row of {source} has label {classes[0]!s}: a classification needs at least two classes."
        )
    if class_names is not None and labels.dtype.kind in "iu" and 0 <= labels.min() <= labels.max() < len(class_names):
        return labels.astype(np.int64), tuple(class_names)
    return targets, tuple(str(name) for name in classes)


def _make_splits(
    rows: _Rows, digests: list[str], targets: np.ndarray, names: tuple[str, ...], shares: dict[str, float], seed: int
) -> np.ndarray:
    """Split of every row; splits of the source are kept, and `shares` of train make those that it lacks.

    Unlabelled rows that equal a held-out row, or belong to the group of one, are left out.
    """
    split_of = pd.Series(["train" if split == "all" else split for split in rows.given_split], dtype=object)
    if rows.labels is not None:
        split_of[rows.unlabelled] = UNLABELLED
    shares = {split: share for split, share in shares.items() if split not in rows.given_split}
    for split, share in shares.items():
        if not 0 < share < 0.5:
            raise HfLongSeqError(f"{split}_fraction is {share}: use a share between 0 and 0.5.")
    grouped, inputs = rows.groups is not None, pd.Series(digests, dtype=object)
    keys = pd.Series([str(group) for group in rows.groups], dtype=object) if grouped else inputs
    whole = keys[split_of == "train"]
    generator = np.random.default_rng(seed)
    taken: dict[str, str] = {}
    for _, some in whole.groupby(targets[whole.index] if names and not grouped else np.zeros(len(whole)), sort=False):
        units = [key for key in some.unique() if key not in taken]
        order = [units[i] for i in generator.permutation(len(units))]
        taken |= dict.fromkeys(order, "train")
        start = 0
        for split, share in shares.items():
            end = start + max(1, round(share * len(units)))
            taken |= dict.fromkeys(order[start:end], split)
            start = end
        if start >= len(units) and shares:
            what = f"{len(units)} groups" if grouped else f"{len(units)} different rows of one class"
            raise HfLongSeqError(
                f"{rows.local[0][0].name} has only {what}: too few to set validation and test examples apart."
            )
    split_of[whole.index] = whole.map(taken)
    if grouped:
        _check_groups(rows, split_of[split_of != UNLABELLED], keys)
    held_out = split_of.isin(("validation", "test"))
    known = inputs.isin(inputs[held_out]) | keys.isin(keys[held_out])
    split_of[(split_of == UNLABELLED) & known] = DROPPED
    return split_of.to_numpy()


def _check_groups(rows: _Rows, split_of: pd.Series, keys: pd.Series) -> None:
    """Raise if splits that the source brought share a group."""
    home = split_of.groupby(keys[split_of.index]).transform("first")
    for row in split_of.index[split_of != home]:
        raise HfLongSeqError(
            f"{rows.names[row]} belongs to group {keys[row]} and to {split_of[row]}, but others of the group to "
            f"{home[row]}: give all rows in one file, or leave out group_column."
        )


def _measure(rows: _Rows, reader: Reader) -> tuple[list[str], dict[str, Any]]:
    """One pass over all inputs: a digest of each row, lengths, highest id, sums. Errors in the data show up here."""
    longest, highest = 0, 0
    digests, sums, squares, counts = [], [], [], []
    for row in range(len(rows)):
        digest = hashlib.blake2b(digest_size=12)
        arrays = [reader.read(raw, where) for raw, where in rows.raw(row)]
        for array in arrays:
            digest.update(array.tobytes() + b"|")
            longest = max(longest, len(array))
        digests.append(digest.hexdigest())
        if reader.modality == "tokens":
            highest = max(highest, *(int(array.max()) for array in arrays))
        elif reader.modality in ("values", "audio"):
            sums.append(sum(array.sum(0, dtype=np.float64) for array in arrays))
            squares.append(sum(np.square(array, dtype=np.float64).sum(0) for array in arrays))
            counts.append(sum(len(array) for array in arrays))
    shape = reader.shape or ()
    channels = shape[0] if counts else shape[2] if len(shape) == 3 else 1
    facts = {"longest": longest, "highest": highest, "shape": shape, "channels": channels, "rate": reader.rate}
    return digests, facts | {"sums": sums, "squares": squares, "counts": counts}


def _scaling(facts: dict[str, Any], in_train: np.ndarray) -> dict[str, Any]:
    """Mean and deviation per channel over the training rows, for series and sounds."""
    if not facts["sums"]:
        return {}
    total = np.array(facts["counts"])[in_train].sum()
    mean = np.array(facts["sums"])[in_train].sum(0) / total
    std = np.sqrt(np.maximum(np.array(facts["squares"])[in_train].sum(0) / total - mean**2, 0))
    # A constant channel says nothing, and is left as it is.
    return {"mean": mean.tolist(), "std": np.where(std > 0, std, 1.0).tolist()}


def _features(
    rows: _Rows, modality: str, facts: dict, names: tuple[str, ...], labels: LabelSequences | None
) -> Features:
    name, dtype = KEPT[modality]
    columns = dict.fromkeys((name, f"{name}_2")[: len(rows.inputs)], sequence_feature(dtype, facts["channels"]))
    target = ClassLabel(names=list(names)) if names else Value("float32")
    target = target if labels is None else labels.feature
    return Features({**columns, "labels": target, "source_row": Value("int64")})


def _converted(
    rows: _Rows,
    reader: Reader,
    split_of: np.ndarray,
    targets: np.ndarray,
    facts: dict,
    labels: LabelSequences | None = None,
) -> Iterator[tuple[str, Row]]:
    """Rows as they are kept, split by split."""
    name, _ = KEPT[reader.modality]
    for split in (*SPLITS, UNLABELLED):
        for i in np.flatnonzero(split_of == split).tolist():
            raws = rows.raw(i)
            read = [_scale(reader.read(*raw), facts) for raw in raws]
            row = dict(zip((name, f"{name}_2"), read, strict=False))  # a pair has two
            row |= {"labels": targets[i], "source_row": i}
            if labels is not None and split != UNLABELLED:
                text, length = raws[0][0] if reader.modality == "text" else None, len(read[0])
                row["labels"] = labels.lay_out(i, length, rows.names[i], text, cut=length == reader.max_length)
            yield split, row


def _scale(array: np.ndarray, facts: dict) -> np.ndarray:
    if "mean" not in facts:
        return array
    scaled = ((array - np.array(facts["mean"])) / np.array(facts["std"])).astype(np.float32)
    return scaled[:, 0] if scaled.shape[1] == 1 else scaled


def _report(split_of: np.ndarray, targets: np.ndarray, names: tuple[str, ...], rows: _Rows, group: str | None) -> str:
    """What was split how, and how uneven the classes are."""
    sizes = Counter(split_of.tolist())
    parts = [", ".join(f"{sizes[split]:,} {split}" for split in SPLITS) + " examples"]
    if sizes[UNLABELLED] or sizes[DROPPED]:
        labelled = len(split_of) - sizes[UNLABELLED] - sizes[DROPPED]
        parts[0] = f"{labelled:,} labelled rows of {len(split_of):,} ({parts[0]})"
        parts.append(
            f"{sizes['train'] + sizes[UNLABELLED]:,} inputs open to pretraining ({sizes[UNLABELLED]:,} unlabelled, "
            f"{sizes['train']:,} of train)"
        )
    if sizes[DROPPED]:
        parts.append(f"{sizes[DROPPED]:,} unlabelled left out (equal to, or of the group of, a held-out row)")
    if group:
        of = {split: sorted({str(rows.groups[i]) for i in np.flatnonzero(split_of == split)}) for split in SPLITS}
        parts.append(f"split by {group}: " + "; ".join(f"{split} {_some(found)}" for split, found in of.items()))
    if names:
        counts = np.bincount(targets[split_of == "train"], minlength=len(names))
        absent = [names[i] for i in np.flatnonzero(counts == 0)]
        if absent:
            raise HfLongSeqError(
                f"Class {absent[0]!r} of {rows.local[0][0].name} has no training example: change seed, or the splits."
            )
        parts.append(f"the largest class ({names[counts.argmax()]}) has {counts.max() / counts.sum():.0%} of train")
        if counts.max() > 10 * counts.min():
            logger.warning(
                "Classes are uneven: %s has %d training examples, %s %d; look at F1 beside accuracy.",
                names[counts.argmax()],
                counts.max(),
                names[counts.argmin()],
                counts.min(),
            )
    return ", ".join(parts)


def _some(groups: list[str], most: int = 20) -> str:
    return ", ".join(groups[:most]) + (f" and {len(groups) - most:,} more" if len(groups) > most else "")


def _spec(
    source: str,
    rows: _Rows,
    modality: str,
    facts: dict,
    names: tuple[str, ...],
    labels: LabelSequences | None,
    mask_ratio: float | None,
    note: str,
) -> TaskSpec:
    if labels is not None:
        names, problem = labels.names, labels.problem_type
        metric = {"multi_label_classification": "f1", "regression": "rmse"}.get(problem, "token_f1")
    elif rows.labels is None:
        problem, metric = None, "loss"
    else:
        problem, metric = ("single_label_classification", "accuracy") if names else ("regression", "rmse")
    form: dict[str, Any] = {"modality": "values", "num_channels": facts["channels"]}
    if modality == "text":
        form = byte_text.SPEC
    elif modality == "tokens":
        mask = facts["highest"] + 1
        form = {"modality": "tokens", "vocab_size": mask + 2, "mask_token_id": mask, "pad_token_id": mask + 1}
    elif modality == "image":
        form |= {"value_range": (-1.0, 1.0), "image_shape": tuple(facts["shape"][:2])}
    else:
        form |= {"normalization": (tuple(facts["mean"]), tuple(facts["std"])), "sampling_rate": facts["rate"]}
    return TaskSpec(
        name="own-data",
        max_length=facts["longest"],
        labels=names,
        problem_type=problem,
        metric=metric,
        per_position=labels is not None,
        mask_ratio=mask_ratio or {"text": 0.15, "tokens": 0.15, "image": 0.5}.get(modality, 0.25),
        pair=len(rows.inputs) > 1,
        source=source,
        license="not stated",
        note=note,
        **form,
    )
