# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The metrics as `evaluate.Metric` classes; `METRICS` of the package names each of them."""

import datasets
import evaluate
import numpy as np

from hf_longseq.metrics.spans import Tags, count_spans, encode, position_scores, span_scores

NUMBER, WHOLE = datasets.Value("float64"), datasets.Value("int64")
NAMES = datasets.List(datasets.Value("string"))  # one a position


class _Metric(evaluate.Metric):
    """A metric whose docstring is its description.

    Attributes:
        predictions, references: Types of the two inputs.
        inputs: What they hold.
    """

    predictions = references = WHOLE
    inputs = "predictions and references: class ids, one per example"

    def _info(self):
        features = datasets.Features({"predictions": self.predictions, "references": self.references})
        return evaluate.MetricInfo(
            description=self.__doc__, citation="", inputs_description=self.inputs, features=features
        )


class Accuracy(_Metric):
    """Share of examples whose predicted class is the right one."""

    def _compute(self, predictions, references):
        return {"accuracy": float(np.mean(np.asarray(predictions) == np.asarray(references)))}


class MultiLabelF1(_Metric):
    """F1 of a multi-label task: the mean over the labels (macro), and over all decisions (micro)."""

    predictions = references = datasets.List(WHOLE)
    inputs = "predictions and references: lists of 0 and 1, one entry per label"

    def _compute(self, predictions, references):
        predictions, references = np.asarray(predictions), np.asarray(references)
        hits = (predictions * references).sum(0)
        decided = predictions.sum(0) + references.sum(0)
        # A label that neither occurs nor is predicted has no F1 (0/0): it counts as 0, as in scikit-learn.
        macro = np.divide(2 * hits, decided, out=np.zeros(len(hits)), where=decided > 0).mean()
        micro = 2 * hits.sum() / decided.sum() if decided.sum() else 0.0
        return {"f1": float(macro), "f1_micro": float(micro)}


class _Regression(_Metric):
    predictions = references = NUMBER
    inputs = "predictions and references: real numbers"


class MAE(_Regression):
    """Mean absolute error over the whole split."""

    def _compute(self, predictions, references):
        return {"mae": float(np.mean(np.abs(np.asarray(predictions) - np.asarray(references))))}


class RMSE(_Regression):
    """Root of the mean squared error over the whole split."""

    def _compute(self, predictions, references):
        return {"rmse": float(np.sqrt(np.mean((np.asarray(predictions) - np.asarray(references)) ** 2)))}


class R2(_Regression):
    """Share of the variance explained, over the whole split."""

    def _compute(self, predictions, references):
        predictions, references = np.asarray(predictions), np.asarray(references)
        residual = np.sum((references - predictions) ** 2)
        total = np.sum((references - references.mean()) ** 2)
        # Constant references have no variance to explain: by the usual convention 1 if hit exactly, else 0.
        return {"r2": float(1 - residual / total) if total > 0 else float(residual == 0)}


class _Masked(_Metric):
    key: str

    def _compute(self, predictions, references):
        scored = int(np.sum(references))
        return {self.key: float(np.sum(predictions) / scored) if scored else 0.0}


class MaskedAccuracy(_Masked):
    """Share of scored positions that were restored exactly, over all positions of a split."""

    key = "masked_accuracy"
    inputs = "predictions: restored positions per example; references: scored positions per example"


class MaskedMAE(_Masked):
    """Mean absolute error over all scored values of a split."""

    key, predictions = "masked_mae", NUMBER
    inputs = "predictions: absolute errors per example, summed; references: values scored"


class SpanF1(_Metric):
    """F1, precision and recall of spans of all kinds together: a span is right if both of its ends and its kind are,
    as in seqeval."""

    predictions = references = NAMES
    inputs = 'predictions and references: lists of labels, one a position, such as "O" or "B-gene"'

    def _compute(self, predictions, references):
        names, (predicted, true) = encode((predictions, references))
        tags = Tags.of(names)
        empty = np.zeros((len(tags.kinds), 3), np.int64)
        return span_scores(sum((count_spans(*pair, tags) for pair in zip(predicted, true, strict=True)), empty))


class TokenScores(_Metric):
    """Accuracy, macro F1 without "O", and Matthews' correlation, over all positions of a split."""

    predictions = references = NAMES
    inputs = 'predictions and references: lists of labels, one a position, such as "O" or "gene"'

    def _compute(self, predictions, references):
        names, (predicted, true) = encode((predictions, references))
        pairs = np.concatenate(true) * len(names) + np.concatenate(predicted)
        confusion = np.bincount(pairs, minlength=len(names) ** 2).reshape(len(names), -1)
        return position_scores(confusion, names)
