# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""From the run folders of a comparison to its `results.json`: the choice among grid points, budgets, what failed.

Reads only what the runs left on disk, so it works while a comparison is under way, and on one that was killed.
"""

import os
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hf_longseq.errors import HfLongSeqError
from hf_longseq.metrics import PERCENT, greater_is_better
from hf_longseq.training import run_folder

PLAN = "plan.json"
RESULTS = "results.json"
FAILED = "failed.json"
RUNS = "runs"

Record = dict[str, Any]


def collect(output_dir: str | os.PathLike, *, write: bool = False) -> dict[str, Any]:
    """Gather the results of a comparison from its run folders.

    Args:
        output_dir: Folder of `compare` or `spt`, finished or not.
        write: Also write them to `results.json`.

    Returns:
        The content of `results.json`: `rows` (an architecture, initialisation and fraction each, with the grid point
        that validation chose and its test scores), `candidates` (every grid point), `failed`, `unfinished` and
        `environment`. A row appears once a run of it has a test score.
    """
    output_dir = Path(output_dir)
    if not (output_dir / PLAN).is_file():
        raise HfLongSeqError(f"{output_dir} holds no {PLAN}: give the output_dir of a comparison.")
    plan = run_folder.read_json(output_dir / PLAN)
    book = Book(output_dir, plan["runs"], plan["metric"])
    results = {
        "task": plan["task"],
        "metric": plan["metric"],
        "rows": [row for group in book.groups() if (row := book.row(group))],
        "candidates": [candidate for group in book.groups() for candidate in book.candidates(group)],
        "failed": book.failures(),
        "unfinished": [f"{RUNS}/{name}" for name in book.unfinished()],
        "environment": book.environment(),
    }
    if write:
        run_folder.write_json(output_dir / RESULTS, results)
    return results


class Book:
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
        """The runs of each grid point of a group: one per seed."""
        points: dict[str, list[Record]] = {}
        for run in group:
            points.setdefault(repr(run["grid"]), []).append(run)
        return list(points.values())

    def chosen(self, group: list[Record]) -> list[Record]:
        """The runs of the point with the best validation mean; one that all seeds finished comes before others."""

        def rank(runs: list[Record]) -> tuple:
            values = self.validation(runs)
            return len(values), self.sign * statistics.fmean(values) if values else float("-inf")

        return max(self.points(group), key=rank)

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
        chosen = self.chosen(group)
        candidates = []
        for runs in self.points(group):
            values = self.validation(runs)
            candidates.append(
                {
                    **{name: runs[0][name] for name in ("arch", "init", "fraction", "grid")},
                    "seeds": [run["seed"] for run in runs if self.metrics[run["name"]]],
                    "validation_values": values,
                    "validation_mean": statistics.fmean(values) if values else None,
                    "selected": bool(values) and runs == chosen,
                }
            )
        return candidates

    def row(self, group: list[Record]) -> Record | None:
        """One line of the results, or None while no chosen run has a test score."""
        runs = [run for run in self.chosen(group) if "test" in (self.metrics[run["name"]] or {})]
        if not runs:
            return None
        found = [self.metrics[run["name"]] for run in runs]
        pretrained = list(dict.fromkeys(run["pretrained"] for run in runs if run["pretrained"]))
        before = [self.metrics[run["pretrained"]] for run in runs if run["pretrained"]]
        values = [metrics["test"][self.metric] for metrics in found]
        validation = self.validation(runs)
        seconds = sum(metrics["wall_seconds"] for metrics in found + before) / len(runs)
        phases = [found[0], *before[:1]]
        flops = [metrics.get("flops") for metrics in phases]
        return {
            "arch": runs[0]["arch"],
            "init": runs[0]["init"],
            "objective": runs[0]["objective"],
            "fraction": runs[0]["fraction"],
            "grid": runs[0]["grid"],
            "seeds": [run["seed"] for run in runs],
            "values": values,
            "mean": statistics.fmean(values),
            "std": statistics.stdev(values) if len(values) > 1 else 0.0,
            "validation_values": validation,
            "validation_mean": statistics.fmean(validation),
            "train_examples": found[0]["train_examples"],
            "pretrain_examples": before[0]["train_examples"] if before else 0,
            "pretrain_steps": before[0]["steps"] if before else 0,
            "finetune_steps": found[0]["steps"],
            "examples_seen": sum(metrics["examples_seen"] for metrics in phases),
            "flops": None if None in flops else sum(flops),
            "num_parameters": found[0]["num_parameters"],
            "wall_seconds": round(seconds, 2),
            "runs": [f"{RUNS}/{run['name']}" for run in runs],
            "pretrain_runs": [f"{RUNS}/{name}" for name in pretrained],
        }

    def environment(self) -> Record:
        for name in self.runs:
            if found := _read(self.folder(name) / run_folder.ENVIRONMENT):
                return found
        return {}


def _read(path: Path) -> Record | None:
    try:
        return run_folder.read_json(path)
    except FileNotFoundError:
        return None


def results_table(results: dict[str, Any]) -> str:
    """Rows of `results.json` as aligned text; accuracies in per cent, mean ± standard deviation over the seeds."""
    metric = results["metric"]
    scale, unit = (100.0, " %") if metric in PERCENT else (1.0, "")
    digits = 1 if metric in PERCENT else 4
    rows = results["rows"]
    seeds = sorted({seed for row in rows for seed in row["seeds"]})
    examples = sorted({row["train_examples"] for row in rows})
    lines = [
        f"{results['task']}: {metric}{unit} on the test split, mean ± std over seeds {' '.join(map(str, seeds))}, "
        f"{'/'.join(f'{n:,}' for n in examples)} labelled examples",
        "",
    ]
    columns = ["arch", "init", "objective", "fraction", "chosen", "pretrain", "finetune", metric, "seconds"]
    table = []
    for row in rows:
        value = f"{scale * row['mean']:.{digits}f}"
        if len(row["values"]) > 1:
            value += f" ± {scale * row['std']:.{digits}f}"
        fraction = row.get("fraction")
        grid = " ".join(f"{key}={number}" for key, number in (row.get("grid") or {}).items())
        cells = [row["arch"], row["init"], row["objective"] or "-", "" if fraction is None else f"{fraction:g}", grid]
        cells += [row["pretrain_steps"], row["finetune_steps"], value, f"{row['wall_seconds']:.1f}"]
        table.append([str(cell) for cell in cells])
    # columns that say nothing in this comparison are left out
    filled = [
        index
        for index, name in enumerate(columns)
        if name not in ("fraction", "chosen") or any(cells[index] for cells in table)
    ]
    for cells in [columns, *table]:
        padded = []
        for index in filled:
            width = max(len(line[index]) for line in [columns, *table])
            number = columns[index] in ("fraction", "pretrain", "finetune", metric, "seconds")
            padded.append(cells[index].rjust(width) if number else cells[index].ljust(width))
        lines.append("  ".join(padded).rstrip())
    for failure in results.get("failed", []):
        lines.append(f"failed: {failure['run']}: {failure['error']}")
    if results.get("unfinished"):
        lines.append(f"unfinished: {', '.join(results['unfinished'])}")
    return "\n".join(lines)
