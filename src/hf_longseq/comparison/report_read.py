# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""What a report is made of: `results.json` of each plan, and `curves.json` beside it.

A plan is the output folder of `compare` or `spt`, or a folder that only keeps the small files of one. Keys that older
files lack are None here and "–" in the report.
"""

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hf_longseq.comparison.plan import slug
from hf_longseq.comparison.results import PLAN, RESULTS, collect
from hf_longseq.errors import HfLongSeqError
from hf_longseq.escaping import cleaned
from hf_longseq.metrics import METRICS
from hf_longseq.training.recipe import architectures_of
from hf_longseq.training.run_folder import RESOLVED, read_json, read_resolved

CURVES = "curves.json"
INIT_ORDER = ("scratch", "scratch-tied", "spt-masked", "spt-causal")
PLAN_PHASES = ("compare", "spt")
# options of a task's loader that make it another task than the paper's
SIZES = {"min_length", "max_length", "max_depth", "max_args", "size", "contour_length"}


@dataclass(frozen=True)
class Row:
    """One architecture, start and number of labels: the test metric of every seed, and what it cost."""

    plan: str
    arch: str
    init: str
    values: tuple[float, ...]
    raw_init: str
    objective: str | None = None
    fraction: float | None = None
    grid: dict[str, Any] | None = None
    seeds: tuple[int, ...] = ()
    validation_values: tuple[float, ...] = ()
    train_examples: int | None = None
    pretrain_examples: int | None = None
    pretrain_steps: int | None = None
    finetune_steps: int | None = None
    examples_seen: int | None = None
    flops: float | None = None
    num_parameters: int | None = None
    wall_seconds: float | None = None
    runs: tuple[str, ...] = ()

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return statistics.fmean(self.values)

    @property
    def std(self) -> float | None:
        """Standard deviation over the seeds; None for one seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def validation_mean(self) -> float | None:
        """Mean of the validation metric over the seeds."""
        return statistics.fmean(self.validation_values) if self.validation_values else None

    @property
    def steps(self) -> int:
        """Optimiser steps of both phases."""
        return (self.pretrain_steps or 0) + (self.finetune_steps or 0)

    @property
    def labels(self) -> int | float | None:
        """How many labels were used: a number of examples or, where that is not known, a share."""
        return self.train_examples if self.train_examples is not None else self.fraction


@dataclass(frozen=True)
class Plan:
    """The results of one plan.

    Attributes:
        label: The folder as the user wrote it.
        folder: The folder.
        name: Heading of the plan's column: the task, unless the plan has a name of its own.
        task, metric: As in `results.json`.
        greater_is_better: Direction of the metric.
        unit: Unit of the metric, if it has any.
        rows: One per architecture, start and number of labels.
        candidates, failed, unfinished, environment, command: As in `results.json`.
        curves: Content of `curves.json`: validation metric over the steps.
        resized: Whether an option of the task's loader makes its sequences others than the paper's.
    """

    label: str
    folder: Path
    name: str
    task: str
    metric: str
    greater_is_better: bool
    unit: str | None
    rows: tuple[Row, ...]
    candidates: tuple[dict[str, Any], ...] = ()
    failed: tuple[dict[str, Any], ...] = ()
    unfinished: tuple[str, ...] = ()
    environment: dict[str, Any] = field(default_factory=dict)
    command: str | None = None
    curves: dict[str, Any] = field(default_factory=dict)
    resized: bool = False


def canonical_init(init: str, objective: str | None) -> str:
    """`spt` with the objective masked is `spt-masked`: short and long plans share a row."""
    name, *settings = init.split("@")
    return "@".join([f"spt-{objective}" if name == "spt" and objective else name, *settings])


def init_rank(init: str) -> tuple[int, str]:
    """Order of the starts in tables and legends; variants of a start stand below it, small numbers first."""
    name, *settings = init.split("@")
    numbers = re.sub(r"\d+", lambda found: found[0].zfill(9), "@".join(settings))
    return (INIT_ORDER.index(name), numbers) if name in INIT_ORDER else (len(INIT_ORDER), name + numbers)


def read_plans(runs: Sequence[str]) -> list[Plan]:
    """Read all plans below the named folders.

    Args:
        runs: Folders, each optionally as NAME=FOLDER to give its plan a column of that name.

    Raises:
        HfLongSeqError: If a folder holds no result, or a file cannot be understood.
    """
    plans: dict[Path, Plan] = {}
    for word in runs:
        name, folder = _split_name(word)
        found = find_plans(folder)
        if name and len(found) > 1:
            raise HfLongSeqError(f"{word} names {len(found)} plans below one folder: name each of them by itself.")
        for one in found:
            plans.setdefault(one.resolve(), read_plan(one, name))
    return list(plans.values())


