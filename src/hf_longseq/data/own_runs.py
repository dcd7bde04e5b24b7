# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Labels of positions in the forms in which people keep them (see `docs/spans.md`), as runs of equal labels.

Lists may be JSON text, as in csv files. Positions of text are characters (or bytes, if there are as many labels as
bytes). A label None or NaN is not scored.
"""

import contextlib
import json
import math
import re
from collections.abc import Container, Sequence
from typing import Any

import numpy as np
from datasets import Column

from hf_longseq.data.own_sources import Source
from hf_longseq.errors import HfLongSeqError, did_you_mean, explained

SINGLE, MULTI, REGRESSION = PROBLEMS = ("single_label_classification", "multi_label_classification", "regression")
IGNORE = -100
OUTSIDE = "O"
PREFIXES = ("B-", "I-", "E-", "S-")  # of tags, as in `metrics/spans.py`
REST = -1  # in the place of a count: as far as the input goes
UNKNOWN = -1  # in the place of the number of a named class
RUN = re.compile(r"(\S+)\*(\d+)")


def unknown_class(name: str, where: str, names: Sequence[str]) -> HfLongSeqError:
    """The error of a label that is none of a model's classes."""
    listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    known = f"has class {name!r}{did_you_mean(name, names)}, and the model knows {listed}"
    return HfLongSeqError(f"{where} {known}: correct it, or empty the cell.")


def of_positions(
    source: Source,
    found: dict[int, tuple[list, list[int]]],
    problem: str | None,
    class_names: list[str] | None,
    outside: str | None,
    names: list[str] | None,
) -> tuple[str, tuple[str, ...], dict[int, tuple[np.ndarray, np.ndarray]]]:
    """Problem, names of the classes or targets, and runs of the labelled rows, from labels and lengths of their runs.

    The class `outside` is outside of every span, and is then called "O".
    """
    several = any(np.ndim(label) for labels, _ in found.values() for label in labels)
    problem = problem or (MULTI if several else SINGLE)
    read: dict[int, Any] = {}
    if problem == SINGLE:
        every = {
            row: [_named(label, class_names, source.where(row)) for label in labels]
            for row, (labels, _) in found.items()
        }
        known = tuple(names or _class_names(every, class_names, outside))
        ids: dict[str | None, int] = {name: index for index, name in enumerate(known)} | {None: IGNORE}
        if outside is not None:
            ids[outside] = ids[OUTSIDE]
        for row, labels in every.items():
            for label in labels:
                if label not in ids:
                    raise unknown_class(str(label), source.where(row), known)
            read[row] = [ids[label] for label in labels]
    else:
        first = next((label for labels, _ in found.values() for label in labels if label is not None), 0.0)
        absent, width = np.full(np.shape(first), np.nan).tolist(), np.size(first)
        for row, (labels, _) in found.items():
            read[row] = _numbers_of_positions(labels, absent, source.where(row))
            if read[row].shape[1] != width:
                raise HfLongSeqError(
                    f"{source.where(row)} has {read[row].shape[1]} numbers per position, earlier rows {width}: make "
                    "them equal."
                )
        known = tuple(map(str, range(width))) if problem == MULTI else ()
    return problem, known, {row: (np.array(labels), np.array(found[row][1])) for row, labels in read.items()}


def over_words(
    source: Source,
    words: Column,
    tags: dict[int, Any],
    class_names: list[str] | None,
    outside: str | None,
    names: list[str] | None,
) -> dict[int, list[str | None]]:
    """A label for every character of words that are joined by blanks, from a tag per word, by row.

    A blank within a span ("I-person" or "E-person" follows) belongs to it; any other is outside, or not scored where
    no class is.
    """
    named = {row: [_named(tag, class_names, source.where(row)) for tag in cell] for row, cell in tags.items()}
    tagged = {tag for cell in named.values() for tag in cell if tag is not None}
    known = set(names or tagged.union(class_names or ()))
    blank = next((name for name in (outside, OUTSIDE) if name in known), None)
    kinds = known - {outside, OUTSIDE}
    if not names and all(name.startswith(PREFIXES) for name in kinds):  # the classes of a model are settled
        known |= {prefix + name[2:] for name in kinds for prefix in ("B-", "I-")}
    spread: dict[int, list[str | None]] = {}
    for row, cell in named.items():
        joined = words[row]
        if len(cell) != len(joined):
            raise HfLongSeqError(
                f"{source.where(row)} has {len(cell)} tags for {len(joined)} words: give one for each."
            )
        spread[row], before = [], None
        for number, (word, tag) in enumerate(zip(joined, cell, strict=True)):
            if number:
                inside = f"I-{tag[2:]}" if tag and tag[:2] in ("I-", "E-") else ""
                goes_on = inside in known and before in (inside, f"B-{inside[2:]}")
                spread[row].append(inside if goes_on else blank)
            spread[row] += over_parts(tag, len(word), known)
            before = tag
    return spread


