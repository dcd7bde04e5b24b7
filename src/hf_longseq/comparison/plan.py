# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Which runs a comparison consists of, what each is called, and which pretraining run serves which others.

A plan is the product of architectures, arms (`axes.py`), fractions of the training split, grid points and seeds. Arms
of an architecture differ in one thing only, and the planner adds the partners from scratch that this takes: with the
same fine-tuned model, with the same budget, with as many evaluations and grid points to choose from.
"""

import functools
import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hf_longseq.comparison.axes import Axes, Init, Load, grid_points, matters, with_point
from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.architectures import is_hf, looking_back
from hf_longseq.training.arguments import DataSection
from hf_longseq.training.recipe import Recipe

EVALUATIONS = 10
# (recipe, "pretrain", "finetune" or "scratch") -> operations of training on one example, None if not countable
CountFlops = Callable[[Recipe, str], "float | None"]
# architecture, arm, fraction -> the grid point that tuning chose
Choices = Mapping[tuple[str, str, "float | None"], dict[str, Any]]


@dataclass(frozen=True)
class Run:
    """One run of the plan, with the settings it is made with.

    `fraction` is None where the plan has no fractions, and in pretraining that all fractions share. The fields from
    `tuning` on are described with the columns of `scores.csv`.
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
    tuning: bool = False
    protocol: str | None = None
    scratch: str | None = None
    scratch_tied: tuple[str, ...] = ()
    tie: str | None = None

    def record(self) -> dict[str, Any]:
        """What `plan.json` holds of a run."""
        fields = {name: value for name, value in vars(self).items() if name != "recipe"}
        fields["scratch_tied"] = list(self.scratch_tied)  # as JSON gives it back
        objective = None if self.init.startswith("scratch") else self.recipe.pretrain.objective
        subset_seed = self.recipe.data.subset_seed
        return {**fields, "objective": objective, "subset_seed": subset_seed, "identity": self.identity()}

    def identity(self) -> str:
        """Hash of all that decides the outcome of the run; its name may be any other."""
        section = self.phase if self.pretrained or self.phase == "pretrain" else "scratch"
        parts = [self.phase, self.arch, self.init, self.seed, self.pretrained]
        parts += [_changed(getattr(self.recipe, name)) for name in ("model", "data", section)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _changed(section: Any) -> dict[str, Any]:
    """What of a section is not at its default, so that options of later versions leave identities as they are.

    The tracker is left out: it may change while a comparison goes on.
    """
    default = _defaults(section.__class__)
    found = {name: value for name, value in asdict(section).items() if value != default[name]}
    return {name: value for name, value in found.items() if name not in ("report_to", "trackio_space_id")}


@functools.cache
def _defaults(kind: type) -> dict[str, Any]:
    """A section at its defaults; one of a phase takes a while to make, and every run of a plan asks for it."""
    return asdict(kind())


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


@dataclass(frozen=True)
class Arm:
    """An arm of an architecture, before its data and grid points: `partner` is the label of the one from scratch with
    the same fine-tuned model, `tied_to` the arm whose budget `scratch-tied` has."""

    label: str
    recipe: Recipe
    init: Init
    partner: str
    tied_to: "Arm | None" = None


@dataclass
class Planner:
    """Builds the runs of a plan.

    Args:
        count: Gives for a data section the numbers of pretraining inputs and of labelled examples.
        num_train_examples: Gives the size of the whole training split, which is asked for once the arms are sound.
        names: Names that runs of earlier, smaller plans in the same folder have, by identity.
    """

    axes: Axes
    load: Load
    count: Callable[[DataSection], tuple[int, int]]
    num_train_examples: Callable[[], int]
    names: dict[str, str] = field(default_factory=dict)
    flops: CountFlops = lambda recipe, phase: None
    runs: dict[str, Run] = field(default_factory=dict)
    _pointed: dict[str, Recipe] = field(default_factory=dict)  # seeds and fractions ask for the same points again

    def plan(self, choices: Choices | None = None) -> list[Run]:
        """All runs, each after the one it starts from; with `tune_seeds`, those of `seeds` by the choices made.

        Of an arm that `choices` does not name, the first point is taken; without `choices`, none is.
        """
        fractions = self.axes.train_fractions or (None,)
        for seed, fraction, arch in itertools.product(self.axes.tune_seeds, fractions, self.axes.archs):
            self._add_arms(arch, fraction, seed, tuning=True)
        if choices is not None or not self.axes.tune_seeds:
            for seed, fraction, arch in itertools.product(self.axes.seeds, fractions, self.axes.archs):
                self._add_arms(arch, fraction, seed, choices=choices)
        return list(self.runs.values())

    def _add_arms(
        self, arch: str, fraction: float | None, seed: int, tuning: bool = False, choices: Choices | None = None
    ) -> None:
        arms = list(self._arms(arch, fraction, seed))
        points = {arm.label: self._points(arch, arm) for arm in arms}
        if self.axes.tune_seeds and len({len(found) for found in points.values()}) > 1:
            sizes = ", ".join(f"{label} {len(found)}" for label, found in points.items())
            raise HfLongSeqError(f"the arms of {arch} would choose among grids of different sizes ({sizes}): give "
                                 "all the same keys, lr and batch.")  # fmt: skip
        steps = {
            arm.label: [self._steps(arm, arch, point, fraction, seed) for point in points[arm.label]] for arm in arms
        }
        whole = self._at(self.load(arch, None), {}, fraction, seed)
        section = whole.finetune
        total = section.steps(self.count(whole.data)[1])
        wanted = max(1, total // section.eval_steps) if section.eval_steps else EVALUATIONS
        evaluations = equal_evaluations(wanted, itertools.chain(*steps.values()))
        labels = {arm.label for arm in arms}
        for arm in arms:
            tied = tuple(other.label for other in arms if other.tied_to and self._is_tied(other, arm, fraction, seed))
            partner = arm.partner if arm.partner in labels and arm.partner != arm.label else None
            for point, count in zip(points[arm.label], steps[arm.label], strict=True):
                if choices is not None and point != choices.get((arch, arm.label, fraction), points[arm.label][0]):
                    continue
                single = len(points[arm.label]) == 1 or choices is not None
                run = self._run(arm, arch, point, fraction, seed, count, math.ceil(count / evaluations))
                self._add(replace(run, score_test=single and not tuning, tuning=tuning, scratch=partner,
                                  scratch_tied=tied, tie=arm.init.tie))  # fmt: skip

    def _arms(self, arch: str, fraction: float | None, seed: int) -> Iterator[Arm]:
        """The arms that are asked for, and the partners from scratch that they need."""
        base = self.load(arch, None)
        inits = [Init.parse(label) for label in self.axes.inits]
        pretrained = [self._pretrained_arm(arch, base, init) for init in inits if init.pretrains]
        for init in inits:
            if init.pretrains:
                yield next(arm for arm in pretrained if arm.label == init.label)
            elif init.name == "scratch":
                models = {"scratch": base.model, **{arm.partner: arm.recipe.model for arm in pretrained}}
                for label, model in models.items():
                    yield Arm(label, replace(base, model=model), init, label)
            else:
                yield from self._tied_arms(arch, base, init, pretrained, fraction, seed)

    def _pretrained_arm(self, arch: str, base: Recipe, init: Init) -> Arm:
        recipe = self.load(arch, init.objective).changed(init.changes)
        if init.direction:
            recipe = _directed(recipe, init)
        fields, own = base.model.fields, recipe.model.fields
        changed = {name: value for name, value in own.items() if name not in fields or fields[name] != value}
        words = [f"{name}={value}" for name, value in changed.items()]
        if fields.get("bidirectional") and not own.get("bidirectional"):
            words = ["direction=one", *(word for word in words if not word.startswith(("bidirectional", "ema_trunc")))]
        return Arm(init.label, recipe, init, "@".join(["scratch", *words]))

    def _tied_arms(
        self, arch: str, base: Recipe, init: Init, pretrained: list[Arm], fraction: float | None, seed: int
    ) -> Iterator[Arm]:
        """A tied arm for each model and budget of the arms that pretrain; without such, for the recipe's own."""
        found: dict[str, Arm] = {}
        for arm in pretrained or [Arm("spt", base, Init.parse("spt"), "scratch")]:
            recipe = replace(base, model=arm.recipe.model)
            words = arm.partner.split("@")[1:]
            tied = Arm("@".join([init.label, *words]), recipe, init, arm.partner, arm)
            if any(self._is_tied(other, arm, fraction, seed) for other in found.values()):
                continue
            if tied.label in found:
                own = [word for word in arm.label.split("@")[1:] if word != "direction=one"]
                own = own or [f"objective={arm.recipe.pretrain.objective}"]
                tied = replace(tied, label="@".join([tied.label, *own]))
            found[tied.label] = tied
        yield from found.values()

    def _is_tied(self, tied: Arm, arm: Arm, fraction: float | None, seed: int) -> bool:
        """Whether an arm from scratch has the model and the budget of another arm."""
        if not arm.init.pretrains or tied.partner != arm.partner or tied.tied_to is None or tied.init.tie is None:
            return False
        one, other = (self._amount(x, tied.init.tie, {}, fraction, seed) for x in (tied.tied_to, arm))
        return one is not None and other is not None and math.isclose(one, other, rel_tol=0.005)

    def _grid(self, arch: str) -> Mapping[str, tuple]:
        """The grid of an architecture; tuning without learning rates tries those near the recipes' own."""
        named = {"lr", "finetune.learning_rate", "scratch.learning_rate"} & set(self.axes.grid)
        if not self.axes.tune_seeds or named:
            return self.axes.grid
        recipes = [self.load(arch, Init.parse(label).objective) for label in self.axes.inits]
        own = {getattr(recipe, section).learning_rate for recipe in recipes for section in ("finetune", "scratch")}
        middle = self.load(arch, None).finetune.learning_rate
        near = {float(f"{factor * middle:.2g}") for factor in (1 / 3, 3)}
        return {"lr": tuple(sorted(own | near)), **self.axes.grid}

    def _points(self, arch: str, arm: Arm) -> list[dict[str, Any]]:
        return grid_points(self._grid(arch), arm.label)

    def _at(self, recipe: Recipe, point: dict, fraction: float | None, seed: int) -> Recipe:
        """The recipe at a grid point, on a fraction of the labels, with the labelled subset of a seed."""
        key = repr((recipe, point))
        if key not in self._pointed:
            self._pointed[key] = with_point(recipe, point)
        recipe = self._pointed[key]
        data = fraction_of(recipe.data, fraction, self.num_train_examples())
        return replace(recipe, data=_seeded(data, seed))

    def _amount(self, arm: Arm, tie: str, point: dict, fraction: float | None, seed: int) -> float | None:
        """What an arm that pretrains takes in both phases: steps, operations, or the examples that make epochs of the
        labels."""
        recipe = self._at(arm.recipe, point, fraction, seed)
        inputs, labels = self.count(recipe.data)
        steps = recipe.pretrain.steps(inputs), recipe.finetune.steps(labels)
        if tie == "steps":
            return sum(steps)
        examples = recipe.pretrain.examples_seen(steps[0], inputs), recipe.finetune.examples_seen(steps[1], labels)
        if tie == "epochs":
            return sum(examples)
        first, second = self.flops(recipe, "pretrain"), self.flops(recipe, "finetune")
        return None if first is None or second is None else examples[0] * first + examples[1] * second

    def _steps(self, arm: Arm, arch: str, point: dict, fraction: float | None, seed: int) -> int:
        """Supervised steps of an arm at a grid point; a tied one takes as much as an arm with pretraining does."""
        recipe, tie = self._at(arm.recipe, point, fraction, seed), arm.init.tie
        labels = self.count(recipe.data)[1]
        if arm.init.pretrains:
            return recipe.finetune.steps(labels)
        scratch_steps = recipe.scratch.steps(labels)
        if arm.tied_to is None or tie is None:
            return scratch_steps
        points = self._points(arch, arm.tied_to)
        amounts: list[Any] = [self._amount(arm.tied_to, tie, one, fraction, seed) for one in points]
        cost = self.flops(recipe, "scratch") if tie == "flops" else 1.0
        if any(amount is None for amount in amounts) or cost is None:
            raise HfLongSeqError(f"{arm.label} ties operations, which cannot be counted for {arch}: tie epochs or "
                                 "steps.")  # fmt: skip
        if max(amounts) > 1.01 * min(amounts):
            raise HfLongSeqError(
                f"{arm.label} cannot equal an arm of {arch} whose {tie} differ from grid point to grid point: leave "
                "the key that changes them out of the grid, or give its budgets in "
                f"{'steps' if tie == 'steps' else 'epochs'}."
            )
        if tie == "steps":
            steps = round(amounts[0])
        else:
            steps = recipe.scratch.steps_that_see(amounts[0] / cost, labels)
        if steps <= scratch_steps:
            first = self._at(arm.tied_to.recipe, points[0], fraction, seed)
            raise HfLongSeqError(
                f"{arm.label} would take {steps} steps of {arch}, which adds nothing to the {scratch_steps} of "
                f"'scratch' ({first.pretrain.steps(self.count(first.data)[0])} steps of pretraining): leave it out, "
                "or tie something else."
            )
        return steps

    def _run(self, arm: Arm, arch: str, point: dict, fraction: float | None, seed: int, steps: int, every: int) -> Run:
        """The supervised run of an arm, after its pretraining has been added to the plan."""
        recipe = self._at(arm.recipe, point, fraction, seed)
        inputs, labels = self.count(recipe.data)
        section = "finetune" if arm.init.pretrains else "scratch"
        budget = {"max_steps": steps} if arm.tied_to else {}
        recipe = recipe.changed({section: {"eval_steps": every, **budget}})
        pretrained = protocol = None
        if arm.init.pretrains:
            pretrained = self._add(self._pretraining(arm, arch, point, fraction, seed))
            scarce = "data scarce" if labels < self.num_train_examples() else "full"
            protocol = "labels scarce" if inputs > labels else "inputs scarce" if inputs < labels else scarce
        several = {key: value for key, value in point.items() if len(self._grid(arch)[key]) > 1}
        name = "-".join([slug(arch), slug(arm.label), *self._parts(fraction, several), f"s{seed}"])
        return Run(name, "finetune", arch, arm.label, seed, fraction, point, recipe, steps, labels, pretrained,
                   protocol=protocol)  # fmt: skip

    def _pretraining(self, arm: Arm, arch: str, point: dict, fraction: float | None, seed: int) -> Run:
        """The run that an arm starts from."""
        mine = {key: value for key, value in point.items() if matters(key, self._grid(arch), "pretrain")}
        recipe = self._at(arm.recipe, point, fraction, seed)
        if recipe.data.pretrain_inputs != "subset":  # the same inputs for every fraction
            recipe, fraction = replace(recipe, data=_seeded(arm.recipe.data, seed)), None
        objective, model = recipe.pretrain.objective, recipe.model
        if objective == "causal" and not recipe.pretrain.both_directions:
            # the same run for all that is fine-tuned of it
            recipe = replace(recipe, model=replace(model, fields=looking_back(model.arch, model.fields)))
        inputs = self.count(recipe.data)[0]
        several = {key: value for key, value in mine.items() if len(self._grid(arch)[key]) > 1}
        marked = arm.init.name != "spt" and objective == "causal"
        own = [slug(word) for word in arm.label.split("@")[1:] if word != "direction=one"]
        words = [slug(arch), "pretrain", *(["causal"] if marked else []), *own]
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
        identity = run.identity()
        if identity not in self.names:
            if run.name in self.runs:
                raise HfLongSeqError(
                    f"two different runs would be called {run.name}: use a new output_dir, or name the architectures "
                    "apart."
                )
            # a smaller plan in the folder may have had a run of that name with other steps or evaluations
            taken = run.name in self.names.values()
            self.names[identity] = f"{run.name}-{identity[:6]}" if taken else run.name
        name = self.names[identity]
        self.runs.setdefault(name, replace(run, name=name))
        return name


def _seeded(data: DataSection, seed: int) -> DataSection:
    return replace(data, subset_seed=seed) if data.subset_seed == "run" else data


def _directed(recipe: Recipe, init: Init) -> Recipe:
    """The recipe of an arm that names a direction."""
    if recipe.pretrain.objective != "causal":
        raise HfLongSeqError(f"inits holds {init.label!r}, but the recipe pretrains masked: write spt-causal.")
    if init.direction == "both" and is_hf(recipe.model.arch):
        raise HfLongSeqError(
            f"inits holds {init.label!r}, but {recipe.model.arch} is an architecture of transformers, whose "
            "directions cannot be seen apart: leave direction out."
        )
    if not recipe.model.fields.get("bidirectional"):
        raise HfLongSeqError(
            f"inits holds {init.label!r}, but {recipe.model.arch} is one-directional here already: leave direction "
            "out, or set model.bidirectional to true."
        )
    if init.direction == "both":
        return recipe.changed({"pretrain": {"both_directions": True}})
    fields = looking_back(recipe.model.arch, recipe.model.fields)
    return replace(recipe, model=replace(recipe.model, fields=fields))


def slug(text: str) -> str:
    """A name as part of a folder's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)


def equal_evaluations(wanted: int, steps: Iterable[int]) -> int:
    """The largest number of evaluations, `wanted` at most, that runs of all these lengths can have."""
    steps = set(steps)
    possible = (n for n in range(wanted, 1, -1) if all(math.ceil(s / math.ceil(s / n)) == n for s in steps))
    return next(possible, 1)
