# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Labels of own data: classes, numbers or several labels for every row, or for every position of it.

Labels of positions are kept as runs (`own_runs.py`) until they are laid out over the input. A label None or NaN is not
scored. Lists may be JSON text, as in csv files.
"""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
from datasets import ClassLabel, Column, List, Value

from hf_longseq.data.cache import sequence_feature
from hf_longseq.data.own_reader import Reader, is_absent, text_of, words_in
from hf_longseq.data.own_runs import (
    IGNORE,
    MULTI,
    PROBLEMS,
    REGRESSION,
    REST,
    RUN,
    SINGLE,
    UNKNOWN,
    of_positions,
    over_parts,
    over_words,
    runs_in,
    unknown_class,
    unpacked,
)
from hf_longseq.data.own_sources import Source
from hf_longseq.errors import HfLongSeqError, explained

# Columns that hold a label for every position.
COLUMNS = ("spans", "tags", "ner_tags", "label_sequence")
LABEL_NAMES = ("label", "labels", "y", "Y", "target", "class", *COLUMNS)
ONE_EACH = f"give one for each, or set problem_type={MULTI!r} if they are those of the row"


@dataclass
class Labels:
    """The labels of all rows of a source.

    Attributes:
        problem: As `TaskSpec.problem_type`; None where the data have no label column.
        names: The classes; none for numbers.
        missing: Which rows have no label, (rows,).
        targets: Class or number of every row, (rows,), or 0 and 1 for every class, (rows, classes); 0 where missing.
        runs: In place of targets, where every position has a label: for each labelled row the labels of its runs,
            class ids (runs,) or numbers (runs, targets), and their lengths.
        texts: The inputs, where their positions are those of text.
    """

    source: Source
    problem: str | None
    names: tuple[str, ...]
    missing: np.ndarray
    targets: np.ndarray
    runs: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    texts: Column | None = None

    @property
    def per_position(self) -> bool:
        """Whether every position has a label."""
        return bool(self.runs)

    @property
    def feature(self) -> Any:
        """Type of the column `labels`."""
        if self.per_position:
            labels, _ = next(iter(self.runs.values()))
            dtype = "int16" if self.problem == SINGLE else "float32"
            return sequence_feature(dtype, labels.shape[1] if labels.ndim == 2 else 1)
        if self.problem == MULTI:
            return List(Value("float32"))
        return ClassLabel(names=list(self.names)) if self.names else Value("float32")

    @property
    def metric(self) -> str:
        """The metric of the task."""
        single = "token_f1" if self.per_position else "accuracy"
        return {SINGLE: single, MULTI: "f1", REGRESSION: "rmse", None: "loss"}[self.problem]

    def lay_out(self, row: int, length: int, cut: bool) -> np.ndarray:
        """Labels (L,), or (L, targets), of an input of `length` positions, as the model reads it.

        Of a text it reads the bytes and a closing token without a label; `cut` inputs may have been longer.
        """
        where, text = self.source.where(row), None if self.texts is None else text_of(self.texts[row])
        labels, counts = self.runs[row]
        counts = counts.copy()
        if counts[-1] == REST:
            size, end = length if text is None else len(text), counts[:-1].sum()
            if end > size and (text is not None or not cut):
                kind = "positions" if text is None else "characters"
                raise HfLongSeqError(
                    f"{where} has the span {end - counts[-2]} to {end}, outside the {size} {kind}: spans count "
                    "from 0, and the end is the first position behind."
                )
            counts[-1] = max(size - end, 0)
        laid = np.repeat(labels, counts, axis=0)
        if text is not None:
            laid = self._over_bytes(laid, where, text)[: length - 1]
            closing = np.full((length - len(laid), *laid.shape[1:]), IGNORE, laid.dtype)
            laid = np.concatenate([laid, closing])
        elif len(laid) != length and not (cut and len(laid) > length):
            raise HfLongSeqError(f"{where} has {len(laid)} labels for {length} positions: {ONE_EACH}.")
        laid = laid[:length]
        return laid[:, 0] if laid.ndim == 2 and laid.shape[1] == 1 else laid

    def _over_bytes(self, laid: np.ndarray, where: str, text: str) -> np.ndarray:
        """Labels of characters, each repeated for its bytes; of bytes as they are."""
        sizes = np.array([len(letter.encode()) for letter in text], np.int64)
        if len(laid) == sizes.sum() != len(text):
            return laid
        if len(laid) != len(text):
            raise HfLongSeqError(f"{where} has {len(laid)} labels for {len(text)} characters: {ONE_EACH}.")
        spread = np.repeat(laid, sizes, axis=0)
        starts, tags = np.cumsum(sizes) - sizes, self.names if self.problem == SINGLE else ()
        for size in np.unique(sizes[sizes > 1]).tolist():
            for index, name in enumerate(tags):
                of_bytes = [self.names.index(part) for part in over_parts(name, size, self.names)]
                spread[starts[(laid == index) & (sizes == size)][:, None] + np.arange(size)] = of_bytes
        return spread


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
        inputs: The columns of inputs, for `reader`.
        per_position, problem, outside: As `load` of own data takes them.
        empty: Rows of which no label is read; default: none.
        names: The only classes that labels may have, those of a model; default: those of the labels.
    """
    if problem not in (None, *PROBLEMS):
        raise HfLongSeqError(f"problem_type is {problem!r}: use one of {', '.join(PROBLEMS)}.")
    none = np.zeros(len(source), np.float32)
    if column is None:
        return Labels(source, None, (), none.astype(bool), none)
    cells, class_names = source.labels(column), source.classes(column)
    if class_names:  # a list of the number -1 alone is as unknown as that number
        cells = [None if isinstance(cell, list) and cell and {*cell} == {UNKNOWN} else cell for cell in cells]
    missing = np.array([is_absent(cell) for cell in cells], bool)
    if empty is None:
        for row in np.flatnonzero(missing & np.isin(source.split_of, ("validation", "test"))).tolist():
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
    raw, first = source.column(inputs[0]), labelled[0]
    if per_position is None:
        cell = unpacked(cells[first], source.where(first)) if problem == MULTI else cells[first]
        per_position = _are_of_positions(column, cell, raw[first], source.where(first), reader)
    if not per_position:
        problem, known, targets = _of_rows(source, found, problem, class_names, names)
        every = np.zeros((len(source), *targets.shape[1:]), targets.dtype)
        every[labelled] = targets
        return Labels(source, problem, known, missing, every)
    if len(inputs) > 1:
        raise HfLongSeqError("Labels for every position are of one input: leave out --second_input_column.")
    texts = raw if reader.modality == "text" else None
    if texts is not None and words_in(texts[first]):
        found = over_words(source, texts, found, class_names, outside, names)
    split = {row: runs_in(cell, source.where(row), texts and text_of(texts[row])) for row, cell in found.items()}
    problem, known, runs = of_positions(source, split, problem, class_names, outside, names)
    return Labels(source, problem, known, missing, none, runs, texts)


