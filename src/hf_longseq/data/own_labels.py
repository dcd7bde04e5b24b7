# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Labels of own data: classes, numbers or several labels for every row; see `label_sequences.py` for positions."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from datasets import ClassLabel, List, Value

from hf_longseq.data.label_sequences import COLUMNS, LabelSequences, are_given, over_words, unknown_class
from hf_longseq.data.own_reader import Reader, is_absent, text_of, words_in
from hf_longseq.data.own_sources import Source
from hf_longseq.errors import HfLongSeqError, explained

SINGLE, MULTI, REGRESSION = PROBLEMS = ("single_label_classification", "multi_label_classification", "regression")
LABEL_NAMES = ("label", "labels", "y", "Y", "target", "class", *COLUMNS)


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
        if self.problem == MULTI:
            return List(Value("float32"))
        return ClassLabel(names=list(self.names)) if self.names else Value("float32")

    @property
    def metric(self) -> str:
        """The metric of the task."""
        named = {SINGLE: "token_f1" if self.sequences else "accuracy", MULTI: "f1", REGRESSION: "rmse"}
        return named.get(self.problem, "loss")


def read_labels(
    source: Source,
    column: str | None,
    inputs: list[str],
    reader: Reader,
    per_position: bool | None = None,
    problem: str | None = None,
    outside: str | None = None,
    empty: np.ndarray | None = None,
    names: list[str] | None = None,
) -> Labels:
    """Read a label column.

    Args:
        inputs: The columns of inputs, which `reader` reads.
        per_position, problem, outside: As `load` of own data takes them.
        empty: Rows of which no label is read; default: none.
        names: The classes of a model, which labels must be of; default: those of the labels.
    """
    if problem not in (None, *PROBLEMS):
        raise HfLongSeqError(f"problem_type is {problem!r}: use one of {', '.join(PROBLEMS)}.")
    none = np.zeros(len(source), np.float32)
    if column is None:
        return Labels(None, (), none.astype(bool), none)
    cells, class_names = source.labels(column), source.classes(column)
    missing = np.array([is_absent(cell) for cell in cells], bool)
    if empty is None:
        for row in np.flatnonzero(missing & np.isin(source.split_of, ("validation", "test"))):
            raise HfLongSeqError(
                f"{source.where(row)} is in {source.split_of[row]} and has no label: label it, remove it, or move it "
                "to train, where pretraining reads it."
            )
    else:
        missing |= empty
    labelled = np.flatnonzero(~missing).tolist()
    if not labelled:
        raise HfLongSeqError(
            f"No row of {source.name} has a label in column {column!r}: fill in some, or leave it out to pretrain."
        )
    found = {row: cells[row] for row in labelled}
    raw = source.column(inputs[0])
    if per_position is None:
        lengths = partial(_lengths, raw[labelled[0]], source.where(labelled[0]), reader)
        per_position = are_given(column, cells[labelled[0]], lengths)
    if per_position:
        if len(inputs) > 1:
            raise HfLongSeqError("Labels for every position are of one input: leave out --second_input_column.")
        texts = None
        if reader.modality == "text":
            texts = {row: raw[row] for row in labelled}
            if words_in(texts[labelled[0]]):
                found = over_words(texts, found, class_names, source.where)
            texts = {row: text_of(text) for row, text in texts.items()}
        sequences = LabelSequences.read(found, source.where, texts, problem, class_names, outside, names)
        return Labels(sequences.problem_type, sequences.names, missing, none, sequences)
    problem, known, targets = _of_rows(source, found, problem, class_names, names)
    every = np.zeros((len(source), *targets.shape[1:]), targets.dtype)
    every[labelled] = targets
    return Labels(problem, known, missing, every)


