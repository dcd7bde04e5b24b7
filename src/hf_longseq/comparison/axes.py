# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What a comparison compares: architectures with their settings, arms, seeds, grid points, fractions of the labels.

An architecture is a name (`s4`), a shipped recipe of the task (`transformer-rotary`), one of transformers
(`hf:modernbert`), or a variant of any of them (`s4@init_normal=0.1`). Arms are words, `NAME` or `NAME@WORD@WORD`, such
as `spt-causal@direction=one`; `docs/comparing.md` says what each is.
"""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hf_longseq import recipes as shipped
from hf_longseq.comparison.arms import from_scratch, split_name
from hf_longseq.errors import HfLongSeqError, did_you_mean
from hf_longseq.training import run_folder
from hf_longseq.training.architectures import is_hf
from hf_longseq.training.arguments import check_seed, convert, plain_scalar
from hf_longseq.training.config import DENOISING, PHASES, USUAL, SPTConfig, phase_fields
from hf_longseq.training.recipe import VARIANTS, Raw, Recipe, architectures_of, joint_settings, read_recipe

# (name of an architecture or variant, objective or None for the recipe's own) -> its settings
Load = Callable[[str, "str | None"], Recipe]
Bases = dict[tuple[str, "str | None"], Recipe]

# Arm -> its objective; None is that of the recipe.
OBJECTIVE_OF = {"spt": None, "spt-masked": "masked", "spt-causal": "causal"}
INITS = ("scratch", *OBJECTIVE_OF, "scratch-tied")
# What `scratch-tied` may have in equal amount; the first is what it ties without a word.
TIES = ("epochs", "steps", "flops")

# The field of a configuration that cuts what a mixer sees, and the word for a model whose mixers see everything.
WINDOW, FULL = "window", "full"

SHORT_KEYS = {"lr": "learning_rate", "batch": "global_batch_size"}


@dataclass(frozen=True)
class Init:
    """An arm.

    `objective` is the one that it names; None is the recipe's. `tie` is the quantity that `scratch-tied` ties. A
    `direction` "one" keeps a causally pretrained model one-directional, "both" pretrains it in both directions; None
    pretrains the forward one and opens the model when it is fine-tuned. `changes` are to settings of pretraining and
    data.
    """

    label: str
    name: str
    objective: str | None = None
    tie: str | None = None
    direction: str | None = None
    changes: Raw = field(default_factory=dict)

    @classmethod
    def parse(cls, label: str) -> "Init":
        """Read an arm."""
        name, *words = label.split("@")
        if name not in INITS:
            raise HfLongSeqError(f"inits holds {label!r}{did_you_mean(name, INITS)}: choose from {', '.join(INITS)}.")
        if name == "scratch-tied":
            if len(words) > 1 or (words and words[0] not in TIES):
                raise HfLongSeqError(
                    f"inits holds {label!r}{did_you_mean(words[0], TIES)}: tie one quantity, as "
                    f"{', '.join(f'scratch-tied@{tie}' for tie in TIES)}."
                )
            return cls(label, name, tie=words[0] if words else TIES[0])
        fields = variant_fields(label)
        if fields and name not in OBJECTIVE_OF:
            raise HfLongSeqError(
                f"inits holds {label!r}: only arms that pretrain have variants, as spt-masked@span_length=8."
            )
        direction = fields.pop("direction", None)
        if direction not in (None, "one", "both"):
            raise HfLongSeqError(
                f"inits holds {label!r}: direction is one, both, or left out to pretrain one and fine-tune both."
            )
        if direction and name == "spt-masked":
            raise HfLongSeqError(f"inits holds {label!r}: only causal pretraining has directions, as spt-causal has.")
        return cls(label, name, OBJECTIVE_OF.get(name), None, direction, _changes(label, fields))

    @property
    def pretrains(self) -> bool:
        return self.name in OBJECTIVE_OF


def _changes(label: str, fields: dict[str, Any]) -> Raw:
    known = [name for name in (*USUAL, *DENOISING) if name != "objective"]
    changes: dict[str, dict] = {}
    for name, value in fields.items():
        if name == "objective" or name not in (*phase_fields(SPTConfig), "pretrain_inputs"):
            raise HfLongSeqError(
                f"inits holds {label!r}, and {name} is not an option of pretraining"
                f"{did_you_mean(name, [*known, 'pretrain_inputs', 'direction'])}: see `hf-longseq pretrain --help`."
            )
        changes.setdefault("data" if name == "pretrain_inputs" else "pretrain", {})[name] = value
    return changes


def variant_fields(label: str) -> dict[str, Any]:
    """The settings that a variant changes: those of the model section for `s4@init_normal=0.1@bidirectional=false`."""
    fields = {}
    for word in label.split("@")[1:]:
        name, equals, text = word.partition("=")
        if not name or not equals or name in fields:
            raise HfLongSeqError(f"variant {label!r}: write NAME@FIELD=VALUE, each field once, as s4@init_normal=0.1.")
        fields[name] = scalar(text)
    return fields


def scalar(value: Any) -> Any:
    """A word of the command line as none, true, false or a number, if it is one."""
    words = {"none": None, "null": None, "true": True, "false": False}
    return words.get(value.lower(), plain_scalar(value)) if isinstance(value, str) else value


@dataclass(frozen=True)
class Axes:
    """What is compared; every value of one with every value of the others."""

    archs: tuple[str, ...]
    inits: tuple[str, ...]
    seeds: tuple[int, ...]
    grid: Mapping[str, tuple] = field(default_factory=dict)
    train_fractions: tuple[float, ...] = ()
    tune_seeds: tuple[int, ...] = ()

    def __post_init__(self):
        for name in self.inits:
            Init.parse(name)
        if not self.archs or not self.seeds or not self.inits:
            raise HfLongSeqError("a comparison needs at least one architecture, one seed and one arm: name them.")
        for name in ("archs", "inits", "seeds", "train_fractions", "tune_seeds"):
            values = list(getattr(self, name))
            if len(set(values)) < len(values):
                raise HfLongSeqError(f"{name} {values} holds something that is named twice: name each once.")
        for seed in (*self.seeds, *self.tune_seeds):
            check_seed(seed)
        if both := set(self.seeds) & set(self.tune_seeds):
            raise HfLongSeqError(f"seed {min(both)} would both choose the settings and report them: use another.")
        for value in self.train_fractions:
            if not 0 < value <= 1:
                raise HfLongSeqError(f"train_fractions holds {value}: give shares in (0, 1].")
        for key, values in self.grid.items():
            if not values or len(set(values)) < len(values):
                raise HfLongSeqError(f"grid {key} is {list(values)}: give different values, separated by commas.")
            if not any(matters(key, self.grid, init) for init in self.inits):
                raise HfLongSeqError(
                    f"grid key {key!r} changes no run of {', '.join(self.archs)} from {', '.join(self.inits)}: leave "
                    "it out, or add the architecture or arm that it is for."
                )
            self._refuse_undoing(key)
            if key.startswith("model.") and "dropout" not in key and len(self.inits) > 1:
                raise HfLongSeqError(
                    f"grid key {key!r} would let each arm choose its own architecture: compare them as variants, "
                    f"--arch NAME@{key.split('.')[-1]}=VALUE."
                )

    def _refuse_undoing(self, key: str) -> None:
        """A variant names its setting in every table, so that no grid may give it another."""
        section, _, field = key.partition(".")
        for name in {"model": self.archs, "pretrain": self.inits}.get(section, ()):
            if split_name(name)[0] != "scratch-tied" and field in variant_fields(name):
                raise HfLongSeqError(f"grid key {key!r} would undo what {name!r} says: leave one of the two out.")


def with_windows(archs: Sequence[str], windows: Sequence[int | str]) -> tuple[str, ...]:
    """Every architecture with every window of its mixers; "full" is the architecture itself.

    Example:
        >>> with_windows(["s4", "cnn"], [16, "full"])
        ('s4@window=16', 's4', 'cnn@window=16', 'cnn')
    """
    for window in windows:
        if window != FULL and (not str(window).isdigit() or int(window) < 1):
            raise HfLongSeqError(f"window is {window!r}: give numbers of positions, and {FULL} for an uncut model.")
    if len(set(map(str, windows))) < len(windows):
        raise HfLongSeqError(f"window {list(windows)} names one twice: name each once.")
    for arch in archs if windows else ():
        if is_hf(arch) or WINDOW in variant_fields(arch):
            why = "is an architecture of transformers" if is_hf(arch) else "names its window itself"
            raise HfLongSeqError(f"window would cut {arch!r}, but it {why}: leave one of the two out.")
    return tuple(
        arch if window == FULL else f"{arch}@{WINDOW}={int(window)}" for arch in archs for window in windows or [FULL]
    )


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
    if not from_scratch(init):
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
        arch, own = split_name(name)[0], raw
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
