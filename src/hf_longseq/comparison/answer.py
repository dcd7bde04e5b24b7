# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The answer of `spt`: does pretraining pay here? A sentence for each gain over equal budget.

The rule is that of reports (`statistics.verdict`), with two seeds where those ask for five. `spt(until_decided=True)`
looks after each number of seeds in `LOOKS` and stops at the first answer. Whoever looks k times errs more often, so
each look takes a k-th of the 5 % (Bonferroni): its interval holds 1 - 0.05 / k.
"""

from dataclasses import dataclass

import pandas as pd

from hf_longseq.comparison.arms import BASELINE, arch_label, is_tied, split_name, style
from hf_longseq.comparison.axes import TIES
from hf_longseq.comparison.results import standard_error
from hf_longseq.comparison.scores import KEY
from hf_longseq.comparison.statistics import LEVEL, arm_means, gains
from hf_longseq.comparison.tables import labels_text, number
from hf_longseq.metrics import PERCENT
from hf_longseq.training.run import FEWEST_STEPS

LOOKS, SEEDS = (3, 5, 7, 9), 2
# Reasons for an open question that more seeds leave as they are.
REMEDIES = {
    "no equal budget": "No arm from scratch had its budget: add scratch-tied to --inits.",
    "not converged": "The arm from scratch was still improving: give all arms more steps, in another folder.",
    "convergence not recorded": "Too few evaluations to see convergence: lower eval_steps, in another folder.",
    "at its ceiling": "From scratch leaves little room: ask with fewer labels, as --train_fractions 1,0.1.",
}
NOTHING = "{}: says nothing. {}, in another folder."


@dataclass(frozen=True)
class Answer:
    """What is said of one gain, whose numbers are in the metric's unit, positive for better, None where unknown.

    `verdict` is "pays", "no gain", "loss", "undecided" (for a `reason`, which `more_seeds` may mend) or "says
    nothing". `model` is the run to use, `linear` a sentence on a linear model that is better than both arms, or "".
    """

    about: str
    verdict: str
    sentence: str
    reason: str
    more_seeds: bool
    model: str
    linear: str
    seeds: int
    level: float
    gain: float
    low: float | None
    high: float | None


def answers(scores: pd.DataFrame, looks: int = 1, tiny: bool = False) -> list[Answer]:
    """An answer for every gain over equal budget; where an arm has no such partner, for those that it has.

    Args:
        scores: `Comparison.scores`.
        looks: How often seeds are added and looked at; the intervals become wider with it.
        tiny: Whether the sizes were those of `--tiny`.

    Example:
        >>> print(*[one.sentence for one in answers(comparison.scores)])  # doctest: +SKIP
        Pretraining pays here: +9.7 points over equal epochs (8.2 to 11.1, 3 seeds).
    """
    means, level = arm_means(scores), 1 - (1 - LEVEL) / looks
    found = gains(means, level, SEEDS)
    if not len(found):
        return []
    tied = found["against"].map(is_tied)
    found = found[tied | ~tied.groupby([found[key] for key in KEY], dropna=False).transform("any")]
    return [_answer(gain, means, level, tiny) for _, gain in found.iterrows()]


def _answer(gain: pd.Series, means: pd.DataFrame, level: float, tiny: bool) -> Answer:
    alike = means[(means["data"] == gain["data"]) & (means["labels"] == gain["labels"])]
    mine = alike[alike["architecture"] == gain["architecture"]]
    arm = mine[(mine["arm"] == gain["arm"]) & (mine["protocol"] == gain["protocol"])].iloc[0]
    base = mine[mine["arm"] == gain["against"]].iloc[0]
    sign = 1 if gain["greater_is_better"] else -1
    best = max(sign * arm["mean"], sign * base["mean"])
    linear = alike[alike["architecture"].str.startswith(BASELINE)].set_index("architecture")
    nothing = _says_nothing(arm, base, best, sign, linear, tiny)
    fitted = linear.drop(f"{BASELINE}majority", errors="ignore")
    ahead = fitted[sign * fitted["mean"] > best]
    first = (sign * ahead["mean"]).idxmax() if len(ahead) else None
    verdict = gain["verdict"] if gain["verdict"] != "no gain" or gain["high"] >= 0 else "loss"
    verdict = "says nothing" if nothing else {"shown": "pays", "open": "undecided"}.get(verdict, verdict)
    chosen = arm if verdict == "pays" else base
    validations = sign * pd.Series(chosen["validations"], dtype=float).fillna(-sign * float("inf"))
    return Answer(
        about=", ".join([arch_label(arm["architecture"]), style(arm["arm"]).label, labels_text(arm["labels"])]),
        verdict=verdict,
        sentence=nothing or _sentence(gain, verdict, level),
        reason=gain["reason"] if verdict == "undecided" else "",
        more_seeds=verdict == "undecided" and gain["reason"] not in REMEDIES,
        model=chosen["runs"][int(validations.argmax())],
        linear="" if first is None else
        f"A linear model on {first.removeprefix(BASELINE)} has {number(ahead.loc[first], 'mean')}: try it first.",
        seeds=int(gain["n"]), level=level, gain=float(gain["value"]),
        **{end: None if pd.isna(gain[end]) else float(gain[end]) for end in ("low", "high")},
    )  # fmt: skip


def _says_nothing(arm: pd.Series, base: pd.Series, best: float, sign: int, linear: pd.DataFrame, tiny: bool) -> str:
    """Why two arms say nothing; "" where they do."""
    if tiny:
        return NOTHING.format("A trial at toy size", "Leave out --tiny")
    steps = int(min(arm["pretrain_steps"], arm["finetune_steps"]))
    if steps < FEWEST_STEPS:
        return NOTHING.format(f"A trial of {steps} step{'s' if steps != 1 else ''}", "Give it more steps")
    constant = linear[linear.index == f"{BASELINE}majority"]
    if len(constant):
        chance = constant.iloc[0]
        noise = 2 * standard_error(arm["metric"], chance["mean"], int(chance["examples"] or 0))
        if best <= sign * chance["mean"] + noise:
            means = " and ".join(number(one, "mean") for one in (arm, base))
            said = f"Both arms are at chance ({means}; a constant answer has {number(chance, 'mean')})"
            return NOTHING.format(said, "Give them more steps or another learning rate")
    return ""


def _sentence(gain: pd.Series, verdict: str, level: float) -> str:
    """The verdict with its numbers: "Pretraining pays here: +6.1 points over equal steps (2.9 to 9.3, 3 seeds)."."""
    percent, margin = gain["metric"] in PERCENT, {**gain, "value": gain["margin"]}
    unit = f"{gain['unit']} " if gain["unit"] else ""
    amount = "points" if percent else f"{unit}{'higher' if gain['greater_is_better'] else 'lower'} {gain['metric']}"
    ties = split_name(gain["against"])[1] or TIES[:1]
    over = f"equal {next(iter(ties))}" if is_tied(gain["against"]) else style(gain["against"]).label
    seeds = "one seed" if gain["n"] == 1 else f"{gain['n']} seeds"
    holds = "" if level == LEVEL else f" at {100 * level:g} %"
    ends = f"{number(gain, 'low')} to {number(gain, 'high')}{holds}, {seeds}" if pd.notna(gain["low"]) else seeds
    above = f" above {100 * gain['margin']:g} points" if percent else f" above {number(margin, 'value')}"
    begins = {
        "pays": "Pretraining pays here", "loss": "Pretraining does harm here", "undecided": "Undecided",
        "no gain": f"No gain{above if gain['margin'] else ''}",
    }  # fmt: skip
    said = f"{begins[verdict]}: {number(gain, 'value', True)} {amount} over {over} ({ends})."
    if gain["reason"].startswith("p >="):
        said += f" Corrected for the gains that were looked at together, p is {gain['p_holm']:.3f}."
    return " ".join([said, *([REMEDIES[gain["reason"]]] if gain["reason"] in REMEDIES else [])])
