# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The metrics as `evaluate.Metric` classes; `METRICS` of the package names each of them."""

import datasets
import evaluate
import numpy as np

from hf_longseq.metrics import spans

NUMBER, WHOLE = datasets.Value("float64"), datasets.Value("int64")


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


class RegressionErrors(_Metric):
    """Root of the mean squared error, mean absolute error, and share of the variance explained (R2) over a split."""

    predictions = references = NUMBER
    inputs = "predictions and references: real numbers"

    def _compute(self, predictions, references):
        references = np.asarray(references, dtype=np.float64)
        error = np.asarray(predictions, dtype=np.float64) - references
        sums = (error**2).sum(), np.abs(error).sum(), references.sum(), (references**2).sum()
        return spans.error_scores(len(error), *sums)
