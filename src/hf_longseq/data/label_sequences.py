# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Labels for every position of your own data, in the forms in which people keep them (see `docs/spans.md`).

Lists may be JSON text, as in csv files. Positions of text are characters (or bytes, if there are as many labels as
bytes). A label None or NaN is not scored. Everything is kept as runs until it is laid out over the input.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hf_longseq.data.cache import sequence_feature
from hf_longseq.errors import HfLongSeqError, did_you_mean, explained

IGNORE = -100
OUTSIDE = "O"
COLUMNS = ("spans", "tags", "ner_tags", "label_sequence")
REST = -1  # in the place of a count: as far as the input goes
RUN = re.compile(r"(\S+)\*(\d+)")


def are_given(column: str, first: Any, lengths: Callable[[], set[int]]) -> bool:
    """Whether a label column holds a label per position, by its name or its first cell: spans, runs, or a list as long
    as the first input, whose positions `lengths` counts (of text, characters or bytes)."""
    if isinstance(first, str):
        return column in COLUMNS or first.lstrip().startswith("[") or all(map(RUN.fullmatch, first.split() or ["-"]))
    if not isinstance(first, list):
        return False
    is_spans = len(first) > 0 and isinstance(first[0], (dict, list))
    return column in COLUMNS or is_spans or (len(first) > 1 and len(first) in lengths())


@dataclass
class LabelSequences:
    """The labels of all rows as runs.

    Attributes:
        rows: For each labelled row the labels of its runs, class ids (runs,) or numbers (runs, targets), and their
            lengths.
        names: The classes; names of the targets' columns if there are several labels at once; none for a regression.
        problem_type: As in `TaskSpec`.
        begins: For a class that begins a span ("B-gene") the class that goes on with it ("I-gene").
    """

    rows: dict[int, tuple[np.ndarray, np.ndarray]]
    names: tuple[str, ...]
    problem_type: str
    begins: dict[int, int]

    @classmethod
    def read(
        cls,
        cells: dict[int, Any],
        where: Callable[[int], str],
        texts: dict[int, str] | None,
        problem_type: str | None,
        class_names: list[str] | None,
        outside_label: str | None,
        names: list[str] | None = None,
    ) -> "LabelSequences":
        """Read the cells of a label column, by labelled row; `where` gives what messages call a row.

        `texts` are the inputs of these rows, where they are text. `problem_type` None means classes, or several labels
        where a position has a row of numbers; `class_names` are those of integer classes, where the source states
        them. The `outside_label` is outside of every span, and is then called "O". Labels must be of the classes
        `names` of a model; default: those of the labels.
        """
        found = {row: _runs(cell, where(row), texts[row] if texts else None) for row, cell in cells.items()}
        several = any(np.ndim(label) for labels, _ in found.values() for label in labels)
        problem = problem_type or ("multi_label_classification" if several else "single_label_classification")
        if problem == "single_label_classification":
            every = {
                row: [_named(label, class_names, where(row)) for label in labels] for row, (labels, _) in found.items()
            }
            names = tuple(names or _class_names(every, class_names, outside_label))
            ids: dict[str | None, int] = {name: index for index, name in enumerate(names)} | {None: IGNORE}
            if outside_label is not None:
                ids[outside_label] = ids[OUTSIDE]
            begins = {ids[name]: ids[f"I-{name[2:]}"] for name in names if name[:2] == "B-" and f"I-{name[2:]}" in ids}
            for row, labels in every.items():
                for label in labels:
                    if label not in ids:
                        raise unknown_class(label, where(row), names)
            read = {row: [ids[label] for label in labels] for row, labels in every.items()}
        else:
            read = {row: _numbers(labels, where(row)) for row, (labels, _) in found.items()}
            width, begins = next(iter(read.values())).shape[1], {}
            for row, numbers in read.items():
                if numbers.shape[1] != width:
                    raise HfLongSeqError(
                        f"{where(row)} has {numbers.shape[1]} numbers per position, earlier rows {width}: make them "
                        "equal."
                    )
            names = tuple(map(str, range(width))) if problem == "multi_label_classification" else ()
        rows = {row: (np.array(labels), np.array(found[row][1])) for row, labels in read.items()}
        return cls(rows, names, problem, begins)

    @property
    def feature(self) -> Any:
        """Type of the column of labels laid out."""
        labels, _ = next(iter(self.rows.values()))
        dtype = "int16" if self.problem_type == "single_label_classification" else "float32"
        return sequence_feature(dtype, labels.shape[1] if labels.ndim == 2 else 1)

    def lay_out(self, row: int, length: int, where: str, text: str | None = None, cut: bool = False) -> np.ndarray:
        """Labels (L,), or (L, targets), of an input of `length` positions, as the model reads it.

        What it reads of a `text` are its bytes and a closing token, which has no label; `cut` inputs may have been
        longer.
        """
        labels, counts = self.rows[row]
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
            raise HfLongSeqError(f"{where} has {len(laid)} labels for {length} positions: give one for each.")
        laid = laid[:length]
        return laid[:, 0] if laid.ndim == 2 and laid.shape[1] == 1 else laid

    def _over_bytes(self, laid: np.ndarray, where: str, text: str) -> np.ndarray:
        """Labels of characters, each repeated for its bytes; of bytes as they are."""
        sizes = np.array([len(letter.encode()) for letter in text], np.int64)
        if len(laid) != len(text):
            if len(laid) == sizes.sum():
                return laid
            raise HfLongSeqError(f"{where} has {len(laid)} labels for {len(text)} characters: give one for each.")
        spread = np.repeat(laid, sizes, axis=0)
        later = np.ones(len(spread), bool)
        later[np.cumsum(sizes) - sizes] = False
        for begin, inside in self.begins.items():
            spread[later & (spread == begin)] = inside
        return spread


