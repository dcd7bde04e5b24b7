# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The grid of a comparison: its keys, the points that make a difference to an arm, and a recipe at a point."""

import itertools
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from hf_longseq.comparison.inits import plain, pretrains, scalar
from hf_longseq.errors import HfLongSeqError, did_you_mean
from hf_longseq.training.arguments import SECTIONS, convert, section_options
from hf_longseq.training.recipe import Raw, Recipe
from hf_longseq.training.trainer_fields import is_trainer_field, trainer_fields

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
    options = {
        name: [option.name for option in section_options(SECTIONS[name])]
        for name in ("pretrain", "finetune", "scratch")
    }
    known = [*SHORT_KEYS, *(f"{section}.{name}" for section, names in options.items() for name in names)]
    section, _, name = key.partition(".")
    if key in SHORT_KEYS:
        section, name = "finetune", SHORT_KEYS[key]
    elif section == "model" and name:
        return Any  # the architecture's configuration checks it
    elif key == "pretrain.objective":
        raise HfLongSeqError("grid key 'pretrain.objective': compare objectives with --inits spt-masked,spt-causal.")
    elif section == "data":
        raise HfLongSeqError(f"grid key {key!r} changes the data: compare on the same data, or use --train_fractions.")
    elif key not in known and section in options and is_trainer_field(name):
        return trainer_fields()[name]
    elif key not in known:
        close = did_you_mean(key, SHORT_KEYS) or did_you_mean(key if name else f"finetune.{key}", known)
        raise HfLongSeqError(
            f"there is no grid key {key!r}{close}: use lr, batch, or SECTION.NAME with an option of model, pretrain, "
            "finetune or scratch."
        )
    return typing.get_type_hints(SECTIONS[section])[name]


def grid_points(grid: Mapping[str, tuple], arch: str, init: str) -> list[dict[str, Any]]:
    """The points of the grid that make a difference to an arm of an architecture."""
    keys = [key for key in grid if matters(key, grid, arch, init)]
    return [dict(zip(keys, values, strict=True)) for values in itertools.product(*(grid[key] for key in keys))]


def matters(key: str, grid: Mapping[str, tuple], arch: str, init: str) -> bool:
    section, *path = key.split(".")
    if section == "model":
        return len(path) == 1 or path[0] == plain(arch)
    if pretrains(init) or init == "pretrain":
        return section == "pretrain" if init == "pretrain" else section != "scratch"
    if section == "pretrain":
        return False
    return not (section == "finetune" and f"scratch.{path[0]}" in grid)


def with_point(recipe: Recipe, point: Mapping[str, Any]) -> Recipe:
    """The recipe with the settings of a grid point; those of fine-tuning also hold for runs from scratch."""
    changes: dict[str, dict] = {}
    for key, value in point.items():
        section, *path = key.split(".")
        name = SHORT_KEYS[key] if key in SHORT_KEYS else path[-1]
        sections = ("finetune", "scratch") if key in SHORT_KEYS or section == "finetune" else (section,)
        for where in sections:
            changes.setdefault(where, {})[name] = value
            if name == "global_batch_size" and (getattr(recipe, where).per_device_train_batch_size or 0) > value:
                changes[where]["per_device_train_batch_size"] = value  # a smaller step fits where a larger one did
    return with_settings(recipe, changes)


def with_settings(recipe: Recipe, changes: Raw) -> Recipe:
    """The recipe with some settings changed, checked anew."""
    return Recipe.load(recipe, changes, arch=recipe.model.arch) if changes else recipe
