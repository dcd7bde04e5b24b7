# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Budgets that make arms comparable: the steps of `scratch-tied`, and one number of evaluations for all arms."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.recipe import Recipe

EVALUATIONS = 10
# (recipe, "pretrain", "finetune" or "scratch") -> operations of training on one example, None if not countable
CountFlops = Callable[[Recipe, str], "float | None"]


@dataclass(frozen=True)
class Spent:
    """What an arm that pretrains takes in both phases, with so many labelled examples."""

    recipe: Recipe
    pretrain_steps: int
    finetune_steps: int
    labels: int

    def of(self, tie: str, flops: CountFlops) -> float | None:
        """The amount of a tied quantity: steps, operations, or epochs of the labels that as many examples make."""
        pretrain: Any = self.recipe.pretrain.global_batch_size  # a loaded recipe has both
        finetune: Any = self.recipe.finetune.global_batch_size
        if tie == "steps":
            return self.pretrain_steps + self.finetune_steps
        examples = self.pretrain_steps * pretrain, self.finetune_steps * finetune
        if tie == "epochs":
            return sum(examples) / self.labels
        first, second = flops(self.recipe, "pretrain"), flops(self.recipe, "finetune")
        return None if first is None or second is None else examples[0] * first + examples[1] * second


def tied_steps(
    tie: str, spents: Iterable[Spent], recipe: Recipe, scratch_steps: int, label: str, flops: CountFlops
) -> int:
    """Steps from scratch that take as much as an arm with pretraining does at each point of its grid."""
    arch, spents = recipe.model.arch, list(spents)
    amounts: list[Any] = [spent.of(tie, flops) for spent in spents]
    cost = flops(recipe, "scratch") if tie == "flops" else 1.0
    if any(amount is None for amount in amounts) or cost is None:
        raise HfLongSeqError(f"{label} ties operations, which cannot be counted for {arch}: tie epochs or steps.")
    if max(amounts) > 1.01 * min(amounts):
        raise HfLongSeqError(
            f"{label} cannot equal an arm of {arch} whose {tie} differ from grid point to grid point: leave the key "
            f"that changes them out of the grid, or give its budgets in {'steps' if tie == 'steps' else 'epochs'}."
        )
    batch: Any = recipe.scratch.global_batch_size
    per_step = {"steps": 1.0, "epochs": batch / spents[0].labels, "flops": batch * cost}[tie]
    steps = round(amounts[0] / per_step)
    if steps <= scratch_steps:
        raise HfLongSeqError(
            f"{label} would take {steps} steps of {arch}, which adds nothing to the {scratch_steps} of 'scratch' "
            f"({spents[0].pretrain_steps} steps of pretraining): leave it out, or tie something else."
        )
    return steps


def equal_evaluations(wanted: int, steps: Iterable[int]) -> int:
    """The largest number of evaluations, `wanted` at most, that runs of all these lengths can have."""
    steps = set(steps)
    possible = (n for n in range(wanted, 1, -1) if all(math.ceil(s / math.ceil(s / n)) == n for s in steps))
    return next(possible, 1)


def wanted_evaluations(recipe: Recipe, steps: int) -> int:
    """The evaluations that a recipe asks for in a fine-tuning run of so many steps."""
    every = recipe.finetune.eval_steps
    return max(1, steps // every) if every else EVALUATIONS
