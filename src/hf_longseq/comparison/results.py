# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""From the run folders of a comparison to its table of scores: the chosen settings, budgets, convergence, failures.

Reads only what the runs left on disk (`plan.json`; of every run `metrics.json`, `history.json`, `data.json` and
`environment.json`), so it works while a comparison is under way, and on one that was killed. The columns of
`scores.csv` are described in `docs/comparing.md`.
"""

import math
import os
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from hf_longseq.comparison.arms import canonical
from hf_longseq.errors import HfLongSeqError
from hf_longseq.metrics import greater_is_better
from hf_longseq.training import run_folder
from hf_longseq.training.run_folder import RUNS

PLAN = "plan.json"
RESULTS, SCORES, CURVES = "results.json", "scores.csv", "curves.csv"
BASELINES = "baselines.csv"
FAILED = "failed.json"
LOW_LOSS = 0.01
# a line of `scores.csv` is one metric of one run on one split
COLUMNS = [
    "task", "data", "architecture", "arm", "fraction", "labels", "validation_labels", "inputs", "protocol", "point",
    "seed", "subset_seed", "tuning", "chosen", "added_after_test", "split", "metric", "value", "examples",
    "pretrain_steps", "finetune_steps", "pretrain_epochs", "finetune_epochs", "pretrain_flops", "finetune_flops",
    "seconds", "parameters", "evaluations", "converged", "pretrain_loss", "scratch", "scratch_tied", "run",
    "pretrain_run",
]  # fmt: skip
CURVE_COLUMNS = ["run", "step", "value"]
# Standard error of a metric over n examples, from its value. Of the errors for normal residuals, of R2 to first order.
STANDARD_ERRORS = {
    "accuracy": lambda value, n: math.sqrt(max(value * (1 - value), 0.0) / n),
    "f1": lambda value, n: math.sqrt(max(value * (1 - value), 0.0) / n),
    "rmse": lambda value, n: value / math.sqrt(2 * n),
    "mae": lambda value, n: value * math.sqrt((math.pi / 2 - 1) / n),
    "r2": lambda value, n: 2 * math.sqrt(max(value, 0.0)) * abs(1 - value) / math.sqrt(n),
}

Record = dict[str, Any]


class Collected(NamedTuple):
    """The three files of a finished comparison: `scores.csv`, `curves.csv` and `results.json`."""

    scores: pd.DataFrame
    curves: pd.DataFrame
    results: Record

    def write(self, folder: Path) -> None:
        """Write them, `results.json` as the last: it says that the comparison has ended."""
        for name, table in ((SCORES, self.scores), (CURVES, self.curves)):
            text = table.convert_dtypes().to_csv(index=False, lineterminator="\n")  # whole numbers without a point
            run_folder.write_whole(folder / name, text)
        run_folder.write_json(folder / RESULTS, self.results)


def collect(output_dir: str | os.PathLike, *, write: bool = False) -> Collected:
    """Gather the results of a comparison from its run folders.

    Args:
        output_dir: Folder of `compare` or `spt`, finished or not.
        write: Also write them to `scores.csv`, `curves.csv` and `results.json`.

    Raises:
        HfLongSeqError: If the folder holds no plan.
    """
    output_dir = Path(output_dir)
    if not (output_dir / PLAN).is_file():
        raise HfLongSeqError(f"{output_dir} holds no {PLAN}: give the output_dir of a comparison.")
    plan = run_folder.read_json(output_dir / PLAN)
    found = PlanResults(output_dir, plan["runs"], plan["metric"])
    names = {"task": plan["task"], "data": plan["task"]}
    lines = [names | line for line in found.lines()]
    if (output_dir / BASELINES).is_file():
        fitted = pd.read_csv(output_dir / BASELINES, float_precision="round_trip")
        lines += fitted.astype(object).where(fitted.notna(), None).assign(**names).to_dict("records")
    scores = pd.DataFrame(lines, columns=COLUMNS)
    if (output_dir / SCORES).is_file():
        scores["added_after_test"] = added_after_test(scores, pd.read_csv(output_dir / SCORES))
    units = (metrics["unit"] for metrics in found.metrics.values() if metrics and "unit" in metrics)
    results = {
        "task": plan["task"],
        "metric": plan["metric"],
        "greater_is_better": greater_is_better(plan["metric"]),
        "unit": next(units, None),
        **{name: found.first(run_folder.DATA).get(name) or None for name in ("note", "modality", "max_length")},
        "failed": found.failures(),
        "unfinished": [f"{RUNS}/{name}" for name in found.unfinished()],
        "environment": found.first(run_folder.ENVIRONMENT),
        "command": command_of(run_folder.read_resolved(output_dir) or {}),
    }
    collected = Collected(scores, pd.DataFrame(found.curve_points(), columns=CURVE_COLUMNS), results)
    if write:
        collected.write(output_dir)
    return collected


def added_after_test(scores: pd.DataFrame, earlier: pd.DataFrame) -> pd.Series:
    """Whether a run's seed joined an arm whose test scores an earlier table holds."""
    arm = ["architecture", "arm", "labels"]
    seen = earlier[(earlier["split"] == "test") & earlier["chosen"]]
    known = seen.drop_duplicates([*arm, "seed"])[[*arm, "seed", "added_after_test"]]
    joined = scores[[*arm, "seed"]].merge(known, "left", [*arm, "seed"], indicator="known")
    read = scores[arm].merge(seen[arm].drop_duplicates(), "left", arm, indicator="read")["read"] == "both"
    new = read & (joined["known"] != "both") & ~scores["tuning"]
    return new | joined["added_after_test"].eq(True)


