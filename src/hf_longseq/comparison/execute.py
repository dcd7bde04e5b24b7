# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""`compare`: architectures, from scratch and after self-pretraining, over seeds, grids and fractions of the labels.

A comparison is one process that hands out runs, each into its own folder under `runs/`:

1. plan (`plan.py`), and find all that can be wrong with any run (`prepare.py`);
2. with `tune`, train every arm at every grid point with seeds of their own; validation chooses its point;
3. train the pretraining runs, then those that start from them (`workers.py`); what is finished stays;
4. without `tune`, choose the grid point with the best mean validation metric over the reported seeds;
5. score the chosen runs on the test split, and write the results (`results.py`).

`spt` is `compare` with three arms, and keeps the best pretrained classifier.
"""

import functools
import os
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from hf_longseq.comparison.answer import LOOKS, Answer, answers
from hf_longseq.comparison.arms import from_scratch
from hf_longseq.comparison.axes import (
    Axes,
    base_recipes,
    is_extension,
    parse_grid,
    recipe_loader,
    run_section,
    with_windows,
)  # fmt: skip
from hf_longseq.comparison.baselines import add_baselines
from hf_longseq.comparison.plan import Choices, Planner, Run
from hf_longseq.comparison.prepare import DataCache, check_held_out, check_models
from hf_longseq.comparison.results import FAILED, PLAN, RESULTS, PlanResults, collect
from hf_longseq.comparison.scores import read_results, reported
from hf_longseq.comparison.tables import results_text
from hf_longseq.comparison.workers import Cluster, Processes, Task, Workers, usual_jobs
from hf_longseq.data.task import TaskSpec, load_task
from hf_longseq.errors import HfLongSeqError
from hf_longseq.processes import ended_as_interrupted
from hf_longseq.training import distributed, run_folder
from hf_longseq.training.progress import Listener, silent
from hf_longseq.training.recipe import Raw, Recipe, joint_settings
from hf_longseq.training.run_folder import BEST, RUNS

# The arms of `spt`, in the order of its table.
SPT_INITS = ("scratch", "spt", "scratch-tied")
# Seeds that choose settings; no row reports them.
TUNE_SEEDS = (1000, 1001)
ANSWER = "answer.json"


@dataclass(frozen=True)
class Comparison:
    """What came out: the content of `results.json`, and of `spt` the best pretrained classifier and its answers."""

    output_dir: Path
    results: dict[str, Any]
    best: Path | None = None
    answers: list[Answer] = field(default_factory=list)

    def table(self) -> str:
        """The results as text: every architecture and number of labels, with the gain of self-pretraining."""
        return results_text(self.output_dir)

    @property
    def scores(self) -> pd.DataFrame:
        """The lines of `scores.csv` that hold the comparison's metric, as `scores.read_results` gives them."""
        return read_results([str(self.output_dir)]).scores


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
    windows: Sequence[int | str] = (),
    overrides: Raw | None = None,
    tiny: bool = False,
    jobs: int | None = None,
    num_processes: int = 1,
    launch_config: str = "ddp",
    ray_address: str | None = None,
    baselines: bool = True,
    overwrite: bool = False,
    listener: Listener = silent,
) -> Comparison:
    """Run every combination, choose on validation, score the chosen runs on the test split.

    Args:
        source: A recipe as for `Recipe.load`; None takes, for the task that `overrides` names, the shipped recipe of
            each architecture.
        output_dir: A new folder, or that of the same comparison, which is then resumed, or grows by what is new.
        archs: Architectures, or variants such as `s4@init_normal=0.1`; None takes those of the recipe.
        inits: Arms as `axes.py` describes them: "scratch", "spt", "spt-masked", "spt-causal@direction=one",
            "scratch-tied@flops", `spt@pretrain_inputs=subset`.
        seeds: One run of each combination per seed.
        grid: `{"lr": [1e-3, 5e-4], "pretrain.span_length": [1, 8]}`, or words as on the command line.
        tune: Choose the grid point with `tune_seeds`, the same number of points for every arm. Without learning rates
            in the grid, each architecture tries those of its recipe, a third and three times as much.
        tune_seeds: Seeds that choose; none of them may be among `seeds`.
        train_fractions: Shares of the labelled training examples; smaller ones lie within larger ones.
        windows: How many positions the mixers see, as `[16, 256, "full"]`: every architecture once with each, and a
            table of what length is worth.
        overrides: Settings that win over the recipe, for every architecture.
        tiny: Toy sizes.
        jobs: Runs at a time on this machine, each in its own process, on its own GPU where there are several; None
            takes one for each GPU.
        num_processes: Processes that train one run together; with several GPUs each has one.
        launch_config: How they do it: "ddp", "fsdp2", or the path of a configuration of accelerate.
        ray_address: A Ray cluster that does the runs, in place of this machine: "auto", or an address. Its machines
            share `output_dir`.
        baselines: Whether linear models stand in the table too, see `baselines.py`.
        overwrite: Delete a comparison that the folder holds, and start again.
        listener: Told the progress of all runs.

    Raises:
        HfLongSeqError: For a wrong setting, before anything is trained or written; while another command works in the
            folder; and if this process is one of several that a launcher started.

    Example:
        >>> compare("smnist", "runs/smnist", inits=["scratch", "spt-masked"], tiny=True).results["metric"]
        'accuracy'
    """
    data = DataCache()
    workers = _workers(jobs, num_processes, ray_address, listener, data)
    load, named = recipe_loader(source, overrides, tiny)
    axes = Axes(
        with_windows(archs or named, windows),
        tuple(inits),
        tuple(seeds),
        parse_grid(grid),
        tuple(train_fractions),
        tuple(tune_seeds) if tune else (),
    )
    bases = base_recipes(axes, load)
    output_dir = Path(output_dir)
    with run_folder.holding(output_dir):
        plan = output_dir / PLAN
        # a larger plan finds the runs of earlier ones by what they do
        names = run_folder.read_json(plan)["names"] if plan.is_file() and not overwrite else {}
        section = next(iter(bases.values())).data
        whole = functools.cache(lambda: len(load_task(section.task, **section.options)[0]["train"]))
        planner = Planner(axes, load, data.count, whole, names, data.flops)
        runs = planner.plan({})  # with the first point of every grid, whatever is chosen later
        check_models(runs, data)
        loaded = data.load(runs[0].recipe.data)
        resolved = {**joint_settings(bases), "run": run_section(axes)}
        if not overwrite and is_extension(output_dir, resolved, bases):
            separate = all(run.recipe.data.chosen_on == "separate" for run in runs)
            check_held_out(output_dir, loaded, separate)
            run_folder.write_yaml(output_dir / run_folder.RESOLVED, resolved)
        run_folder.claim_folder(output_dir, resolved, overwrite, finished=RESULTS)
        clear_leftovers(output_dir)
        with ended_as_interrupted(), workers:
            found = data if baselines else None
            work = PlanWork(output_dir, planner, found, loaded.spec, listener, workers, num_processes, launch_config)
            return Comparison(output_dir, work.carry_out())


