# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Results folders as tables of pandas: the scores of all folders in one, curves with a line per evaluation.

A results folder is the output folder of `compare` or `spt`, or one that keeps `scores.csv`, `curves.csv` and
`results.json` of it.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hf_longseq.comparison.arms import BASELINE, rank
from hf_longseq.comparison.results import (
    COLUMNS,
    CURVE_COLUMNS,
    CURVES,
    PLAN,
    RESULTS,
    SCORES,
    Collected,
    collect,
)  # fmt: skip
from hf_longseq.errors import MALFORMED, HfLongSeqError, explained
from hf_longseq.escaping import cleaned, one_line
from hf_longseq.training.run_folder import read_json, read_yaml

# one arm of one comparison
KEY = ["data", "architecture", "labels", "protocol", "arm"]
# columns that no table goes without
NEEDED = ["task", "data", "architecture", "arm", "labels", "seed", "tuning", "chosen", "split", "metric", "value"]
# What folders that hold an arm have in common. Seeds of one folder may differ: where whole groups are cut off for
# choosing, each trains on another number of rows.
SAME = ["point", "examples", "inputs", "pretrain_steps", "finetune_steps", "parameters"]
WORDS = [
    "task", "data", "architecture", "arm", "protocol", "point", "split", "metric", "scratch", "scratch_tied", "run",
    "pretrain_run",
]  # fmt: skip
FLAGS = ["tuning", "chosen", "added_after_test", "converged"]
# What `results.json` holds; all but the first three may be missing.
KINDS = {
    "task": str, "metric": str, "greater_is_better": bool, "note": str | None, "unit": str | None,
    "command": str | None, "environment": dict | None, "failed": list | None, "unfinished": list | None,
}  # fmt: skip
# The plan beside kept folders, of which a comparison may have several: NAME and NAME.MORE. Gains that no claim of it
# holds are of one family, with a margin in hundredths.
PLANNED, EXPLORED, MARGIN = "plan.yaml", "explored", 2


class Results(NamedTuple):
    """What results folders say.

    Attributes:
        scores: Lines of `scores.csv` that hold the comparison's metric, with their folder and what it says of the
            metric (unit, greater_is_better) and of the family of verdicts (family, margin).
        curves: A row per evaluation of a reported run: data, architecture, arm, protocol, labels, seed, step (of
            fine-tuning), value, pretrain_steps.
        failed: Runs that failed, with the error, or are not finished (error None).
        folders: A row per folder: data, note on the data, command, environment.
    """

    scores: pd.DataFrame
    curves: pd.DataFrame
    failed: pd.DataFrame
    folders: pd.DataFrame


# claim and margin of every folder and arm that a plan names
Families = dict[tuple[str, str], tuple[str, float]]


def read_results(runs: Sequence[str]) -> Results:
    """Read all results folders below the named ones.

    Args:
        runs: Folders, each optionally as NAME=FOLDER to give it a name on the page.

    Raises:
        HfLongSeqError: If a folder holds no result, a file cannot be understood, or two folders contradict each other.

    Example:
        >>> read_results(["results/demo"]).scores.groupby(["arm", "split"])["value"].mean()  # doctest: +SKIP
    """
    found: dict[Path, Results] = {}
    plans: dict[Path, Families] = {}
    for word in runs:
        name, folder = named_folder(word)
        folders = find_folders(folder)
        if name and len(folders) > 1:
            raise HfLongSeqError(f"{word} names {len(folders)} results folders: name each of them by itself.")
        for one in folders:
            parent = _spelled_out(one).parent
            if parent not in plans:
                plans[parent] = _families(parent / PLANNED)
            with explained(f"{one / RESULTS} is not what this package writes", *MALFORMED, remedy="restore it"):
                found.setdefault(one.resolve(), _read(one, name, plans[parent]))
    tables = [pd.concat(parts, ignore_index=True) for parts in zip(*found.values(), strict=True)]
    results = Results(*tables)
    return results._replace(scores=_merged(results.scores), curves=results.curves.drop_duplicates())


