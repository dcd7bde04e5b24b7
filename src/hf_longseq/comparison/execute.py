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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from hf_longseq.comparison import settings
from hf_longseq.comparison.claims import POLL_SECONDS, Claims
from hf_longseq.comparison.grid import parse_grid
from hf_longseq.comparison.inits import pretrains
from hf_longseq.comparison.plan import Axes, Choices, Planner, Run, check_settings
from hf_longseq.comparison.results import FAILED, PLAN, RESULTS, RUNS, PlanResults, collect
from hf_longseq.comparison.tables import results_text
from hf_longseq.comparison.workers import run_in_processes, usual_jobs
from hf_longseq.data.task import TaskSpec, load_task
from hf_longseq.errors import HfLongSeqError
from hf_longseq.metrics import greater_is_better
from hf_longseq.training import distributed, run_folder
from hf_longseq.training.arguments import DataSection
from hf_longseq.training.assemble import collators_and_metrics, configuration, fresh_model, head_class
from hf_longseq.training.callbacks import Diverged
from hf_longseq.training.flops import training_flops
from hf_longseq.training.inference import evaluate
from hf_longseq.training.progress import Listener, silent
from hf_longseq.training.recipe import Raw, Recipe
from hf_longseq.training.run import finetune, pretrain
from hf_longseq.training.subsets import TaskData, load_data

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
    load, named = settings.recipe_loader(source, overrides, tiny)
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
    bases = settings.base_recipes(axes, load)
    check_settings(axes, load)
    data = DataCache()
    names = {} if overwrite else distributed.by_main(lambda: settings.earlier_names(output_dir))
    section = next(iter(bases.values())).data
    whole = len(distributed.main_first(lambda: load_task(section.task, **section.options))[0]["train"])
    planner = Planner(axes, load, data.count, whole, names, data.flops)
    runs = planner.plan({})  # with the first point of every grid, whatever is chosen later
    check_models(runs, data)
    spec = data.load(runs[0].recipe.data).spec
    resolved = {**settings.settings_of(bases), "run": settings.run_section(axes)}

    def open_folder() -> None:
        others = claims.others()
        if others and (overwrite or run_folder.first_difference(run_folder.read_resolved(output_dir), resolved)):
            raise HfLongSeqError(
                f"output_dir {output_dir} is in use by another command ({others[0]}): give the same settings to join "
                "it, let it end, or choose another output_dir."
            )
        if not overwrite and settings.is_extension(output_dir, resolved, bases):
            check_held_out(output_dir, data.load(runs[0].recipe.data))
            run_folder.write_yaml(output_dir / run_folder.RESOLVED, resolved)
        run_folder.claim_folder(output_dir, resolved, overwrite, finished=RESULTS)

    told = _tables_once(listener) if distributed.is_main() else silent
    with Claims(output_dir) if distributed.is_main() else contextlib.nullcontext() as claims:
        with claims.alone("folder") if claims else contextlib.nullcontext():
            distributed.by_main(open_folder)
        if jobs > 1:
            same = {"source": source, "output_dir": output_dir, "tune": tune, "overrides": overrides, "tiny": tiny}
            run_in_processes(jobs, told, {**same, **vars(axes)})
        work = PlanWork(output_dir, planner, data, spec, told, claims)
        return Comparison(output_dir, work.carry_out())


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
            head, config, collator = _phase_parts(recipe, phase, data.spec)
            with torch.random.fork_rng():
                model = fresh_model(head, config)
            device = torch.accelerator.current_accelerator() or torch.device("cpu")
            batch = [rows[row] for row in range(min(micro, len(rows)))]
            self._flops[key] = training_flops(model, collator, batch, device)
        return self._flops[key]


def _phase_parts(recipe: Recipe, phase: str, spec: TaskSpec) -> tuple[type, Any, Any]:
    """The Auto class and the configuration of a phase's model, and the collator of its evaluation."""
    settings = getattr(recipe, phase)
    training, evaluation, _ = collators_and_metrics(settings, spec)
    return head_class(settings, spec), configuration(recipe.model, settings, spec), evaluation or training