def _workers(
    jobs: int | None, processes: int, ray_address: str | None, listener: Listener, data: DataCache
) -> Workers:
    """Where the runs are to be done, see `workers.py`."""
    if distributed.count() > 1:
        raise HfLongSeqError(
            f"a comparison hands out its runs from one process, and a launcher started {distributed.count()}: start "
            "it alone, with --num_processes N for runs that N processes train together."
        )
    for name, number in (("jobs", jobs), ("num_processes", processes)):
        if number is not None and number < 1:
            raise HfLongSeqError(f"{name} is {number}: give a whole number from 1.")
    if ray_address is not None:
        if jobs is not None:
            raise HfLongSeqError("jobs is given with ray_address, where Ray decides how many run at a time: give one.")
        return Cluster(ray_address, processes, listener)
    jobs = usual_jobs(processes) if jobs is None else jobs
    return Workers(listener, data) if jobs == processes == 1 else Processes(jobs, processes, listener)


def spt(
    source: "str | Path | Raw | Recipe | None",
    output_dir: str | os.PathLike,
    *,
    inits: Sequence[str] = SPT_INITS,
    seeds: Sequence[int] | None = None,
    until_decided: bool = False,
    tiny: bool = False,
    **options: Any,
) -> Comparison:
    """`compare` with the arms scratch, spt and scratch-tied, which also says whether pretraining pays (`answer.py`,
    `answer.json`), and copies the best classifier to `best`.

    Args:
        source, output_dir, inits, tiny: As for `compare`.
        seeds: Three by default, one with `tiny`.
        until_decided: Add seeds until the answer is clear, at most nine; its intervals allow for looking four times.
        options: All others of `compare`.

    Raises:
        HfLongSeqError: As `compare`.

    Example:
        >>> spt("demo", "runs/demo", seeds=[0, 1, 2], tiny=True).best.name
        'best'
    """
    if until_decided and seeds is not None:
        raise HfLongSeqError("seeds are given with until_decided, which adds them by its own rule: give one of both.")
    looks: list[Sequence[int]] = [((0,) if tiny else (0, 1, 2)) if seeds is None else seeds]
    if until_decided:
        held = None if options.get("overwrite") else run_folder.read_resolved(output_dir)
        begun = len(((held or {}).get("run") or {}).get("seeds") or ())
        looks = [range(count) for count in LOOKS if count >= begun] or [range(begun)]
    for look in looks:
        comparison = compare(source, output_dir, inits=inits, seeds=look, tiny=tiny, **options)
        options["overwrite"], scores = False, comparison.scores
        # seeds that were added after a look are a further look, whoever added them
        count = len(LOOKS) if until_decided or scores["added_after_test"].any() else 1
        found = answers(scores, count, tiny)
        if not any(answer.more_seeds for answer in found):
            break
    folder = comparison.output_dir
    with run_folder.holding(folder):
        rule = {"until_decided": until_decided, "looks": list(LOOKS) if count > 1 else [len(look)]}
        run_folder.write_json(folder / ANSWER, {**rule, "answers": [asdict(answer) for answer in found]})
        return replace(comparison, best=keep_best(folder), answers=found)