def _are_of_positions(column: str, cell: Any, raw: Any, where: str, reader: Reader) -> bool:
    """Whether a column holds labels of positions, by its name or its first cell: spans, runs, or a list as long as the
    first input `raw`, in characters or bytes where that is text."""
    if isinstance(cell, str):
        return column in COLUMNS or cell.lstrip().startswith("[") or all(map(RUN.fullmatch, cell.split() or ["-"]))
    if not isinstance(cell, list):
        return False
    listed = column in COLUMNS or (len(cell) > 0 and isinstance(cell[0], dict | list))
    if listed or len(cell) < 2:
        return listed
    if words_in(raw):
        return len(cell) == len(raw)
    if reader.modality == "text":
        return isinstance(raw, str) and len(cell) in (len(raw), len(raw.encode()))
    return len(cell) == len(reader.read(raw, where, cut=False))


def _of_rows(
    source: Source, found: dict[int, Any], problem: str | None, class_names: list[str] | None, names: list[str] | None
) -> tuple[str, tuple[str, ...], np.ndarray]:
    """Problem, names of the classes (none for numbers), and targets of the labelled rows."""
    if problem == MULTI:  # a csv file holds lists as text
        found = {row: unpacked(cell, source.where(row)) for row, cell in found.items()}
    lists = {row: cell if isinstance(cell, list) else [cell] for row, cell in found.items()}
    several = next((row for row, cell in lists.items() if len(cell) != 1), None)
    if several is not None and problem not in (None, MULTI):
        raise HfLongSeqError(
            f"{source.where(several)} has {len(lists[several])} labels: give one class or one number per row, or "
            "leave problem_type out for several labels."
        )
    problem = MULTI if several is not None else problem
    for row, cell in lists.items():
        if any(isinstance(label, dict | list) for label in cell):
            raise HfLongSeqError(f"{source.where(row)} has label {cell}: give a class, a number or a list of classes.")
        lists[row] = [_whole(label) for label in cell]
    fraction = next((row for row, cell in lists.items() if any(isinstance(label, float) for label in cell)), None)
    problem = problem or (SINGLE if fraction is None else REGRESSION)
    if problem == REGRESSION:
        return problem, (), _numbers_of_rows(source, lists)
    if fraction is not None and names:
        raise unknown_class(str(lists[fraction][0]), source.where(fraction), names)
    if fraction is not None:
        raise HfLongSeqError(
            f"{source.where(fraction)} has label {lists[fraction][0]}, which is not a class: leave problem_type out, "
            "or set problem_type='regression', to predict numbers."
        )
    return problem, *_classes_of_rows(source, lists, problem, class_names, names)


def _whole(label: Any) -> Any:
    """Numbers of classes beside empty cells are read as decimal numbers, and those of databases as exact decimals."""
    label = float(label) if isinstance(label, Decimal) else label
    return int(label) if isinstance(label, float) and label.is_integer() and abs(label) < 2**53 else label


def _numbers_of_rows(source: Source, found: dict[int, list]) -> np.ndarray:
    """Numbers to predict, (rows,) float32."""
    numbers = np.zeros(len(found), np.float32)
    for index, (row, cell) in enumerate(found.items()):
        with explained(f"{source.where(row)} has label {cell[0]!r}", ValueError, TypeError, remedy="give a number"):
            numbers[index] = np.float32(cell[0])
        if not np.isfinite(numbers[index]):
            raise HfLongSeqError(f"{source.where(row)} has label {cell[0]}: give a finite number, or none.")
    return numbers


def _classes_of_rows(
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
        if class_names and any(label not in range(len(class_names)) for label in cell):
            raise HfLongSeqError(
                f"{source.where(row)} has labels {cell}, and named classes are numbered from 0 to "
                f"{len(class_names) - 1}: correct them, or empty the cell."
            )
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
