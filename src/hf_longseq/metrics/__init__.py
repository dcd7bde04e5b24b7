# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Names and directions of the metrics, and those of a whole split as `evaluate.Metric` modules that work offline.

Metrics of spans and positions come from counts per example (`metrics/spans.py`).
"""

# name -> (class in `scores`, empty where counts are enough; True if larger is better). Model selection reads the
# direction here.
METRICS: dict[str, tuple[str, bool]] = {
    "accuracy": ("Accuracy", True),
    "f1": ("MultiLabelF1", True),
    "rmse": ("RegressionErrors", False),
    "mae": ("RegressionErrors", False),
    "r2": ("RegressionErrors", True),
    "token_accuracy": ("", True),
    "token_f1": ("", True),
    "mcc": ("", True),
    "span_f1": ("", True),
    "masked_accuracy": ("", True),
    "masked_mae": ("", False),
}
# Shares, printed as per cent.
PERCENT = ("accuracy", "f1", "token_accuracy", "token_f1", "span_f1", "masked_accuracy")


def load_metric(name: str):
    """Return a fresh instance of a shipped metric, ready for `compute(predictions=..., references=...)`."""
    classes = {known: kind for known, (kind, _) in METRICS.items() if kind}
    if name not in classes:
        raise ValueError(f"There is no metric {name!r}: known metrics are {', '.join(classes)}.")
    from hf_longseq.metrics import scores

    return getattr(scores, classes[name])(config_name=name, num_process=1, keep_in_memory=True)


def greater_is_better(name: str) -> bool:
    """Return the direction of a metric; losses, known or not, are better when smaller."""
    return METRICS[name][1] if name in METRICS else False
