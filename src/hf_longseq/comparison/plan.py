# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Which runs a comparison consists of, what each is called, and which pretraining run serves which others.

A plan is the product of architectures, initialisations, fractions of the training split, grid points and seeds:

    scratch        F supervised steps
    spt            P steps of denoising the same inputs with the recipe's objective, then F supervised steps
    spt-masked     the same with the masked objective
    spt-causal     the same with the causal objective, and with a model that only looks back
    scratch-tied   P + F supervised steps: what the labels alone make of the steps that pretraining took

An arm that pretrains may have variants with other settings of pretraining: `spt-masked@span_length=16`,
`spt-masked@pretrain_inputs=100`.

`compute_tied` takes the P steps out of the F of every `spt` run instead, so that all runs take F steps.
"""

import hashlib
import itertools
import json
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hf_longseq.errors import HfLongSeqError, did_you_mean
from hf_longseq.training.arguments import SECTIONS, DataSection, check_seed, convert, plain_scalar, section_options
from hf_longseq.training.recipe import Raw, Recipe
from hf_longseq.training.trainer_fields import is_trainer_field, trainer_fields

# Arm -> its objective; None is that of the recipe.
OBJECTIVE_OF = {"spt": None, "spt-masked": "masked", "spt-causal": "causal"}
INITS = ("scratch", *OBJECTIVE_OF, "scratch-tied")
SHORT_KEYS = {"lr": "learning_rate", "batch": "global_batch_size"}
# Grid keys of pretraining that change how many steps it takes, and with them `scratch-tied`.
BUDGET_KEYS = tuple(f"pretrain.{name}" for name in ("max_steps", "num_train_epochs", "global_batch_size"))

# (name of an architecture or variant, objective or None) -> its settings
Load = Callable[[str, "str | None"], Recipe]


@dataclass(frozen=True)
class Axes:
    """What is compared; every value of one with every value of the others."""

    archs: tuple[str, ...]
    inits: tuple[str, ...]
    seeds: tuple[int, ...]
    grid: Mapping[str, tuple] = field(default_factory=dict)
    train_fractions: tuple[float, ...] = ()
    compute_tied: bool = False

    def __post_init__(self):
        for name in self.inits:
            if plain(name) not in INITS:
                raise HfLongSeqError(
                    f"inits holds {name!r}{did_you_mean(name, INITS)}: choose from {', '.join(INITS)}."
                )
            init_settings(name)
        if not self.archs or not self.seeds or not self.inits:
            raise HfLongSeqError("a comparison needs at least one architecture, one seed and one arm: name them.")
        for name in ("archs", "inits", "seeds", "train_fractions"):
            values = list(getattr(self, name))
            if len(set(values)) < len(values):
                raise HfLongSeqError(f"{name} {values} holds something that is named twice: name each once.")
        for seed in self.seeds:
            check_seed(seed)
        for value in self.train_fractions:
            if not 0 < value <= 1:
                raise HfLongSeqError(f"train_fractions holds {value}: give shares in (0, 1].")
        for key, values in self.grid.items():
            if not values or len(set(values)) < len(values):
                raise HfLongSeqError(f"grid {key} is {list(values)}: give different values, separated by commas.")
            if not any(_matters(key, self.grid, arch, init) for arch in self.archs for init in self.inits):
                raise HfLongSeqError(
                    f"grid key {key!r} changes no run of {', '.join(self.archs)} from {', '.join(self.inits)}: leave "
                    "it out, or add the architecture or arm that it is for."
                )
            self._refuse_undoing(key)

    def _refuse_undoing(self, key: str) -> None:
        """A variant names its setting in every table, so that no grid may give it another."""
        section, *path = key.split(".")
        for name in {"model": self.archs, "pretrain": self.inits}.get(section, ()):
            if path[-1] in variant_fields(name) and (len(path) == 1 or path[0] == plain(name)):
                raise HfLongSeqError(f"grid key {key!r} would undo what {name!r} says: leave one of the two out.")


@dataclass(frozen=True)
class Run:
    """One run of the plan, with the settings it is made with.

    `fraction` is None where the plan has no fractions, and in pretraining that all fractions share.
    """

    name: str
    phase: str
    arch: str
    init: str
    seed: int
    fraction: float | None
    grid: dict[str, Any]
    recipe: Recipe
    steps: int
    train_examples: int
    pretrained: str | None = None
    score_test: bool = False

    def record(self) -> dict[str, Any]:
        """What `plan.json` holds of a run."""
        fields = {name: value for name, value in vars(self).items() if name != "recipe"}
        objective = None if self.init.startswith("scratch") else self.recipe.pretrain.objective
        return {**fields, "objective": objective, "identity": self.identity()}

    def identity(self) -> str:
        """Hash of all that decides the outcome of the run; its name may be any other."""
        section = self.phase if self.pretrained or self.phase == "pretrain" else "scratch"
        parts = [self.phase, self.arch, self.init, self.seed, self.pretrained]
        parts += [_changed(getattr(self.recipe, name)) for name in ("model", "data", section)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _changed(section: Any) -> dict[str, Any]:
    """What of a section is not at its default, so that options of later versions leave identities as they are."""
    default = asdict(type(section)())
    return {name: value for name, value in asdict(section).items() if value != default[name]}


def parse_grid(words: Sequence[str] | Mapping[str, Sequence]) -> dict[str, tuple]:
    """Read `lr=1e-3,5e-4 batch=16,64`, or a mapping of lists; the keys are checked.

    Raises:
        HfLongSeqError: For a word without "=", a key that no section has, or one named twice.
    """
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
        grid[key] = tuple(convert(_scalar(value), kind, f"grid {key}") for value in values)
    for short, name in SHORT_KEYS.items():
        for section in ("finetune", "scratch"):
            if short in grid and f"{section}.{name}" in grid:
                raise HfLongSeqError(f"grid keys {short!r} and '{section}.{name}' name the same setting: keep one.")
    return grid


def _scalar(value: Any) -> Any:
    words = {"none": None, "null": None, "true": True, "false": False}
    return words.get(value.lower(), plain_scalar(value)) if isinstance(value, str) else value


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
    keys = [key for key in grid if _matters(key, grid, arch, init)]
    return [dict(zip(keys, values, strict=True)) for values in itertools.product(*(grid[key] for key in keys))]


def _matters(key: str, grid: Mapping[str, tuple], arch: str, init: str) -> bool:
    section, *path = key.split(".")
    if section == "model":
        return len(path) == 1 or path[0] == plain(arch)
    if pretrains(init) or init == "pretrain":
        return section == "pretrain" if init == "pretrain" else section != "scratch"
    if section == "pretrain":
        return init == "scratch-tied" and key in BUDGET_KEYS
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


def plain(label: str) -> str:
    """The architecture or arm of a variant: `s4` of `s4@init_normal=0.1`."""
    return label.split("@")[0]


def variant_fields(label: str) -> dict[str, Any]:
    """The settings that a variant changes: those of the model section for `s4@init_normal=0.1@bidirectional=false`."""
    fields = {}
    for word in label.split("@")[1:]:
        name, equals, text = word.partition("=")
        if not name or not equals or name in fields:
            raise HfLongSeqError(f"variant {label!r}: write NAME@FIELD=VALUE, each field once, as s4@init_normal=0.1.")
        fields[name] = _scalar(text)
    return fields


def pretrains(init: str) -> bool:
    """Whether an arm begins with self-pretraining."""
    return plain(init) in OBJECTIVE_OF


def objective_of(init: str) -> str | None:
    """The objective that an arm names; None for the recipe's, and for arms without pretraining."""
    return OBJECTIVE_OF.get(plain(init))


