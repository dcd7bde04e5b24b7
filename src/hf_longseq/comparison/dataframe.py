# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Results folders as tables of pandas: scores with a row per seed, curves with a row per evaluation.

A results folder is the output folder of `compare` or `spt`, or one that keeps `results.json` and `curves.json` of it.
What an older file does not record is missing here (NaN or None) and "not recorded" on the page.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from hf_longseq.comparison.arms import canonical, rank, settings_text
from hf_longseq.comparison.plan import slug
from hf_longseq.comparison.results import PLAN, RESULTS, collect
from hf_longseq.errors import HfLongSeqError
from hf_longseq.escaping import cleaned
from hf_longseq.metrics import METRICS
from hf_longseq.training.recipe_file import architectures_of
from hf_longseq.training.run_folder import RESOLVED, read_json, read_resolved, read_yaml

CURVES = "curves.json"
# one arm of one comparison; `name` is the task, or the name that a results folder gives itself
KEY = ["name", "arch", "labels", "protocol", "init"]
COUNTS = [
    "labels", "pretrain_examples", "pretrain_steps", "finetune_steps", "pretrain_epochs", "finetune_epochs", "flops",
    "num_parameters", "wall_seconds", "evaluations", "converged",
]  # fmt: skip
# what all seeds of an arm have in common, whichever folders hold them
SAME = ("setting", "test_examples", "pretrain_examples", "pretrain_steps", "finetune_steps", "num_parameters")
# The plan beside kept folders. Gains that no claim of it holds are of one family, with a margin in hundredths.
PLANNED, EXPLORED, MARGIN = "plan.yaml", "explored", 2
# options of a task's loader that make it another task than the paper's
SIZES = {"min_length", "max_length", "max_depth", "max_args", "size", "contour_length"}


class Results(NamedTuple):
    """What results folders say.

    Attributes:
        scores: A row per seed: folder, name, task, metric, arch, init (the arm), protocol, labels, seed, value,
            validation, setting, and what a run cost.
        curves: A row per evaluation: name, arch, init, labels, seed, step (of fine-tuning), value, pretrain_steps.
        candidates: A row per setting that was tried: setting, validation, selected.
        failed: Runs that failed, with the error, or are not finished (error None).
        folders: A row per folder: name, task, metric, greater_is_better, note on the data, command, environment.
    """

    scores: pd.DataFrame
    curves: pd.DataFrame
    candidates: pd.DataFrame
    failed: pd.DataFrame
    folders: pd.DataFrame


def read_results(runs: Sequence[str]) -> Results:
    """Read all results folders below the named ones.

    Args:
        runs: Folders, each optionally as NAME=FOLDER to give it a name on the page.

    Raises:
        HfLongSeqError: If a folder holds no result, a file cannot be understood, or two folders contradict each other.

    Example:
        >>> read_results(["results/demo"]).scores.groupby("init")["value"].mean()  # doctest: +SKIP
    """
    found: dict[Path, tuple[list, ...]] = {}
    for word in runs:
        name, equals, folder = word.partition("=")
        name, folder = (name, Path(folder)) if equals and not Path(word).exists() else (None, Path(word))
        folders = find_folders(folder)
        if name and len(folders) > 1:
            raise HfLongSeqError(f"{word} names {len(folders)} results folders: name each of them by itself.")
        for one in folders:
            found.setdefault(one.resolve(), _read(one, name))
    tables = [pd.DataFrame([row for part in parts for row in part]) for parts in zip(*found.values(), strict=True)]
    scores, curves, candidates, failed, folders = tables
    if len(scores):
        scores[COUNTS] = scores[COUNTS].apply(pd.to_numeric, errors="coerce")
        scores = _merged(scores)
    if len(candidates):  # those without a choice say nothing
        choices = candidates.groupby(["name", "arch", "init", "labels"], dropna=False)["setting"].transform("nunique")
        candidates = candidates[choices > 1]
    return Results(scores, curves.drop_duplicates(), candidates, failed, folders)


def find_folders(folder: Path) -> list[Path]:
    """The folder itself if it holds results, else all below it that do, by name."""
    if not folder.is_dir():
        raise HfLongSeqError(f"there is no folder {folder}: name the output_dir of `compare` or `spt`.")
    below = {path.parent for name in (RESULTS, PLAN) for path in folder.rglob(name)}
    # what lies inside an output folder belongs to it
    found = sorted(one for one in below if not any(parent in below for parent in one.parents))
    if not found:
        raise HfLongSeqError(
            f"{folder} holds no results ({RESULTS}, or runs of `compare` or `spt`): name the folder of a comparison."
        )
    return found