def clear_leftovers(output_dir: Path) -> None:
    """Wait for the processes of a command that was killed, which end with it, and remove what they left of runs."""
    for lock in list((output_dir / RUNS).glob(f"*/{run_folder.LOCK}")):
        with run_folder.holding(lock.parent):
            if (lock.parent / run_folder.METRICS).is_file():
                shutil.rmtree(lock.parent / run_folder.CHECKPOINTS, ignore_errors=True)


@dataclass
class PlanWork:
    """Does the runs of a plan, and chooses among them."""

    output_dir: Path
    planner: Planner
    baselines: DataCache | None
    spec: TaskSpec
    listener: Listener
    workers: Workers
    num_processes: int
    launch_config: str
    runs: dict[str, Run] = field(default_factory=dict)

    def carry_out(self) -> dict[str, Any]:
        """Do the runs that tune, if there are any, then those that are reported; returns the results."""
        choices: Choices | None = None
        for stage in ("tune", "report") if self.planner.axes.tune_seeds else ("report",):
            self.planner.runs.clear()
            self.runs = {run.name: run for run in self.planner.plan(choices)}
            self._write_plan()
            self.listener("", 0, sum(run.steps for run in self.runs.values()), None)
            if stage == "report" and self.baselines is not None:
                add_baselines(self.output_dir, self.runs.values(), self.baselines)
            self._do("train", list(self.runs.values()))
            if stage == "tune":
                choices = self._found().choices
        self._do("score", [self.runs[name] for name in self._found().unscored()])
        return collect(self.output_dir, write=True).results

    def _found(self) -> PlanResults:
        return PlanResults(self.output_dir, [run.record() for run in self.runs.values()], self.spec.metric)

    def _write_plan(self) -> None:
        """Write `plan.json`, unless this command wrote one with these runs and more when it was given before."""
        path, records = self.output_dir / PLAN, [run.record() for run in self.runs.values()]
        held = run_folder.read_json(path)["runs"] if path.is_file() else []
        if not all(record in held for record in records):
            said = {"task": self.spec.name, "metric": self.spec.metric, "names": self.planner.names}
            run_folder.write_json(path, {**said, "runs": records})

    def _do(self, action: str, runs: list[Run]) -> None:
        """Train runs, or score them on the test split.

        Pretraining comes first, for other runs wait for it, and then the longest, so that none is left alone at the
        end.
        """
        waiting = sorted(runs, key=lambda run: (run.phase != "pretrain", -run.steps))
        running: dict[Future, Run] = {}
        while waiting or running:
            open_names = {run.name for run in (*waiting, *running.values())}
            for run in [run for run in waiting if action == "score" or run.pretrained not in open_names]:
                waiting.remove(run)
                if self._is_done(action, run):
                    self.listener(run.name, run.steps, run.steps, None)
                    continue
                task = Task(action, run, self.output_dir, self.num_processes, self.launch_config)
                running[self.workers.submit(task)] = run
            for future in self.workers.wait(running) if running else ():
                run = running.pop(future)
                self.workers.check(future)
                self.listener(run.name, run.steps, run.steps, None)

    def _is_done(self, action: str, run: Run) -> bool:
        """Whether a run is finished, has failed, or starts from one that has."""
        folders = [self.output_dir / RUNS / name for name in (run.name, run.pretrained) if name]
        metrics = folders[0] / run_folder.METRICS
        if metrics.is_file():
            return action == "train" or "test" in run_folder.read_json(metrics)
        return any((folder / FAILED).is_file() for folder in folders)


def keep_best(output_dir: Path) -> Path | None:
    """Copy the reported self-pretrained classifier with the best validation metric to `best`; without one, none."""
    runs = reported(read_results([str(output_dir)]).scores)
    runs = runs[~runs["arm"].map(from_scratch)]
    if not len(runs):
        return None
    best = runs["validation"].idxmax() if runs["greater_is_better"].all() else runs["validation"].idxmin()
    source = output_dir / runs.loc[best, "run"]
    run_folder.replace_folder(output_dir / BEST, lambda fresh: shutil.copytree(source, fresh, dirs_exist_ok=True))
    return output_dir / BEST
