# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Whether a run has converged: its validation score stopped rising, or its training loss is near zero."""

import math
from collections.abc import Sequence
from typing import Any

LOW_LOSS = 0.01
# Standard error of a metric over n examples, from its value. Of the errors for normal residuals, of R2 to first order.
STANDARD_ERRORS = {
    "accuracy": lambda value, n: math.sqrt(max(value * (1 - value), 0.0) / n),
    "f1": lambda value, n: math.sqrt(max(value * (1 - value), 0.0) / n),
    "rmse": lambda value, n: value / math.sqrt(2 * n),
    "mae": lambda value, n: value * math.sqrt((math.pi / 2 - 1) / n),
    "r2": lambda value, n: 2 * math.sqrt(max(value, 0.0)) * abs(1 - value) / math.sqrt(n),
}


def standard_error(metric: str, value: float, examples: int) -> float:
    """Standard error of a metric over so many examples; 0 for one whose error is not known."""
    return STANDARD_ERRORS[metric](value, examples) if metric in STANDARD_ERRORS and examples else 0.0


def has_converged(history: Sequence[dict[str, Any]], metric: str, sign: int, examples: int, steps: int) -> bool | None:
    """Decide by the history of a run.

    The rule: the best validation score of the last third of the steps exceeds the best of the middle third by no more
    than one standard error, or the training loss that was logged last is below 0.01.

    Args:
        history: Entries of `history.json`, with "step" and "eval_<metric>" or "loss".
        metric: The validation metric.
        sign: 1 if larger is better, else -1.
        examples: Size of the validation split.
        steps: Steps of the run.

    Returns:
        None where a third of the run was never evaluated and the loss is not low.

    Example:
        >>> scores = [(3, 0.5), (6, 0.8), (9, 0.8)]
        >>> has_converged([{"step": s, "eval_accuracy": a} for s, a in scores], "accuracy", 1, 100, 9)
        True
    """
    losses = [entry["loss"] for entry in history if "loss" in entry]
    if losses and losses[-1] < LOW_LOSS:
        return True
    scores = [(entry["step"], entry[f"eval_{metric}"]) for entry in history if f"eval_{metric}" in entry]
    middle = [sign * score for step, score in scores if steps / 3 < step <= 2 * steps / 3]
    last = [sign * score for step, score in scores if step > 2 * steps / 3]
    if not middle or not last:
        return None
    return max(last) - max(middle) <= standard_error(metric, sign * max(middle), examples) + 1e-12