def _split_name(word: str) -> tuple[str | None, Path]:
    name, equals, folder = word.partition("=")
    return (name, Path(folder)) if equals and not Path(word).exists() else (None, Path(word))


def find_plans(folder: Path) -> list[Path]:
    """The folder itself if it is a plan, else all plans below it, by name."""
    if not folder.is_dir():
        raise HfLongSeqError(f"there is no folder {folder}: name the output_dir of `compare` or `spt`.")
    if _is_plan(folder):
        return [folder]
    below = {path.parent for name in (RESULTS, PLAN, RESOLVED) for path in folder.rglob(name)}
    below = sorted(one for one in below if _is_plan(one))
    # what lies inside a plan belongs to it
    found = [one for one in below if not any(parent in below for parent in one.parents)]
    if not found:
        raise HfLongSeqError(
            f"{folder} holds no results ({RESULTS}, or runs of `compare` or `spt`): name the folder of a plan."
        )
    return found


def _is_plan(folder: Path) -> bool:
    if any((folder / name).is_file() for name in (RESULTS, PLAN)):
        return True
    return (_settings(folder).get("run") or {}).get("phase") in PLAN_PHASES


def _settings(folder: Path) -> dict[str, Any]:
    return read_resolved(folder) or {}


def results_of(folder: Path) -> Any:
    """Content of a plan's `results.json`, or what it would be where the plan has not written it yet."""
    return read_json(folder / RESULTS) if (folder / RESULTS).is_file() else collect(folder)


def read_plan(folder: Path, name: str | None = None) -> Plan:
    """Read one plan; `name` heads its column instead of its task's name."""
    results = cleaned(results_of(folder))
    if not isinstance(results, dict) or not {"task", "metric", "rows"} <= set(results):
        raise HfLongSeqError(
            f"{folder / RESULTS} is not the result of a plan (task, metric and rows): name another folder."
        )
    metric = results["metric"]
    return Plan(
        label=str(folder),
        folder=folder,
        name=name or results.get("name") or results["task"],
        task=results["task"],
        metric=metric,
        greater_is_better=_direction(metric, results, folder),
        unit=results.get("unit"),
        rows=tuple(_row(raw, folder) for raw in results["rows"]),
        candidates=tuple(results.get("candidates") or ()),
        failed=tuple(results.get("failed") or ()),
        unfinished=tuple(results.get("unfinished") or ()),
        environment=results.get("environment") or {},
        command=results.get("command") or _command(folder, results),
        resized=bool(SIZES & set(_settings(folder).get("data") or {})),
        curves=read_json(folder / CURVES) if (folder / CURVES).is_file() else curves_of(folder, results),
    )


def _direction(metric: str, results: dict[str, Any], folder: Path) -> bool:
    if metric in METRICS:
        return METRICS[metric][1]
    if metric == "loss":
        return False
    if isinstance(results.get("greater_is_better"), bool):
        return results["greater_is_better"]
    raise HfLongSeqError(
        f"it is not known whether {metric!r}, the metric of {folder}, is better when greater: "
        f'add "greater_is_better": true or false to its {RESULTS}.'
    )


def _row(raw: dict[str, Any], folder: Path) -> Row:
    """One entry of "rows", checked."""
    if not isinstance(raw, dict):
        raise HfLongSeqError(f"{folder / RESULTS} has {raw!r} for a row: restore the file, or run the plan again.")
    where = f"{folder / RESULTS}, row {raw.get('arch', '?')} {raw.get('init', '?')}"
    for key in ("arch", "init", "values"):
        if not raw.get(key):
            raise HfLongSeqError(f"{where}: {key} is missing: restore the file, or run the plan again.")
    values = raw["values"]
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
        raise HfLongSeqError(f"{where}: the values are {values}, not all of them numbers: run those seeds again.")
    known = {name: raw[name] for name in Row.__dataclass_fields__ if raw.get(name) is not None}
    tuples = {name: tuple(known[name]) for name in ("values", "seeds", "validation_values", "runs") if name in known}
    validation = tuples.get("validation_values") or _validation_of_files(folder, raw)
    init = canonical_init(raw["init"], raw.get("objective"))
    return Row(
        **{
            **known,
            **tuples,
            "validation_values": validation,
            "plan": str(folder),
            "init": init,
            "raw_init": raw["init"],
        }
    )