def init_settings(init: str) -> Raw:
    """What the variant of an arm changes: options of pretraining, or the number of inputs that it reads.

    Raises:
        HfLongSeqError: If the arm does not pretrain, or pretraining has no such option.
    """
    fields = variant_fields(init)
    if fields and not pretrains(init):
        raise HfLongSeqError(
            f"inits holds {init!r}: only arms that pretrain have variants, as spt-masked@span_length=8."
        )
    known = [option.name for option in section_options(SECTIONS["pretrain"]) if option.name != "objective"]
    changes: dict[str, dict] = {}
    for name, value in fields.items():
        if name not in (*known, "pretrain_inputs") and not is_trainer_field(name):
            raise HfLongSeqError(
                f"inits holds {init!r}, and {name} is no option of pretraining"
                f"{did_you_mean(name, [*known, 'pretrain_inputs'])}: see `hf-longseq pretrain --help`."
            )
        changes.setdefault("data" if name == "pretrain_inputs" else "pretrain", {})[name] = value
    return changes


def fraction_of(section: DataSection, fraction: float | None, num_train_examples: int) -> DataSection:
    """The data section for a fraction of the labelled examples that it asks for itself."""
    if fraction is None or fraction == 1:
        return section
    if section.num_train_examples is not None:
        return replace(section, num_train_examples=round(fraction * section.num_train_examples))
    whole = section.train_fraction or 1.0
    if round(fraction * whole * num_train_examples) < 1:
        raise HfLongSeqError(
            f"train_fractions holds {fraction}, but task {section.task!r} has {num_train_examples} training examples: "
            "leave out fractions that hold none."
        )
    return replace(section, train_fraction=fraction * whole)


