# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""A report of one or more comparisons: report.md, report.tex, report.json and a self-contained report.html.

Everything comes from the plans' `results.json` and `curves.json`, so the same files give the same report to the byte.
"""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hf_longseq.comparison.report_cells import Cells
from hf_longseq.comparison.report_figures import FONTS, PALETTE, draw_all
from hf_longseq.comparison.report_read import read_plans
from hf_longseq.comparison.report_sections import Section, sections
from hf_longseq.errors import HfLongSeqError
from hf_longseq.escaping import render
from hf_longseq.training.run_folder import write_whole
from hf_longseq.version import __version__

TEMPLATES = Path(__file__).parent / "templates"
JSON, CURVES = "report.json", "curves.json"
WRITER = "hf-longseq report"


@dataclass(frozen=True)
class Report:
    """A written report: its folder, the files in it, and what it lacks (a sentence, or None)."""

    output_dir: Path
    files: list[str]
    lacks: str | None


def write_report(
    runs: Sequence[str | os.PathLike],
    output_dir: str | os.PathLike,
    *,
    command: str | None = None,
) -> Report:
    """Read plans, and write their report.

    Args:
        runs: Plan folders, or folders with plans below them; NAME=FOLDER gives a plan a column of that name.
        output_dir: A new folder, or one whose files of the same names a report wrote.
        command: The command line, told in the report.

    Raises:
        HfLongSeqError: If a folder holds no result, results contradict each other, or a file is not ours to replace.
    """
    output_dir = Path(output_dir)
    cells = Cells(read_plans([str(run) for run in runs]))
    figures, lacks = [], None
    try:
        figures = draw_all(cells)
    except ImportError:
        lacks = "no pictures: matplotlib is missing (pip install 'hf-longseq[plot]'), then give the command again"
    parts = sections(cells, figures, command)
    files: dict[str, bytes] = {
        "report.md": _render("report.md.jinja", parts, cells).encode(),
        "report.tex": _render("report.tex.jinja", parts, cells).encode(),
        "report.html": _render("report.html.jinja", parts, cells).encode(),
        CURVES: _compact({plan.label: plan.curves for plan in cells.plans if plan.curves}),
    }
    for figure in figures:
        files[f"figures/{figure.name}.png"] = figure.png
        if figure.dark_png:
            files[f"figures/{figure.name}-dark.png"] = figure.dark_png
    content = _content(cells, command) | {"files": [JSON, *files]}
    _replace(output_dir, {JSON: (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode(), **files})
    return Report(output_dir, list(content["files"]), lacks)


def _compact(curves: dict[str, Any]) -> bytes:
    """One line per curve."""
    plans = []
    for label, by_row in curves.items():
        lines = ",\n".join(
            f"  {json.dumps(key)}: {json.dumps(curve, separators=(',', ':'))}" for key, curve in by_row.items()
        )
        plans.append(f" {json.dumps(label)}: {{\n{lines}\n }}")
    return ("{\n" + ",\n".join(plans) + "\n}\n").encode()


def _content(cells: Cells, command: str | None) -> dict[str, Any]:
    """What `report.json` says: every cell with its budget, the gains, and where it comes from."""
    return {
        "written_by": WRITER,
        "version": __version__,
        "command": command,
        "rows": [
            {
                "column": column.name, "task": column.task, "metric": column.metric, "labels": column.labels,
                **{key: value for key, value in asdict(row).items() if key != "raw_init"},
                "mean": row.mean, "std": row.std, "validation_mean": row.validation_mean,
                "best_beyond_noise": cells.best(column) == (arch, init),
            }
            for (column, arch, init), row in cells.rows.items()
        ],
        "gains": [
            {
                "column": gain.column.name, "labels": gain.column.labels, "arch": gain.arch, "init": gain.init,
                "against": gain.base, **asdict(gain.difference), "verdict": gain.verdict,
            }
            for gain in cells.gains(list(dict.fromkeys(key[0] for key in cells.rows)))
        ],
        "candidates": [asdict(one) for one in cells.candidates()],
        "failed": [{"plan": plan.label, **one} for plan in cells.plans for one in plan.failed],
        "unfinished": [{"plan": plan.label, "run": run} for plan in cells.plans for run in plan.unfinished],
        "plans": [
            {"folder": plan.label, "task": plan.task, "command": plan.command, "environment": plan.environment}
            for plan in cells.plans
        ],
    }  # fmt: skip


def _render(template: str, parts: list[Section], cells: Cells) -> str:
    tasks = list(dict.fromkeys(plan.name for plan in cells.plans))
    title = "; ".join(tasks)
    return render(TEMPLATES / template, sections=parts, title=title, palette=PALETTE, fonts=FONTS, version=__version__)


def _replace(folder: Path, files: dict[str, bytes]) -> None:
    """Write the files, each whole or not at all; those of an earlier report that are not needed any more go away."""
    if folder.exists() and not folder.is_dir():
        raise HfLongSeqError(f"output_dir {folder} is a file: name a folder.")
    ours = _earlier(folder)
    for name in files:
        if (folder / name).exists() and name not in ours:
            raise HfLongSeqError(f"{folder / name} was not written by a report: choose another --output_dir.")
    for name, content in files.items():
        write_whole(folder / name, content)
    for name in ours - set(files):
        (folder / name).unlink(missing_ok=True)


def _earlier(folder: Path) -> set[str]:
    """Files of the report that a folder holds."""
    try:
        found = json.loads((folder / JSON).read_text(encoding="utf-8"))
        if found["written_by"] != WRITER:
            return set()
        names = {str(name) for name in found["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    # whoever wrote that list chooses no other file of the folder
    return {name for name in names if re.fullmatch(r"(report|curves)\.[a-z]+|figures/[\w-]+\.png", name)}