def _of_rows(
    source: Source, found: dict[int, Any], problem: str | None, class_names: list[str] | None, names: list[str] | None
) -> tuple[str, tuple[str, ...], np.ndarray]:
    """Problem, names of the classes (none for numbers), and targets of the labelled rows."""
    several = next((row for row, cell in found.items() if isinstance(cell, list) and len(cell) != 1), None)
    if several is not None and problem not in (None, MULTI):
        raise HfLongSeqError(
            f"{source.where(several)} has {len(found[several])} labels: give one class or one number per row, or "
            "leave problem_type out for several labels."
        )
    problem = MULTI if several is not None else problem
    found = {row: cell if isinstance(cell, list) else [cell] for row, cell in found.items()}
    for row, cell in found.items():
        if any(isinstance(label, dict | list) for label in cell):
            raise HfLongSeqError(f"{source.where(row)} has label {cell}: give a class, a number or a list of classes.")
    lists = {row: [_whole(label) for label in cell] for row, cell in found.items()}
    fraction = next((row for row, cell in lists.items() if any(isinstance(label, float) for label in cell)), None)
    problem = problem or (SINGLE if fraction is None else REGRESSION)
    if problem == REGRESSION:
        return problem, (), _numbers(source, lists)
    if fraction is not None and names:
        raise unknown_class(str(lists[fraction][0]), source.where(fraction), names)
    if fraction is not None:
        raise HfLongSeqError(
            f"{source.where(fraction)} has label {lists[fraction][0]}, which is not a class: leave problem_type out, "
            "or set problem_type='regression', to predict numbers."
        )
    return problem, *_classes(source, lists, problem, class_names, names)


def _whole(label: Any) -> Any:
    """Numbers of classes beside empty cells are read as decimal numbers."""
    return int(label) if isinstance(label, float) and label.is_integer() and abs(label) < 2**53 else label


def _lengths(raw: Any, where: str, reader: Reader) -> set[int]:
    """Positions of an input, as labels for them may be counted."""
    if words_in(raw):
        return {len(raw)}
    if reader.modality == "text":
        return {len(raw), len(raw.encode())} if isinstance(raw, str) else set()
    return {len(reader.read(raw, where, cut=False))}


def _numbers(source: Source, found: dict[int, list]) -> np.ndarray:
    """Numbers to predict, (rows,) float32."""
    numbers = np.zeros(len(found), np.float32)
    for index, (row, cell) in enumerate(found.items()):
        with explained(f"{source.where(row)} has label {cell[0]!r}", ValueError, TypeError, remedy="give a number"):
            numbers[index] = np.float32(cell[0])
        if not np.isfinite(numbers[index]):
            raise HfLongSeqError(f"{source.where(row)} has label {cell[0]}: give a finite number, or none.")
    return numbers


def _classes(
    source: Source, found: dict[int, list], problem: str, class_names: list[str] | None, names: list[str] | None
) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the classes, and the class of every row, (rows,), or 0 and 1 for each class, (rows, classes)."""
    flat, sizes = {label for cell in found.values() for label in cell}, {len(cell) for cell in found.values()}
    if not flat:
        raise HfLongSeqError(f"No row of {source.name} has a label in its list: fill in some.")
    if problem == MULTI and class_names is None and flat <= {0, 1} and len(sizes) == 1 and sizes != {1}:
        if names is None or len(names) == max(sizes):
            return tuple(names or map(str, range(max(sizes)))), np.array(list(found.values()), np.float32)
    if problem == SINGLE and names is None and len(flat) < 2:
        raise HfLongSeqError(
            f"Every row of {source.name} has label {min(flat)}: a classification needs at least two classes."
        )
    if problem == SINGLE and names is None and class_names is None and len(flat) == len(found) > 2:
        raise HfLongSeqError(
            f"Every row of {source.name} has a class of its own, such as {min(map(str, flat))}: give several rows the "
            "same class, or numbers to predict with problem_type='regression'."
        )
    names = names or class_names or [str(label) for label in sorted(flat, key=lambda one: (isinstance(one, str), one))]
    place = {name: index for index, name in enumerate(names)}
    ids = []
    for row, cell in found.items():
        called = [class_names[label] if class_names else str(label) for label in cell]
        for name in called:
            if name not in place:
                raise unknown_class(name, source.where(row), names)
        ids.append([place[name] for name in called])
    if problem == SINGLE:
        return tuple(names), np.array(ids, np.int64)[:, 0]
    targets = np.zeros((len(ids), len(names)), np.float32)
    for target, some in zip(targets, ids, strict=True):
        target[some] = 1
    return tuple(names), targets
