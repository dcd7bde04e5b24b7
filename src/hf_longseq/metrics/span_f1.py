# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""F1 of spans: a span is right if both of its ends and its kind are, as in seqeval."""

import datasets
import evaluate
import numpy as np

from hf_longseq.metrics.spans import Tags, count_spans, encode, span_scores


class SpanF1(evaluate.Metric):
    """F1, precision and recall of spans of all kinds together."""

    def _info(self):
        return evaluate.MetricInfo(
            description="F1 of spans: a span is right if both of its ends and its kind are, as in seqeval.",
            citation="",
            inputs_description='predictions and references: lists of labels, one a position, such as "O" or "B-gene"',
            features=datasets.Features(
                dict.fromkeys(("predictions", "references"), datasets.List(datasets.Value("string")))
            ),
        )

    def _compute(self, predictions, references):
        names, (predicted, true) = encode((predictions, references))
        tags = Tags.of(names)
        empty = np.zeros((len(tags.kinds), 3), np.int64)
        return span_scores(sum((count_spans(*pair, tags) for pair in zip(predicted, true, strict=True)), empty))