class Planner:
    """Builds the runs of a plan.

    Args:
        axes: What is compared.
        load: Gives the recipe of an architecture and an objective.
        count: Gives for a data section the numbers of pretraining inputs and of labelled examples.
        num_train_examples: Size of the whole training split.
        names: Names that runs of an earlier, smaller plan in the same folder have, by identity.
    """

    def __init__(
        self,
        axes: Axes,
        load: Load,
        count: Callable[[DataSection], tuple[int, int]],
        num_train_examples: int,
        names: Mapping[str, str] | None = None,
    ):
        self.axes = axes
        self.load = load
        self.count = count
        self.num_train_examples = num_train_examples
        self.names = dict(names or {})
        self.runs: dict[str, Run] = {}

    def plan(self) -> list[Run]:
        """All runs, each after the one it starts from."""
        axes = self.axes
        fractions = axes.train_fractions or (None,)
        for seed, fraction, arch in itertools.product(axes.seeds, fractions, axes.archs):
            for init in axes.inits:
                points = grid_points(axes.grid, arch, init)
                for point in points:
                    self._add_arm(arch, init, seed, fraction, point, score_test=len(points) == 1)
        return list(self.runs.values())

    def _add_arm(self, arch: str, init: str, seed: int, fraction: float | None, point: dict, score_test: bool):
        recipe = with_point(with_settings(self.load(arch, objective_of(init)), init_settings(init)), point)
        whole = recipe.data
        recipe = replace(recipe, data=fraction_of(whole, fraction, self.num_train_examples))
        labelled = self.count(recipe.data)[1]
        pretraining = self._pretraining(arch, init, seed, fraction, point, recipe, whole)
        if pretrains(init) and "scratch-tied" in self.axes.inits:
            self._refuse_untied(pretraining, init, fraction, point)
        section = "finetune" if pretrains(init) else "scratch"
        steps = getattr(recipe, section).steps(labelled)
        if init == "scratch-tied":
            steps += pretraining.steps
        elif self.axes.compute_tied and pretrains(init):
            if steps <= pretraining.steps:
                raise HfLongSeqError(
                    f"compute_tied takes the {pretraining.steps} steps of pretraining out of the {steps} of "
                    f"fine-tuning of {arch}, and none is left: pretrain for fewer steps, or fine-tune for more."
                )
            steps -= pretraining.steps
        if init == "scratch-tied" or (self.axes.compute_tied and pretrains(init)):
            recipe = replace(recipe, **{section: replace(getattr(recipe, section), max_steps=steps)})
        started = self._add(pretraining) if pretrains(init) else None
        several = {key: value for key, value in point.items() if len(self.axes.grid[key]) > 1}
        name = "-".join([slug(arch), slug(init), *self._parts(fraction, several), f"s{seed}"])
        run = Run(name, "finetune", arch, init, seed, fraction, point, recipe, steps, labelled)
        self._add(replace(run, pretrained=started, score_test=score_test))

    def _refuse_untied(self, pretraining: Run, init: str, fraction: float | None, point: dict) -> None:
        """`scratch-tied` can have the steps of one pretraining only: that of the recipe."""
        arch, recipe = pretraining.arch, with_point(self.load(pretraining.arch, None), point)
        whole, recipe = recipe.data, replace(recipe, data=fraction_of(recipe.data, fraction, self.num_train_examples))
        added = self._pretraining(arch, "scratch-tied", pretraining.seed, fraction, point, recipe, whole).steps
        if added != pretraining.steps:
            raise HfLongSeqError(
                f"inits holds {init!r}, which pretrains {arch} for {pretraining.steps} steps, beside 'scratch-tied', "
                f"which adds {added}: leave one of them out, or give the steps to all arms (pretrain.max_steps)."
            )

    def _pretraining(self, arch, init, seed, fraction, point, recipe: Recipe, whole: DataSection) -> Run:
        """The run that an arm starts from (for `scratch-tied`, whose steps it adds)."""
        mine = {key: value for key, value in point.items() if _matters(key, self.axes.grid, arch, "pretrain")}
        if recipe.data.pretrain_inputs != "subset":  # the same inputs for every fraction
            recipe, fraction = replace(recipe, data=whole), None
        inputs = self.count(recipe.data)[0]
        several = {key: value for key, value in mine.items() if len(self.axes.grid[key]) > 1}
        marked = plain(init) != "spt" and recipe.pretrain.objective == "causal"
        words = [slug(arch), "pretrain", *(["causal"] if marked else []), *map(slug, init.split("@")[1:])]
        words += [*self._parts(fraction, several), f"s{seed}"]
        steps = recipe.pretrain.steps(inputs)
        return Run("-".join(words), "pretrain", arch, "pretrain", seed, fraction, mine, recipe, steps, inputs)

    def _parts(self, fraction: float | None, point: dict[str, Any]) -> list[str]:
        parts = [f"f{fraction:g}"] if fraction is not None and len(self.axes.train_fractions) > 1 else []
        short = {"lr": "lr", "batch": "b"}
        values = {key: f"{value:g}" if isinstance(value, float) else str(value) for key, value in point.items()}
        return parts + [slug(f"{short.get(key, key)}{value}") for key, value in values.items()]

    def _add(self, run: Run) -> str:
        """Add a run unless one that does the same is there; return the name under which it is done."""
        name = self.names.setdefault(run.identity(), run.name)
        there = self.runs.get(name)
        if there is None:
            self.runs[name] = replace(run, name=name)
        elif there.identity() != run.identity():
            raise HfLongSeqError(
                f"two different runs would be called {name}: use a new output_dir, or name the architectures apart."
            )
        return name


def slug(text: str) -> str:
    """A name as part of a folder's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)
