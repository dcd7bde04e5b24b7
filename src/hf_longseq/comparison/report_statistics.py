# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Whether two means over seeds differ by more than the noise: Welch's t-test, which lets the arms vary differently."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEVEL = 0.05


@dataclass(frozen=True)
class Difference:
    """Difference of two means.

    Attributes:
        value: mean(a) - mean(b).
        half_width: Half the width of its 95 % confidence interval; None if an arm has one seed.
        p_value: Two-sided p of Welch's test; None if an arm has one seed.
    """

    value: float
    half_width: float | None
    p_value: float | None

    @property
    def beyond_noise(self) -> bool:
        """Whether the difference is larger than the seeds alone explain."""
        return self.p_value is not None and self.p_value < LEVEL


def difference(a: Sequence[float], b: Sequence[float]) -> Difference:
    """Compare two arms, each with one value per seed."""
    value = statistics.fmean(a) - statistics.fmean(b)
    if len(a) < 2 or len(b) < 2:
        return Difference(value, None, None)
    shares = [statistics.variance(arm) / len(arm) for arm in (a, b)]
    error = math.sqrt(sum(shares))
    if error == 0:
        return Difference(value, 0.0, 0.0 if value else 1.0)
    freedom = sum(shares) ** 2 / sum(share**2 / (len(arm) - 1) for share, arm in zip(shares, (a, b), strict=True))
    return Difference(value, quantile(freedom) * error, two_sided_p(value / error, freedom))


def two_sided_p(t: float, freedom: float) -> float:
    """P(|T| > |t|) of Student's distribution: the incomplete beta integral after u = sin^2."""
    edge = math.asin(math.sqrt(freedom / (freedom + t * t)))
    angles = np.linspace(0.0, edge, 2001)
    heights = np.sin(angles) ** (freedom - 1)
    integral = float((heights[1:] + heights[:-1]).sum() / 2) * edge / 2000
    log_beta = math.lgamma(freedom / 2) + math.lgamma(0.5) - math.lgamma((freedom + 1) / 2)
    return min(1.0, 2.0 * integral / math.exp(log_beta))


def quantile(freedom: float) -> float:
    """The t that |T| exceeds with probability `LEVEL`."""
    low, high = 0.0, 1e6
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, freedom) > LEVEL else (low, middle)
    return high
