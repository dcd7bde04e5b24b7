# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Mean absolute error over all scored values of a split."""

import datasets
import evaluate
import numpy as np


class MaskedMAE(evaluate.Metric):
    """Mean absolute error over all scored values of a split."""

    def _info(self):
        return evaluate.MetricInfo(
            description="Mean absolute error over all scored values of a split.",
            citation="",
            inputs_description="predictions: absolute errors per example, summed; references: values scored",
            features=datasets.Features(
                {"predictions": datasets.Value("float64"), "references": datasets.Value("int64")}
            ),
        )

    def _compute(self, predictions, references):
        scored = int(np.sum(references))
        return {"masked_mae": float(np.sum(predictions) / scored) if scored else 0.0}