def named_folder(word: str) -> tuple[str, Path]:
    """Name and folder of NAME=FOLDER; no name, "", where a folder is called so."""
    name, equals, place = word.partition("=")
    return (name, Path(place)) if equals and not Path(word).exists() else ("", Path(word))


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


def files_of(folder: Path) -> Collected:
    """The three files of a results folder, or what they would be where the comparison has not ended yet."""
    if not (folder / RESULTS).is_file():
        found = collect(folder)
        _check(found.results, folder)
        return found
    results = read_json(folder / RESULTS)
    _check(results, folder / RESULTS)
    scores = _read_table(folder / SCORES, NEEDED).reindex(columns=COLUMNS)
    with_curves = (folder / CURVES).is_file()
    curves = _read_table(folder / CURVES, CURVE_COLUMNS) if with_curves else pd.DataFrame(columns=CURVE_COLUMNS)
    return Collected(scores, curves, results)


def _check(results: Any, path: Path) -> None:
    """Raises HfLongSeqError unless every field is of its kind."""
    found = results if isinstance(results, dict) else {}
    if wrong := [name for name, kind in KINDS.items() if not isinstance(found.get(name), kind)]:
        raise HfLongSeqError(f"{path} has no readable {', '.join(wrong)}: restore it, or run it again.")


def _read_table(path: Path, needed: list[str]) -> pd.DataFrame:
    types = dict.fromkeys(COLUMNS, "float") | dict.fromkeys(WORDS, "str") | dict.fromkeys(FLAGS, "boolean")
    types |= {"labels": "int", "seed": "int", "step": "int", "value": "float"}
    try:
        table = pd.read_csv(path, dtype=types, float_precision="round_trip")
    except (OSError, ValueError) as error:
        raise HfLongSeqError(
            f"{path} is not a table of scores ({one_line(error)}): restore it, or run it again."
        ) from None
    lacking = [name for name in needed if name not in table]
    if lacking or not np.isfinite(table["value"]).all():
        what = f"no column {', '.join(lacking)}" if lacking else "a value that is not a number"
        raise HfLongSeqError(f"{path} has {what}: restore it, or run it again.")
    return table


def _read(folder: Path, name: str, families: Families) -> Results:
    scores, curves, results = files_of(folder)
    results = cleaned(results)
    words = [word for word in WORDS if word in scores]
    scores = scores.assign(**{word: scores[word].map(one_line, na_action="ignore") for word in words})
    scores = (
        scores[scores["metric"] == results["metric"]]
        .assign(folder=str(folder))
        .astype({"tuning": bool, "chosen": bool})
    )
    name = name or next(iter(scores["data"]), results["task"])
    scores["data"], scores["unit"] = name, results.get("unit")
    scores["greater_is_better"] = bool(results["greater_is_better"])
    blank = ["protocol", "point", "scratch_tied"]
    scores[blank] = scores[blank].fillna("")
    scores["converged"] = scores["converged"].astype("Float64").astype(float)
    own = _spelled_out(folder).name
    planned = own if any(own == place for place, _ in families) else own.rpartition(".")[0]
    family = [families.get((planned, arm), (EXPLORED, MARGIN)) for arm in scores["arm"]]
    scores["family"] = [name for name, _ in family]
    # an error has no scale, and no margin
    scores["margin"] = [margin / 100 if results["greater_is_better"] else 0.0 for _, margin in family]
    curves = curves.merge(_reported(scores)[["run", *KEY, "seed", "pretrain_steps"]], on="run")
    failed: list[dict[str, str | None]]
    failed = [{"run": str(raw.get("run")), "error": str(raw.get("error"))} for raw in results.get("failed") or ()]
    failed += [{"run": str(run), "error": None} for run in results.get("unfinished") or ()]
    said = {
        "data": name,
        "folder": str(folder),
        "note": results.get("note"),
        "environment": dict(results.get("environment") or {}),
        "command": results.get("command"),
    }
    return Results(
        scores, curves, pd.DataFrame(failed, columns=["run", "error"]).assign(data=name), pd.DataFrame([said])
    )


