# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Metrics of labels at every position of a split, from counts per example: long sequences need no logits kept.

Axes: B batch, L length, K labels, T kinds of spans.
"""

import numpy as np
import torch
from torch.nn import functional as F

from hf_longseq.metrics.spans import Tags, count_spans, error_scores, label_scores, position_scores, span_scores
from hf_longseq.models.longseq_losses import IGNORE_INDEX
from hf_longseq.training.eval_metrics import SplitMetrics, first_output


class TokenMetrics(SplitMetrics):
    """Loss, scores of positions and, for classes (`names`), scores of spans; positions labelled -100 are left out.

    `label_scale` is as for `ClassificationMetrics`.
    """

    FITTING = {
        "single_label_classification": ("token_f1", "token_accuracy", "mcc", "span_f1"),
        "multi_label_classification": ("f1",),
        "regression": ("rmse", "mae", "r2"),
    }

    def __init__(self, problem_type: str, names: tuple[str, ...] = (), label_scale: list[float] | None = None):
        super().__init__()
        self.problem_type = problem_type
        self.names = names
        self.tags = Tags.of(names)
        self._label_scale = label_scale or [1.0]

    def reduce(self, logits, labels: torch.Tensor) -> torch.Tensor:
        """Counts (B, number of counts) in float64; the first two are entries scored and the sum of their losses."""
        logits_BLK = first_output(logits).float()
        if self.problem_type == "single_label_classification":
            return self._count_classes(logits_BLK, labels)
        labels_BLK = labels.reshape(logits_BLK.shape).float()
        scored_BLK = labels_BLK != IGNORE_INDEX
        if self.problem_type == "regression":
            return self._count_errors(logits_BLK, labels_BLK, scored_BLK)
        losses = F.binary_cross_entropy_with_logits(logits_BLK, labels_BLK, reduction="none")
        given, true = (logits_BLK > 0) & scored_BLK, (labels_BLK > 0) & scored_BLK
        counts = torch.cat([_sum(kind, (1,)) for kind in (given & true, given, true)], dim=1)
        return torch.cat([_sum(scored_BLK), _sum(losses.masked_fill(~scored_BLK, 0)), counts], dim=1)

    def _count_classes(self, logits_BLK: torch.Tensor, labels_BL: torch.Tensor) -> torch.Tensor:
        """Then the confusion of classes (K x K, true classes in rows) and three counts of each kind of span."""
        size = len(self.names)
        losses_BL = F.cross_entropy(logits_BLK.transpose(1, 2), labels_BL, ignore_index=IGNORE_INDEX, reduction="none")
        scored_BL, given_BL = labels_BL != IGNORE_INDEX, logits_BLK.argmax(-1)
        cell_BL = labels_BL.clamp(min=0) * size + given_BL
        confusion = torch.zeros(len(labels_BL), size**2, dtype=torch.float64, device=labels_BL.device)
        confusion.scatter_add_(1, cell_BL, scored_BL.double())
        rows = zip(given_BL.cpu().numpy(), labels_BL.cpu().numpy(), scored_BL.cpu().numpy(), strict=True)
        spans = np.stack([count_spans(given[kept], true[kept], self.tags).reshape(-1) for given, true, kept in rows])
        spans = torch.from_numpy(spans).to(confusion)
        return torch.cat([_sum(scored_BL), _sum(losses_BL), confusion, spans], dim=1)

    def _count_errors(self, outputs_BLK: torch.Tensor, labels_BLK: torch.Tensor, scored_BLK) -> torch.Tensor:
        """Then sums of squared and absolute errors, of the targets and of their squares."""
        outputs_BLK, labels_BLK = outputs_BLK.double(), labels_BLK.double().masked_fill(~scored_BLK, 0)
        error_BLK = (outputs_BLK - labels_BLK).masked_fill(~scored_BLK, 0)
        scaled_BLK = error_BLK / error_BLK.new_tensor(self._label_scale)
        entries = (scored_BLK, scaled_BLK**2, error_BLK**2, error_BLK.abs(), labels_BLK, labels_BLK**2)
        return torch.cat([_sum(entry) for entry in entries], dim=1)

    def scores(self, rows: np.ndarray) -> dict[str, float]:
        scored, loss, *counts = rows.sum(0)
        result = {"exact_loss": float(loss / max(scored, 1)), "scored_positions": int(scored)}
        return result | self._scores(scored, np.array(counts))

    def _scores(self, scored: float, counts: np.ndarray) -> dict[str, float]:
        size = len(self.names)
        if self.problem_type == "single_label_classification":
            confusion, spans = counts[: size**2].reshape(size, size), counts[size**2 :].reshape(-1, 3)
            return position_scores(confusion, self.names) | span_scores(spans)
        if self.problem_type == "multi_label_classification":
            hits, given, true = counts.reshape(3, -1)
            return label_scores(hits, given + true)
        return error_scores(scored, *counts)


def _sum(entries: torch.Tensor, dims: tuple[int, ...] | None = None) -> torch.Tensor:
    """Sums per example in float64: over everything (B, 1), or over `dims`."""
    if dims is None:
        return entries.flatten(1).sum(1, keepdim=True, dtype=torch.float64)
    return entries.sum(dims, dtype=torch.float64)
