# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Share of scored positions that were restored exactly, over all positions of a split."""

import datasets
import evaluate
import numpy as np


class MaskedAccuracy(evaluate.Metric):
    """Share of scored positions that were restored exactly, over all positions of a split."""

    def _info(self):
        return evaluate.MetricInfo(
            description="Share of scored positions that were restored exactly, over all positions of a split.",
            citation="",
            inputs_description="predictions: restored positions per example; references: scored positions per example",
            features=datasets.Features(
                {"predictions": datasets.Value("int64"), "references": datasets.Value("int64")}
            ),
        )

    def _compute(self, predictions, references):
        scored = int(np.sum(references))
        return {"masked_accuracy": float(np.sum(predictions) / scored) if scored else 0.0}
