# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The metrics as `evaluate.Metric` classes; `METRICS` of the package names each of them."""

import datasets
import evaluate
import numpy as np

from hf_longseq.metrics import spans

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
        return spans.label_scores((predictions * references).sum(0), predictions.sum(0) + references.sum(0))


class _Regression(_Metric):
    predictions = references = NUMBER
    inputs = "predictions and references: real numbers"
    key: str

    def _compute(self, predictions, references):
        references = np.asarray(references, dtype=np.float64)
        error = np.asarray(predictions, dtype=np.float64) - references
        sums = (error**2).sum(), np.abs(error).sum(), references.sum(), (references**2).sum()
        return {self.key: spans.error_scores(len(error), *sums)[self.key]}


class MAE(_Regression):
    """Mean absolute error over the whole split."""

    key = "mae"


class RMSE(_Regression):
    """Root of the mean squared error over the whole split."""

    key = "rmse"


class R2(_Regression):
    """Share of the variance explained, over the whole split."""

    key = "r2"


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
        names, (predicted, true) = spans.encode((predictions, references))
        tags = spans.Tags.of(names)
        empty = np.zeros((len(tags.kinds), 3), np.int64)
        return spans.span_scores(
            sum((spans.count_spans(*pair, tags) for pair in zip(predicted, true, strict=True)), empty)
        )


class TokenScores(_Metric):
    """Accuracy, macro F1 without "O", and Matthews' correlation, over all positions of a split."""

    predictions = references = NAMES
    inputs = 'predictions and references: lists of labels, one a position, such as "O" or "gene"'

    def _compute(self, predictions, references):
        names, (predicted, true) = spans.encode((predictions, references))
        pairs = np.concatenate(true) * len(names) + np.concatenate(predicted)
        confusion = np.bincount(pairs, minlength=len(names) ** 2).reshape(len(names), -1)
        return spans.position_scores(confusion, names)
