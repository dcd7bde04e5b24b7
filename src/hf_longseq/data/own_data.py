# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Your own data as a task: text, token ids, series of numbers, pictures or sounds, with classes or numbers to predict,
for the whole or for every position (forms of such labels: `label_sequences.py`).

Rows of train without a label (in a csv file an empty cell or NaN; None and NA are names) become the split
"unlabelled", which pretraining reads; rows of validation and test are never among its inputs. Results say how many
rows have labels, how they are split, and how many inputs are open to pretraining. Data without a label column are for
pretraining alone. Beside `X.npy` the arrays of its folder with as many rows are columns, such as the labels in
`y.npy`.

Splits that the source has are kept; rows of train that also stand in its validation or test are counted and left out,
unless `keep_duplicates` is set. Missing splits are taken out of train by a hash of a row's inputs, or of its group if
`group_column` is given. A row is therefore on the same side in every command, whatever its label and its place in
the file; equal rows, and the rows of a subject, stay together. Shares hold roughly, and each split gets a row.
The columns of inputs and groups, `seed` and the fractions decide the split: give `pretrain` and `finetune` the same.
A class without a row in train is an error; another `seed` moves rows.

The column `source_row` records which row of the source each example is, `row_hash` the hash of its inputs. Series and
sounds are standardised with the mean and deviation of train.

With `--data` and no recipe, batches hold examples of similar length; `--pretrain.train_sampling_strategy random` and
`--finetune.train_sampling_strategy random` mix them.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
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
from hf_longseq.data.row_hashes import ROW_HASH, hash_of
from hf_longseq.data.task_spec import TaskSpec
from hf_longseq.errors import HfLongSeqError, explained

logger = logging.getLogger(__name__)

