# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The records of a finished run or of a conversion, without paths of this machine."""

import os
import re
import shlex
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from hf_longseq.comparison.results import PLAN, RESULTS
from hf_longseq.comparison.scores import read_results
from hf_longseq.comparison.statistics import arm_means
from hf_longseq.errors import MALFORMED, HfLongSeqError, explained
from hf_longseq.escaping import cleaned, without_paths
from hf_longseq.training import run_folder
from hf_longseq.training.run_folder import BEST, RUNS

CONVERSION = "conversion.json"
# not \b, which is no boundary behind an underscore, as in NAME_hf_...
ACCESS_TOKEN = re.compile(r"(?<![A-Za-z0-9])(hf|api_org)_[A-Za-z0-9]{16,}")


@dataclass(frozen=True)
class Run:
    """A finished run of `pretrain` or `finetune`, as recorded, without local paths.

    `pretraining` are the settings of the run that it started from, or `earlier` if that one was fine-tuned.
    `comparison` are the arms of its comparison, as rows of `arm_means`, `compared_by` their metric, and `compared_as`
    the name of its architecture there, such as `s4@init_normal=0.1`.
    """

    folder: Path
    settings: dict[str, Any]
    pretraining: dict[str, Any] | None
    metrics: dict[str, Any]
    data: dict[str, Any]
    environment: dict[str, Any]
    history: list[dict[str, Any]]
    comparison: list[dict[str, Any]] = field(default_factory=list)
    compared_by: str | None = None
    compared_as: str | None = None
    pretraining_seconds: float | None = None
    earlier: dict[str, Any] | None = None

    @property
    def phase(self) -> str:
        """ "pretrain" or "finetune"."""
        return self.settings["run"]["phase"]

    @property
    def split(self) -> str:
        """The split that the published metrics are of."""
        return "test" if self.metrics.get("test") else "validation"

    @property
    def scores(self) -> dict[str, float]:
        """Metrics of that split, without the number of positions."""
        return {name: value for name, value in self.metrics[self.split].items() if name != "scored_positions"}


@dataclass(frozen=True)
class Converted:
    """Converted weights; the record is `conversion.json`."""

    folder: Path
    record: dict[str, Any]

    @property
    def command(self) -> str:
        """The command that repeats the conversion."""
        words = ["hf-longseq", "convert", self.record["source"], "--output_dir", "converted"]
        for name, value in self.record.get("options", {}).items():
            said = "yes" if value is True else "no" if value is False else str(value)
            words += [f"--{name}"] if value is True and name == "causal" else [f"--{name}", said]
        return shlex.join(words)


def read_run(folder: str | os.PathLike) -> Run:
    """Read and clean the records of a finished run."""
    folder = Path(folder)
    run_folder.refuse_links(folder)
    if (folder / RESULTS).is_file():
        one = folder / BEST if (folder / BEST).is_dir() else folder / RUNS / "NAME"
        raise HfLongSeqError(f"{folder} is a comparison: publish one of its models, such as {one}.")
    settings = run_folder.read_finished(folder)
    metrics = _record(folder, run_folder.METRICS)
    if not (metrics.get("test") or metrics.get("validation")):
        raise HfLongSeqError(
            f"run {folder} has no metrics in {run_folder.METRICS}: repeat the command that made it with --overwrite."
        )
    start = run_folder.started_from(folder, settings)
    first = _public(run_folder.read_resolved(start)) if start else None
    tuned = first is not None and (first.get("run") or {}).get("phase") == "finetune"
    rows, metric, arch = _comparison(folder, settings)
    return Run(
        folder=folder,
        settings=_public(settings),
        pretraining=None if tuned else first,
        earlier=first if tuned else None,
        metrics=_public(metrics),
        data=_public(_record(folder, run_folder.DATA)),
        environment=_public(_record(folder, run_folder.ENVIRONMENT)),
        history=_record(folder, run_folder.HISTORY) or [],
        comparison=_public(rows),
        compared_by=_public(metric),
        compared_as=_public(arch),
        pretraining_seconds=_record(start, run_folder.METRICS).get("wall_seconds") if start and not tuned else None,
    )


def read_converted(folder: str | os.PathLike) -> Converted | None:
    """The record of a converted folder; None for other folders and for runs."""
    folder = Path(folder)
    if not (folder / CONVERSION).is_file() or (folder / run_folder.RESOLVED).is_file():
        return None
    run_folder.refuse_links(folder)
    with explained(f"{folder / CONVERSION} is damaged", *MALFORMED, remedy="convert the checkpoint again"):
        record = _public(run_folder.read_json(folder / CONVERSION))
        if not all(isinstance(record[name], str) for name in ("source", "sha256")):
            raise TypeError("no source")
        return Converted(folder, record)


def fit_together(folder: Path) -> AbstractContextManager[None]:
    """Name the folder whose records are incomplete or of the wrong kinds."""
    remedy = "restore them, or repeat the command that made it"
    return explained(f"the records of {folder} do not fit together", *MALFORMED, TemplateError, remedy=remedy)


def _record(folder: Path, name: str) -> Any:
    return run_folder.read_json(folder / name) if (folder / name).is_file() else {}


def _comparison(folder: Path, settings: dict[str, Any]) -> tuple[list[dict[str, Any]], str | None, str | None]:
    """Rows and metric of the comparison of a run, and the name of its architecture there."""
    parent = folder.parent if folder.name == BEST else folder.parent.parent
    results = _record(parent, RESULTS)
    named = {run["name"]: run["arch"] for run in _record(parent, PLAN).get("runs", [])}
    arch = named.get(folder.name)
    if folder.name == BEST:  # the copy of one of the runs
        metrics = _record(folder, run_folder.METRICS)
        same = (named[one] for one in named if _record(parent / RUNS / one, run_folder.METRICS) == metrics)
        arch = next(same, settings["model"]["arch"])
    if arch is None or results.get("task") != settings["data"]["task"]:
        return [], None, None
    return arm_means(read_results([str(parent)]).scores).to_dict("records"), results["metric"], arch


def _public(record: Any) -> Any:
    return without_paths(cleaned(record))


def refuse_secrets(folder: Path, tokens: Sequence[str] = ()) -> None:
    """Raise if a text file in a folder to be published holds an access token or this machine's home folder."""
    home = os.path.expanduser("~")
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.suffix in (".safetensors", ".png", ".parquet"):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if ACCESS_TOKEN.search(text) or any(token and token in text for token in tokens):
            raise HfLongSeqError(f"{path.name} would publish an access token: remove it from the run's records.")
        if len(home) > 2 and f"{home}/" in text:
            raise HfLongSeqError(f"{path.name} would publish a path below {home}: remove it from the run's records.")
