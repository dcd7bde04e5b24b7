# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Metrics as `evaluate.Metric` modules that ship in the package and work offline.

They are instantiated directly (`METRICS["accuracy"]` names the class), get a whole split at once, and are reduced
across processes by the trainer before they are computed.
"""

# name -> (class in `scores`, True if larger is better). Model selection derives its direction from here.
METRICS: dict[str, tuple[str, bool]] = {
    "accuracy": ("Accuracy", True),
    "f1": ("MultiLabelF1", True),
    "rmse": ("RegressionErrors", False),
    "mae": ("RegressionErrors", False),
    "r2": ("RegressionErrors", True),
    "token_accuracy": ("TokenScores", True),
    "token_f1": ("TokenScores", True),
    "mcc": ("TokenScores", True),
    "span_f1": ("SpanF1", True),
    "masked_accuracy": ("MaskedMean", True),
    "masked_mae": ("MaskedMean", False),
}
# Shares of one number, which are easier to read as per cent.
PERCENT = ("accuracy", "f1", "token_accuracy", "token_f1", "span_f1", "masked_accuracy")


def load_metric(name: str):
    """Return a fresh instance of a shipped metric, ready for `compute(predictions=..., references=...)`."""
    if name not in METRICS:
        raise ValueError(f"There is no metric {name!r}: known metrics are {', '.join(METRICS)}.")
    from hf_longseq.metrics import scores

    return getattr(scores, METRICS[name][0])(config_name=name, num_process=1, keep_in_memory=True)


def greater_is_better(name: str) -> bool:
    """Return the direction of a metric; losses, known or not, are better when smaller."""
    return METRICS[name][1] if name in METRICS else False
