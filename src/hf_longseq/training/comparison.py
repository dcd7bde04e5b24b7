# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`compare`: architectures, from scratch and after self-pretraining, over seeds, grids and fractions of the labels.

`plan.py` says which runs there are; here they are done, each in its own folder under `runs/`:

1. everything that can be wrong with any run is found before the first one starts;
2. pretraining runs, then those that start from them, `jobs` at a time; what is finished is never repeated;
3. of the grid points, the one with the best mean validation metric over the seeds is chosen, and only its runs are
   scored on the test split;
4. `collect.py` writes down what came out.

`spt` is the same with one recipe per architecture, three arms and no grid.
"""

import functools
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from hf_longseq import recipes as shipped
from hf_longseq.data.task import load_task
from hf_longseq.errors import HfLongSeqError
from hf_longseq.metrics import greater_is_better
from hf_longseq.training import manifest
from hf_longseq.training.arguments import DataSection
from hf_longseq.training.assembly import (
    CLASSIFIER,
    TaskData,
    build_config,
    build_model,
    classification_parts,
    denoising_parts,
    load_data,
    pretraining_class,
)
from hf_longseq.training.collect import FAILED, PERCENT, PLAN, RESULTS, RUNS, Book, collect, results_table
from hf_longseq.training.inference import evaluate
from hf_longseq.training.phases import finetune, pretrain
from hf_longseq.training.plan import (
    OBJECTIVE_OF,
    Axes,
    Load,
    Planner,
    Run,
    parse_grid,
    plain_arch,
    variant_fields,
    with_settings,
)
from hf_longseq.training.progress import Listener, silent
from hf_longseq.training.recipe import Raw, Recipe, architectures_of, joint_settings, read_recipe

__all__ = ["BEST", "INITS", "PERCENT", "RESULTS", "Comparison", "collect", "compare", "results_table", "spt"]

INITS = ("scratch", "spt", "scratch-tied")
BEST = "best"


@dataclass(frozen=True)
class Comparison:
    """What came out: the content of `results.json`, and where `spt` put the best pretrained classifier."""

    output_dir: Path
    results: dict[str, Any]
    best: Path | None = None

    def table(self) -> str:
        """The results as text, one line per row."""
        return results_table(self.results)


def compare(
    source: "str | Path | Raw | None",
    output_dir: str | os.PathLike,
    *,
    archs: Sequence[str] | None = None,
    inits: Sequence[str] = ("scratch", "spt"),
    seeds: Sequence[int] = (0,),
    grid: Mapping[str, Sequence] | Sequence[str] = (),
    train_fractions: Sequence[float] = (),
    compute_tied: bool = False,
    overrides: Raw | None = None,
    tiny: bool = False,
    jobs: int = 1,
    overwrite: bool = False,
    listener: Listener = silent,
) -> Comparison:
    """Run every combination, choose on validation, score the chosen runs on the test split.

    Args:
        source: A recipe as for `Recipe.load`; None takes, for the task that `overrides` names, the shipped recipe of
            each architecture.
        output_dir: A new folder, or that of the same comparison, which then goes on, or grows by what is new.
        archs: Architectures, or variants such as `s4@init_normal=0.1`; None takes those of the recipe.
        inits: Any of "scratch", "spt", "spt-masked", "spt-causal", "scratch-tied".
        seeds: One run of each combination per seed.
        grid: `{"lr": [1e-3, 5e-4], "pretrain.span_length": [1, 8]}`, or words as on the command line.
        train_fractions: Shares of the labelled training examples; smaller ones lie within larger ones.
        compute_tied: Take the steps of pretraining out of those of the fine-tuning that follows it.
        overrides: Settings that win over the recipe, for every architecture.
        tiny: Toy sizes.
        jobs: Runs at a time, each in its own process (on its own GPU, where there are several).
        overwrite: Delete a comparison that the folder holds, and start again.
        listener: Told the progress of all runs.

    Raises:
        HfLongSeqError: For a wrong setting, before anything is trained or written.
    """
    load, named = recipe_loader(source, overrides, tiny)
    axes = Axes(
        tuple(archs or named),
        tuple(inits),
        tuple(seeds),
        parse_grid(grid),
        tuple(train_fractions),
        compute_tied,
    )
    return _carry_out("compare", axes, load, Path(output_dir), jobs, overwrite, listener, keep_going=True)


def spt(
    recipes: Recipe | Sequence[Recipe],
    output_dir: str | os.PathLike,
    *,
    seeds: Sequence[int] = (0,),
    inits: Sequence[str] = INITS,
    jobs: int = 1,
    overwrite: bool = False,
    listener: Listener = silent,
) -> Comparison:
    """Compare scratch, spt and scratch-tied; a run that fails stops the rest, and the best classifier is kept.

    Args:
        recipes: One recipe per architecture, all on the same data.
        inits: Which of the arms to run.
        output_dir, seeds, jobs, overwrite, listener: As for `compare`.

    Raises:
        HfLongSeqError: For a wrong setting, before anything is trained or written; later, for a run that fails.
    """
    recipes = [recipes] if isinstance(recipes, Recipe) else list(recipes)
    by_arch = {recipe.model.arch: recipe for recipe in recipes}
    if len(by_arch) < len(recipes):
        raise HfLongSeqError(f"archs {[recipe.model.arch for recipe in recipes]} are named twice: name each once.")
    inits = tuple(init for init in INITS if init in inits) + tuple(init for init in inits if init not in INITS)
    axes = Axes(tuple(by_arch), inits, tuple(seeds))

    def load(arch: str, objective: str | None) -> Recipe:
        return by_arch[arch] if objective is None else Recipe.load(by_arch[arch], objective=objective)

    output_dir = Path(output_dir)
    comparison = _carry_out("spt", axes, load, output_dir, jobs, overwrite, listener, keep_going=False)
    return replace(comparison, best=keep_best(output_dir))


def recipe_loader(source: "str | Path | Raw | None", overrides: Raw | None, tiny: bool) -> tuple[Load, list[str]]:
    """How to get the recipe of an architecture, and the architectures that the recipe or the overrides name."""
    overrides = overrides or {}
    raw = read_recipe(source)
    task = (overrides.get("data") or {}).get("task")

    @functools.cache
    def load(label: str, objective: str | None) -> Recipe:
        arch = plain_arch(label)
        own = _of_variant(raw, label) if source is not None or not task else shipped_recipe(task, arch)
        recipe = Recipe.load(own, overrides, arch=arch, objective=objective, tiny=tiny)
        return with_settings(recipe, {"model": variant_fields(label)} if "@" in label else {})

    return load, architectures_of(raw, overrides)


def _of_variant(raw: Raw, label: str) -> Raw:
    """A recipe as the architecture of a variant reads it: what `resolved.yaml` holds under the variant's name."""
    sections = {}
    for name, values in raw.items():
        own = {key: value for key, value in (values or {}).items() if "@" not in key}
        if "@" in label and label in (values or {}):
            arch = plain_arch(label)
            own[arch] = {**own.get(arch, {}), **values[label]}
        sections[name] = own
    return sections