def results_of(folder: Path) -> dict[str, Any]:
    """Content of `results.json`, or what it would be where the comparison has not written it yet."""
    results = cleaned(read_json(folder / RESULTS) if (folder / RESULTS).is_file() else collect(folder))
    kinds = {"task": str, "metric": str, "rows": list}
    if not isinstance(results, dict) or not all(isinstance(results.get(key), kinds[key]) for key in kinds):
        raise HfLongSeqError(f"{folder / RESULTS} has no task, metric and rows: name another folder.")
    return results


def _read(folder: Path, name: str | None) -> tuple[list[dict], ...]:
    """Rows of the five tables of `Results`."""
    results = results_of(folder)
    settings = read_resolved(folder) or {}
    metric = results["metric"]
    known = (
        METRICS[metric][1] if metric in METRICS else False if metric == "loss" else results.get("greater_is_better")
    )
    if not isinstance(known, bool):
        raise HfLongSeqError(
            f"it is not known whether {metric!r}, the metric of {folder}, is better when greater: "
            f'add "greater_is_better": true or false to its {RESULTS}.'
        )
    one = {"folder": str(folder), "name": name or results.get("name") or results["task"], "task": results["task"]}
    one |= {"metric": metric, "unit": results.get("unit"), "greater_is_better": known}
    for row in results["rows"]:
        _check(row, folder)
    curves = read_json(folder / CURVES) if (folder / CURVES).is_file() else curves_of(folder, results)
    labels = {(row["arch"], row.get("fraction")): row["train_examples"] for row in results["rows"]}
    resized = bool(SIZES & set(settings.get("data") or {}))
    claims = _claims(folder.parent / PLANNED)
    scores = [
        one | {"resized": resized} | score | _family(claims, folder.name, score["init"], known)
        for row in results["rows"] for score in _scores(row)
    ]  # fmt: skip
    try:
        points = [point | {"name": one["name"]} for point in _points(results["rows"], curves)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HfLongSeqError(f"{folder / CURVES} has no steps and values by arm: restore it, or delete it.") from error
    tried = [
        one | {
            "arch": raw["arch"], "init": _init(raw, results["rows"]), "setting": settings_text(raw.get("grid") or {}),
            "labels": labels.get((raw["arch"], raw.get("fraction"))),
            "validation": raw.get("validation_values") or [], "selected": bool(raw.get("selected")),
        }
        for raw in results.get("candidates") or ()
    ]  # fmt: skip
    failed = [{"name": one["name"], "run": str(raw.get("run")), "error": str(raw.get("error"))} for raw in
              results.get("failed") or ()]  # fmt: skip
    failed += [{"name": one["name"], "run": str(run), "error": None} for run in results.get("unfinished") or ()]
    command = results.get("command") or _command(settings)
    said = {"note": str(results["note"]) if results.get("note") else None, "command": command}
    return scores, points, tried, failed, [one | said | {"environment": results.get("environment") or {}}]


def _claims(plan: Path) -> dict[str, Any]:
    claims = ((read_yaml(plan) if plan.is_file() else None) or {}).get("claims") or {}
    if not all(isinstance(claim.get("gains"), dict) for claim in claims.values()):
        raise HfLongSeqError(f"{plan} has a claim without gains: name its arms by folder, gains: {{FOLDER: [ARM]}}.")
    return claims


def _family(claims: dict[str, Any], folder: str, init: str, scaled: bool) -> dict[str, Any]:
    """The family of an arm's gains and its margin; an error has no scale, and no margin."""
    name = next((name for name, claim in claims.items() if init in claim["gains"].get(folder, ())), EXPLORED)
    return {"family": name, "margin": claims.get(name, {}).get("margin", MARGIN) / 100 if scaled else 0.0}


def _check(row: Any, folder: Path) -> None:
    if not isinstance(row, dict):
        raise HfLongSeqError(f"{folder / RESULTS} has {row!r} for a row: restore the file, or run it again.")
    where = f"{folder / RESULTS}, row {row.get('arch', '?')} {row.get('init', '?')}"
    for key in ("arch", "init", "seeds", "values", "train_examples"):
        if not row.get(key):
            raise HfLongSeqError(f"{where}: {key} is missing: restore the file, or run it again.")
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in row["values"]):
        raise HfLongSeqError(
            f"{where}: the values are {row['values']}, not all of them numbers: run those seeds again."
        )


def _init(raw: dict[str, Any], rows: list[dict]) -> str:
    """The arm; a candidate does not tell its objective, the rows of the same arm do."""
    like = next((row for row in rows if (row["arch"], row["init"]) == (raw["arch"], raw["init"])), raw)
    return canonical(raw["init"], like.get("objective"))


def _identity(row: dict[str, Any]) -> dict[str, Any]:
    init = canonical(row["init"], row.get("objective"))
    return {"arch": row["arch"], "init": init, "protocol": row.get("protocol") or "", "labels": row["train_examples"]}


