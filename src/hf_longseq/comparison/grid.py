# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The grid of a comparison: its keys, the points that make a difference to an arm, and a recipe at a point."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from hf_longseq.comparison.inits import pretrains, scalar
from hf_longseq.errors import HfLongSeqError, did_you_mean
from hf_longseq.training.arguments import convert
from hf_longseq.training.config import PHASES, phase_fields
from hf_longseq.training.recipe import Recipe

SHORT_KEYS = {"lr": "learning_rate", "batch": "global_batch_size"}


def parse_grid(words: Sequence[str] | Mapping[str, Sequence]) -> dict[str, tuple]:
    """Read `lr=1e-3,5e-4 batch=16,64`, or a mapping of lists; the keys are checked."""
    if isinstance(words, Mapping):
        pairs = [(key, list(values)) for key, values in words.items()]
    else:
        pairs = []
        for word in words:
            key, equals, text = word.partition("=")
            if not equals:
                raise HfLongSeqError(f"--grid has {word!r}: write KEY=VALUE,VALUE, for example lr=1e-3,5e-4.")
            pairs.append((key, [item for item in text.split(",") if item]))
    grid: dict[str, tuple] = {}
    for key, values in pairs:
        kind = _kind_of(key)
        if key in grid:
            raise HfLongSeqError(f"grid key {key!r} is named twice: name it once, with all its values.")
        grid[key] = tuple(convert(scalar(value), kind, f"grid {key}") for value in values)
    for short, name in SHORT_KEYS.items():
        for section in ("finetune", "scratch"):
            if short in grid and f"{section}.{name}" in grid:
                raise HfLongSeqError(f"grid keys {short!r} and '{section}.{name}' name the same setting: keep one.")
    return grid


def _kind_of(key: str) -> Any:
    """The type of a grid key's values, or an error that names the closest key."""
    section, _, name = key.partition(".")
    if key in SHORT_KEYS:
        section, name = "finetune", SHORT_KEYS[key]
    elif section == "model" and name:
        return Any  # the architecture's configuration checks it
    elif key == "pretrain.objective":
        raise HfLongSeqError("grid key 'pretrain.objective': compare objectives with --inits spt-masked,spt-causal.")
    elif section == "data":
        raise HfLongSeqError(f"grid key {key!r} changes the data: compare on the same data, or use --train_fractions.")
    if section not in PHASES or name not in phase_fields(PHASES[section]):
        known = [f"{section}.{name}" for section, phase in PHASES.items() for name in phase_fields(phase)]
        close = did_you_mean(key, SHORT_KEYS) or did_you_mean(key if name else f"finetune.{key}", known)
        raise HfLongSeqError(
            f"there is no grid key {key!r}{close}: use lr, batch, or SECTION.NAME with an option of model, pretrain, "
            "finetune or scratch."
        )
    return phase_fields(PHASES[section])[name]


def grid_points(grid: Mapping[str, tuple], init: str) -> list[dict[str, Any]]:
    """The points of the grid that make a difference to an arm."""
    keys = [key for key in grid if matters(key, grid, init)]
    return [dict(zip(keys, values, strict=True)) for values in itertools.product(*(grid[key] for key in keys))]


def matters(key: str, grid: Mapping[str, tuple], init: str) -> bool:
    """Whether a grid key changes the runs of an arm, or of pretraining."""
    section, _, name = key.partition(".")
    if section == "model":
        return True
    if pretrains(init) or init == "pretrain":
        return section == "pretrain" if init == "pretrain" else section != "scratch"
    if section == "pretrain":
        return False
    return not (section == "finetune" and f"scratch.{name}" in grid)


def with_point(recipe: Recipe, point: Mapping[str, Any]) -> Recipe:
    """The recipe with the settings of a grid point; those of fine-tuning also hold for runs from scratch."""
    changes: dict[str, dict] = {}
    for key, value in point.items():
        section, _, name = key.partition(".")
        name = SHORT_KEYS.get(key, name)
        sections = ("finetune", "scratch") if key in SHORT_KEYS or section == "finetune" else (section,)
        for where in sections:
            changes.setdefault(where, {})[name] = value
            if name == "global_batch_size" and (getattr(recipe, where).per_device_train_batch_size or 0) > value:
                changes[where]["per_device_train_batch_size"] = value  # a smaller step fits where a larger one did
    return recipe.changed(changes)
