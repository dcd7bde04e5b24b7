# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""A report of comparisons: report.md, report.tex, report.json and a self-contained page, report.html.

Everything comes from `scores.csv`, `curves.csv` and `results.json`: the same files give the same report to the byte.
`copy_results` keeps these small files of a comparison; a report of the copy says the same.
"""

import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from markupsafe import Markup

from hf_longseq.comparison import tables
from hf_longseq.comparison.arms import GAIN, LOSS
from hf_longseq.comparison.figures import Figure, report_figures
from hf_longseq.comparison.results import CURVES, PLAN, RESULTS, SCORES
from hf_longseq.comparison.scores import Results, files_of, find_folders, read_results
from hf_longseq.comparison.statistics import arm_means, gains
from hf_longseq.comparison.tables import Table
from hf_longseq.errors import HfLongSeqError
from hf_longseq.escaping import html, latex, markdown, render
from hf_longseq.training.run_folder import RESOLVED, read_json, refuse_file, refuse_links, write_whole
from hf_longseq.version import __version__

TEMPLATES = Path(__file__).parent / "templates"
JSON, WRITER = "report.json", "hf-longseq report"
# /home/me/x.csv, but not https://… or a/b/c
ABSOLUTE = re.compile(r"(?<![\w.:/~-])/(?:[^\s/:'\"]+/)+([^\s/:'\"]*)")
READING = (
    "Scores are means ± standard deviation over the seeds, with the 95 % interval of the mean below. Equal budget: "
    "from scratch, with the budget of pretraining given to the labels. Masked, causal: self-pretrained, then "
    "fine-tuned. The gain is that of the arm in bold, chosen by validation, over equal budget, or over scratch where "
    "that was not run; positive is better.",
    "Shown: the 95 % interval of the gain lies above 0, and p < 0.05 after Holm's correction in its family. No gain: "
    "the interval ends below the margin, 2 points of a share unless a plan says otherwise. Both take five seeds and "
    "an equal-budget arm of the same model that has converged below its ceiling. Else the question is open, with the "
    "first reason below the word. Intervals take the test examples as fixed.",
)


class Report(NamedTuple):
    """A written report: its folder, the files in it, and what it lacks (a sentence, or None)."""

    output_dir: Path
    files: list[str]
    lacks: str | None


class Section(NamedTuple):
    """A part of the report: a task, or what stands at the end; `more` is folded on the page."""

    title: str
    notes: list[str]
    tables: list[Table] = []
    figures: list[Figure] = []
    more: list[Table] = []
    more_figures: list[Figure] = []


def write_report(
    runs: Sequence[str | os.PathLike], output_dir: str | os.PathLike, *, command: str | None = None
) -> Report:
    """Read results folders, and write their report.

    Args:
        runs: Output folders of `compare` or `spt`, or folders with several below; NAME=FOLDER gives one a name.
        output_dir: A new folder, or one whose files of the same names a report wrote.
        command: The command line, told in the report.

    Raises:
        HfLongSeqError: If a folder holds no result, results contradict each other, or a file is not ours to replace.

    Example:
        >>> write_report(["runs/listops"], "runs/listops/report").files  # doctest: +SKIP
    """
    results = read_results([str(run) for run in runs])
    means = arm_means(results.scores)
    found = gains(means)
    parts, figures, lacks = sections(results, means, found, command)
    names = list(dict.fromkeys(results.folders["data"]))
    title = names[0] if len(names) == 1 else "What self-pretraining gains"
    content: dict[str, Any] = {"written_by": WRITER, "version": __version__, "command": command}
    content |= records({"arms": means, "gains": found, "failed": results.failed})
    fields: dict[str, Any] = {"title": title, "sections": parts, "version": __version__}
    files = {
        "report.md": render(TEMPLATES / "report.md.jinja", **fields, table=_markdown),
        "report.tex": _latex(parts),
        "report.html": render(TEMPLATES / "report.html.jinja", **fields, table=_html, gain=GAIN, loss=LOSS),
    }
    pictures = {f"figures/{figure.name}.png": figure.png for figure in figures}
    content["files"] = [JSON, *files, *pictures]
    files = {JSON: json.dumps(content, indent=1, ensure_ascii=False) + "\n", **files}
    _replace(Path(output_dir), {name: text.encode() for name, text in files.items()} | pictures)
    return Report(Path(output_dir), content["files"], lacks)


def records(tables: dict[str, pd.DataFrame]) -> dict[str, list[dict[str, Any]]]:
    """Tables as `report.json` holds them."""
    return {name: json.loads(table.to_json(orient="records", double_precision=15)) for name, table in tables.items()}


def report_comparison(output_dir: str | os.PathLike, command: str) -> Report:
    """Write the report of one comparison into its folder, and `results.png` and `learning_curves.png` beside it."""
    output_dir = Path(output_dir)
    report = write_report([output_dir], output_dir / "report", command=command)
    for kind, name in (("headline", "results.png"), ("curves-", "learning_curves.png")):
        for file in (file for file in report.files if file.startswith(f"figures/{kind}")):
            write_whole(output_dir / name, (report.output_dir / file).read_bytes())
    return report


def sections(
    results: Results, means: pd.DataFrame, found: pd.DataFrame, command: str | None
) -> tuple[list[Section], list[Figure], str | None]:
    """The parts of a report, its figures, and what it lacks."""
    figures, lacks, parts = {}, None, [Section("How to read it", ["No run has finished yet."])]
    if len(means):
        rows = tables.comparison_rows(means, found)
        try:
            figures = report_figures(results, means, rows)
        except ImportError:
            lacks = "no pictures: matplotlib is missing (pip install 'hf-longseq[plot]'), then rerun the command"
        parts = [Section("Gains", [*READING, _significant(found)], figures=figures.get("", []))]
        for name in dict.fromkeys(means["data"]):
            drawn = {figure.name.split("-")[0]: figure for figure in figures.get(name, [])}
            notes = [note for note in [tables.data_note(name, results)] if note]
            main = tables.task_table(name, rows)
            more = [tables.gains_table(name, found), tables.arms_table(name, means)]
            first = [one for one in (main, tables.window_table(name, means)) if one is not None]
            at_once, later = ([drawn[kind]] if kind in drawn else [] for kind in ("labels", "curves"))
            parts.append(Section(name, notes, first, at_once, [one for one in more if len(one.cells)], later))
    ends = [tables.failed_table(results.failed), tables.candidates_table(results.scores)]
    ends = [one for one in ends if len(one.cells)]
    notes = [f"The command of this report: {command}"] if command else []
    parts.append(Section("Where the numbers come from", notes, ends, more=[tables.origin_table(results)]))
    return parts, [figure for some in figures.values() for figure in some], lacks


def _significant(found: pd.DataFrame) -> str:
    if not len(found):
        return "No self-pretrained arm stands beside one from scratch."
    tied = found[found["p_holm"].notna()]
    families = [
        f"{family} ({len(gains)}: {(gains['p'] < 0.05).sum()} with p < 0.05, {(gains['p_holm'] < 0.05).sum()} "
        "after the correction)"
        for family, gains in tied.groupby("family", sort=False)
    ]
    return (
        f"Families of gains over equal budget: {'; '.join(families) or 'none'}. Arms that share seeds and labelled "
        "subsets are compared in pairs of seeds (t-test of the differences), others by Welch's t-test."
    )


def _cells(table: Table, text: Callable[[str, str, bool, str], Markup | str]) -> pd.DataFrame:
    """The cells of a table as markup, from their two lines, whether they are bold, and the colour of their row."""

    def cell(value: Any, column: str, row: int) -> Markup | str:
        first, _, second = str(value).partition("\n")
        bold = bool(table.bold) and table.bold[row] == column
        colour = table.colours[row] if table.colours and column == "gain" else ""
        return text(first, second, bold or bool(colour), colour)

    frame = table.cells.reset_index(drop=True)
    return frame.apply(lambda column: [cell(value, column.name, row) for row, value in enumerate(column)])


def _html(table: Table) -> Markup:
    def text(first: str, second: str, bold: bool, colour: str) -> str:
        strong = f"<b{f' class={colour}' if colour else ''}>{html(first)}</b>" if bold else html(first)
        return f"{strong}<br><small>{html(second)}</small>" if second else str(strong)

    frame = _cells(table, text).rename(columns=html)
    return Markup(frame.to_html(index=False, escape=False, border=0, justify="left"))


def _markdown(table: Table) -> Markup:
    def text(first: str, second: str, bold: bool, colour: str) -> str:
        strong = f"**{markdown(first)}**" if bold and not colour else markdown(first)
        return f"{strong}<br>{markdown(second)}" if second else strong

    frame = _cells(table, text)
    lines = [frame.columns.map(markdown), ["---"] * len(frame.columns), *frame.itertuples(index=False)]
    return Markup("\n".join(f"| {' | '.join(cells)} |" for cells in lines))


def _latex(parts: Sequence[Section]) -> str:
    text = [f"% Tables of hf-longseq report {__version__}. In the preamble: \\usepackage{{booktabs}}\n"]
    for place, part in enumerate(parts):
        for table in (*part.tables, *part.more):
            if table.name in ("origin", "failed"):
                continue
            cells = _cells(table, lambda first, *_: latex(first)).rename(columns=latex)
            words = {"caption": latex(f"{part.title}: {table.caption}"), "label": f"tab:{table.name}-{place}"}
            columns = "l" + "r" * (len(cells.columns) - 1)
            text.append(cells.to_latex(index=False, column_format=columns, position="htbp", **words))
    return "\n".join(text)


def _replace(folder: Path, files: dict[str, bytes]) -> None:
    """Write the files, each whole or not at all, in the place of an earlier report with its pictures."""
    refuse_file(folder)
    try:
        ours = json.loads((folder / JSON).read_text(encoding="utf-8"))["written_by"] == WRITER
    except (OSError, ValueError, KeyError, TypeError):
        ours = False
    if not ours and (taken := [name for name in files if (folder / name).exists()]):
        raise HfLongSeqError(f"{folder / taken[0]} was not written by a report: choose another --output_dir.")
    for name in ("headline", "labels-*", "curves-*") if ours else ():
        for old in folder.glob(f"figures/{name}.png"):
            old.unlink()
    for name, content in files.items():
        write_whole(folder / name, content)


def copy_results(source: str | os.PathLike, folder: str | os.PathLike, *, name: str | None = None) -> list[str]:
    """Copy what can be committed of a comparison; returns the names of the written files.

    Args:
        source: Output folder of `compare` or `spt`.
        folder: A new folder, or one that holds an earlier copy of results of the same task.
        name: Name of the data in reports; by default the task.
    """
    source, folder = Path(source), Path(folder)
    if find_folders(source) != [source]:
        raise HfLongSeqError(f"{source} holds several results folders: name one of them.")
    read_results([str(source)])  # says what is wrong with it
    refuse_links(source, "*.png")
    found = files_of(source)
    task, held = found.results["task"], folder / RESULTS
    if folder.exists() and (not held.is_file() or (folder / PLAN).is_file() or read_json(held)["task"] != task):
        raise HfLongSeqError(f"{folder} is no earlier copy of results of {task!r}: choose another folder.")
    found.scores["data"] = name or found.scores["data"]
    found.write(folder)
    write_whole(held, portable(held.read_text(encoding="utf-8"), source))
    more = {path.name: path.read_bytes() for path in sorted(source.glob("*.png"))}
    if (source / RESOLVED).is_file():
        more[RESOLVED] = portable((source / RESOLVED).read_text(encoding="utf-8"), source).encode()
    for file, content in more.items():
        write_whole(folder / file, content)
    return [RESULTS, SCORES, CURVES, *more]


def portable(text: str, source: Path) -> str:
    """A file without paths of this machine: those in the source become relative, of others the name is left."""
    for spelled in (source.resolve(), source):
        text = text.replace(f"{spelled}/", "")
    return ABSOLUTE.sub(r"\1", text)
