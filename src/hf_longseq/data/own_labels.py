# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Labels of own data: classes, numbers or several labels for every row; see `label_sequences.py` for positions."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from datasets import ClassLabel, List, Value

from hf_longseq.data.label_sequences import LabelSequences, are_given, over_words
from hf_longseq.data.own_reader import Reader, is_absent, text_of, words_in
from hf_longseq.data.own_sources import Rows
from hf_longseq.errors import HfLongSeqError, explained

PROBLEMS = ("single_label_classification", "multi_label_classification", "regression")


@dataclass
class Labels:
    """The labels of all rows.

    Attributes:
        problem: As `TaskSpec.problem_type`; None where the data have no label column.
        names: The classes; none for numbers.
        missing: Which rows have no label, (rows,).
        targets: Class or number of every row, (rows,), or 0 and 1 for every class, (rows, classes); 0 where missing.
        sequences: Labels of every position, in place of targets.
    """

    problem: str | None
    names: tuple[str, ...]
    missing: np.ndarray
    targets: np.ndarray
    sequences: LabelSequences | None = None

    @property
    def feature(self) -> Any:
        """Type of the column `labels`."""
        if self.sequences:
            return self.sequences.feature
        if self.problem == "multi_label_classification":
            return List(Value("float32"))
        return ClassLabel(names=list(self.names)) if self.names else Value("float32")

    @property
    def metric(self) -> str:
        """The metric of the task."""
        classes = "token_f1" if self.sequences else "accuracy"
        named = {"single_label_classification": classes, "multi_label_classification": "f1", "regression": "rmse"}
        return named.get(self.problem, "loss")


def read_labels(
    rows: Rows,
    column: str | None,
    inputs: list[str],
    reader: Reader,
    per_position: bool | None,
    problem: str | None,
    outside: str | None,
) -> Labels:
    """Read a label column; `inputs` are the columns of inputs."""
    if problem not in (None, *PROBLEMS):
        raise HfLongSeqError(f"problem_type is {problem!r}: use one of {', '.join(PROBLEMS)}.")
    cells, none = rows.cells(column), np.zeros(len(rows), np.float32)
    if cells is None:
        return Labels(None, (), np.zeros(len(rows), bool), none)
    missing = np.array([is_absent(cell) for cell in cells], bool)
    given = np.array(rows.split_of, object)
    for row in np.flatnonzero(missing & ((given == "validation") | (given == "test"))):
        raise HfLongSeqError(
            f"{rows.where(row)} is in {given[row]} and has no label: label it, remove it, or move it to train, where "
            "pretraining reads it."
        )
    labelled = np.flatnonzero(~missing).tolist()
    if not labelled:
        raise HfLongSeqError(
            f"No row of {rows.name} has a label: fill in some, or leave the label column out to pretrain."
        )
    class_names = _class_names(rows, column)
    if per_position is None:
        first = rows.cell(labelled[0], inputs[0])
        lengths = partial(_lengths, first, rows.where(labelled[0]), reader)
        per_position = are_given(column, cells[labelled[0]], lengths)
    found = {row: cells[row] for row in labelled}
    if per_position:
        if len(inputs) > 1:
            raise HfLongSeqError("Labels for every position are of one input: leave out --second_input_column.")
        texts = None
        if reader.modality == "text":
            raw = rows.cells(inputs[0])
            if words_in(raw[labelled[0]]):
                found = over_words({row: raw[row] for row in labelled}, found, class_names, rows.where)
            texts = {row: text_of(raw[row]) for row in labelled}
        sequences = LabelSequences.read(found, rows.where, texts, problem, class_names, outside)
        return Labels(sequences.problem_type, sequences.names, missing, none, sequences)
    several = next(
        (row for row, cell in found.items() if isinstance(cell, list | np.ndarray) and np.size(cell) != 1), None
    )
    if problem == "multi_label_classification" or (several is not None and problem is None):
        names, targets = _several(found, class_names, rows)
        problem = "multi_label_classification"
    elif several is not None:
        raise HfLongSeqError(
            f"{rows.where(several)} has {np.size(found[several])} labels: give one class or one number per row, or "
            "leave problem_type out for several labels."
        )
    else:
        problem, names, targets = _targets(rows, found, class_names, problem)
    every = np.zeros((len(rows), *targets.shape[1:]), targets.dtype)
    every[labelled] = targets
    return Labels(problem, names, missing, every)


