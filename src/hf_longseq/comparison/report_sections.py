# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The parts of a report as plain tables and sentences; the templates only lay them out."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hf_longseq.comparison.report_cells import Cells, Column, Gain, setting_text
from hf_longseq.comparison.report_figures import Figure, init_label
from hf_longseq.comparison.report_read import Plan, Row

PAPER = Path(__file__).parent / "paper_numbers.yaml"
NONE = "–"


@dataclass(frozen=True)
class Cell:
    """Text of a cell; `repeated` ones say the same as the cell above them."""

    text: str
    bold: bool = False
    faint: bool = False
    repeated: bool = False


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        name: Label for references.
        caption: What it shows.
        header: Lines of each column's heading.
        rows: Cells.
        text_columns: The first so many columns are words, the others numbers.
    """

    name: str
    caption: str
    header: list[list[str]]
    rows: list[list[Cell]]
    text_columns: int = 2


@dataclass(frozen=True)
class Section:
    """A part of the report."""

    title: str
    slug: str
    before: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


def sections(cells: Cells, figures: Sequence[Figure], command: str | None) -> list[Section]:
    """All parts of the report that have something to say."""

    def by_kind(kind: str) -> list[Figure]:
        return [one for one in figures if one.name.startswith(kind)]

    columns = cells.columns()
    main = [_main(cells, columns)] if columns else []
    found = [
        Section("Results", "results", _reading(cells), main, by_kind("headline"), _notes(cells, columns)),
        _gains(cells, columns),
        _scarcity(cells, by_kind("scarcity")),
        Section("Learning curves", "learning-curves", figures=by_kind("curves")),
        _budget(cells),
        _selection(cells),
        _failures(cells.plans),
        _origin(cells.plans, command),
    ]
    return [one for one in found if one.tables or one.figures or one.before or one.after]


def column_heading(column: Column) -> list[str]:
    """Task, labels, metric."""
    return [line for line in (column.name, column.labels_text, column.metric_text) if line]


def number(column: Column, value: float, sign: bool = False) -> str:
    """A metric with the digits that it deserves."""
    digits = 1 if column.percent or abs(value) >= 100 else 3
    return f"{value:{'+' if sign else ''}.{digits}f}".replace("-", "−")


def score(column: Column, row: Row) -> str:
    """Mean ± standard deviation."""
    text = number(column, column.scale * row.mean)
    return text if row.std is None else f"{text} ± {number(column, column.scale * row.std)}"


def paper_values() -> dict[tuple[str, str, str], str]:
    """What the paper prints, by architecture, start and task."""
    content = yaml.safe_load(PAPER.read_text(encoding="utf-8"))
    return {
        (row["arch"], row["init"], task): str(value)
        for row in content["rows"]
        for task, value in row["values"].items()
    }


# --- the table ---


def _reading(cells: Cells) -> list[str]:
    seeds = sorted({len(row.values) for row in cells.rows.values()})
    if not seeds:
        return ["No run has finished yet."]
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    each = " (n)" if _several_counts(cells) else ""
    tied = " “Equal steps”: pretraining's steps are added to the labelled ones, so that these have the same budget."
    return [
        f"Test metric, mean ± standard deviation over {count} seed{'s' if seeds[-1] > 1 else ''}{each}. The test "
        "split is read once per row, after the validation split has chosen checkpoint and setting."
        + (tied if "scratch-tied" in cells.inits else "")
    ]


def _several_counts(cells: Cells) -> bool:
    """Whether rows differ in their number of seeds, which is then said row by row."""
    return len({len(row.values) for row in cells.rows.values()}) > 1


def _main(cells: Cells, columns: list[Column]) -> Table:
    paper = paper_values()
    tasks = {task for _, _, task in paper}
    several = _several_counts(cells)
    header = [["architecture"], ["start"]]
    for column in columns:
        header += [column_heading(column)] + ([["n"]] if several else [])
        header += [["the paper", "full size"]] if column.paper_task in tasks else []
    best = {column: cells.best(column) for column in columns}
    rows = []
    for arch, init in cells.present(columns):
        line = [Cell(arch, repeated=bool(rows) and rows[-1][0].text == arch), Cell(init_label(init))]
        for column in columns:
            row = cells.get(column, arch, init)
            line.append(Cell(score(column, row), bold=best[column] == (arch, init)) if row else Cell(NONE, faint=True))
            if several:
                line.append(Cell(str(len(row.values)) if row else NONE, faint=True))
            if column.paper_task in tasks:
                line.append(Cell(paper.get((arch, init, column.paper_task), NONE), faint=True))
        rows.append(line)
    return Table("results", "Test metric of every architecture and start.", header, rows)


def _notes(cells: Cells, columns: list[Column]) -> list[str]:
    notes = [
        "Bold: the best of its column, and only where it differs from every other row of the column by more than the "
        "noise: Welch's two-sided t-test over the seeds, p < 0.05 against each of them. One seed is never bold. The "
        "test sees how runs vary with the seed, not how the choice of test examples does."
    ]
    if not any(cells.best(column) for column in columns):
        notes.append("In no column is the best row that far ahead.")
    tasks = {task for _, _, task in paper_values()}
    if any(column.paper_task in tasks for column in columns):
        content = yaml.safe_load(PAPER.read_text(encoding="utf-8"))
        notes.append(
            f"“The paper, full size”: accuracy in per cent as printed in {content['paper']}; single runs with the "
            "paper's models, lengths and budgets, so it is there for orientation and is not the same experiment. "
            f"{NONE}: the paper has no such run, or its figure could not be confirmed."
        )
    unknown = sorted({column.name for column in columns if column.paper_task not in tasks})
    if unknown:
        notes.append(f"The paper has no figure for {'; '.join(unknown)}.")
    return notes


_SHARED = {
    "labelled": "the labelled steps are the same",
    "all": "all steps are the same, those of pretraining being taken out of the labelled ones",
    None: "the labelled steps differ in some rows (see what each cost)",
}


def _gains(cells: Cells, columns: list[Column]) -> Section:
    gains = cells.gains(columns)
    rows: list[list[Cell]] = []
    for gain in gains:
        names = [gain.column.name, gain.arch, init_label(gain.init), init_label(gain.base)]
        if gain.column.labels_text:
            names[0] += f", {gain.column.labels_text}"
        rows.append([*_unrepeated(names, rows), *_gain_cells(gain)])
    header = [["task"], ["architecture"], ["start"], ["against"], ["gain"], ["95 % interval"], ["p"], ["verdict"]]
    table = Table("gains", "What self-pretraining gains, in units of the metric; positive is better.", header, rows, 4)
    before = [
        "Gain: difference of the means, with the sign turned so that positive is better. Against “from scratch” "
        f"{_SHARED[cells.tied(gains)]}; against “equal steps” all steps are. Interval and "
        "p by Welch's t-test over the seeds."
    ]
    return Section("What self-pretraining gains", "gains", before, [table]) if rows else Section("", "gains")


def _gain_cells(gain: Gain) -> list[Cell]:
    scale, found = gain.column.scale, gain.difference
    value = number(gain.column, scale * found.value, sign=True)
    if found.p_value is None:
        return [Cell(text, faint=True) for text in (value, NONE, NONE, gain.verdict)]
    low, high = (scale * (found.value + side * found.half_width) for side in (-1, 1))
    interval = f"{number(gain.column, low, True)} to {number(gain.column, high, True)}"
    p_value = "< 0.001" if found.p_value < 0.001 else f"{found.p_value:.3f}"
    sure = found.beyond_noise
    return [Cell(value, bold=sure), Cell(interval), Cell(p_value), Cell(gain.verdict, faint=not sure)]


def _unrepeated(names: Sequence[str], rows: list[list[Cell]]) -> list[Cell]:
    """Cells of the leading columns: a group's name is shown once."""
    above = [cell.text for cell in rows[-1][: len(names)]] if rows else []
    return [
        Cell(name, repeated=above[: index + 1] == list(names[: index + 1]) and index < len(names) - 1)
        for index, name in enumerate(names)
    ]


