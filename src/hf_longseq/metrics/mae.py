# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Mean absolute error over the whole split."""

import datasets
import evaluate
import numpy as np


class MAE(evaluate.Metric):
    """Mean absolute error over the whole split."""

    def _info(self):
        return evaluate.MetricInfo(
            description="Mean absolute error over the whole split.",
            citation="",
            inputs_description="predictions and references: real numbers",
            features=datasets.Features(
                {"predictions": datasets.Value("float64"), "references": datasets.Value("float64")}
            ),
        )

    def _compute(self, predictions, references):
        return {"mae": float(np.mean(np.abs(np.asarray(predictions) - np.asarray(references))))}