def _validation_of_files(folder: Path, raw: dict[str, Any]) -> tuple[float, ...]:
    """Validation metric per seed from `metrics/*.json`, which older folders keep beside their results."""
    found = []
    for seed in raw.get("seeds") or ():
        path = folder / "metrics" / f"{slug(raw['arch'])}-{slug(raw['init'])}-s{seed}.json"
        metrics = read_json(path) if path.is_file() else {}
        value = metrics.get("validation", {}).get(metrics.get("metric"))
        if value is not None:
            found.append(value)
    return tuple(found) if len(found) == len(raw.get("seeds") or ()) else ()


def _command(folder: Path, results: dict[str, Any]) -> str | None:
    """The command of a plan as far as its settings tell it."""
    settings = _settings(folder)
    run = settings.get("run") or {}
    if run.get("phase") not in PLAN_PHASES:
        return None
    known = run.get("archs") or architectures_of(settings)
    run = _part_in(results, {**run, "archs": known})
    words = [f"hf-longseq {run['phase']} --recipe {RESOLVED}"]
    if run["archs"] != known:
        words.append(f"--arch{'s' if run['phase'] == 'compare' else ''} {' '.join(run['archs'])}")
    for key in ("seeds", "inits"):
        if run.get(key):
            words.append(f"--{key} {' '.join(map(str, run[key]))}")
    if run.get("grid"):
        points = (f"{key}={','.join(map(str, values))}" for key, values in run["grid"].items())
        words.append(f"--grid {' '.join(points)}")
    if run.get("train_fractions"):
        words.append(f"--train_fractions {','.join(map(str, run['train_fractions']))}")
    if run.get("compute_tied"):
        words.append("--compute_tied")
    return " ".join(words)


def _part_in(results: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """The part of a plan that results speak of: they are a smaller plan's while a larger one is under way."""
    tried = results.get("candidates")
    if not tried:
        return run
    seeds = {seed for one in tried for seed in one.get("seeds") or ()}
    seeds |= {one.get("seed") for one in results.get("failed") or ()}
    seeds |= set(run.get("seeds") or ()) if results.get("unfinished") else set()
    held = {"seeds": seeds}
    for axis, key in (("archs", "arch"), ("inits", "init"), ("train_fractions", "fraction")):
        held[axis] = {one.get(key) for one in tried}
    points = {(key, value) for one in tried for key, value in (one.get("grid") or {}).items()}
    grid = {key: [value for value in values if (key, value) in points] for key, values in _grid(run).items()}
    part = {axis: [value for value in run.get(axis) or () if value in values] for axis, values in held.items()}
    return {**run, **part, "grid": {key: values for key, values in grid.items() if values}}


def _grid(run: dict[str, Any]) -> dict[str, list]:
    return run["grid"] if isinstance(run.get("grid"), dict) else {}


def curve_key(arch: str, init: str, fraction: float | None, several: bool) -> str:
    """Key of a row in `curves.json`; the fraction belongs to it only where the plan has several."""
    share = f"-f{fraction:g}" if several and fraction is not None else ""
    return f"{slug(arch)}-{slug(init)}{share}"


def curves_of(folder: Path, results: dict[str, Any]) -> dict[str, Any]:
    """Content of `curves.json` from the histories of a plan's runs; rows without histories are left out.

    Returns:
        {"<arch>-<init>[-f<fraction>]": {"steps": [...], "metric": [[value per step] per seed], "pretrain_steps": n}};
        steps are those of fine-tuning, at which all seeds were scored.
    """
    rows = results["rows"]
    several = len({row.get("fraction") for row in rows}) > 1
    curves = {}
    for row in rows:
        names = row.get("runs") or [
            f"runs/{slug(row['arch'])}-{slug(row['init'])}-s{seed}" for seed in row.get("seeds") or ()
        ]
        histories = [folder / name / "history.json" for name in names]
        if not histories or not all(path.is_file() for path in histories):
            continue
        key = f"eval_{results['metric']}"
        scores = [{entry["step"]: entry[key] for entry in read_json(path) if key in entry} for path in histories]
        steps = sorted(set.intersection(*(set(one) for one in scores)))
        if steps:
            curves[curve_key(row["arch"], row["init"], row.get("fraction"), several)] = {
                "steps": steps,
                "metric": [[float(f"{one[step]:.5g}") for step in steps] for one in scores],
                "pretrain_steps": row.get("pretrain_steps") or 0,
            }
    return curves
