# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Loss and metrics of a whole split, from what is gathered of each batch: counts for denoising, logits for classes.

Axes: B batch, L length, C channels, V vocabulary, Q levels, K labels.
"""

import numpy as np
import torch
from torch.nn import functional as F
from transformers.trainer_utils import EvalPrediction

from hf_longseq.metrics import load_metric
from hf_longseq.models.longseq_losses import classification_loss, cross_entropy_loss, next_token_loss


class SplitMetrics:
    """Loss and metrics of a whole split, from a row of numbers per example.

    Use with `batch_eval_metrics=True`: `reduce` makes these rows of logits and labels before anything is gathered, and
    calling the object adds a batch or, with `compute_result`, gives the result.
    """

    def __init__(self):
        self._batches: list[np.ndarray] = []

    def loss(self, config, outputs, labels: torch.Tensor, num_items_in_batch=None) -> torch.Tensor:
        """The loss of a classifier of transformers, from its logits."""
        return classification_loss(outputs.logits, labels, config, num_items_in_batch)

    def __call__(self, prediction: EvalPrediction, compute_result: bool = True) -> dict[str, float]:
        rows = prediction.predictions
        self._batches.append(rows.cpu().numpy() if torch.is_tensor(rows) else np.asarray(rows))
        if not compute_result:
            return {}
        rows, self._batches = np.concatenate(self._batches), []
        return self.scores(rows)


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
        self._metrics = {name: load_metric(name) for name in ("masked_accuracy", "masked_mae")}

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
        scored = labels != -100
        if self._continuous:
            right = torch.zeros_like(scored)
            loss = (logits.float() - labels).abs()
        else:
            right = logits.argmax(-1) == labels
            # One example at a time: the float32 copy of the logits is the largest tensor of an evaluation.
            every = [
                F.cross_entropy(one.float().flatten(0, -2), target.flatten(), ignore_index=-100, reduction="none")
                for one, target in zip(logits, labels, strict=True)
            ]
            loss = torch.stack(every).view(labels.shape)
        entries = [scored, right & scored, loss.masked_fill(~scored, 0)]
        counts = torch.stack([entry.flatten(1).sum(1, dtype=torch.float64) for entry in entries], dim=1)
        # Both documents of a pair are one example: what is gathered must have one row per example.
        return counts.unflatten(0, (self.documents, -1)).sum(0)

    def scores(self, rows: np.ndarray) -> dict[str, float]:
        scored = rows[:, 0].astype(np.int64)
        name, column = ("masked_mae", rows[:, 2]) if self._continuous else ("masked_accuracy", rows[:, 1])
        metric = self._metrics[name].compute(predictions=column, references=scored)
        loss = float(rows[:, 2].sum() / max(scored.sum(), 1))
        return {**metric, "exact_loss": loss, "scored_positions": int(scored.sum())}


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

    def __init__(self, problem_type: str, label_scale: list[float] | None = None):
        super().__init__()
        self.problem_type = problem_type
        self._label_scale = torch.tensor(label_scale or [1.0], dtype=torch.float64)
        self._metric = load_metric(self.FITTING[problem_type][0])

    def reduce(self, logits, labels: torch.Tensor) -> torch.Tensor:
        """Logits (float32, kept in float64) beside the labels: (B, K + 1), or (B, 2 K) where each output has one."""
        return torch.cat([first_output(logits).float().double(), labels.reshape(len(labels), -1).double()], dim=1)

    def scores(self, rows: np.ndarray) -> dict[str, float]:
        classes = self.problem_type == "single_label_classification"
        logits, labels = np.split(rows, [-1 if classes else rows.shape[1] // 2], axis=1)
        decided, result = decide(logits, self.problem_type), {"exact_loss": self._loss(logits, labels)}
        if self.problem_type != "multi_label_classification":
            decided, labels = decided.reshape(-1), labels.reshape(-1)
        return result | self._metric.compute(predictions=decided, references=labels.astype(decided.dtype))

    def _loss(self, logits: np.ndarray, labels: np.ndarray) -> float:
        outputs, targets = torch.from_numpy(logits), torch.from_numpy(labels)
        if self.problem_type == "single_label_classification":
            return float(F.cross_entropy(outputs, targets[:, 0].long()))
        if self.problem_type == "regression":
            return float(F.mse_loss(outputs / self._label_scale, targets / self._label_scale))
        return float(F.binary_cross_entropy_with_logits(outputs, targets))


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