def _lengths(raw: Any, where: str, reader: Reader) -> set[int]:
    """Positions of an input, as labels for them may be counted."""
    if words_in(raw):
        return {len(raw)}
    if reader.modality == "text":
        return {len(raw), len(raw.encode())} if isinstance(raw, str) else set()
    return {len(reader.read(raw, where, cut=False))}


def _class_names(rows: Rows, column: str) -> list[str] | None:
    """Names of numbered classes, on which all tables that state them must agree."""
    stated = [(table.name, names) for table in rows.tables.values() if (names := table.class_names(column))]
    for table, names in stated:
        if names != stated[0][1]:
            raise HfLongSeqError(
                f"{table} numbers the classes of column {column!r} in the order {', '.join(names)}, but "
                f"{stated[0][0]} in the order {', '.join(stated[0][1])}: cast both to one ClassLabel."
            )
    return stated[0][1] if stated else None


def _several(found: dict[int, Any], class_names: list[str] | None, rows: Rows) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the classes, and 0 or 1 for each, (rows, classes): from such rows, or from lists of classes."""
    cells = {row: np.asarray(cell).reshape(-1).tolist() for row, cell in found.items()}
    sizes = {len(cell) for cell in cells.values()}
    flat = {label for cell in cells.values() for label in cell}
    if class_names is None and len(sizes) == 1 and sizes != {1} and flat <= {0, 1}:
        return tuple(map(str, range(*sizes))), np.array(list(cells.values()), np.float32)
    odd = next((row for row, cell in cells.items() if any(isinstance(label, float) for label in cell)), None)
    if odd is not None:
        raise HfLongSeqError(f"{rows.where(odd)} has the labels {cells[odd]}: give names or numbers of classes.")
    known = class_names or sorted(flat)
    names = tuple(map(str, known))
    place = {label: index for index, label in enumerate(range(len(known)) if class_names else known)}
    place |= {name: index for index, name in enumerate(names)}
    targets = np.zeros((len(cells), len(names)), np.float32)
    for number, cell in enumerate(cells.values()):
        targets[number, [place[label] for label in cell]] = 1
    return names, targets


def _targets(
    rows: Rows, found: dict[int, Any], class_names: list[str] | None, problem: str | None
) -> tuple[str, tuple[str, ...], np.ndarray]:
    """Problem, names of the classes (none for numbers), and the class or number of every labelled row."""
    labelled, labels = list(found), np.asarray([np.asarray(cell).reshape(-1)[0] for cell in found.values()])
    fractions = labels.dtype.kind == "f" and bool(np.any(np.isfinite(labels) & (labels != np.floor(labels))))
    if problem is None and fractions:
        problem = "regression"
    if problem == "regression":
        with explained("The labels are no numbers", ValueError, remedy="leave out --problem_type"):
            numbers = labels.astype(np.float32)
        for i in np.flatnonzero(~np.isfinite(numbers))[:1]:
            raise HfLongSeqError(f"{rows.where(labelled[i])} has label {labels[i]}: give a finite number, or none.")
        return problem, (), numbers
    if fractions:
        odd = int(np.argmax(labels != np.floor(labels)))
        raise HfLongSeqError(
            f"{rows.where(labelled[odd])} has label {labels[odd]}, which is no class: leave problem_type out, or set "
            "problem_type='regression', to predict numbers."
        )
    labels = labels.astype(np.int64) if labels.dtype.kind == "f" else labels
    classes, targets = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise HfLongSeqError(
            f"Every row of {rows.name} has label {classes[0]!s}: a classification needs at least two classes."
        )
    problem = "single_label_classification"
    if class_names is not None and labels.dtype.kind in "iu" and 0 <= labels.min() <= labels.max() < len(class_names):
        return problem, tuple(class_names), labels.astype(np.int64)
    return problem, tuple(str(name) for name in classes), targets