def _scarcity(cells: Cells, figures: list[Figure]) -> Section:
    tables = []
    for name, columns in cells.scarcity().items():
        header = [["architecture"], ["start"], *([column.labels_text] for column in reversed(columns))]
        rows = []
        for arch, init in cells.present(columns):
            line = [Cell(arch, repeated=bool(rows) and rows[-1][0].text == arch), Cell(init_label(init))]
            for column in reversed(columns):
                row = cells.get(column, arch, init)
                best = row is not None and cells.best(column) == (arch, init)
                line.append(Cell(score(column, row), bold=best) if row else Cell(NONE, faint=True))
            rows.append(line)
        tables.append(Table(f"scarcity-{len(tables) + 1}", f"{name}: test {columns[0].metric_text}.", header, rows))
    before = [
        "The subsets are nested, and the same for every architecture and start. The paper's Figure 3 asks the same "
        "question at full size: its gain is modest with all labels and grows as they get scarce."
    ]
    return Section("Fewer labels", "fewer-labels", before, tables, figures) if tables else Section("", "scarcity")


# --- what it cost, what was tried ---


def _budget(cells: Cells) -> Section:
    rows: list[list[Cell]] = []
    for (column, arch, init), row in cells.rows.items():
        task = f"{column.name}, {column.labels_text}" if column.labels_text else column.name
        rows.append(
            [
                *_unrepeated([task, arch, init_label(init)], rows),
                *(
                    Cell(text, faint=text == NONE)
                    for text in (
                        _count(row.num_parameters), _count(row.pretrain_examples), _count(row.pretrain_steps),
                        _count(row.finetune_steps), _count(row.examples_seen), flops(row.flops),
                        duration(row.wall_seconds), setting_text(row.grid) or NONE,
                    )
                ),
            ]
        )  # fmt: skip
    header = [
        ["task"], ["architecture"], ["start"], ["parameters"], ["inputs read", "in pretraining"],
        ["pretraining", "steps"], ["fine-tuning", "steps"], ["examples", "seen"], ["FLOPs"],
        ["wall time"], ["setting"],
    ]  # fmt: skip
    table = Table("budget", "Budget of one run (both phases), and the setting that validation chose.", header, rows, 3)
    return Section("What it cost", "budget", tables=[table]) if rows else Section("", "budget")


