# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Where the settings of each architecture of a comparison come from, and where the comparison's folder keeps them.

A name in a plan is an architecture (`s4`), a shipped recipe of the task (`transformer-rotary`), an architecture of
transformers (`hf:modernbert`), or a variant of any of them (`s4@init_normal=0.1`).
"""

import functools
import itertools
from pathlib import Path

from hf_longseq import recipes as shipped
from hf_longseq.comparison.axes import Axes, Init, plain, variant_fields
from hf_longseq.comparison.plan import Load
from hf_longseq.comparison.results import PLAN
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training import run_folder
from hf_longseq.training.recipe import VARIANTS, Raw, Recipe, architectures_of, joint_settings, read_recipe

# (name in the plan, objective or None for the recipe's own) -> settings
Bases = dict[tuple[str, "str | None"], Recipe]


def recipe_loader(
    source: "str | Path | Raw | Recipe | None", overrides: Raw | None, tiny: bool
) -> tuple[Load, list[str]]:
    """How to get the recipe of an architecture, and the architectures that the recipe or the overrides name."""
    overrides = overrides or {}
    raw = source.to_dict() if isinstance(source, Recipe) else read_recipe(source)
    task = (overrides.get("data") or {}).get("task")

    @functools.cache
    def load(name: str, objective: str | None) -> Recipe:
        if name in (raw.get(VARIANTS) or {}):
            return Recipe.load(raw, overrides, arch=name, objective=objective, tiny=tiny)
        arch, own = plain(name), raw
        if source is None and task:
            arch, own = shipped_recipe(task, arch)
        recipe = Recipe.load(own, overrides, arch=arch, objective=objective, tiny=tiny)
        return recipe.changed({"model": variant_fields(name)})

    return load, architectures_of(raw, overrides)


def shipped_recipe(task: str, name: str) -> tuple[str, Raw]:
    """The architecture and the settings of a shipped recipe of a task, such as "s4" or "transformer-rotary".

    An architecture without one has the default settings, and the data of the task's other recipes.
    """
    if f"{task}/{name}" in shipped.names():
        raw = read_recipe(f"{task}/{name}")
        return architectures_of(raw)[0], raw
    others = [other for other in shipped.names() if other.startswith(f"{task}/")]
    return name, {"data": read_recipe(others[0]).get("data") or {}} if others else {}


def run_section(axes: Axes) -> Raw:
    """What `resolved.yaml` says of the plan."""
    lists = {name: list(values) for name, values in vars(axes).items() if name != "grid"}
    grid = {key: list(values) for key, values in axes.grid.items()}
    return {"phase": "compare", **lists, "tune": bool(axes.tune_seeds), "grid": grid}


def base_recipes(axes: Axes, load: Load) -> Bases:
    """The recipe of each architecture and objective of the plan, all on the same data."""
    objectives = dict.fromkeys([None, *(Init.parse(label).objective for label in axes.inits)])
    bases = {(arch, objective): load(arch, objective) for arch in axes.archs for objective in objectives}
    first, *others = bases.values()
    if any(recipe.data != first.data for recipe in others):
        raise HfLongSeqError("the data section differs between architectures: compare them on the same data.")
    return bases


def earlier_names(output_dir: Path) -> dict[str, str]:
    """Names of the runs that the plans in a folder have had, by what they do: a larger plan finds them by these."""
    plan = run_folder.read_json(output_dir / PLAN) if (output_dir / PLAN).is_file() else {"names": {}}
    return plan["names"]


def is_extension(output_dir: Path, settings: Raw, bases: Bases) -> bool:
    """Whether settings are those of the comparison in a folder, or have more of some axis: what is finished stays."""
    found = run_folder.read_resolved(output_dir)
    if found is None or (found.get("run") or {}).get("phase") != "compare":
        return False
    old, new = found.pop("run"), settings["run"]
    axes = ("seeds", "inits", "archs", "train_fractions")
    if old["tune_seeds"] != new["tune_seeds"] or any(not set(old[name]) <= set(new[name]) for name in axes):
        return False
    if any(not set(values) <= set(new["grid"].get(key, ())) for key, values in old["grid"].items()):
        return False
    objectives = dict.fromkeys([None, *(Init.parse(label).objective for label in old["inits"])])
    pairs = itertools.product(old["archs"], objectives)
    return not run_folder.first_difference(found, joint_settings({pair: bases[pair] for pair in pairs}))
