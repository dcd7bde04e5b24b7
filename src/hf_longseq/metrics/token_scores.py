# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Scores of labels position by position: accuracy, macro F1 without "O", and Matthews' correlation."""

import datasets
import evaluate
import numpy as np

from hf_longseq.metrics.spans import encode, position_scores


class TokenScores(evaluate.Metric):
    """Accuracy, macro F1 without "O", and Matthews' correlation, over all positions of a split."""

    def _info(self):
        return evaluate.MetricInfo(
            description='Accuracy, macro F1 without "O", and Matthews\' correlation, over all positions of a split.',
            citation="",
            inputs_description='predictions and references: lists of labels, one a position, such as "O" or "gene"',
            features=datasets.Features(
                dict.fromkeys(("predictions", "references"), datasets.List(datasets.Value("string")))
            ),
        )

    def _compute(self, predictions, references):
        names, (predicted, true) = encode((predictions, references))
        pairs = np.concatenate(true) * len(names) + np.concatenate(predicted)
        confusion = np.bincount(pairs, minlength=len(names) ** 2).reshape(len(names), -1)
        return position_scores(confusion, names)
