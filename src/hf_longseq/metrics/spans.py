# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Spans in a sequence of labels, by the definition of seqeval (Nakayama, 2018), and scores of spans and positions.

The class "O" is outside of every span. Where all other names begin with B-, I-, E- or S-, these prefixes say where a
span begins and ends; other names are kinds of spans themselves, and every run of one name is a span.

Axes: L positions, K classes, T kinds of spans, S spans.
"""

from dataclasses import dataclass

import numpy as np

OUTSIDE = "O"
PREFIXES = ("B-", "I-", "E-", "S-")
BEGIN, INSIDE, END, SINGLE = 1, 2, 3, 4


@dataclass(frozen=True)
class Tags:
    """What the names of the classes say about spans.

    Attributes:
        kinds: Names of the kinds of spans.
        kind_K: Index of each class among `kinds`; -1 outside.
        part_K: `BEGIN`, `INSIDE`, `END` or `SINGLE`; 0 outside.
    """

    kinds: tuple[str, ...]
    kind_K: np.ndarray
    part_K: np.ndarray

    @classmethod
    def of(cls, names: tuple[str, ...]) -> "Tags":
        """Read the names of the classes, in the order of their ids."""
        inside = [name for name in names if name != OUTSIDE]
        prefixed = bool(inside) and all(name.startswith(PREFIXES) and len(name) > 2 for name in inside)
        kind_of = {name: name[2:] if prefixed else name for name in inside}
        kinds = tuple(dict.fromkeys(kind_of.values()))
        part_of = {name: 1 + PREFIXES.index(name[:2]) if prefixed else INSIDE for name in inside}
        return cls(
            kinds,
            np.array([kinds.index(kind_of[name]) if name in kind_of else -1 for name in names], np.int64),
            np.array([part_of.get(name, 0) for name in names], np.int64),
        )


def spans_of(classes_L: np.ndarray, tags: Tags) -> np.ndarray:
    """Spans of a sequence of class ids (L,): first position, end (one after the last) and kind of each, (S, 3).

    Example:
        >>> spans_of(np.array([0, 1, 1, 0, 2]), Tags.of(("O", "gene", "repeat"))).tolist()
        [[1, 3, 0], [4, 5, 1]]
    """
    if not len(classes_L):
        return np.zeros((0, 3), np.int64)
    kind_L, part_L = tags.kind_K[classes_L], tags.part_K[classes_L]
    inside_L = kind_L >= 0
    kind_before_L, part_before_L = np.append(-1, kind_L[:-1]), np.append(0, part_L[:-1])
    begins_L = inside_L & (
        np.isin(part_L, (BEGIN, SINGLE)) | np.isin(part_before_L, (0, END, SINGLE)) | (kind_L != kind_before_L)
    )
    begin_S = np.flatnonzero(begins_L)
    stops = np.append(np.flatnonzero(begins_L | ~inside_L), len(classes_L))
    end_S = stops[np.searchsorted(stops, begin_S, side="right")]
    return np.stack([begin_S, end_S, kind_L[begin_S]], axis=1)


def count_spans(predicted_L: np.ndarray, true_L: np.ndarray, tags: Tags) -> np.ndarray:
    """Spans found exactly (both ends and the kind), spans predicted and true spans, for each kind: (T, 3)."""
    predicted_S3, true_S3 = spans_of(predicted_L, tags), spans_of(true_L, tags)
    true = set(map(tuple, true_S3.tolist()))
    right_S3 = np.array([span for span in predicted_S3.tolist() if tuple(span) in true], np.int64).reshape(-1, 3)
    counts = [np.bincount(spans[:, 2], minlength=len(tags.kinds)) for spans in (right_S3, predicted_S3, true_S3)]
    return np.stack(counts, axis=1)


def span_scores(counts_T3: np.ndarray) -> dict[str, float]:
    """F1, precision and recall over the spans of all kinds together, from what `count_spans` gave."""
    right, predicted, true = (float(number) for number in counts_T3.sum(0))
    return {
        "span_f1": 2 * right / (predicted + true) if predicted + true else 0.0,
        "span_precision": right / predicted if predicted else 0.0,
        "span_recall": right / true if true else 0.0,
    }


def position_scores(confusion_KK: np.ndarray, names: tuple[str, ...]) -> dict[str, float]:
    """Scores over positions, from how often each true class (row) was given each class (column).

    `token_accuracy` is the share of right positions, `token_f1` the mean F1 of the classes other than "O" that occur
    or are predicted, `mcc` the correlation coefficient of Matthews for several classes (Gorodkin, 2004).
    """
    confusion_KK = confusion_KK.astype(np.float64)
    right_K, true_K, predicted_K = confusion_KK.diagonal(), confusion_KK.sum(1), confusion_KK.sum(0)
    total = confusion_KK.sum()
    counted_K = (true_K + predicted_K > 0) & np.array([name != OUTSIDE for name in names])
    f1_K = 2 * right_K[counted_K] / (true_K + predicted_K)[counted_K]
    spread = (total**2 - predicted_K @ predicted_K) * (total**2 - true_K @ true_K)
    return {
        "token_accuracy": float(right_K.sum() / total) if total else 0.0,
        "token_f1": float(f1_K.mean()) if len(f1_K) else 0.0,
        "mcc": float((right_K.sum() * total - true_K @ predicted_K) / np.sqrt(spread)) if spread > 0 else 0.0,
    }


def label_scores(hits: np.ndarray, decided: np.ndarray) -> dict[str, float]:
    """F1 from the right decisions for each label, and the predicted and true ones together.

    A label that neither occurs nor is predicted has no F1 (0/0): it counts as 0, as in scikit-learn.
    """
    macro = np.divide(2 * hits, decided, out=np.zeros(len(hits)), where=decided > 0).mean()
    return {"f1": float(macro), "f1_micro": float(2 * hits.sum() / decided.sum()) if decided.sum() else 0.0}


def error_scores(count: float, squared: float, absolute: float, total: float, squares: float) -> dict[str, float]:
    """Scores of numbers from how many there are, and sums of squared and absolute errors, of targets and of squares.

    Constant targets have no variance to explain: by the usual convention R2 is 1 if all are hit exactly, else 0.
    """
    if not count:
        return {"rmse": 0.0, "mae": 0.0, "r2": 0.0}
    spread = squares - total**2 / count
    r2 = 1 - squared / spread if spread > 1e-12 * squares else squared == 0
    return {"rmse": float(np.sqrt(squared / count)), "mae": float(absolute / count), "r2": float(r2)}