def shipped_recipe(task: str, arch: str) -> Raw:
    """The shipped recipe of a task and an architecture; one without takes the data of another recipe of the task."""
    if f"{task}/{arch}" in shipped.names():
        return read_recipe(f"{task}/{arch}")
    others = [name for name in shipped.names() if name.startswith(f"{task}/")]
    return {"data": read_recipe(others[0]).get("data") or {}} if others else {}


def _carry_out(
    command: str,
    axes: Axes,
    load: Load,
    output_dir: Path,
    jobs: int,
    overwrite: bool,
    listener: Listener,
    keep_going: bool,
) -> Comparison:
    if jobs < 1:
        raise HfLongSeqError(f"jobs is {jobs}: give the number of runs at a time, 1 or more.")
    bases = _base_recipes(axes, load)
    data = DataCache()
    settings = {**joint_settings(list(bases.values())), "run": run_section(command, axes)}
    names = {} if overwrite else _earlier_names(output_dir)
    whole = len(load_task(bases_data(bases).task, **bases_data(bases).options)[0]["train"])
    runs = Planner(axes, load, data.count, whole, names).plan()
    check_models(runs, data)
    with manifest.holding(output_dir):
        if not overwrite:
            _admit_extension(output_dir, settings, bases)
        manifest.claim_folder(output_dir, settings, overwrite, finished=RESULTS)
        spec = data.load(bases_data(bases)).spec
        records = [run.record() for run in runs]
        manifest.write_json(output_dir / PLAN, {"task": spec.name, "metric": spec.metric, "runs": records})
        told = _tables_once(listener, {run.name: run.arch for run in runs})
        told("", 0, sum(run.steps for run in runs), None)
        work = Work(output_dir, {run.name: run for run in runs}, keep_going)
        _do(work, [("train", run) for run in runs], jobs, told, data)
        unscored = Book(output_dir, records, spec.metric).unscored()
        _do(work, [("score", work.runs[name]) for name in unscored], jobs, told, data)
        return Comparison(output_dir, collect(output_dir, write=True))