INPUT_NAMES = ("text", "input_ids", "input_values", "sentence", "file", "image", "img", "audio", "x", "X", "input")
LABEL_NAMES = ("label", "labels", "y", "Y", "target", "class", *COLUMNS)
UNLABELLED = "unlabelled"
DROPPED = "dropped"
# In the source of a data set of the Hub that states no test split: its results are of nobody else's split.
TAKEN_OUT = ", its test split taken out of train"
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
    vocab_size: int | None = None,
    per_position: bool | None = None,
    outside_label: str | None = None,
    keep_duplicates: bool = False,
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
        vocab_size: Number of token ids to make room for, if these data do not hold all; `finetune --init_from` takes
            that of the checkpoint. Default: up to the highest.
        per_position: Whether every position has a label of its own; default: by the name and the content of the label
            column.
        outside_label: The class of positions outside of every span, if it is not called "O".
        keep_duplicates: Keep rows of train that also stand in the source's validation or test split.
        cache_dir: Where the converted data are kept; default: `cache_directory()`.
    """
    counts = {
        "max_length": max_length,
        "image_size": image_size,
        "sampling_rate": sampling_rate,
        "vocab_size": vocab_size,
    }
    for name, value in counts.items():
        if value is not None and value < 1:
            raise HfLongSeqError(f"data.{name} is {value}: give a number of 1 or more.")
    tables = open_source(data)
    first = tables.get("train", next(iter(tables.values())))
    input_column = input_column or input_name(first)
    label_column = label_column or next((name for name in LABEL_NAMES if name in first.names), None)
    if len(first) == 0:
        raise HfLongSeqError(f"{first.name} has no rows.")
    modality = modality or modality_of(first, input_column)
    if modality not in MODALITIES:
        raise HfLongSeqError(f"modality is {modality!r}: use {', '.join(MODALITIES)}.")
    reader = Reader(modality, colour, image_size, sampling_rate, max_length)
    rows = _Rows(tables, reader, (input_column, second_input_column), label_column, group_column)
    rows.read_labels(label_column, per_position, problem_type, outside_label)
    rows.measure()
    split_of, duplicates = _make_splits(rows, {"test": test_fraction, "validation": validation_fraction}, seed)
    if not keep_duplicates:
        split_of[duplicates] = DROPPED
    if "train" not in split_of:
        raise HfLongSeqError(
            f"Every row of train in {rows.source} also stands in validation or test: give other rows to train, or set "
            "keep_duplicates."
        )
    rows.scale_by(np.isin(split_of, ("train", UNLABELLED)))
    labels = rows.sequences.digest if rows.sequences else hashlib.sha256(rows.targets.tobytes()).hexdigest()
    options = {
        "version": 5,
        "options": [input_column, second_input_column, label_column, group_column, modality, problem_type, max_length],
        "split": [validation_fraction, test_fraction, seed, keep_duplicates],
        "decoding": [colour, image_size, sampling_rate],
        "content": hashlib.sha256(np.array(rows.hashes, np.int64).tobytes()).hexdigest(),
        "labels": labels,
    }
    files = [file for table in tables.values() for file in table.files]
    given = (*SPLITS, UNLABELLED) if UNLABELLED in split_of else SPLITS
    converted = partial(_converted, rows, split_of)
    splits = load_converted("own-data", options, files, _features(rows), converted, cache_dir, given)
    if rows.labels is None:
        splits = splits.remove_columns("labels")
    note = _report(rows, split_of, duplicates, group_column, keep_duplicates)
    logger.info("%s: %s", data, note)
    spec = _spec(rows, mask_ratio, vocab_size)
    source = data if files else f"{ENDPOINT}/datasets/{data}{'' if 'test' in tables else TAKEN_OUT}"
    return splits, replace(spec, source=source, note=note)


def _lengths(raw: Any, where: str, reader: Reader) -> set[int]:
    """Positions of an input, as labels for them may be counted."""
    if reader.modality == "text":
        return {len(raw), len(raw.encode())} if isinstance(raw, str) else set()
    return {len(replace(reader, max_length=None).read(raw, where))}


def modality_of(table: Table, column: str) -> str:
    """Modality of a column: as the data set states it, else by its first value, else by its name."""
    stated = table.modality(column)
    if stated:
        return stated
    present = (value for value in table.column(column) if not _is_absent(value))
    value = next(present, None)
    if value is None:
        raise HfLongSeqError(f"{table.name}, column {column!r}, is empty: name another --input_column.")
    found = guess_modality(value, f"{table.name}, column {column!r},")
    # a csv file holds numbers as text
    return {"input_values": "values", "input_ids": "tokens"}.get(column, found) if found == "text" else found


class _Rows:
    """All rows of all tables, one after the other.

    Attributes:
        source, names: What messages call the data, and each row.
        class_names: Of every table its name, and the names of its numbered classes or None.
        given_split: Its split, or "all".
        labels, groups: Cells of these columns, or None.
        unlabelled: Where the label is empty.
        targets, classes: Class or number of every row, 0 where it has none, and the classes' names.
        sequences: Labels of every position, in place of targets.
        hashes: Of every row's inputs, see `row_hashes.py`.
        longest, highest, channels: Length of the longest input, highest token id, channels of all.
        mean, std: Of every channel of series and sounds over the training rows; None for others.
    """

    def __init__(self, tables: dict[str, Table], reader: Reader, inputs: tuple, label: str | None, group: str | None):
        self.reader, self.source = reader, tables.get("train", next(iter(tables.values()))).name
        self.class_names = [(table.name, table.class_names(label)) for table in tables.values()] if label else []
        self.names = [f"{table.name}, row {i + 1}," for table in tables.values() for i in range(len(table))]
        self.given_split = [split for split, table in tables.items() for _ in range(len(table))]
        self.local = [(table, i) for table in tables.values() for i in range(len(table))]
        self.inputs = {name: {id(t): t.column(name) for t in tables.values()} for name in filter(None, inputs)}
        self.labels = [cell for table in tables.values() for cell in table.labels(label)] if label else None
        self.groups = [cell for table in tables.values() for cell in table.column(group)] if group else None
        self.unlabelled = np.array([_is_absent(value) for value in self.labels or ()], dtype=bool)
        self.targets, self.classes = np.zeros(len(self), np.float32), ()
        self.sequences: LabelSequences | None = None
        for name, value in zip(self.names, self.groups or (), strict=False):
            if _is_absent(value):
                raise HfLongSeqError(f"{name} has no {group}, so it belongs to no group: remove the row.")
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

    def read_labels(self, column: str, per_position: bool | None, problem: str | None, outside: str | None) -> None:
        """Make targets, or labels of every position, of the label column."""
        if self.labels is None:
            return
        labelled = np.flatnonzero(~self.unlabelled).tolist()
        if not labelled:
            raise HfLongSeqError(
                f"No row of {self.source} has a label: fill in some, or leave the label column out to pretrain."
            )
        stated = [(table, names) for table, names in self.class_names if names]
        first, class_names = stated[0] if stated else (None, None)
        for table, names in stated:
            if names != class_names:
                raise HfLongSeqError(
                    f"{table} numbers the classes of column {column!r} in the order {', '.join(names)}, but {first} "
                    f"in the order {', '.join(class_names)}: cast both to one ClassLabel."
                )
        if per_position is None:
            lengths = partial(_lengths, *self.raw(labelled[0])[0], self.reader)
            per_position = are_given(column, self.labels[labelled[0]], lengths)
        if not per_position:
            found, self.classes = _targets(self, labelled, class_names, problem)
            self.targets = np.zeros(len(self), found.dtype)
            self.targets[labelled] = found
            return
        if len(self.inputs) > 1:
            raise HfLongSeqError("Labels for every position are of one input: leave out --second_input_column.")
        cells = {row: self.labels[row] for row in labelled}
        texts = {row: self.raw(row)[0][0] for row in cells} if self.reader.modality == "text" else None
        self.sequences = LabelSequences.read(cells, self.names, texts, problem, class_names, outside)

    def measure(self) -> None:
        """One pass over all inputs, in which errors in the data show up."""
        self.longest, self.highest = 0, 0
        self.hashes, self.sums, self.squares, self.counts = [], [], [], []
        for row in range(len(self)):
            arrays = [self.reader.read(raw, where) for raw, where in self.raw(row)]
            self.longest = max(self.longest, *map(len, arrays))
            self.hashes.append(hash_of(self.reader.content(raw, where) for raw, where in self.raw(row)))
            if self.reader.modality == "tokens":
                self.highest = max(self.highest, *(int(array.max()) for array in arrays))
            elif self.reader.modality in ("values", "audio"):
                self.sums.append(sum(array.sum(0, dtype=np.float64) for array in arrays))
                self.squares.append(sum(np.square(array, dtype=np.float64).sum(0) for array in arrays))
                self.counts.append(sum(len(array) for array in arrays))
        shape = self.reader.shape or ()
        self.channels = shape[0] if self.counts else shape[2] if len(shape) == 3 else 1

    def scale_by(self, in_train: np.ndarray) -> None:
        """Find mean and deviation of series and sounds."""
        self.mean = self.std = None
        if self.counts:
            total = np.array(self.counts)[in_train].sum()
            self.mean = np.array(self.sums)[in_train].sum(0) / total
            variance = np.array(self.squares)[in_train].sum(0) / total - self.mean**2
            # a constant channel says nothing, and is left as it is
            self.std = np.where(variance > 0, np.sqrt(np.maximum(variance, 0)), 1.0)

    def scaled(self, row: int) -> list[np.ndarray]:
        """The inputs of a row as they are kept."""
        arrays = [self.reader.read(*raw) for raw in self.raw(row)]
        if self.mean is None:
            return arrays
        arrays = [((array - self.mean) / self.std).astype(np.float32) for array in arrays]
        return [array[:, 0] if array.shape[1] == 1 else array for array in arrays]


def _is_absent(value: Any) -> bool:
    """Whether a cell of a table is empty: None, not a number, or blank text."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (not isinstance(value, (list, np.ndarray)) and bool(value != value))


