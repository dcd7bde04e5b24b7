# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""F1 of a multi-label task: the mean over the labels (macro), and over all decisions (micro)."""

import datasets
import evaluate
import numpy as np


class MultiLabelF1(evaluate.Metric):
    """F1 of a multi-label task: the mean over the labels (macro), and over all decisions (micro)."""

    def _info(self):
        return evaluate.MetricInfo(
            description="F1 of a multi-label task: the mean over the labels (macro), and over all decisions (micro).",
            citation="",
            inputs_description="predictions and references: lists of 0 and 1, one entry per label",
            features=datasets.Features(
                {
                    "predictions": datasets.List(datasets.Value("int64")),
                    "references": datasets.List(datasets.Value("int64")),
                }
            ),
        )

    def _compute(self, predictions, references):
        predictions, references = np.asarray(predictions), np.asarray(references)
        hits = (predictions * references).sum(0)
        decided = predictions.sum(0) + references.sum(0)
        # A label that neither occurs nor is predicted has no F1 (0/0): it counts as 0, as in scikit-learn.
        macro = np.divide(2 * hits, decided, out=np.zeros(len(hits)), where=decided > 0).mean()
        micro = 2 * hits.sum() / decided.sum() if decided.sum() else 0.0
        return {"f1": float(macro), "f1_micro": float(micro)}