def run_section(command: str, axes: Axes) -> Raw:
    """What `resolved.yaml` says of the plan."""
    section = {"phase": command, "seeds": list(axes.seeds), "inits": list(axes.inits)}
    if command == "spt":
        return section
    return {
        **section,
        "archs": list(axes.archs),
        "grid": {key: list(values) for key, values in axes.grid.items()},
        "train_fractions": list(axes.train_fractions),
        "compute_tied": axes.compute_tied,
    }


def _base_recipes(axes: Axes, load: Load) -> dict[tuple[str, str | None], Recipe]:
    """The recipe of each architecture and objective of the plan, all on the same data."""
    objectives = dict.fromkeys([None, *(OBJECTIVE_OF.get(init) for init in axes.inits)])
    bases = {(arch, objective): load(arch, objective) for arch in axes.archs for objective in objectives}
    section = bases_data(bases)
    if any(recipe.data != section for recipe in bases.values()):
        raise HfLongSeqError("the data section differs between architectures: compare them on the same data.")
    # in the record, a variant stands under its own name
    return {key: replace(recipe, model=replace(recipe.model, arch=key[0])) for key, recipe in bases.items()}


def bases_data(bases: Mapping[Any, Recipe]) -> DataSection:
    """The data section that all recipes share."""
    return next(iter(bases.values())).data


class DataCache:
    """Data by their section, so that runs on the same data load them once."""

    def __init__(self):
        self._loaded: dict[str, TaskData] = {}

    def load(self, section: DataSection) -> TaskData:
        key = repr(section)
        if key not in self._loaded:
            self._loaded[key] = load_data(section)
        return self._loaded[key]

    def count(self, section: DataSection) -> tuple[int, int]:
        """Numbers of pretraining inputs and of labelled examples."""
        data = self.load(section)
        return len(data.pretrain), len(data.labelled)


def check_models(runs: Sequence[Run], data: DataCache) -> None:
    """Build every model of the plan without memory: a mistake in the last must not show after hours of the first."""
    seen = set()
    for run in runs:
        key = repr((run.recipe.model, run.recipe.pretrain.objective, run.phase))
        if key in seen:
            continue
        seen.add(key)
        spec = data.load(run.recipe.data).spec
        config = build_config(run.recipe, spec)
        with torch.device("meta"):
            build_model(pretraining_class(run.recipe, spec) if run.phase == "pretrain" else CLASSIFIER, config)
        if run.phase == "pretrain":
            denoising_parts(run.recipe, spec, seed=0)
        else:
            classification_parts(spec)


def _earlier_names(output_dir: Path) -> dict[str, str]:
    """Names of the runs that the plan in a folder has, by what they do: a larger plan finds them by these."""
    path = output_dir / PLAN
    return {run["identity"]: run["name"] for run in manifest.read_json(path)["runs"]} if path.is_file() else {}


def _admit_extension(output_dir: Path, settings: Raw, bases: Mapping[tuple[str, str | None], Recipe]) -> None:
    """More of any axis may be added to a comparison in its folder; what is finished there stays."""
    found = manifest.read_resolved(output_dir)
    if found is None or (found.get("run") or {}).get("phase") != settings["run"]["phase"]:
        return
    old, new = found["run"], settings["run"]
    for name in ("seeds", "inits", "archs", "train_fractions"):
        if not set(old.get(name) or []) <= set(new.get(name) or []):
            return
    if old.get("compute_tied") != new.get("compute_tied"):
        return
    if any(not set(values) <= set(new["grid"].get(key, values)) for key, values in (old.get("grid") or {}).items()):
        return
    known = old.get("archs") or architectures_of(found)
    if not set(known) <= {arch for arch, _ in bases}:
        return
    used = dict.fromkeys([None, *(OBJECTIVE_OF.get(init) for init in old.get("inits") or [])])
    before = [bases[arch, objective] for arch in known for objective in used]
    if not manifest.first_difference({**found, "run": None}, {**joint_settings(before), "run": None}):
        manifest.write_yaml(output_dir / manifest.RESOLVED, settings)


