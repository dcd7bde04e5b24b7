# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Means with intervals, gains with p-values, and the verdict of each gain.

A gain is the difference between a self-pretrained arm and one from scratch, positive where it is better. Seeds that
both arms share, on the same labelled subsets, are compared in pairs (t-test of the differences); other arms by Welch's
t-test. Intervals hold 95 %.
"""

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from hf_longseq.comparison.arms import from_scratch, is_tied
from hf_longseq.comparison.dataframe import KEY
from hf_longseq.metrics import PERCENT

LEVEL = 0.95
ENOUGH_SEEDS = 5
# shares above this leave too little room to tell a gain from none
CEILING = 0.95


def arm_means(scores: pd.DataFrame) -> pd.DataFrame:
    """A row per arm: mean, std, 95 % interval (low, high; NaN for one seed), n, seeds, values, and what it cost."""
    rows = []
    for _, arm in scores.groupby(KEY, dropna=False, sort=False):
        row = arm.iloc[0].to_dict() | {"values": arm["value"].tolist(), "seeds": arm["seed"].tolist()}
        row |= {"n": len(arm), "mean": arm["value"].mean(), "std": arm["value"].std()}
        row["subset_seed"] = arm["subset_seed"].tolist()
        row["validation"] = arm["validation"].mean()
        # one seed that has not converged, or of which it is not known, is told of the whole arm
        row["converged"] = arm["converged"].min() if arm["converged"].notna().all() else None
        half = stats.t.ppf((1 + LEVEL) / 2, len(arm) - 1) * stats.sem(arm["value"]) if len(arm) > 1 else np.nan
        row |= {"low": row["mean"] - half, "high": row["mean"] + half}
        if row["metric"] in PERCENT:  # few seeds give intervals that leave what a share can be
            row |= {"low": max(row["low"], 0.0), "high": min(row["high"], 1.0)} if len(arm) > 1 else {}
        rows.append({key: value for key, value in row.items() if key not in ("seed", "value")})
    return pd.DataFrame(rows)


def difference(arm: pd.Series, base: pd.Series) -> dict[str, Any]:
    """Gain of one arm of `arm_means` over another.

    Returns:
        value (positive is better), low and high of its interval, p (two-sided; None for one seed), n, paired.

    Example:
        >>> one = pd.Series({"values": [0.9, 0.8], "seeds": [0, 1], "subset_seed": [0, 1], "greater_is_better": True})
        >>> round(difference(one, one)["value"], 3)
        0.0
    """
    sign = 1 if arm["greater_is_better"] else -1
    ours, theirs = (sign * np.array(one["values"], dtype=float) for one in (arm, base))
    found = {"value": ours.mean() - theirs.mean(), "low": np.nan, "high": np.nan, "p": np.nan}
    found |= {"n": min(len(ours), len(theirs)), "paired": False}
    if found["n"] < 2:
        return found
    found["paired"] = (arm["seeds"], arm["subset_seed"]) == (base["seeds"], base["subset_seed"])
    spread = [np.ptp(ours - theirs)] if found["paired"] else [np.ptp(ours), np.ptp(theirs)]
    if max(spread) < 1e-12:  # seeds that agree to the digit say nothing of the noise
        return found
    test = stats.ttest_rel(ours, theirs) if found["paired"] else stats.ttest_ind(ours, theirs, equal_var=False)
    low, high = test.confidence_interval(LEVEL)
    return found | {"low": float(low), "high": float(high), "p": float(test.pvalue)}


def holm(p_values: pd.Series) -> pd.Series:
    """P-values corrected for their number by Holm's method (1979); missing ones count for nothing.

    Example:
        >>> holm(pd.Series([0.01, 0.04, 0.03])).round(2).tolist()
        [0.03, 0.06, 0.06]
    """
    ordered = p_values.dropna().sort_values()
    factors = np.arange(len(ordered), 0, -1)
    return (ordered * factors).cummax().clip(upper=1.0).reindex(p_values.index)


def gains(means: pd.DataFrame) -> pd.DataFrame:
    """Every self-pretrained arm against its partners from scratch, with `p_holm` over all of them and a verdict."""
    rows, partner_rows = [], []
    for _, group in means.groupby(["name", "arch", "labels"], dropna=False, sort=False):
        bases = {row["init"]: row for _, row in group.iterrows() if from_scratch(row["init"])}
        for _, arm in group.iterrows():
            for init in partners(arm, bases):
                row = {key: arm[key] for key in (*KEY, "metric", "unit", "greater_is_better")}
                rows.append(row | {"against": init, **difference(arm, bases[init])})
                partner_rows.append(bases[init])
    found = pd.DataFrame(rows)
    if len(found):
        found["p_holm"] = holm(found["p"])
        pairs = zip(found.to_dict("records"), partner_rows, strict=True)
        found[["verdict", "reason"]] = [verdict(gain, base) for gain, base in pairs]
    return found


def partners(arm: pd.Series, bases: dict[str, Any]) -> list[str]:
    """Arms from scratch that an arm stands against, of those that it names: they have its fine-tuned model."""
    named = [arm["scratch"], *(arm["scratch_tied"] if isinstance(arm["scratch_tied"], list) else [])]
    return [name for name in named if name in bases and not from_scratch(arm["init"])]


def verdict(gain: dict[str, Any], base: pd.Series) -> tuple[str, str]:
    """ "shown", "not shown" or "open", and what keeps it open.

    A verdict needs an arm of equal budget that has converged below its ceiling, and five seeds of both. A gain is
    shown if its interval leaves out zero and its p-value holds after the correction.
    """
    reasons = {
        "no equal budget": not is_tied(base["init"]),
        f"{gain['n']} seed{'s' if gain['n'] > 1 else ''}": gain["n"] < ENOUGH_SEEDS,
        "no spread over the seeds": pd.isna(gain["p"]),
        "convergence not recorded": pd.isna(base["converged"]),
        "not converged": base["converged"] == 0,
    }
    shown = gain["low"] > 0
    reasons["at its ceiling"] = not shown and base["metric"] in PERCENT and base["mean"] >= CEILING
    reasons["p >= 0.05, corrected"] = shown and gain["p_holm"] >= 0.05
    reason = next((name for name, holds in reasons.items() if holds), None)
    return ("open", reason) if reason else ("shown" if shown else "not shown", "")
