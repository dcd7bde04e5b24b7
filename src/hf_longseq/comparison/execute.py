# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`compare`: architectures, from scratch and after self-pretraining, over seeds, grids and fractions of the labels.

`plan.py` says which runs there are; here they are done, each in its own folder under `runs/`:

1. everything that can be wrong with any run is found before the first one starts;
2. with `tune`, every arm is trained at every grid point with seeds of their own, and validation chooses its point;
3. pretraining runs, then those that start from them, by all processes that share the folder (`claims.py`); what is
   finished is never repeated;
4. without `tune`, the grid point with the best mean validation metric over the reported seeds is chosen, and only its
   runs are scored on the test split;
5. `results.py` writes down what came out.

`spt` is `compare` with three arms, and keeps the best pretrained classifier.
"""

import contextlib
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from hf_longseq.comparison.claims import POLL_SECONDS, Claims
from hf_longseq.comparison.grid import parse_grid
from hf_longseq.comparison.inits import pretrains
from hf_longseq.comparison.plan import Axes, Choices, Planner, Run, check_settings
from hf_longseq.comparison.results import FAILED, PLAN, RESULTS, RUNS, PlanResults, collect
from hf_longseq.comparison.settings import (
    admit_extension,
    base_recipes,
    bases_data,
    earlier_names,
    recipe_loader,
    run_section,
    settings_of,
)
from hf_longseq.comparison.tables import results_text
from hf_longseq.comparison.workers import run_in_processes, usual_jobs
from hf_longseq.data.task import TaskSpec, load_task
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
from hf_longseq.training.flops import training_flops
from hf_longseq.training.inference import evaluate
from hf_longseq.training.progress import Listener, silent
from hf_longseq.training.recipe import Raw, Recipe
from hf_longseq.training.run import finetune, pretrain

# The arms of `spt`, in the order of its table.
SPT_INITS = ("scratch", "spt", "scratch-tied")
# Seeds that choose settings; no row reports them.
TUNE_SEEDS = (1000, 1001)
BEST = "best"


@dataclass(frozen=True)
class Comparison:
    """What came out: the content of `results.json`, and where `spt` put the best pretrained classifier."""

    output_dir: Path
    results: dict[str, Any]
    best: Path | None = None

    def table(self) -> str:
        """The results as text: every architecture and number of labels, with the gain of self-pretraining."""
        return results_text(self.output_dir)


def compare(
    source: "str | Path | Raw | Recipe | None",
    output_dir: str | os.PathLike,
    *,
    archs: Sequence[str] | None = None,
    inits: Sequence[str] = ("scratch", "spt"),
    seeds: Sequence[int] = (0,),
    grid: Mapping[str, Sequence] | Sequence[str] = (),
    tune: bool = False,
    tune_seeds: Sequence[int] = TUNE_SEEDS,
    train_fractions: Sequence[float] = (),
    overrides: Raw | None = None,
    tiny: bool = False,
    jobs: int | None = None,
    overwrite: bool = False,
    listener: Listener = silent,
) -> Comparison:
    """Run every combination, choose on validation, score the chosen runs on the test split.

    Args:
        source: A recipe as for `Recipe.load`; None takes, for the task that `overrides` names, the shipped recipe of
            each architecture.
        output_dir: A new folder, or that of the same comparison, which is then resumed, or grows by what is new. While
            another process works there, on any machine, this one joins: each run is done by one of them.
        archs: Architectures, or variants such as `s4@init_normal=0.1`; None takes those of the recipe.
        inits: Arms as `inits.py` describes them: "scratch", "spt", "spt-masked", "spt-causal@direction=one",
            "scratch-tied@flops", `spt@pretrain_inputs=subset`.
        seeds: One run of each combination per seed.
        grid: `{"lr": [1e-3, 5e-4], "pretrain.span_length": [1, 8]}`, or words as on the command line.
        tune: Choose the grid point with `tune_seeds`, the same number of points for every arm. Without learning rates
            in the grid, each architecture tries those of its recipe, a third and three times as much.
        tune_seeds: Seeds that choose; none of them may be among `seeds`.
        train_fractions: Shares of the labelled training examples; smaller ones lie within larger ones.
        overrides: Settings that win over the recipe, for every architecture.
        tiny: Toy sizes.
        jobs: Runs at a time, each in its own process, on its own GPU where there are several; None takes one for each
            GPU.
        overwrite: Delete a comparison that the folder holds, and start again.
        listener: Told the progress of all runs.

    Raises:
        HfLongSeqError: For a wrong setting, before anything is trained or written.

    Example:
        >>> compare("smnist", "runs/smnist", inits=["scratch", "spt-masked"], tiny=True).results["metric"]
        'accuracy'
    """
    jobs = usual_jobs() if jobs is None else jobs
    if jobs < 1:
        raise HfLongSeqError(f"jobs is {jobs}: give the number of runs at a time, 1 or more.")
    if jobs > 1 and distributed.count() > 1:
        raise HfLongSeqError(
            f"jobs is {jobs} in {distributed.count()} processes that train one model together: give one or the other."
        )
    load, named = recipe_loader(source, overrides, tiny)
    axes = Axes(
        tuple(archs or named),
        tuple(inits),
        tuple(seeds),
        parse_grid(grid),
        tuple(train_fractions),
        tuple(tune_seeds) if tune else (),
    )
    distributed.join()
    output_dir = Path(output_dir)
    bases = base_recipes(axes, load)
    check_settings(axes, load)
    data = DataCache()
    names = {} if overwrite else distributed.by_main(lambda: earlier_names(output_dir))
    section = bases_data(bases)
    whole = len(distributed.main_first(lambda: load_task(section.task, **section.options))[0]["train"])
    planner = Planner(axes, load, data.count, whole, names, data.flops)
    runs = planner.plan({})  # with the first point of every grid, whatever is chosen later
    check_models(runs, data)
    spec = data.load(runs[0].recipe.data).spec
    settings = {**settings_of(bases), "run": run_section(axes)}

    def open_folder() -> None:
        others = claims.others()
        if others and (overwrite or run_folder.first_difference(run_folder.read_resolved(output_dir), settings)):
            raise HfLongSeqError(
                f"output_dir {output_dir} is in use by another command ({others[0]}): give the same settings to join "
                "it, let it end, or choose another output_dir."
            )
        if not overwrite:
            admit_extension(output_dir, settings, bases)
        run_folder.claim_folder(output_dir, settings, overwrite, finished=RESULTS)

    with Claims(output_dir) if distributed.is_main() else contextlib.nullcontext() as claims:
        with claims.alone("folder") if claims else contextlib.nullcontext():
            distributed.by_main(open_folder)
        return Comparison(output_dir, _carry_out(planner, output_dir, data, spec, jobs, listener, claims))


def spt(
    source: "str | Path | Raw | Recipe | None",
    output_dir: str | os.PathLike,
    *,
    inits: Sequence[str] = SPT_INITS,
    **options: Any,
) -> Comparison:
    """`compare` with the arms scratch, spt and scratch-tied, which also copies the best classifier to `best`.

    Args:
        source, output_dir, inits: As for `compare`.
        options: All others of `compare`.

    Raises:
        HfLongSeqError: As `compare`.

    Example:
        >>> spt("demo", "runs/demo", seeds=[0, 1, 2], tiny=True).best.name
        'best'
    """
    comparison = compare(source, output_dir, inits=inits, **options)

    def keep() -> Path | None:
        with Claims(output_dir) as claims, claims.alone(BEST):
            return keep_best(comparison.output_dir)

    return replace(comparison, best=distributed.by_main(keep))


def _carry_out(
    planner: Planner,
    output_dir: Path,
    data: "DataCache",
    spec: TaskSpec,
    jobs: int,
    listener: Listener,
    claims: Claims | None,
) -> dict[str, Any]:
    """Do the runs of a plan: those that tune, if there are any, then those that are reported."""
    told = listener if distributed.is_main() else silent
    choices: Choices | None = None
    for stage in ("tune", "report") if planner.axes.tune_seeds else ("report",):
        planner.runs.clear()
        runs = planner.plan(choices)
        records = [run.record() for run in runs]
        distributed.by_main(lambda records=records: _write_plan(output_dir, spec, records))
        tell = _tables_once(told, {run.name: run.arch for run in runs})
        tell("", 0, sum(run.steps for run in runs), None)
        # of several processes, one may fail alone, and the others would wait for it in the next run
        work = PlanWork(output_dir, {run.name: run for run in runs}, distributed.count() == 1)
        _do(work, [("train", run) for run in runs], jobs, tell, data, claims)
        if stage == "tune":
            found = PlanResults(output_dir, records, spec.metric)
            choices = distributed.by_main(lambda found=found: _choices(found))
    unscored = distributed.by_main(lambda: PlanResults(output_dir, records, spec.metric).unscored())
    _do(work, [("score", work.runs[name]) for name in unscored], jobs, tell, data, claims)

    def write() -> dict[str, Any]:
        with claims.alone(RESULTS):
            return collect(output_dir, write=True)

    return distributed.by_main(write)


def _write_plan(output_dir: Path, spec: TaskSpec, records: list[dict]) -> None:
    """Write `plan.json`, unless another process, or this command before, wrote one with these runs and more."""
    path = output_dir / PLAN
    held = run_folder.read_json(path)["runs"] if path.is_file() else []
    if not all(record in held for record in records):
        run_folder.write_json(path, {"task": spec.name, "metric": spec.metric, "runs": records})


def _choices(found: PlanResults) -> Choices:
    """The grid point of each arm that the runs of the tuning seeds chose."""
    best = [found.best_point(group)[0] for group in found.groups()]
    return {(run["arch"], run["init"], run["fraction"]): run["grid"] for run in best}


class DataCache:
    """Data by their section, so that runs on the same data load them once."""

    def __init__(self):
        self._loaded: dict[str, TaskData] = {}
        self._flops: dict[str, float | None] = {}

    def load(self, section: DataSection) -> TaskData:
        """The data of a section in which the planner has put the seed of the labelled subset."""
        key = repr(section)
        if key not in self._loaded:
            self._loaded[key] = distributed.main_first(lambda: load_data(section))
        return self._loaded[key]

    def count(self, section: DataSection) -> tuple[int, int]:
        """Numbers of pretraining inputs and of labelled examples."""
        data = self.load(section)
        return len(data.pretrain), len(data.labelled)

    def flops(self, recipe: Recipe, phase: str) -> float | None:
        """Operations of training on one example, counted on the first batch as in a run."""
        data, pretraining = self.load(recipe.data), phase == "pretrain"
        section = getattr(recipe, phase)
        micro = section.per_device_train_batch_size or max(1, section.global_batch_size // distributed.count())
        rows = data.pretrain if pretraining else data.labelled
        key = repr((recipe.model, recipe.data, recipe.pretrain if pretraining else None, min(micro, len(rows))))
        if key not in self._flops:
            config = build_config(recipe, data.spec, classifier=not pretraining)
            head = pretraining_class(recipe.pretrain, data.spec) if pretraining else classifier_class(data.spec)
            with torch.random.fork_rng():
                model = build_model(head, config)
            if pretraining:
                collator = denoising_parts(recipe.pretrain, data.spec, seed=0)[1]
            else:
                collator = classification_parts(data.spec)[0]
            device = torch.accelerator.current_accelerator() or torch.device("cpu")
            batch = [rows[row] for row in range(min(micro, len(rows)))]
            self._flops[key] = training_flops(model, collator, batch, device)
        return self._flops[key]


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
class PlanWork:
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
        return self.keep_going and FAILED in self._files(name)

    def _files(self, name: str) -> list[str]:
        # a listing asks the file server; a look for one file may be answered from what this machine remembers
        return os.listdir(self.folder(name)) if self.folder(name).is_dir() else []

    def done(self, action: str, run: Run) -> bool:
        """Whether nobody has to do this any more."""
        if run_folder.METRICS not in self._files(run.name):
            return self.ended(run.name)
        return action == "train" or "test" in run_folder.read_json(self.folder(run.name) / run_folder.METRICS)

    def may_start(self, action: str, run: Run) -> bool:
        """Whether what the run starts from is there, if it starts from anything."""
        return action == "score" or not run.pretrained or self.done("train", self.runs[run.pretrained])

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
        common = {"seed": run.seed, "listener": listener, "data": data.load(run.recipe.data)}
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
        scores = evaluate(self.folder(run.name), data=data.load(run.recipe.data), batch_size=batch)
        distributed.by_main(lambda: run_folder.write_json(path, {**run_folder.read_json(path), "test": scores}))


def _do(
    work: PlanWork,
    tasks: list[tuple[str, Run]],
    jobs: int,
    listener: Listener,
    data: DataCache,
    claims: Claims | None,
) -> None:
    if jobs == 1 or len(tasks) <= 1:
        work_through(work, tasks, claims, data, listener)
    else:
        run_in_processes(work, tasks, jobs, listener)


def work_through(
    work: PlanWork,
    tasks: list[tuple[str, Run]],
    claims: Claims | None,
    data: DataCache,
    listener: Listener,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Do those tasks of a plan that no other process does, and wait until the others are done too.

    Pretraining comes first, for other runs wait for it, and then the longest, so that no process is left alone with
    one at the end. Only the main one of several processes that train together has `claims`; it chooses for all.
    """
    waiting = sorted(tasks, key=lambda task: (task[1].phase != "pretrain", -task[1].steps))

    def tell(label: str, step: int, total: int, text: str | None) -> None:
        if claims is not None:
            claims.check()
        listener(label, step, total, text)

    def claim_next() -> tuple[str, str] | None:
        told, pause = False, POLL_SECONDS
        while not stopped():
            for action, run in [task for task in waiting if work.done(*task)]:
                waiting.remove((action, run))
                listener(run.name, run.steps, run.steps, None)
            for action, run in waiting:
                if work.may_start(action, run) and claims.take(run.name):
                    return action, run.name
            if not waiting:
                return None
            name = next(run.name for action, run in waiting if work.may_start(action, run))
            if not told and claims.holder(name).split()[-1] != socket.gethostname():
                listener(name, 0, 0, f"waits for {claims.holder(name)}, who does this run")
                told = True
            time.sleep(pause)
            pause = min(1.5 * pause, 10)  # a file server has better to do than to be asked
        return None

    while (found := distributed.by_main(claim_next)) is not None:
        try:
            work.perform(found[0], work.runs[found[1]], data, tell)
        finally:
            if claims is not None:
                claims.release(found[1])


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