def over_parts(tag: str | None, count: int, known: Container[str]) -> list[str | None]:
    """A tag for each of the parts of what has one tag: the first alone begins a span, the last alone ends it.

    Spans of one ("S-person") have a beginning, too. Where no class of `known` goes on with a span, all have the tag.
    """
    if tag is None or tag[:2] not in ("B-", "E-", "S-"):
        return [tag] * count
    begin, inside = f"B-{tag[2:]}", f"I-{tag[2:]}"
    if inside not in known or (tag[:2] == "S-" and begin not in known):
        return [tag] * count
    others: list[str | None] = [inside] * (count - 1)
    return ([*others, tag] if tag[:2] == "E-" else [begin, *others])[:count]


def runs_in(cell: Any, where: str, text: str | None) -> tuple[list, list[int]]:
    """Labels and lengths of the runs in a cell."""
    cell = unpacked(cell, where)
    if isinstance(cell, str):
        cell = _parts(cell, text)
    elif not isinstance(cell, list):
        raise HfLongSeqError(f"{where} has the label {cell}: give one label for every position, runs, or spans.")
    if all(isinstance(part, dict) for part in cell):  # an empty list has no span at all
        return _from_spans(cell, where)
    if all(isinstance(part, list) and len(part) == 2 and isinstance(part[0], str) for part in cell):
        return [label for label, _ in cell], [_positions(count, where) for _, count in cell]
    return cell, [1] * len(cell)


def unpacked(cell: Any, where: str) -> Any:
    """A list that is JSON text as a list; any other cell as it is."""
    if not isinstance(cell, str) or not cell.lstrip().startswith("["):
        return cell
    with explained(f"{where} has labels that are not JSON", json.JSONDecodeError, remedy="repair them"):
        return json.loads(cell)


def _parts(cell: str, text: str | None) -> list:
    """A cell that is text as the list it stands for."""
    runs = [RUN.fullmatch(part) for part in cell.split()]
    if runs and all(runs):
        return [[run[1], int(run[2])] for run in runs if run]
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
    with contextlib.suppress(TypeError, ValueError):
        if float(value) >= 0 and float(value) % 1 == 0:
            return int(float(value))
    raise HfLongSeqError(f"{where} has {value!r} for a number of positions: give whole numbers, counted from 0.")


def _numbers_of_positions(labels: list, absent: Any, where: str) -> np.ndarray:
    """Numbers (runs, targets) float32; what is missing is not scored, and a missing label has the numbers `absent`."""
    with explained(
        f"{where} has a label that is not a number", TypeError, ValueError, remedy="leave out problem_type"
    ):
        numbers = np.array([absent if label is None else label for label in labels], np.float32)
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
    if math.isnan(number) or number == IGNORE or (class_names and number == UNKNOWN):
        return None
    if number % 1:
        raise HfLongSeqError(f"{where} has label {label}, which is not a class: set problem_type='regression'.")
    if class_names is not None and 0 <= number < len(class_names):
        return class_names[int(number)]
    return str(int(number))


def _class_names(found: dict[int, list], class_names: list[str] | None, outside: str | None) -> tuple[str, ...]:
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
        spread = {name for name in names - {*class_names} if name[:2] in ("B-", "I-")}  # of words over their letters
        return (*class_names, *sorted(spread))
    numbers = all(name.lstrip("-").isdecimal() for name in names)
    return tuple(sorted(names, key=lambda name: (name != OUTSIDE, int(name) if numbers else 0, name)))