def check_models(runs: Sequence[Run], data: DataCache) -> None:
    """Build every model of the plan without memory: a mistake in the last must not show after hours of the first."""
    different = {repr((run.recipe.model, run.recipe.pretrain.objective, run.phase)): run for run in reversed(runs)}
    for run in reversed(different.values()):
        head, config, _ = _phase_parts(run.recipe, run.phase, data.load(run.recipe.data).spec)
        with torch.device("meta"):
            fresh_model(head, config)


def check_held_out(output_dir: Path, data: TaskData) -> None:
    """Raise if a run in the folder of a comparison was chosen or scored on other data: a row is of one test split."""
    known = sorted((output_dir / RUNS).glob(f"*/{run_folder.DATA}"))
    splits = {"validation": data.validation, "test": data.test} if known else {}
    now = run_folder.data_record(splits, data.spec, {})["splits"]
    for path in known:
        then = run_folder.read_json(path)["splits"]
        if any(then.get(name, record) != record for name, record in now.items()):
            raise HfLongSeqError(
                f"the data of task {data.spec.name!r} are not those with which {path.parent} was made: restore them, "
                "choose another output_dir, or start again with --overwrite."
            )


def _tables_once(listener: Listener) -> Listener:
    """Pass on what is said of a model and its optimiser, the only text of several lines, once per architecture."""
    told: set[str] = set()

    def tell(label: str, step: int, total: int, text: str | None) -> None:
        if text and "\n" in text:
            arch = re.split("-(?:pretrain|scratch|spt)", label)[0]  # the name of a run begins with it
            text = None if arch in told else text
            told.add(arch)
        listener(label, step, total, text)

    return tell


