# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Means with intervals, gains with p-values, and the verdict of each gain.

A gain is the difference between a self-pretrained arm and one from scratch, positive where it is better. Seeds that
both arms share, on the same labelled subsets, are compared in pairs (t-test of the differences); other arms by Welch's
t-test. Intervals hold 95 %, and take the test split as fixed: they tell of other seeds, not of other test examples.
"""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from hf_longseq.comparison.arms import from_scratch, is_tied
from hf_longseq.comparison.scores import KEY, reported
from hf_longseq.metrics import PERCENT

LEVEL = 0.95
ENOUGH_SEEDS = 5
# shares above this leave too little room to tell a gain from none
CEILING = 0.95
# What a run cost; where the seeds of an arm differ in it, their median stands for the arm.
COSTS = [
    "inputs", "pretrain_steps", "finetune_steps", "pretrain_epochs", "finetune_epochs", "pretrain_flops",
    "finetune_flops", "flops", "evaluations",
]  # fmt: skip


def arm_means(scores: pd.DataFrame) -> pd.DataFrame:
    """A row per arm: mean, std, 95 % interval (low, high; NaN for one seed), n, seeds, values, and what it cost."""
    rows = []
    for _, arm in reported(scores).groupby(KEY, dropna=False, sort=False):
        row = arm.iloc[0].to_dict() | {f"{name}s": arm[name].tolist() for name in ("value", "seed", "run")}
        row |= {"validations": arm["validation"].tolist(), "pretrain_runs": arm["pretrain_run"].dropna().tolist()}
        row |= {"n": len(arm), "mean": arm["value"].mean(), "std": arm["value"].std()}
        row["subset_seed"] = arm["subset_seed"].astype(object).where(arm["subset_seed"].notna(), None).tolist()
        row |= {name: arm[name].mean() for name in ("validation", "seconds", "pretrain_loss")}
        row |= arm[COSTS].astype(float).median().to_dict()
        # an arm has converged if every seed has
        row["converged"] = arm["converged"].min() if arm["converged"].notna().all() else None
        half = stats.t.ppf((1 + LEVEL) / 2, len(arm) - 1) * stats.sem(arm["value"]) if len(arm) > 1 else np.nan
        row |= {"low": row["mean"] - half, "high": row["mean"] + half}
        if row["metric"] in PERCENT:  # few seeds give intervals that leave what a share can be
            row |= {"low": max(row["low"], 0.0), "high": min(row["high"], 1.0)} if len(arm) > 1 else {}
        rows.append({key: value for key, value in row.items() if key not in ("seed", "value", "run", "split")})
    return pd.DataFrame(rows)


def difference(arm: pd.Series, base: pd.Series, level: float = LEVEL) -> dict[str, Any]:
    """Gain of one arm of `arm_means` over another.

    Returns:
        value (positive is better), low and high of the interval that holds `level`, p (two-sided; None for one seed),
        n, paired.

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
    found["paired"] = paired(arm, base)
    spread = [np.ptp(ours - theirs)] if found["paired"] else [np.ptp(ours), np.ptp(theirs)]
    if max(spread) < 1e-12:  # seeds that agree to the digit say nothing of the noise
        return found
    test = stats.ttest_rel(ours, theirs) if found["paired"] else stats.ttest_ind(ours, theirs, equal_var=False)
    low, high = test.confidence_interval(level)
    return found | {"low": float(low), "high": float(high), "p": float(test.pvalue)}


def paired(arm: pd.Series, base: pd.Series) -> bool:
    """Whether two arms have the same seeds on the same labelled subsets."""
    return (arm["seeds"], arm["subset_seed"]) == (base["seeds"], base["subset_seed"])


def holm(p_values: pd.Series) -> pd.Series:
    """P-values corrected for their number by Holm's method (1979); missing ones count for nothing.

    Example:
        >>> holm(pd.Series([0.01, 0.04, 0.03])).round(2).tolist()
        [0.03, 0.06, 0.06]
    """
    ordered = p_values.dropna().sort_values()
    factors = np.arange(len(ordered), 0, -1)
    return (ordered * factors).cummax().clip(upper=1.0).reindex(p_values.index)


