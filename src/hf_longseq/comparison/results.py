# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""From the run folders of a comparison to its `results.json`: the chosen settings, budgets, convergence, failures.

Reads only what the runs left on disk, so it works while a comparison is under way, and on one that was killed. Every
field is described in `docs/comparing.md`.
"""

import math
import os
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hf_longseq.errors import HfLongSeqError
from hf_longseq.metrics import greater_is_better
from hf_longseq.training import run_folder

PLAN = "plan.json"
RESULTS = "results.json"
FAILED = "failed.json"
RUNS = "runs"
LOW_LOSS = 0.01
# Standard error of a metric over n examples, from its value. Of the errors for normal residuals, of R2 to first order.
STANDARD_ERRORS = {
    "accuracy": lambda value, n: math.sqrt(max(value * (1 - value), 0.0) / n),
    "f1": lambda value, n: math.sqrt(max(value * (1 - value), 0.0) / n),
    "rmse": lambda value, n: value / math.sqrt(2 * n),
    "mae": lambda value, n: value * math.sqrt((math.pi / 2 - 1) / n),
    "r2": lambda value, n: 2 * math.sqrt(max(value, 0.0)) * abs(1 - value) / math.sqrt(n),
}

Record = dict[str, Any]


def collect(output_dir: str | os.PathLike, *, write: bool = False) -> dict[str, Any]:
    """Gather the results of a comparison from its run folders.

    Args:
        output_dir: Folder of `compare` or `spt`, finished or not.
        write: Also write them to `results.json`.

    Returns:
        The content of `results.json`, described above. A row appears once a run of it has a test score.
    """
    output_dir = Path(output_dir)
    if not (output_dir / PLAN).is_file():
        raise HfLongSeqError(f"{output_dir} holds no {PLAN}: give the output_dir of a comparison.")
    plan = run_folder.read_json(output_dir / PLAN)
    found = PlanResults(output_dir, plan["runs"], plan["metric"])
    results = {
        "task": plan["task"],
        "metric": plan["metric"],
        "unit": next((metrics["unit"] for metrics in found.metrics.values() if metrics and "unit" in metrics), None),
        "note": found.note(),
        "rows": [row for group in found.groups() if (row := found.row(group))],
        "candidates": [candidate for group in found.groups() for candidate in found.candidates(group)],
        "failed": found.failures(),
        "unfinished": [f"{RUNS}/{name}" for name in found.unfinished()],
        "environment": found.environment(),
    }
    if write:
        run_folder.write_json(output_dir / RESULTS, results)
    return results


class PlanResults:
    """What the folders of a plan's runs say, read once."""

    def __init__(self, output_dir: Path, runs: list[Record], metric: str):
        self.output_dir = output_dir
        self.metric = metric
        self.sign = 1 if greater_is_better(metric) else -1
        self.runs = {run["name"]: run for run in runs}
        self.metrics = {name: _read(self.folder(name) / run_folder.METRICS) for name in self.runs}
        self.errors = {name: self._error(run) for name, run in self.runs.items()}

    def folder(self, name: str) -> Path:
        return self.output_dir / RUNS / name

    def _error(self, run: Record) -> str | None:
        if self.metrics[run["name"]]:
            return None
        own = _read(self.folder(run["name"]) / FAILED)
        if own:
            return own["error"]
        first = _read(self.folder(run["pretrained"]) / FAILED) if run["pretrained"] else None
        return f"its pretraining failed ({run['pretrained']}): {first['error']}" if first else None

    def groups(self) -> list[list[Record]]:
        """Runs of the same architecture, initialisation and fraction."""
        groups: dict[tuple, list[Record]] = {}
        for run in self.runs.values():
            if run["phase"] == "finetune":
                groups.setdefault((run["arch"], run["init"], run["fraction"]), []).append(run)
        return list(groups.values())

    def points(self, group: list[Record]) -> list[list[Record]]:
        """The runs of each grid point among which the choice is made: those that tune, if the plan has such."""
        points: dict[str, list[Record]] = {}
        tuning = any(run.get("tuning") for run in group)
        for run in group:
            if bool(run.get("tuning")) == tuning:
                points.setdefault(repr(run["grid"]), []).append(run)
        return list(points.values())

    def best_point(self, group: list[Record]) -> list[Record]:
        """The runs of the point with the best validation mean, of equal ones that with the lower loss; one that all
        seeds finished comes before others."""

        def rank(runs: list[Record]) -> tuple:
            values = self.validation(runs)
            if not values:
                return (0,)
            losses = [found["validation"]["loss"] for run in runs if (found := self.metrics[run["name"]])]
            return len(values), self.sign * statistics.fmean(values), -statistics.fmean(losses)

        return max(self.points(group), key=rank)

    def chosen(self, group: list[Record]) -> list[Record]:
        """The runs to report: all seeds of the best point, without those that tuned."""
        grid = self.best_point(group)[0]["grid"]
        return [run for run in group if run["grid"] == grid and not run.get("tuning")]

    def choices(self) -> dict[tuple, Record]:
        """The grid point of each arm that the runs of the tuning seeds chose: by architecture, arm and fraction."""
        best = [self.best_point(group)[0] for group in self.groups()]
        return {(run["arch"], run["init"], run["fraction"]): run["grid"] for run in best}

    def decided(self, group: list[Record]) -> bool:
        """Whether every run of the group has ended, so that the choice stands."""
        return all(self.metrics[run["name"]] or self.errors[run["name"]] for run in group)

    def validation(self, runs: Iterable[Record]) -> list[float]:
        found = [self.metrics[run["name"]] for run in runs]
        return [metrics["validation"][self.metric] for metrics in found if metrics]

    def unscored(self) -> list[str]:
        """Chosen runs whose test score is still to be read."""
        groups = [group for group in self.groups() if self.decided(group)]
        names = [run["name"] for group in groups for run in self.chosen(group)]
        return [name for name in names if self.metrics[name] and "test" not in self.metrics[name]]

    def unfinished(self) -> list[str]:
        return [name for name in self.runs if not self.metrics[name] and not self.errors[name]]

    def failures(self) -> list[Record]:
        return [
            {"run": f"{RUNS}/{name}", "arch": run["arch"], "init": run["init"], "seed": run["seed"],
             "error": self.errors[name]}
            for name, run in self.runs.items() if self.errors[name]
        ]  # fmt: skip

    def candidates(self, group: list[Record]) -> list[Record]:
        best = self.best_point(group)
        candidates = []
        for runs in self.points(group):
            values = self.validation(runs)
            candidates.append(
                {
                    **{name: runs[0][name] for name in ("arch", "init", "fraction", "grid")},
                    "seeds": [run["seed"] for run in runs if self.metrics[run["name"]]],
                    "validation_values": values,
                    "validation_mean": statistics.fmean(values) if values else None,
                    "selected": bool(values) and runs == best,
                }
            )
        return candidates

    def row(self, group: list[Record]) -> Record | None:
        """One line of the results, or None while no chosen run has a test score."""
        runs = [run for run in self.chosen(group) if "test" in (self.metrics[run["name"]] or {})]
        if not runs:
            return None
        first = runs[0]
        found = [self.metrics[run["name"]] for run in runs]
        values = [metrics["test"][self.metric] for metrics in found]
        validation = self.validation(runs)
        splits = (_read(self.folder(first["name"]) / run_folder.DATA) or {}).get("splits") or {}
        sizes = {name: split["num_examples"] for name, split in splits.items()}
        histories = [_read(self.folder(run["name"]) / run_folder.HISTORY) or [] for run in runs]
        return {
            **{name: first[name] for name in ("arch", "init", "objective", "fraction", "grid")},
            "seeds": [run["seed"] for run in runs],
            "values": values,
            "mean": statistics.fmean(values),
            "std": statistics.stdev(values) if len(values) > 1 else 0.0,
            "validation_values": validation,
            "validation_mean": statistics.fmean(validation),
            "validation_examples": sizes.get("validation"),
            "test_examples": sizes.get("test"),
            "subset_seeds": [run.get("subset_seed") for run in runs],
            "protocol": first.get("protocol"),
            "scratch": first.get("scratch"),
            "scratch_tied": first.get("scratch_tied") or [],
            "tie": first.get("tie"),
            "num_parameters": found[0]["num_parameters"],
            **self._budget(runs),
            "tuning": self._tuning(group),
            "evaluations": sum(f"eval_{self.metric}" in entry for entry in histories[0]),
            "converged": [
                has_converged(history, self.metric, self.sign, sizes.get("validation", 0), metrics["steps"])
                for history, metrics in zip(histories, found, strict=True)
            ],
            "runs": [f"{RUNS}/{run['name']}" for run in runs],
            "pretrain_runs": [f"{RUNS}/{name}" for name in dict.fromkeys(run["pretrained"] for run in runs) if name],
        }

    def _budget(self, runs: list[Record]) -> Record:
        """What each phase of an arm took: steps, passes and counted operations of its first seed, seconds of all."""
        name, first = runs[0]["name"], runs[0]["pretrained"]
        before, after, both = (self._cost(names) for names in ([first], [name], [name, first]))
        labels, inputs = self.metrics[name]["train_examples"], self.metrics[first]["train_examples"] if first else 0
        seconds = [self._cost([run["name"], run["pretrained"]])["wall_seconds"] for run in runs]
        return {
            "train_examples": labels,
            "pretrain_examples": inputs,
            "examples_seen": both["examples_seen"],
            "pretrain_steps": before["steps"],
            "finetune_steps": after["steps"],
            "steps": both["steps"],
            "pretrain_epochs": before["examples_seen"] / inputs if inputs else 0.0,
            "finetune_epochs": after["examples_seen"] / labels,
            "epochs": both["examples_seen"] / labels,
            "pretrain_flops": before["flops"],
            "finetune_flops": after["flops"],
            "flops": both["flops"],
            "wall_seconds": round(statistics.fmean(seconds), 2),
        }

    def _tuning(self, group: list[Record]) -> Record | None:
        """What the choice by seeds of its own cost; a pretraining run that several points share counts once."""
        runs = [run for run in group if run.get("tuning") and self.metrics[run["name"]]]
        if not runs:
            return None
        cost = self._cost(dict.fromkeys(name for run in runs for name in (run["pretrained"], run["name"])))
        cost["wall_seconds"] = round(cost["wall_seconds"], 2)
        return {"seeds": sorted({run["seed"] for run in runs}), "points": len(self.points(group)), **cost}

    def _cost(self, names: Iterable[str | None]) -> Record:
        """What the named runs took in all; operations are None where those of one cannot be counted."""
        found = [self.metrics[name] for name in names if name]
        flops: list[Any] = [metrics.get("flops") for metrics in found]
        return {
            **{key: sum(metrics[key] for metrics in found) for key in ("steps", "examples_seen")},
            "flops": None if None in flops else sum(flops, 0.0),
            "wall_seconds": sum(metrics["wall_seconds"] for metrics in found),
        }

    def note(self) -> str | None:
        """What a reader must know about the data, as the first run that recorded it says."""
        records = (_read(self.folder(name) / run_folder.DATA) for name in self.runs)
        return next((record.get("note") or None for record in records if record), None)

    def environment(self) -> Record:
        records = (_read(self.folder(name) / run_folder.ENVIRONMENT) for name in self.runs)
        return next(filter(None, records), {})


