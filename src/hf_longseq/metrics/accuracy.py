# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Share of examples whose predicted class is the right one."""

import datasets
import evaluate
import numpy as np


class Accuracy(evaluate.Metric):
    """Share of examples whose predicted class is the right one."""

    def _info(self):
        return evaluate.MetricInfo(
            description="Share of examples whose predicted class is the right one.",
            citation="",
            inputs_description="predictions and references: class ids, one per example",
            features=datasets.Features(
                {"predictions": datasets.Value("int64"), "references": datasets.Value("int64")}
            ),
        )

    def _compute(self, predictions, references):
        return {"accuracy": float(np.mean(np.asarray(predictions) == np.asarray(references)))}