def input_name(table: Table) -> str:
    """The column of inputs: the one that a table is of, or the first of the usual names that it has."""
    if table.main_column or len(table.names) == 1:
        return table.main_column or table.names[0]
    for name in INPUT_NAMES:
        if name in table.names:
            return name
    raise HfLongSeqError(f"{table.name} has columns {', '.join(table.names)}: say which one with --input_column.")


def _targets(
    rows: _Rows, labelled: list[int], class_names: list[str] | None, problem_type: str | None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Targets of the rows that have a label, and the names of the classes (none for regression)."""
    several = next((i for i in labelled if np.ndim(rows.labels[i]) and np.size(rows.labels[i]) != 1), None)
    if several is not None:
        raise HfLongSeqError(
            f"{rows.names[several]} has {np.size(rows.labels[several])} labels: give one class or one number per row."
        )
    labels = np.asarray([rows.labels[row] for row in labelled]).reshape(-1)
    if problem_type == "regression":
        with explained("The labels are no numbers", ValueError, remedy="leave out --problem_type"):
            numbers = labels.astype(np.float32)
        for i in np.flatnonzero(~np.isfinite(numbers))[:1]:
            raise HfLongSeqError(f"{rows.names[labelled[i]]} has label {labels[i]}: give a finite number, or none.")
        return numbers, ()
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
        source = rows.source
        raise HfLongSeqError(
            f"Every row of {source} has label {classes[0]!s}: a classification needs at least two classes."
        )
    if class_names is not None and labels.dtype.kind in "iu" and 0 <= labels.min() <= labels.max() < len(class_names):
        return labels.astype(np.int64), tuple(class_names)
    return targets, tuple(str(name) for name in classes)


def _make_splits(rows: _Rows, shares: dict[str, float], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Split of every row, and which rows of train equal a held-out row, of another split of the source or group.

    Splits of the source are kept; `shares` of train make those that it lacks, by hashes. Unlabelled rows that equal a
    held-out row, or belong to the group of one, are left out.
    """
    split_of = pd.Series(["train" if split == "all" else split for split in rows.given_split], dtype=object)
    if rows.labels is not None:
        split_of[rows.unlabelled] = UNLABELLED
    for split, share in shares.items():
        if split not in rows.given_split and not 0 < share < 0.5:
            raise HfLongSeqError(f"{split}_fraction is {share}: use a share between 0 and 0.5.")
    grouped, inputs = rows.groups is not None, pd.Series(rows.hashes)
    keys = pd.Series([str(group) for group in rows.groups], dtype=object) if grouped else inputs
    if grouped:
        _check_groups(rows, split_of, keys)
    held_out = split_of.isin(("validation", "test"))
    whole = keys[(split_of == "train") & ~inputs.isin(inputs[held_out])]
    missing = {split: share for split, share in shares.items() if split not in rows.given_split}
    taken = _by_hash(whole.unique(), shares, list(missing), seed)
    if taken and not {"train", *missing} <= set(taken.values()):
        what = f"{len(taken)} groups" if grouped else f"{len(taken)} different rows"
        raise HfLongSeqError(f"{rows.source} has only {what}: too few to set validation and test examples apart.")
    split_of[whole.index] = whole.map(taken)
    held_out = split_of.isin(("validation", "test"))
    equal = inputs.isin(inputs[held_out])
    split_of[(split_of == UNLABELLED) & (equal | keys.isin(keys[held_out]))] = DROPPED
    return split_of.to_numpy(copy=True), (equal & (split_of == "train")).to_numpy()


def _by_hash(keys: Iterable[Any], shares: dict[str, float], missing: list[str], seed: int) -> dict[Any, str]:
    """The split of every key, by where its hash falls between 0 and 1.

    Each split has a part of that range of its own, whichever of them are `missing`. A split of which no key falls into
    its part takes the next key above, so that it has at least one.
    """
    place = {key: (hash_of([f"{seed} {key}".encode()]) % 2**64) / 2**64 for key in keys}
    taken, starts, start = dict.fromkeys(place, "train"), {}, 0.0
    for split, share in shares.items():
        if split in missing:
            starts[split] = start
            taken |= dict.fromkeys((key for key, value in place.items() if start <= value < start + share), split)
        start += share
    for split, start in starts.items():
        if split not in taken.values():
            free = [key for key, of in taken.items() if of == "train"]
            taken |= dict.fromkeys(sorted(free, key=lambda key: (place[key] - start) % 1)[:1], split)
    return taken


def _check_groups(rows: _Rows, split_of: pd.Series, groups: pd.Series) -> None:
    """Raise if the source has a group in two of its splits."""
    settled = split_of[split_of != UNLABELLED]
    home = settled.groupby(groups[settled.index]).transform("first")
    for row in settled.index[settled != home]:
        raise HfLongSeqError(
            f"{rows.names[row]} belongs to group {groups[row]} and to {settled[row]}, but others of the group to "
            f"{home[row]}: give all rows in one file, or leave out group_column."
        )


def _features(rows: _Rows) -> Features:
    name, dtype = KEPT[rows.reader.modality]
    columns = dict.fromkeys((name, f"{name}_2")[: len(rows.inputs)], sequence_feature(dtype, rows.channels))
    target = ClassLabel(names=list(rows.classes)) if rows.classes else Value("float32")
    target = rows.sequences.feature if rows.sequences else target
    return Features({**columns, "labels": target, "source_row": Value("int64"), ROW_HASH: Value("int64")})


def _converted(rows: _Rows, split_of: np.ndarray) -> Iterator[tuple[str, Row]]:
    """Rows as they are kept, split by split."""
    modality, cut = rows.reader.modality, rows.reader.max_length
    name, _ = KEPT[modality]
    for split in (*SPLITS, UNLABELLED):
        for i in np.flatnonzero(split_of == split).tolist():
            arrays = rows.scaled(i)
            row: Row = dict(zip((name, f"{name}_2"), arrays, strict=False))  # a pair has two
            row |= {"labels": rows.targets[i], "source_row": i, ROW_HASH: rows.hashes[i]}
            if rows.sequences and split != UNLABELLED:
                text, length = rows.raw(i)[0][0] if modality == "text" else None, len(arrays[0])
                row["labels"] = rows.sequences.lay_out(i, length, rows.names[i], text, cut=length == cut)
            yield split, row


def _report(rows: _Rows, split_of: np.ndarray, duplicates: np.ndarray, group: str | None, keep: bool) -> str:
    """What was split how, and how uneven the classes are."""
    sizes = Counter(split_of.tolist())
    parts = [", ".join(f"{sizes[split]:,} {split}" for split in SPLITS) + " examples"]
    unlabelled_dropped = sizes[DROPPED] - (0 if keep else int(duplicates.sum()))
    if sizes[UNLABELLED] or unlabelled_dropped:
        labelled = sum(sizes[split] for split in SPLITS)
        parts[0] = f"{labelled:,} labelled rows of {len(split_of):,} ({parts[0]})"
        parts.append(
            f"{sizes['train'] + sizes[UNLABELLED]:,} inputs open to pretraining ({sizes[UNLABELLED]:,} unlabelled, "
            f"{sizes['train']:,} of train)"
        )
    if unlabelled_dropped:
        parts.append(f"{unlabelled_dropped:,} unlabelled left out (equal to, or of the group of, a held-out row)")
    if duplicates.any():
        first = rows.names[duplicates.argmax()].rstrip(",")
        parts.append(
            f"{duplicates.sum():,} rows of train also stand in validation or test (the first: {first}) and are "
            + ("kept" if keep else "left out")
        )
    if group:
        of = {split: sorted({str(rows.groups[i]) for i in np.flatnonzero(split_of == split)}) for split in SPLITS}
        parts.append(f"split by {group}: " + "; ".join(f"{split} {_some(found)}" for split, found in of.items()))
    if names := rows.classes:
        counts = np.bincount(rows.targets[split_of == "train"], minlength=len(names))
        most, least = counts.argmax(), counts.argmin()
        if counts[least] == 0:
            raise HfLongSeqError(
                f"Class {names[least]!r} of {rows.source} has no training example: give it more rows, change "
                "data.seed, or split the data yourself."
            )
        parts.append(f"the largest class ({names[most]}) has {counts[most] / counts.sum():.0%} of train")
        if counts[most] > 10 * counts[least]:
            text = "Classes are uneven: %s has %d training examples, %s %d; look at F1 beside accuracy."
            logger.warning(text, names[most], counts[most], names[least], counts[least])
    return ", ".join(parts)


def _some(groups: list[str], most: int = 20) -> str:
    return ", ".join(groups[:most]) + (f" and {len(groups) - most:,} more" if len(groups) > most else "")


def _spec(rows: _Rows, mask_ratio: float | None, vocab_size: int | None) -> TaskSpec:
    names, modality = rows.classes, rows.reader.modality
    if rows.sequences:
        names, problem = rows.sequences.names, rows.sequences.problem_type
        metric = {"multi_label_classification": "f1", "regression": "rmse"}.get(problem, "token_f1")
    elif rows.labels is None:
        problem, metric = None, "loss"
    else:
        problem, metric = ("single_label_classification", "accuracy") if names else ("regression", "rmse")
    form: dict[str, Any] = {"modality": "values", "num_channels": rows.channels}
    if modality == "text":
        form = byte_text.SPEC
    elif modality == "tokens":
        mask = max(rows.highest + 1, vocab_size or 0)
        form = {"modality": "tokens", "vocab_size": mask + 2, "mask_token_id": mask, "pad_token_id": mask + 1}
    elif modality == "image":
        form |= {"value_range": (-1.0, 1.0), "image_shape": tuple(rows.reader.shape[:2])}
    else:
        scale = (tuple(rows.mean.tolist()), tuple(rows.std.tolist()))
        form |= {"normalization": scale, "sampling_rate": rows.reader.rate}
    return TaskSpec(
        name="own-data",
        max_length=rows.longest,
        labels=names,
        problem_type=problem,
        metric=metric,
        per_position=rows.sequences is not None,
        mask_ratio=mask_ratio or {"text": 0.15, "tokens": 0.15, "image": 0.5}.get(modality, 0.25),
        pair=len(rows.inputs) > 1,
        license="not stated",
        **form,
    )