def _count(value: int | None) -> str:
    return NONE if value is None else f"{value:,}"


def flops(value: float | None) -> str:
    """Floating-point operations with a prefix: 1.30 P."""
    if value is None:
        return NONE
    for limit, letter in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= limit:
            return f"{value / limit:.3g} {letter}"
    return f"{value:.3g}"


def duration(seconds: float | None) -> str:
    """Seconds, minutes or hours."""
    if seconds is None:
        return NONE
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _selection(cells: Cells) -> Section:
    rows: list[list[Cell]] = []
    columns = {(column.name, column.labels): column for column, _, _ in cells.rows}
    plans = {plan.name: plan for plan in cells.plans}
    for one in cells.candidates():
        plan = plans[one.name]  # no row yet: the plan goes on, or was killed
        column = columns.get((one.name, one.labels)) or Column(
            plan.name, plan.task, plan.metric, plan.greater_is_better, plan.unit, one.labels
        )
        values = [column.scale * value for value in one.validation_values]
        mean = number(column, sum(values) / len(values)) if values else NONE
        task = f"{one.name}, {column.labels_text}" if column.labels_text else one.name
        rows.append(
            [
                *_unrepeated([task, one.arch, init_label(one.init), one.setting], rows)[:3],
                Cell(one.setting, bold=one.selected),
                Cell(mean, bold=one.selected),
                Cell(", ".join(number(column, value) for value in values) or NONE, faint=True),
                Cell("chosen" if one.selected else "", faint=True),
            ]
        )
    header = [["task"], ["architecture"], ["start"], ["setting"], ["validation"], ["per seed"], [""]]
    before = ["Every setting that was tried, with its score on the validation split; the best mean is the row above."]
    table = Table("candidates", "Candidates and their validation scores.", header, rows, 4)
    return Section("What was tried", "candidates", before, [table]) if rows else Section("", "candidates")


def _failures(plans: Sequence[Plan]) -> Section:
    failed = [
        [Cell(plan.name), Cell(str(one.get("run", NONE))), Cell(str(one.get("error", NONE)))]
        for plan in plans
        for one in plan.failed
    ]
    unfinished = [[Cell(plan.name), Cell(str(run))] for plan in plans for run in plan.unfinished]
    tables = []
    if failed:
        tables.append(Table("failed", "Runs that failed, and why.", [["task"], ["run"], ["reason"]], failed, 3))
    if unfinished:
        tables.append(Table("unfinished", "Runs that are not finished.", [["task"], ["run"]], unfinished, 2))
    return Section("What failed", "failed", tables=tables)


def _origin(plans: Sequence[Plan], command: str | None) -> Section:
    keys = list(dict.fromkeys(key for plan in plans for key in plan.environment))
    rows = [
        [Cell(key.replace("_", " ")), *(Cell(_plain(plan.environment.get(key))) for plan in plans)] for key in keys
    ]
    rows = [[Cell("command"), *(Cell(plan.command or NONE) for plan in plans)], *rows]
    header = [["plan"], *([plan.label] for plan in plans)]
    table = Table("origin", "Where the figures come from.", header, rows, 1 + len(plans))
    after = [f"The command of this report: {command}"] if command else []
    return Section("Where the figures come from", "origin", tables=[table], after=after)


def _plain(value: Any) -> str:
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    text = str(value) if value not in (None, "") else NONE
    # a commit is recognised by its first characters
    return re.sub(r"^([0-9a-f]{12})[0-9a-f]{28}", r"\1", text)
