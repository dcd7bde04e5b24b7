# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Share of the variance explained, over the whole split."""

import datasets
import evaluate
import numpy as np


class R2(evaluate.Metric):
    """Share of the variance explained, over the whole split."""

    def _info(self):
        return evaluate.MetricInfo(
            description="Share of the variance explained, over the whole split.",
            citation="",
            inputs_description="predictions and references: real numbers",
            features=datasets.Features(
                {"predictions": datasets.Value("float64"), "references": datasets.Value("float64")}
            ),
        )

    def _compute(self, predictions, references):
        predictions, references = np.asarray(predictions), np.asarray(references)
        residual = np.sum((references - predictions) ** 2)
        total = np.sum((references - references.mean()) ** 2)
        # Constant references have no variance to explain: by the usual convention 1 if hit exactly, else 0.
        return {"r2": float(1 - residual / total) if total > 0 else float(residual == 0)}