def over_words(
    words: dict[int, list[str]], tags: dict[int, Any], class_names: list[str] | None, where: Callable[[int], str]
) -> dict[int, list[str | None]]:
    """A label for every character of words that are joined by blanks, from a tag per word, by row.

    A blank within a span ("I-person" follows) belongs to it; any other is outside, or not scored where no class is.
    """
    named = {row: [_named(tag, class_names, where(row)) for tag in cell] for row, cell in tags.items()}
    known = set(class_names or ()) | {tag for cell in named.values() for tag in cell}
    spread: dict[int, list[str | None]] = {}
    for row, cell in named.items():
        if len(cell) != len(words[row]):
            raise HfLongSeqError(f"{where(row)} has {len(cell)} tags for {len(words[row])} words: give one for each.")
        spread[row] = []
        for number, (word, tag) in enumerate(zip(words[row], cell, strict=True)):
            inside = f"I-{tag[2:]}" if tag and tag[:2] == "B-" and f"I-{tag[2:]}" in known else tag
            if number:
                within = tag is not None and tag[:2] == "I-"
                spread[row].append(tag if within else OUTSIDE if OUTSIDE in known else None)
            spread[row] += [tag, *[inside] * (len(word) - 1)] if word else []
    return spread


def _runs(cell: Any, where: str, text: str | None) -> tuple[list, list[int]]:
    """Labels and lengths of the runs in a cell."""
    if isinstance(cell, str):
        cell = _parts(cell, where, text)
    elif not isinstance(cell, list):
        raise HfLongSeqError(f"{where} has the label {cell}: give one label for every position, runs, or spans.")
    if cell and all(isinstance(part, dict) for part in cell):
        return _from_spans(cell, where)
    if cell and all(isinstance(part, list) and len(part) == 2 and isinstance(part[0], str) for part in cell):
        return [label for label, _ in cell], [_positions(count, where) for _, count in cell]
    if not cell:  # no span at all
        return [OUTSIDE], [REST]
    return cell, [1] * len(cell)