def _read(path: Path) -> Record | None:
    try:
        return run_folder.read_json(path)
    except FileNotFoundError:
        return None


def standard_error(metric: str, value: float, examples: int) -> float:
    """Standard error of a metric over so many examples; 0 for one whose error is not known."""
    return STANDARD_ERRORS[metric](value, examples) if metric in STANDARD_ERRORS and examples else 0.0


def has_converged(history: Sequence[dict[str, Any]], metric: str, sign: int, examples: int, steps: int) -> bool | None:
    """Decide by the `history.json` of a run; None where a third of the run was never evaluated and the loss is not
    low.

    The rule: the best validation score of the last third of the steps exceeds the best of the middle third by no more
    than one standard error over so many validation `examples`, or the training loss that was logged last is below
    0.01. `sign` is 1 if a larger metric is better, else -1.

    Example:
        >>> scores = [(3, 0.5), (6, 0.8), (9, 0.8)]
        >>> has_converged([{"step": s, "eval_accuracy": a} for s, a in scores], "accuracy", 1, 100, 9)
        True
    """
    losses = [entry["loss"] for entry in history if "loss" in entry]
    if losses and losses[-1] < LOW_LOSS:
        return True
    scores = [(entry["step"], entry[f"eval_{metric}"]) for entry in history if f"eval_{metric}" in entry]
    middle = [sign * score for step, score in scores if steps / 3 < step <= 2 * steps / 3]
    last = [sign * score for step, score in scores if step > 2 * steps / 3]
    if not middle or not last:
        return None
    return max(last) - max(middle) <= standard_error(metric, sign * max(middle), examples) + 1e-12