@dataclass
class PlanWork:
    """Does the runs of a plan that no other process does.

    Of several processes that train together, the main one alone has claims, and chooses for all.
    """

    output_dir: Path
    planner: Planner
    data: DataCache
    spec: TaskSpec
    listener: Listener
    claims: Claims | None
    runs: dict[str, Run] = field(default_factory=dict)

    def carry_out(self) -> dict[str, Any]:
        """Do the runs that tune, if there are any, then those that are reported; returns the results."""
        choices: Choices | None = None
        for stage in ("tune", "report") if self.planner.axes.tune_seeds else ("report",):
            self.planner.runs.clear()
            self.runs = {run.name: run for run in self.planner.plan(choices)}
            distributed.by_main(self._write_plan)
            self.listener("", 0, sum(run.steps for run in self.runs.values()), None)
            self._work_through("train", list(self.runs.values()))
            if stage == "tune":
                choices = distributed.by_main(lambda: self._found().choices())
        unscored = distributed.by_main(lambda: self._found().unscored())
        self._work_through("score", [self.runs[name] for name in unscored])

        def write() -> dict[str, Any]:
            with self.claims.alone(RESULTS):
                return collect(self.output_dir, write=True)

        return distributed.by_main(write)

    def _found(self) -> PlanResults:
        return PlanResults(self.output_dir, [run.record() for run in self.runs.values()], self.spec.metric)

    def _write_plan(self) -> None:
        """Write `plan.json`, unless another process, or this command before, wrote one with these runs and more."""
        path, records = self.output_dir / PLAN, [run.record() for run in self.runs.values()]
        held = run_folder.read_json(path)["runs"] if path.is_file() else []
        if not all(record in held for record in records):
            said = {"task": self.spec.name, "metric": self.spec.metric, "names": self.planner.names}
            run_folder.write_json(path, {**said, "runs": records})

    def _work_through(self, action: str, runs: list[Run]) -> None:
        """Train runs, or score them on the test split; those that other processes do are waited for.

        Pretraining comes first, for other runs wait for it, and then the longest, so that no process is left alone
        with one at the end.
        """
        waiting = sorted(runs, key=lambda run: (run.phase != "pretrain", -run.steps))
        while (name := distributed.by_main(lambda: self._claim_next(action, waiting))) is not None:
            try:
                self._perform(action, self.runs[name])
            finally:
                if self.claims is not None:
                    self.claims.release(name)

    def _claim_next(self, action: str, waiting: list[Run]) -> str | None:
        """Claim a run that may start; None once all are done."""
        told, pause = False, POLL_SECONDS
        while True:
            for run in [run for run in waiting if self._done(action, run)]:
                waiting.remove(run)
                self.listener(run.name, run.steps, run.steps, None)
            ready = [
                run.name
                for run in waiting
                if action == "score" or not run.pretrained or self._done("train", self.runs[run.pretrained])
            ]
            for name in ready:
                if self.claims.take(name):
                    return name
            if not waiting:
                return None
            if not told and self.claims.holder(ready[0]).split()[-1] != socket.gethostname():
                self.listener(ready[0], 0, 0, f"waits for {self.claims.holder(ready[0])}, who does this run")
                told = True
            time.sleep(pause)
            pause = min(1.5 * pause, 10)  # a file server has better to do than to be asked

    def _done(self, action: str, run: Run) -> bool:
        """Whether nobody has to do this any more: it is finished, has failed, or starts from a run that has."""
        if run_folder.METRICS in self._files(run.name):
            return action == "train" or "test" in run_folder.read_json(self._folder(run.name) / run_folder.METRICS)
        # of several processes, one may fail alone, and the others would wait for it in the next run
        names = (run.name, run.pretrained) if distributed.count() == 1 else ()
        return any(FAILED in self._files(name) for name in filter(None, names))

    def _files(self, name: str) -> list[str]:
        # a listing asks the file server; a look for one file may be answered from what this machine remembers
        return os.listdir(self._folder(name)) if self._folder(name).is_dir() else []

    def _folder(self, name: str) -> Path:
        return self.output_dir / RUNS / name

    def _perform(self, action: str, run: Run) -> None:
        """Train a run, or score it on the test split.

        What the settings of a run bring about, numbers that overflow and too little memory, is written down, and the
        others go on. A full disk, data that changed or a lost connection would fail them all: those end the plan.
        """
        if action == "score":
            return self._score(run)
        if distributed.by_main(lambda: self._done("train", run)):
            return self.listener(run.name, run.steps, run.steps, None)
        try:
            self._train(run)
        except (Diverged, torch.OutOfMemoryError) as error:
            if distributed.count() > 1:
                raise
            sentence = " ".join(str(error).split())
            step = re.search(r"at step (\d+)", sentence)
            record = {"error": sentence, "step": int(step.group(1)) if step else None}
            run_folder.write_json(self._folder(run.name) / FAILED, record)
            self.listener(run.name, run.steps, run.steps, f"failed: {sentence}")

    def _train(self, run: Run) -> None:
        def tell(label: str, step: int, total: int, text: str | None) -> None:
            if self.claims is not None:
                self.claims.check()
            self.listener(label, step, total, text)

        common = {"seed": run.seed, "listener": tell, "data": self.data.load(run.recipe.data)}
        folder = self._folder(run.name)
        if run.phase == "pretrain":
            pretrain(run.recipe, folder, **common)
        else:
            start = self._folder(run.pretrained) if run.pretrained else None
            finetune(run.recipe, folder, init_from=start, init=run.init, score_test=run.score_test, **common)

    def _score(self, run: Run) -> None:
        path = self._folder(run.name) / run_folder.METRICS
        section = run.recipe.finetune if run.pretrained else run.recipe.scratch
        batch = section.per_device_eval_batch_size or section.per_device_train_batch_size or section.global_batch_size
        scores = evaluate(self._folder(run.name), data=self.data.load(run.recipe.data), batch_size=batch)
        distributed.by_main(lambda: run_folder.write_json(path, {**run_folder.read_json(path), "test": scores}))


def keep_best(output_dir: Path) -> Path | None:
    """Copy the reported self-pretrained classifier with the best validation metric to `best`; without one, none."""
    results = run_folder.read_json(output_dir / RESULTS)
    sign = 1 if greater_is_better(results["metric"]) else -1
    rows = [row for row in results["rows"] if pretrains(row["init"])]
    scores = {
        run: sign * score for row in rows for run, score in zip(row["runs"], row["validation_values"], strict=True)
    }
    if not scores:
        return None
    source = output_dir / max(scores, key=lambda run: scores[run])
    run_folder.replace_folder(output_dir / BEST, lambda fresh: shutil.copytree(source, fresh, dirs_exist_ok=True))
    return output_dir / BEST
