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

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from hf_longseq.comparison.plan import (
    Axes,
    Load,
    Planner,
    Run,
    parse_grid,
    pretrains,
)
from hf_longseq.comparison.results import FAILED, PLAN, RESULTS, RUNS, PlanResults, collect, results_table
from hf_longseq.comparison.settings import (
    admit_extension,
    base_recipes,
    bases_data,
    earlier_names,
    recipe_loader,
    run_section,
    settings_of,
)
from hf_longseq.data.task import load_task
from hf_longseq.errors import HfLongSeqError
from hf_longseq.metrics import greater_is_better
from hf_longseq.training import distributed, run_folder
from hf_longseq.training.arguments import DataSection
from hf_longseq.training.build import (
    TaskData,
    build_config,
    build_model,
    classification_parts,
    classifier_class,
    denoising_parts,
    load_data,
    pretraining_class,
)
from hf_longseq.training.callbacks import Diverged
from hf_longseq.training.inference import evaluate
from hf_longseq.training.progress import Listener, silent
from hf_longseq.training.recipe import Raw, Recipe
from hf_longseq.training.run import finetune, pretrain

__all__ = ["BEST", "RESULTS", "SPT_INITS", "Comparison", "collect", "compare", "results_table", "spt"]

# The arms of `spt`, in the order of its table.
SPT_INITS = ("scratch", "spt", "scratch-tied")
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
        inits: Any of "scratch", "spt", "spt-masked", "spt-causal", "scratch-tied", or variants of those that pretrain,
            such as `spt-masked@span_length=16` or `spt@pretrain_inputs=100`.
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
    inits: Sequence[str] = SPT_INITS,
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
    inits = tuple(init for init in SPT_INITS if init in inits) + tuple(init for init in inits if init not in SPT_INITS)
    axes = Axes(tuple(by_arch), inits, tuple(seeds))

    def load(arch: str, objective: str | None) -> Recipe:
        return by_arch[arch] if objective is None else Recipe.load(by_arch[arch], objective=objective)

    output_dir = Path(output_dir)
    comparison = _carry_out("spt", axes, load, output_dir, jobs, overwrite, listener, keep_going=False)
    return replace(comparison, best=distributed.by_main(lambda: keep_best(output_dir)))


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
    if jobs > 1 and distributed.count() > 1:
        raise HfLongSeqError(
            f"jobs is {jobs} in {distributed.count()} processes that train one model together: give one or the other."
        )
    distributed.join()
    bases = base_recipes(axes, load)
    data = DataCache()
    settings = {**settings_of(bases), "run": run_section(command, axes)}
    names = {} if overwrite else distributed.by_main(lambda: earlier_names(output_dir))
    section = bases_data(bases)
    whole = len(distributed.main_first(lambda: load_task(section.task, **section.options))[0]["train"])
    runs = Planner(axes, load, data.count, whole, names).plan()
    check_models(runs, data)
    spec = data.load(section).spec
    records = [run.record() for run in runs]

    def open_plan() -> None:
        if not overwrite:
            admit_extension(output_dir, settings, bases)
        run_folder.claim_folder(output_dir, settings, overwrite, finished=RESULTS)
        run_folder.write_json(output_dir / PLAN, {"task": spec.name, "metric": spec.metric, "runs": records})

    with distributed.holding(output_dir):
        distributed.by_main(open_plan)
        told = _tables_once(listener if distributed.is_main() else silent, {run.name: run.arch for run in runs})
        told("", 0, sum(run.steps for run in runs), None)
        # of several processes, one may fail alone, and the others would wait for it in the next run
        work = Work(output_dir, {run.name: run for run in runs}, keep_going and distributed.count() == 1)
        _do(work, [("train", run) for run in runs], jobs, told, data)
        unscored = distributed.by_main(lambda: PlanResults(output_dir, records, spec.metric).unscored())
        _do(work, [("score", work.runs[name]) for name in unscored], jobs, told, data)
        return Comparison(output_dir, distributed.by_main(lambda: collect(output_dir, write=True)))