def gains(means: pd.DataFrame, level: float = LEVEL, seeds: int = ENOUGH_SEEDS) -> pd.DataFrame:
    """Every self-pretrained arm against its partners from scratch; those of equal budget get `p_holm` and a verdict.

    The correction counts the gains over equal budget of one family: those of one claim of a plan, or all that no plan
    holds. Gains over other partners have no part in it, and no verdict. `level` and `seeds` are those of `verdict`.
    """
    rows, partner_rows = [], []
    groups = means.groupby(["data", "architecture", "labels"], dropna=False, sort=False) if len(means) else ()
    for _, group in groups:
        bases = {row["arm"]: row for _, row in group.iterrows() if from_scratch(row["arm"])}
        for _, arm in group.iterrows():
            for name in partners(arm, bases):
                row = {key: arm[key] for key in (*KEY, "metric", "unit", "greater_is_better", "family", "margin")}
                rows.append(row | {"against": name, **difference(arm, bases[name], level)})
                partner_rows.append(bases[name])
    found = pd.DataFrame(rows)
    if len(found):
        tied = found["against"].map(is_tied)
        found["p_holm"] = found["p"].where(tied).groupby(found["family"]).transform(holm)
        pairs = zip(found.to_dict("records"), partner_rows, strict=True)
        found[["verdict", "reason"]] = [verdict(gain, base, level, seeds) for gain, base in pairs]
    return found


def partners(arm: pd.Series, bases: dict[str, Any]) -> list[str]:
    """Arms from scratch that an arm stands against, of those that it names: they have its fine-tuned model."""
    named = [arm["scratch"], *arm["scratch_tied"].split()]
    return [name for name in named if name in bases and not from_scratch(arm["arm"])]


def verdict(gain: dict[str, Any], base: pd.Series, level: float = LEVEL, seeds: int = ENOUGH_SEEDS) -> tuple[str, str]:
    """ "shown", "no gain" or "open", and what keeps it open.

    Shown: the 95 % interval lies above 0, and p < 0.05 after the correction in its family. No gain: the interval ends
    below the margin that was fixed beforehand. Both take an arm of equal budget that has converged below its ceiling,
    and five seeds of both. `level` may ask for wider intervals and a smaller p, `seeds` for fewer.
    """
    above, below = gain["low"] > 0, gain["high"] < gain["margin"]
    shown = above and gain["p_holm"] < 1 - level
    reasons = {
        "no equal budget": not is_tied(base["arm"]),
        f"{gain['n']} seed{'s' if gain['n'] > 1 else ''}": gain["n"] < seeds,
        "no spread over the seeds": pd.isna(gain["p"]),
        "convergence not recorded": pd.isna(base["converged"]),
        "not converged": base["converged"] == 0,
        "at its ceiling": not shown and base["metric"] in PERCENT and base["mean"] >= CEILING,
        "p >= 0.05, corrected": above and not shown and not below,
        "interval too wide": not above and not below,
    }
    reason = next((name for name, holds in reasons.items() if holds), "")
    return "open" if reason else "shown" if shown else "no gain", reason


def equivalence(arm: pd.Series, base: pd.Series, margin: float) -> float:
    """P-value that two arms differ by less than the margin: the larger one of two one-sided t-tests (Schuirmann 1987).

    Example:
        >>> one = pd.Series({"values": [0.80, 0.81, 0.82], "seeds": [0, 1, 2], "subset_seed": [0, 1, 2]})
        >>> other = pd.Series({**one, "values": [0.81, 0.80, 0.82]})
        >>> equivalence(one, other, 0.02) < 0.05 < equivalence(one, other, 0.01)
        True
    """
    ours, theirs = np.array(arm["values"]), np.array(base["values"])
    test = stats.ttest_rel if paired(arm, base) else partial(stats.ttest_ind, equal_var=False)
    above = test(ours + margin, theirs, alternative="greater").pvalue
    below = test(ours - margin, theirs, alternative="less").pvalue
    return float(max(above, below))
