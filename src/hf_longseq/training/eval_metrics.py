# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Loss and metrics of a whole split, from what is gathered of each batch: counts for denoising, logits for classes.

Labels of every position are scored by counts per example: long sequences need no logits kept.

Axes: B batch, L length, C channels, V vocabulary, Q levels, K labels, T kinds of spans.
"""

import numpy as np
import torch
from torch.nn import functional as F
from transformers.trainer_utils import EvalPrediction

from hf_longseq.metrics import load_metric
from hf_longseq.metrics.spans import Tags, count_spans, error_scores, label_scores, position_scores, span_scores
from hf_longseq.models.longseq_losses import (
    IGNORE_INDEX,
    classification_loss,
    cross_entropy_loss,
    next_token_loss,
)


class SplitMetrics:
    """Loss and metrics of a whole split, from a row of numbers per example.

    Use with `batch_eval_metrics=True`: `reduce` makes these rows of logits and labels before anything is gathered, and
    calling the object adds a batch or, with `compute_result`, gives the result. The `loss` in it, a sum over the split
    divided once, takes the place of the Trainer's mean of batch means, unless the user has another (`gives_loss`).
    """

    gives_loss = True

    def __init__(self):
        self._batches: list[np.ndarray] = []

    def forget(self) -> None:
        """Drop the batches of an evaluation that was interrupted."""
        self._batches = []

    def loss(self, config, outputs, labels: torch.Tensor, num_items_in_batch=None) -> torch.Tensor:
        """The loss of a classifier of transformers, from its logits."""
        return classification_loss(outputs.logits, labels, config, num_items_in_batch)

    def reduce(self, logits, labels: torch.Tensor) -> torch.Tensor:
        """A row of numbers per example of a batch."""
        raise NotImplementedError

    def scores(self, rows: np.ndarray) -> dict[str, float]:
        """Loss and metrics from the rows of a split."""
        raise NotImplementedError

    def __call__(self, prediction: EvalPrediction, compute_result: bool = True) -> dict[str, float]:
        rows = prediction.predictions
        self._batches.append(rows.cpu().numpy() if torch.is_tensor(rows) else np.asarray(rows))
        if not compute_result:
            return {}
        rows, self._batches = np.concatenate(self._batches), []
        found = self.scores(rows)
        return found if self.gives_loss else {name: value for name, value in found.items() if name != "loss"}

    def of_logits(self, prediction: EvalPrediction, compute_result: bool = True) -> dict[str, float]:
        """As calling the object, with logits and labels that are still to be reduced."""
        rows = self.reduce(torch.as_tensor(prediction.predictions), torch.as_tensor(prediction.label_ids))
        return self(EvalPrediction(rows.cpu().numpy(), prediction.label_ids), compute_result)


class DenoisingMetrics(SplitMetrics):
    """Loss and accuracy (or mean absolute error) over the scored positions of a split, from counts per example.

    Args:
        causal: The output at t is compared with the label at t + 1.
        documents: Rows per example: 2 where a pair of documents became two rows of the batch.
    """

    def __init__(self, causal: bool = False, documents: int = 1):
        super().__init__()
        self.causal = causal
        self.documents = documents
        self._continuous = False

    def loss(self, config, outputs, labels: torch.Tensor, num_items_in_batch=None) -> torch.Tensor:
        """The loss of a language model of transformers, from its logits."""
        score = next_token_loss if self.causal else cross_entropy_loss
        return score(outputs.logits, labels, num_items_in_batch)

    def reduce(self, logits, labels: torch.Tensor) -> torch.Tensor:
        """Counts (B, 3) in float64: entries scored, those restored exactly, and the sum of their losses."""
        logits = first_output(logits)
        self._continuous = labels.is_floating_point()
        labels = labels.reshape(logits.shape if self._continuous else logits.shape[:-1])
        if self.causal:
            logits, labels = logits[:, :-1], labels[:, 1:]
        scored = labels != IGNORE_INDEX
        if self._continuous:
            right = torch.zeros_like(scored)
            loss = (logits.float() - labels).abs()
        else:
            right = logits.argmax(-1) == labels
            # One example at a time: the float32 copy of the logits is the largest tensor of an evaluation.
            every = [
                F.cross_entropy(
                    one.float().flatten(0, -2), target.flatten(), ignore_index=IGNORE_INDEX, reduction="none"
                )
                for one, target in zip(logits, labels, strict=True)
            ]
            loss = torch.stack(every).view(labels.shape)
        entries = [scored, right & scored, loss.masked_fill(~scored, 0)]
        counts = torch.stack([entry.flatten(1).sum(1, dtype=torch.float64) for entry in entries], dim=1)
        # Both documents of a pair are one example: what is gathered must have one row per example.
        return counts.unflatten(0, (self.documents, -1)).sum(0)

    def scores(self, rows: np.ndarray) -> dict[str, float]:
        scored, restored, loss = (float(column.sum()) for column in rows.T)
        name, total = ("masked_mae", loss) if self._continuous else ("masked_accuracy", restored)
        count = max(scored, 1)
        return {name: total / count, "loss": loss / count, "scored_positions": int(scored)}


def first_output(logits) -> torch.Tensor:
    """The logits of what a model gave besides."""
    return logits[0] if isinstance(logits, (tuple, list)) else logits


class ClassificationMetrics(SplitMetrics):
    """Loss and the metrics that fit the problem over a whole split, from its K logits and the labels per example.

    `label_scale` is the deviation of each target that a regression was standardised by: the loss is that of training,
    the metrics are in the targets' units.
    """

    FITTING = {
        "single_label_classification": ("accuracy",),
        "multi_label_classification": ("f1",),
        "regression": ("rmse", "mae", "r2"),
    }

    def __init__(self, problem_type: str, names: tuple[str, ...] = (), label_scale: list[float] | None = None):
        super().__init__()
        self.problem_type = problem_type
        self.names = names
        self._label_scale = torch.tensor(label_scale or [1.0], dtype=torch.float64)

    def reduce(self, logits, labels: torch.Tensor) -> torch.Tensor:
        """Logits (float32, kept in float64) beside the labels: (B, K + 1), or (B, 2 K) where each output has one."""
        return torch.cat([first_output(logits).float().double(), labels.reshape(len(labels), -1).double()], dim=1)

    def scores(self, rows: np.ndarray) -> dict[str, float]:
        classes = self.problem_type == "single_label_classification"
        logits, labels = np.split(rows, [-1 if classes else rows.shape[1] // 2], axis=1)
        decided, result = decide(logits, self.problem_type), {"loss": self._loss(logits, labels)}
        if self.problem_type != "multi_label_classification":
            decided, labels = decided.reshape(-1), labels.reshape(-1)
        metric = load_metric(self.FITTING[self.problem_type][0])
        return result | metric.compute(predictions=decided, references=labels.astype(decided.dtype))

    def _loss(self, logits: np.ndarray, labels: np.ndarray) -> float:
        outputs, targets = torch.from_numpy(logits), torch.from_numpy(labels)
        if self.problem_type == "single_label_classification":
            return float(F.cross_entropy(outputs, targets[:, 0].long()))
        if self.problem_type == "regression":
            return float(F.mse_loss(outputs / self._label_scale, targets / self._label_scale))
        return float(F.binary_cross_entropy_with_logits(outputs, targets))


class TokenMetrics(ClassificationMetrics):
    """Loss, scores of positions and, for classes (`names`), scores of spans; positions labelled -100 are left out."""

    FITTING = {
        **ClassificationMetrics.FITTING,
        "single_label_classification": ("token_f1", "token_accuracy", "mcc", "span_f1"),
    }

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
        counts = torch.cat([kind.sum(1, dtype=torch.float64) for kind in (given & true, given, true)], dim=1)
        return torch.cat([_sum(scored_BLK), _sum(losses.masked_fill(~scored_BLK, 0)), counts], dim=1)

    def _count_classes(self, logits_BLK: torch.Tensor, labels_BL: torch.Tensor) -> torch.Tensor:
        """Then the confusion of classes (K x K, true classes in rows) and three counts of each kind of span."""
        size, tags = len(self.names), Tags.of(self.names)
        losses_BL = F.cross_entropy(logits_BLK.transpose(1, 2), labels_BL, ignore_index=IGNORE_INDEX, reduction="none")
        scored_BL, given_BL = labels_BL != IGNORE_INDEX, logits_BLK.argmax(-1)
        cell_BL = labels_BL.clamp(min=0) * size + given_BL
        confusion = torch.zeros(len(labels_BL), size**2, dtype=torch.float64, device=labels_BL.device)
        confusion.scatter_add_(1, cell_BL, scored_BL.double())
        rows = zip(given_BL.cpu().numpy(), labels_BL.cpu().numpy(), scored_BL.cpu().numpy(), strict=True)
        spans = [count_spans(given[kept], true[kept], tags).reshape(-1) for given, true, kept in rows]
        counts = torch.from_numpy(np.stack(spans)).to(confusion)
        return torch.cat([_sum(scored_BL), _sum(losses_BL), confusion, counts], dim=1)

    def _count_errors(self, outputs_BLK: torch.Tensor, labels_BLK: torch.Tensor, scored_BLK) -> torch.Tensor:
        """Then sums of squared and absolute errors, of the targets and of their squares."""
        outputs_BLK, labels_BLK = outputs_BLK.double(), labels_BLK.double().masked_fill(~scored_BLK, 0)
        error_BLK = (outputs_BLK - labels_BLK).masked_fill(~scored_BLK, 0)
        scaled_BLK = error_BLK / self._label_scale.to(error_BLK)
        entries = (scored_BLK, scaled_BLK**2, error_BLK**2, error_BLK.abs(), labels_BLK, labels_BLK**2)
        return torch.cat([_sum(entry) for entry in entries], dim=1)

    def scores(self, rows: np.ndarray) -> dict[str, float]:
        scored, loss, *counts = rows.sum(0)
        result = {"loss": float(loss / max(scored, 1)), "scored_positions": int(scored)}
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


def _sum(entries: torch.Tensor) -> torch.Tensor:
    """Sums per example in float64, (B, 1)."""
    return entries.flatten(1).sum(1, keepdim=True, dtype=torch.float64)


def decide(logits: np.ndarray, problem_type: str) -> np.ndarray:
    """Turn logits (B, K) into answers: class ids (B,), 0/1 per label (B, K), or the numbers themselves."""
    if problem_type == "single_label_classification":
        return logits.argmax(-1)
    if problem_type == "multi_label_classification":
        return (logits > 0).astype(np.int64)
    return logits.astype(np.float64)


def probabilities(logits: torch.Tensor, problem_type: str) -> torch.Tensor:
    """Turn logits (..., K) into the probability of each class, or of each label by itself."""
    return logits.softmax(-1) if problem_type == "single_label_classification" else logits.sigmoid()


def metrics_without_prefix(metrics: dict, prefix: str) -> dict[str, float]:
    """Metrics of one split, without its name before theirs and without timings."""
    timing = ("runtime", "samples_per_second", "steps_per_second", "model_preparation_time")
    named = {key.removeprefix(f"{prefix}_"): value for key, value in metrics.items() if key.startswith(f"{prefix}_")}
    return {key: value for key, value in named.items() if key not in timing}