def _scores(row: dict[str, Any]) -> list[dict]:
    """A row of `results.json` as one per seed."""
    flags = row.get("converged") or [None] * len(row["values"])
    shared = {name: row.get(name) for name in (*COUNTS, "test_examples", "scratch", "scratch_tied")} | _identity(row)
    shared["setting"] = settings_text(row.get("grid") or {})
    validation = row.get("validation_values") or [None] * len(row["values"])
    subsets = row.get("subset_seeds") or [None] * len(row["values"])
    columns = zip(row["seeds"], row["values"], validation, subsets, flags, strict=False)
    return [
        {**shared, "seed": seed, "value": value, "validation": score, "subset_seed": subset, "converged": converged}
        for seed, value, score, subset, converged in columns
    ]


def _points(rows: list[dict], curves: dict[str, Any]) -> list[dict]:
    """Curves of `curves.json` as a row per evaluation."""
    return [
        {**_identity(row), "seed": seed, "step": step, "value": value, "pretrain_steps": curve["pretrain_steps"]}
        for row in rows
        if (curve := curves.get(curve_key(row, rows)))
        for seed, values in zip(row["seeds"], curve["metric"], strict=False)
        for step, value in zip(curve["steps"], values, strict=True)
    ]


def curve_key(row: dict[str, Any], rows: list[dict]) -> str:
    """Key of a row in `curves.json`; the fraction belongs to it only where there are several."""
    several = len({one.get("fraction") for one in rows}) > 1 and row.get("fraction") is not None
    return f"{slug(row['arch'])}-{slug(row['init'])}" + (f"-f{row['fraction']:g}" if several else "")


def curves_of(folder: Path, results: dict[str, Any]) -> dict[str, Any]:
    """Content of `curves.json` from the histories of the runs; rows without histories are left out.

    Returns:
        {"<arch>-<init>[-f<fraction>]": {"steps": [...], "metric": [[value per step] per seed], "pretrain_steps": n}};
        steps are those of fine-tuning, at which all seeds were scored.
    """
    key, curves = f"eval_{results['metric']}", {}
    for row in results["rows"]:
        paths = [folder / name / "history.json" for name in row.get("runs") or ()]
        if paths and all(path.is_file() for path in paths):
            scores = [{entry["step"]: entry[key] for entry in read_json(path) if key in entry} for path in paths]
            steps = sorted(set.intersection(*map(set, scores)))
            curves[curve_key(row, results["rows"])] = {
                "steps": steps,
                "metric": [[float(f"{one[step]:.5g}") for step in steps] for one in scores],
                "pretrain_steps": row.get("pretrain_steps") or 0,
            }
    return curves


def _command(settings: dict[str, Any]) -> str | None:
    """The command of a comparison as far as its settings tell it."""
    run = dict(settings.get("run") or {})
    phase, archs, grid = (run.pop(key, None) for key in ("phase", "archs", "grid"))
    if phase not in ("compare", "spt"):
        return None
    axes = {} if archs in (None, architectures_of(settings)) else {"arch": archs}
    axes |= {key: value if isinstance(value, list) else [value] for key, value in run.items() if value}
    axes |= {"grid": [f"{key}={','.join(map(str, values))}" for key, values in grid.items()]} if grid else {}
    words = (
        f"--{key} {' '.join(str(item) for item in items if item is not True)}".strip() for key, items in axes.items()
    )
    return " ".join([f"hf-longseq {phase} --recipe {RESOLVED}", *words])


def _merged(scores: pd.DataFrame) -> pd.DataFrame:
    """Every seed of an arm once, whichever folders hold it; tasks and architectures in the order of the folders."""
    scores = scores.drop_duplicates([*KEY, "seed", "value"])
    settings = scores.groupby(KEY, dropna=False)[list(SAME)].transform("nunique").max(axis=1)
    twice = scores[scores.duplicated([*KEY, "seed"], keep=False) | (settings > 1)]
    if len(twice):
        mine = twice.merge(twice[KEY].iloc[:1], on=KEY)
        one, other = mine.iloc[0], mine.iloc[-1]
        odd = next((f" ({name} {one[name]} and {other[name]})" for name in SAME if mine[name].nunique() > 1), "")
        raise HfLongSeqError(
            f"contradictory results for {one['arch']}, {one['init']} on {one['name']} with {one['labels']} labels: "
            f"{one['value']:.4g} in {one['folder']} and {other['value']:.4g} in {other['folder']}{odd}; leave one "
            "folder out, or give it a name of its own with NAME=FOLDER."
        )

    def order(column: pd.Series) -> Any:
        if column.name in ("name", "arch"):
            return pd.factorize(column)[0]
        return column.map(rank) if column.name == "init" else column

    scores = scores.drop(columns="test_examples")
    return scores.sort_values(["name", "arch", "labels", "init", "seed"], key=order, kind="stable", ignore_index=True)