def command_of(settings: Record) -> str | None:
    """The command of a comparison as far as its settings tell it."""
    run = dict(settings.get("run") or {})
    if run.pop("phase", None) != "compare":
        return None
    axes, grid = {"arch": run.pop("archs")}, run.pop("grid")
    axes |= {key: value if isinstance(value, list) else [value] for key, value in run.items() if value}
    axes |= {"grid": [f"{key}={','.join(map(str, values))}" for key, values in grid.items()]} if grid else {}
    words = (
        f"--{key} {' '.join(str(item) for item in items if item is not True)}".strip() for key, items in axes.items()
    )
    return " ".join([f"hf-longseq compare --recipe {run_folder.RESOLVED}", *words])


class PlanResults:
    """What the folders of a plan's runs say, read once.

    Attributes:
        groups: Runs of fine-tuning by architecture, arm and fraction.
        choices: The grid point of each group that validation chose.
    """

    def __init__(self, output_dir: Path, runs: list[Record], metric: str):
        self.output_dir = output_dir
        self.metric = metric
        self.sign = 1 if greater_is_better(metric) else -1
        self.runs = {run["name"]: run for run in runs}
        self.metrics = {name: self.read(name, run_folder.METRICS) for name in self.runs}
        self.errors = {name: self._error(run) for name, run in self.runs.items()}
        self.groups: dict[tuple, list[Record]] = {}
        for run in runs:
            if run["phase"] == "finetune":
                self.groups.setdefault((run["arch"], run["init"], run["fraction"]), []).append(run)
        self.choices = {key: self._best_point(group) for key, group in self.groups.items()}

    def read(self, name: str, file: str) -> Any:
        """A record of a run, None where it has not been written."""
        path = self.output_dir / RUNS / name / file
        return run_folder.read_json(path) if path.is_file() else None

    def _error(self, run: Record) -> str | None:
        name, first = run["name"], run["pretrained"]
        if self.metrics[name]:
            return None
        if own := self.read(name, FAILED):
            return own["error"]
        failed = self.read(first, FAILED) if first else None
        return f"its pretraining failed ({first}): {failed['error']}" if failed else None

    def _best_point(self, group: list[Record]) -> Record:
        """The grid point with the best validation mean, of equal ones that with the lower loss; one that all seeds
        finished comes before others. Runs that tune choose alone, if the plan has such."""
        tuning = any(run["tuning"] for run in group)
        points: dict[str, list[Record]] = {}
        for run in group:
            if run["tuning"] == tuning:
                points.setdefault(repr(run["grid"]), []).append(run)

        def rank(runs: list[Record]) -> tuple:
            found = [metrics["validation"] for run in runs if (metrics := self.metrics[run["name"]])]
            if not found:
                return (0,)
            mean, loss = (statistics.fmean(scores[key] for scores in found) for key in (self.metric, "loss"))
            return len(found), self.sign * mean, -loss

        return max(points.values(), key=rank)[0]["grid"]

    def _chosen(self, key: tuple) -> list[Record]:
        """The runs of a group to report: all seeds of the best point, without those that tuned."""
        return [run for run in self.groups[key] if run["grid"] == self.choices[key] and not run["tuning"]]

    def unscored(self) -> list[str]:
        """Chosen runs whose test score is still to be read, of groups of which every run has ended."""
        unfinished = set(self.unfinished())
        ended = [key for key, group in self.groups.items() if unfinished.isdisjoint(run["name"] for run in group)]
        names = [run["name"] for key in ended for run in self._chosen(key)]
        return [name for name in names if (metrics := self.metrics[name]) and "test" not in metrics]

    def unfinished(self) -> list[str]:
        return [name for name in self.runs if not self.metrics[name] and not self.errors[name]]

    def failures(self) -> list[Record]:
        return [
            {"run": f"{RUNS}/{name}", "arch": run["arch"], "init": run["init"], "seed": run["seed"],
             "error": self.errors[name]}
            for name, run in self.runs.items() if self.errors[name]
        ]  # fmt: skip

    def lines(self) -> Iterator[Record]:
        """A line per finished run, split and metric."""
        for key, group in self.groups.items():
            for run in group:
                if metrics := self.metrics[run["name"]]:
                    data = self.read(run["name"], run_folder.DATA) or {"splits": {}, "options": {}}
                    sizes = {name: split["num_examples"] for name, split in data["splits"].items()}
                    row = self._row(run, metrics, data)
                    row["chosen"] = run["grid"] == self.choices[key]
                    for split in ("validation", "test"):
                        for metric, value in sorted((metrics.get(split) or {}).items()):
                            line = {"split": split, "metric": metric, "value": value, "examples": sizes.get(split)}
                            yield row | line

    def _row(self, run: Record, metrics: Record, data: Record) -> Record:
        """What all lines of a run have in common."""
        first, history = run["pretrained"], self.read(run["name"], run_folder.HISTORY) or []
        before = (self.metrics[first] if first else None) or {}
        labels, inputs = labels_of(metrics, data), before.get("train_examples", 0)
        size = data["splits"].get("validation", {}).get("num_examples", 0)
        return {
            "architecture": run["arch"],
            "arm": canonical(run["init"], run["objective"]),
            **{name: run[name] for name in ("fraction", "seed", "subset_seed", "tuning", "protocol", "scratch")},
            "scratch_tied": " ".join(run["scratch_tied"]) or None,
            "point": " ".join(f"{key}={value}" for key, value in run["grid"].items()) or None,
            "added_after_test": False,
            "labels": labels,
            "validation_labels": 0 if chosen_on_labels(data) else size,
            "inputs": inputs,
            "pretrain_steps": before.get("steps", 0),
            "finetune_steps": metrics["steps"],
            "pretrain_epochs": before["examples_seen"] / inputs if inputs else 0.0,
            "finetune_epochs": metrics["examples_seen"] / metrics["train_examples"],
            "pretrain_flops": before.get("flops") if first else 0.0,
            "finetune_flops": metrics.get("flops"),
            "seconds": round(metrics["wall_seconds"] + before.get("wall_seconds", 0.0), 2),
            "parameters": metrics["num_parameters"],
            "evaluations": sum(f"eval_{self.metric}" in entry for entry in history),
            "converged": has_converged(history, self.metric, self.sign, size, metrics["steps"]),
            "pretrain_loss": (before.get("validation") or {}).get("loss"),
            "run": f"{RUNS}/{run['name']}",
            "pretrain_run": f"{RUNS}/{first}" if first else None,
        }

    def curve_points(self) -> Iterator[tuple[str, int, float]]:
        """The validation scores of the reported runs: run, step of fine-tuning, value."""
        for run in (run for key in self.groups for run in self._chosen(key)):
            if "test" in (self.metrics[run["name"]] or {}):
                for entry in self.read(run["name"], run_folder.HISTORY) or []:
                    if f"eval_{self.metric}" in entry:
                        yield f"{RUNS}/{run['name']}", entry["step"], float(f"{entry[f'eval_{self.metric}']:.5g}")

    def first(self, file: str) -> Record:
        """The record of the first run that has one, as those of the others say the same."""
        return next(filter(None, (self.read(name, file) for name in self.runs)), {})


def chosen_on_labels(data: Record) -> bool:
    """Whether the validation split of a run, by its `data.json`, is a fifth of its labels."""
    return (data.get("options") or {}).get("validation") == "labels"


def labels_of(metrics: Record, data: Record) -> int | None:
    """Labels of a run, by its `metrics.json` and `data.json`: those it trained on and those cut off them to choose."""
    if not chosen_on_labels(data):
        return metrics.get("train_examples")
    return metrics["train_examples"] + data["splits"]["validation"]["num_examples"]


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