def _tables_once(listener: Listener, arch_of: Mapping[str, str]) -> Listener:
    """Pass on what is said of a model and its optimiser, the only text of several lines, once per architecture."""
    told: set[str] = set()

    def tell(label: str, step: int, total: int, text: str | None) -> None:
        if text and "\n" in text:
            arch = arch_of[label]
            text = None if arch in told else text
            told.add(arch)
        listener(label, step, total, text)

    return tell


@dataclass(frozen=True)
class Work:
    """What a process needs to know to do any run of a plan."""

    output_dir: Path
    runs: dict[str, Run]
    keep_going: bool

    def folder(self, name: str) -> Path:
        return self.output_dir / RUNS / name

    def ended(self, name: str) -> bool:
        """Whether a run needs no more doing: it is finished, failed, or starts from one that failed."""
        pretrained = self.runs[name].pretrained
        return self._failed(name) or bool(pretrained and self._failed(pretrained))

    def _failed(self, name: str) -> bool:
        # `spt` has no failures that stay: what failed is tried again
        return self.keep_going and (self.folder(name) / FAILED).is_file()

    def perform(self, action: str, run: Run, data: DataCache, listener: Listener) -> None:
        """Train a run, or score it on the test split; a failure is written down, or raised where it stops the plan."""
        if action == "score":
            return self._score(run, data)
        if self.ended(run.name) or (self.folder(run.name) / manifest.METRICS).is_file():
            return listener(run.name, run.steps, run.steps, None)
        try:
            self._train(run, data, listener)
        except (HfLongSeqError, torch.OutOfMemoryError) as error:
            if not self.keep_going:
                raise
            sentence = " ".join(str(error).split())
            step = re.search(r"at step (\d+)", sentence)
            record = {"error": sentence, "step": int(step.group(1)) if step else None}
            manifest.write_json(self.folder(run.name) / FAILED, record)
            listener(run.name, run.steps, run.steps, f"failed: {sentence}")

    def _train(self, run: Run, data: DataCache, listener: Listener) -> None:
        common = {"seed": run.seed, "listener": listener, "data": data.load(run.recipe.data)}
        folder = self.folder(run.name)
        if run.phase == "pretrain":
            pretrain(run.recipe, folder, **common)
        else:
            start = self.folder(run.pretrained) if run.pretrained else None
            finetune(run.recipe, folder, init_from=start, init=run.init, score_test=run.score_test, **common)

    def _score(self, run: Run, data: DataCache) -> None:
        path = self.folder(run.name) / manifest.METRICS
        section = run.recipe.finetune if run.pretrained else run.recipe.scratch
        batch = section.eval_batch_size or section.micro_batch_size or section.global_batch_size
        scores = evaluate(self.folder(run.name), data=data.load(run.recipe.data), batch_size=batch)
        manifest.write_json(path, {**manifest.read_json(path), "test": scores})


def _do(work: Work, tasks: list[tuple[str, Run]], jobs: int, listener: Listener, data: DataCache) -> None:
    if jobs == 1 or len(tasks) <= 1:
        for action, run in tasks:
            work.perform(action, run, data, listener)
    else:
        from hf_longseq.training.jobs import run_in_processes

        run_in_processes(work, tasks, jobs, listener)


def keep_best(output_dir: Path) -> Path | None:
    """Copy the self-pretrained classifier with the best validation metric to `best`; without an spt arm, none."""
    plan = manifest.read_json(output_dir / PLAN)
    metric = plan["metric"]
    candidates = [run["name"] for run in plan["runs"] if run["init"] == "spt"]
    if not candidates:
        return None

    def validation(name: str) -> float:
        value = manifest.read_json(output_dir / RUNS / name / manifest.METRICS)["validation"][metric]
        return value if greater_is_better(metric) else -value

    source = output_dir / RUNS / max(candidates, key=validation)
    manifest.replace_folder(output_dir / BEST, lambda fresh: shutil.copytree(source, fresh, dirs_exist_ok=True))
    return output_dir / BEST