def _parts(cell: str, where: str, text: str | None) -> list:
    """A cell that is text as the list it stands for."""
    if cell.lstrip().startswith("["):
        with explained(f"{where} has labels that are not JSON", json.JSONDecodeError, remedy="repair them"):
            return json.loads(cell)
    runs = [RUN.fullmatch(part) for part in cell.split()]
    if runs and all(runs):
        return [[run[1], int(run[2])] for run in runs]
    if text is not None and len(cell) == len(text):
        return list(cell)
    parts = cell.replace(",", " ").split()
    return parts if len(parts) > 1 else list(cell)


def _from_spans(spans: list[dict], where: str) -> tuple[list, list[int]]:
    """Runs from spans, with "O" between them."""
    labels, counts, place = [], [], 0
    for span in sorted(spans, key=lambda span: _positions(span.get("start", 0), where)):
        absent = next((name for name in ("start", "end", "label") if name not in span), None)
        if absent is not None:
            raise HfLongSeqError(f"{where} has a span without {absent!r}: give its start, end and label.")
        start, end, label = _positions(span["start"], where), _positions(span["end"], where), span["label"]
        if not place <= start < end:
            raise HfLongSeqError(
                f"{where} has the span {start} to {end} after {place}: spans hold a position and do not overlap."
            )
        labels += [OUTSIDE, None if label is None or label != label else str(label)]
        counts += [start - place, end - start]
        place = end
    return [*labels, OUTSIDE], [*counts, REST]


def _positions(value: Any, where: str) -> int:
    """A number of positions; a time in seconds is none."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (number >= 0 and number % 1 == 0):
        raise HfLongSeqError(f"{where} has {value!r} for a number of positions: give whole numbers, counted from 0.")
    return int(number)


def _numbers(labels: list, where: str) -> np.ndarray:
    """Numbers (runs, targets) float32; what is missing is not scored."""
    with explained(
        f"{where} has a label that is not a number", TypeError, ValueError, remedy="leave out problem_type"
    ):
        numbers = np.array([np.nan if label is None else label for label in labels], np.float32)
    numbers = numbers.reshape(len(labels), -1)
    # a true -100 would be taken for a label that is not scored
    numbers[numbers == IGNORE] = np.nextafter(np.float32(IGNORE), np.float32(0))
    return np.where(np.isnan(numbers), np.float32(IGNORE), numbers)


def _named(label: Any, class_names: list[str] | None, where: str) -> str | None:
    """Name of a class; None where nothing is scored."""
    if label is None or isinstance(label, str):
        return label
    with explained(f"{where} has labels that are not classes", TypeError, ValueError):
        number = float(label)
    if math.isnan(number) or number == IGNORE:
        return None
    if number % 1:
        raise HfLongSeqError(f"{where} has label {label}, which is not a class: set problem_type='regression'.")
    if class_names is not None and 0 <= number < len(class_names):
        return class_names[int(number)]
    return str(int(number))


def _class_names(
    found: dict[int, list[str | None]], class_names: list[str] | None, outside: str | None
) -> tuple[str, ...]:
    """All classes, "O" first, of the labels of every row."""
    names = set(class_names or ()).union(*found.values()) - {None}
    if outside is not None:
        if outside not in names:
            raise HfLongSeqError(
                f"outside_label is {outside!r}{did_you_mean(outside, names)}: classes are {', '.join(sorted(names))}."
            )
        names = (names - {outside}) | {OUTSIDE}
    if len(names) < 2:
        raise HfLongSeqError(
            f"Every position has label {''.join(names)}: a classification needs at least two classes."
        )
    if class_names is not None and outside is None:
        return tuple(class_names)
    numbers = all(name.lstrip("-").isdecimal() for name in names)
    return tuple(sorted(names, key=lambda name: (name != OUTSIDE, int(name) if numbers else 0, name)))


def unknown_class(name: str, where: str, names: Sequence[str]) -> HfLongSeqError:
    """The error of a label that is none of a model's classes."""
    listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    known = f"has class {name!r}{did_you_mean(name, names)}, and the model knows {listed}"
    return HfLongSeqError(f"{where} {known}: correct it, or empty the cell.")
