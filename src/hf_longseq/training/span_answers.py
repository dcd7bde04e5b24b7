# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Predictions of a token classifier as spans, or as a number for every position.

Axes: B batch, L length, K labels.
"""

from typing import Any

import numpy as np
import torch

from hf_longseq.data import byte_text
from hf_longseq.data.collators import IGNORE
from hf_longseq.metrics.spans import Tags, spans_of
from hf_longseq.training.eval_metrics import decide, probabilities


def span_answers(
    logits_BLK: torch.Tensor,
    labels: torch.Tensor | None,
    batch: dict[str, torch.Tensor],
    config,
    start: int,
    reads_bytes: bool = False,
) -> list[dict[str, Any]]:
    """One mapping per example: `index`, `spans` (or `prediction`, numbers) and, where the truth is known, `label`.

    A span has `start`, `end` (one after the last), `label`, and `score`, the mean probability of its positions. Ends
    are positions of the input; of texts (`reads_bytes`) they are characters, and `text` is what the span holds.

    Labels are (B, L) or (B, L, K), -100 where none is known; `start` is the index of the first example.
    """
    names = [config.id2label[index] for index in range(config.num_labels)]
    problem = config.problem_type or ("regression" if config.num_labels == 1 else "single_label_classification")
    answers = []
    for row, valid_L in enumerate(batch["attention_mask"].cpu().bool().numpy()):
        logits_LK, ids_L = logits_BLK[row].numpy()[valid_L], None
        true = None if labels is None else labels[row].numpy()[valid_L]
        if reads_bytes:
            ids_L = batch["input_ids"][row].cpu().numpy()[valid_L]
            kept_L = ids_L >= byte_text.BYTE_ID  # a closing token is no part of the text
            logits_LK, ids_L, true = logits_LK[kept_L], ids_L[kept_L], None if true is None else true[kept_L]
        answer: dict[str, Any] = {"index": start + row}
        if problem == "regression":
            numbers_LK = np.round(logits_LK.astype(np.float64), 6)
            answer["prediction"] = (numbers_LK[:, 0] if numbers_LK.shape[1] == 1 else numbers_LK).tolist()
            if true is not None:
                answer["label"] = [None if number == IGNORE else number for number in np.ravel(true).tolist()]
        else:
            scores_LK = probabilities(torch.from_numpy(logits_LK), problem).numpy()
            answer["spans"] = _spans(decide(logits_LK, problem), names, problem, ids_L, scores_LK)
            if true is not None:
                answer["label"] = _spans(true, names, problem, ids_L)
        answers.append(answer)
    return answers


def _spans(
    classes: np.ndarray, names: list[str], problem: str, ids_L: np.ndarray | None, scores_LK: np.ndarray | None = None
) -> list[dict[str, Any]]:
    """Spans of classes (L,), or of every label on its own, in the order of their beginnings."""
    if problem == "single_label_classification":
        return _runs(np.where(classes == IGNORE, -1, classes), names, ids_L, scores_LK)
    found = []
    for index, name in enumerate(names):
        on_L = (classes[:, index] > 0).astype(np.int64)
        scores = None if scores_LK is None else np.stack([1 - scores_LK[:, index], scores_LK[:, index]], axis=1)
        found += _runs(on_L, ["O", name], ids_L, scores)
    return sorted(found, key=lambda span: (span["start"], span["end"]))


def _runs(classes_L: np.ndarray, names: list[str], ids_L, scores_LK) -> list[dict[str, Any]]:
    # a position without a known class, -1, is outside of every span
    tags = Tags.of((*names, "O") if "O" not in names else tuple(names))
    classes_L = np.where(classes_L < 0, list(tags.kind_K).index(-1), classes_L)
    if ids_L is not None:
        text = byte_text.decode(ids_L)
        # the character that each byte belongs to; bytes 10xxxxxx go on with one
        letter_L = np.cumsum((ids_L - byte_text.BYTE_ID) & 0xC0 != 0x80) - 1
    spans = []
    for first, end, kind in spans_of(classes_L, tags).tolist():
        span: dict[str, Any] = {"start": first, "end": end, "label": tags.kinds[kind]}
        if scores_LK is not None:
            given = scores_LK[np.arange(first, end), classes_L[first:end]]
            span["score"] = round(float(given.mean()), 4)
        if ids_L is not None:
            first, end = int(letter_L[first]), int(letter_L[end - 1]) + 1
            span |= {"start": first, "end": end, "text": text[first:end]}
        spans.append(span)
    return spans