def _families(plan: Path) -> Families:
    if not plan.is_file():
        return {}
    remedy = "name the arms of each claim by folder, claims: {NAME: {gains: {FOLDER: [ARM]}}}"
    with explained(f"{plan} is not a plan", *MALFORMED, remedy=remedy):
        claims = (read_yaml(plan) or {}).get("claims") or {}
        found: Families = {}
        for name, claim in claims.items():
            for place, arm in ((place, arm) for place, arms in claim["gains"].items() for arm in arms):
                first, _ = found.setdefault((place, arm), (name, claim.get("margin", MARGIN)))
                if first != name:
                    raise HfLongSeqError(
                        f"{plan} names {arm} of {place} in two claims, {first} and {name}, but a gain is of one "
                        "family: leave it out of the other."
                    )
        return found


def _spelled_out(folder: Path) -> Path:
    """A folder with its own name at the end, which "." lacks."""
    return Path(os.path.abspath(folder))


def _reported(scores: pd.DataFrame) -> pd.DataFrame:
    return scores[scores["chosen"] & ~scores["tuning"] & (scores["split"] == "test")]


def reported(scores: pd.DataFrame) -> pd.DataFrame:
    """A row per reported run: its test score is `value`, beside it `validation`, and `flops` of both phases."""
    run = ["folder", *KEY, "fraction", "point", "seed", "tuning"]
    validation = scores.loc[scores["split"] == "validation", [*run, "value"]].rename(columns={"value": "validation"})
    found = _reported(scores).merge(validation, "left", run)
    return found.assign(flops=found["pretrain_flops"] + found["finetune_flops"])


def _merged(scores: pd.DataFrame) -> pd.DataFrame:
    """Every run once, whichever folders hold it; data and architectures in the order of the folders."""
    for _, arm in _reported(scores).groupby(KEY, dropna=False, sort=False):
        for one, other, odd in _contradictions(arm):
            raise HfLongSeqError(
                f"contradictory results for {one['architecture']}, {one['arm']} on {one['data']} with "
                f"{one['labels']:g} labels: {one['value']:.4g} in {one['folder']} and {other['value']:.4g} in "
                f"{other['folder']}{odd}; leave one folder out, or give it a name of its own with NAME=FOLDER."
            )
    scores = scores.drop_duplicates([*KEY, "point", "seed", "tuning", "split", "value"])

    def order(column: pd.Series) -> Any:
        if column.name in ("data", "architecture"):  # linear models after the networks
            return pd.factorize(column)[0] + len(column) * column.str.startswith(BASELINE)
        return column.map(rank) if column.name == "arm" else column

    by = ["data", "architecture", "labels", "arm", "seed"]
    return scores.sort_values(by, key=order, kind="stable", ignore_index=True)


def _contradictions(arm: pd.DataFrame) -> Iterator[tuple[pd.Series, pd.Series, str]]:
    """Pairs of reported runs that cannot be of one arm: folders without a setting in common, named, or one seed."""
    for name in SAME if arm["folder"].nunique() > 1 else ():
        folders = [runs for _, runs in arm.dropna(subset=name).groupby("folder", sort=False)]
        for other in folders[1:]:
            if not other[name].isin(folders[0][name]).any():
                one, last = folders[0].iloc[0], other.iloc[-1]
                yield one, last, f" ({name} {one[name]} and {last[name]})"
    runs = arm.drop_duplicates(["point", "seed", "value"])
    for _, other in runs[runs.duplicated("seed")].iterrows():
        yield runs[runs["seed"] == other["seed"]].iloc[0], other, ""