class DataCache:
    """Data by their section, so that runs on the same data load them once."""

    def __init__(self):
        self._loaded: dict[str, TaskData] = {}

    def load(self, section: DataSection, seed: int = 0) -> TaskData:
        key = repr((section, seed))
        if key not in self._loaded:
            self._loaded[key] = distributed.main_first(lambda: load_data(section, seed))
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
        config = build_config(run.recipe, spec, classifier=run.phase == "finetune")
        with torch.device("meta"):
            build_model(
                pretraining_class(run.recipe.pretrain, spec) if run.phase == "pretrain" else classifier_class(spec),
                config,
            )
        if run.phase == "pretrain":
            denoising_parts(run.recipe.pretrain, spec, seed=0)
        else:
            classification_parts(spec)


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
        """Train a run, or score it on the test split.

        What the settings of a run bring about, numbers that overflow and too little memory, is written down, and the
        others go on. A full disk, data that changed or a lost connection would fail them all: those end the plan.
        """
        if action == "score":
            return self._score(run, data)
        finished = self.folder(run.name) / run_folder.METRICS
        if distributed.by_main(lambda: self.ended(run.name) or finished.is_file()):
            return listener(run.name, run.steps, run.steps, None)
        try:
            self._train(run, data, listener)
        except (Diverged, torch.OutOfMemoryError) as error:
            if not self.keep_going:
                raise
            sentence = " ".join(str(error).split())
            step = re.search(r"at step (\d+)", sentence)
            record = {"error": sentence, "step": int(step.group(1)) if step else None}
            run_folder.write_json(self.folder(run.name) / FAILED, record)
            listener(run.name, run.steps, run.steps, f"failed: {sentence}")

    def _train(self, run: Run, data: DataCache, listener: Listener) -> None:
        common = {"seed": run.seed, "listener": listener, "data": data.load(run.recipe.data, run.seed)}
        folder = self.folder(run.name)
        if run.phase == "pretrain":
            pretrain(run.recipe, folder, **common)
        else:
            start = self.folder(run.pretrained) if run.pretrained else None
            finetune(run.recipe, folder, init_from=start, init=run.init, score_test=run.score_test, **common)

    def _score(self, run: Run, data: DataCache) -> None:
        path = self.folder(run.name) / run_folder.METRICS
        section = run.recipe.finetune if run.pretrained else run.recipe.scratch
        batch = section.per_device_eval_batch_size or section.per_device_train_batch_size or section.global_batch_size
        scores = evaluate(self.folder(run.name), data=data.load(run.recipe.data, run.seed), batch_size=batch)
        distributed.by_main(lambda: run_folder.write_json(path, {**run_folder.read_json(path), "test": scores}))


def _do(work: Work, tasks: list[tuple[str, Run]], jobs: int, listener: Listener, data: DataCache) -> None:
    if jobs == 1 or len(tasks) <= 1:
        for action, run in tasks:
            work.perform(action, run, data, listener)
    else:
        from hf_longseq.comparison.workers import run_in_processes

        run_in_processes(work, tasks, jobs, listener)


def keep_best(output_dir: Path) -> Path | None:
    """Copy the self-pretrained classifier with the best validation metric to `best`; without such an arm, none."""
    plan = run_folder.read_json(output_dir / PLAN)
    metric = plan["metric"]
    candidates = [run["name"] for run in plan["runs"] if pretrains(run["init"])]
    if not candidates:
        return None

    def validation(name: str) -> float:
        value = run_folder.read_json(output_dir / RUNS / name / run_folder.METRICS)["validation"][metric]
        return value if greater_is_better(metric) else -value

    source = output_dir / RUNS / max(candidates, key=validation)
    run_folder.replace_folder(output_dir / BEST, lambda fresh: shutil.copytree(source, fresh, dirs_exist_ok=True))
    return output_dir / BEST
