# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The rows of all plans put together: which row fills which cell of the table, what is best, what was gained.

A cell is one column (task and number of labels), architecture and start. If plans tried several settings for the same
cell, the validation split chooses between them, as it does inside of a plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_longseq.comparison.report_read import Plan, Row, init_rank
from hf_longseq.comparison.report_statistics import Difference, difference
from hf_longseq.errors import HfLongSeqError
from hf_longseq.metrics import PERCENT

Key = tuple[Any, str, str]


@dataclass(frozen=True)
class Column:
    """A task with a number of labels."""

    name: str
    task: str
    metric: str
    greater_is_better: bool
    unit: str | None
    labels: int | float | None
    resized: bool = False

    @property
    def paper_task(self) -> str | None:
        """The task of the paper that this is at full size."""
        return None if self.resized else self.task

    @property
    def percent(self) -> bool:
        """Whether the metric is shown in per cent."""
        return self.metric in PERCENT

    @property
    def scale(self) -> float:
        """Factor from the stored values to the shown ones."""
        return 100.0 if self.percent else 1.0

    @property
    def metric_text(self) -> str:
        """The metric with its unit."""
        unit = "%" if self.percent else self.unit
        return f"{self.metric}, {unit}" if unit else self.metric

    @property
    def labels_text(self) -> str:
        """The number of labels in words."""
        if self.labels is None:
            return ""
        return f"{self.labels:,} labels" if self.labels > 1 else f"{100 * self.labels:g} % of the labels"


@dataclass(frozen=True)
class Candidate:
    """A setting that was tried, and its score on the validation split."""

    name: str
    labels: int | float | None
    arch: str
    init: str
    setting: str
    seeds: tuple[int, ...]
    validation_values: tuple[float, ...]
    selected: bool


@dataclass(frozen=True)
class Gain:
    """What a start gave above training from scratch; positive is better, whatever the metric's direction."""

    column: Column
    arch: str
    init: str
    base: str
    difference: Difference

    @property
    def verdict(self) -> str:
        """In words."""
        if self.difference.p_value is None:
            return "one seed: open"
        if not self.difference.beyond_noise:
            return "within the noise"
        return "better" if self.difference.value > 0 else "worse"


class Cells:
    """All rows by column, architecture and start.

    Args:
        plans: What was read.

    Raises:
        HfLongSeqError: If two plans contradict each other about a cell.
    """

    def __init__(self, plans: Sequence[Plan]):
        self.plans = list(plans)
        self.rows: dict[tuple[Column, str, str], Row] = {}
        self.overruled: list[tuple[Column, Row]] = []
        for plan in plans:
            for row in plan.rows:
                self._add(_column(plan, row), row)
        tried = [raw["arch"] for plan in plans for raw in plan.candidates]
        self.archs = list(dict.fromkeys([*(row.arch for plan in plans for row in plan.rows), *tried]))
        self.inits = sorted({row.init for plan in plans for row in plan.rows}, key=init_rank)

    def _add(self, column: Column, row: Row) -> None:
        key = (column, row.arch, row.init)
        other = self.rows.setdefault(key, row)
        if other is row or (other.values, other.seeds, other.grid) == (row.values, row.seeds, row.grid):
            return
        one_setting = other.grid is not None and other.grid == row.grid
        if one_setting or other.plan == row.plan or not (other.validation_values and row.validation_values):
            where = f"{other.plan} has it twice" if other.plan == row.plan else f"{other.plan} and {row.plan}"
            raise HfLongSeqError(
                f"contradictory results for {row.arch}, {row.init} on {column.name}"
                f"{f' with {column.labels_text}' if column.labels is not None else ''} ({where}: mean {column.metric} "
                f"{other.mean:.4g} and {row.mean:.4g}): leave one plan out, or give it a column of its own with "
                "NAME=FOLDER."
            )
        better = max((other, row), key=lambda one: one.validation_mean * (1 if column.greater_is_better else -1))
        self.overruled.append((column, row if better is other else other))
        self.rows[key] = better

    def columns(self) -> list[Column]:
        """Columns of the main table: every plan's task with the most labels that the plan used."""
        chosen: list[Column] = []
        for plan in self.plans:
            mine = [_column(plan, row) for row in plan.rows]
            if mine:
                chosen.append(max(mine, key=lambda column: column.labels or 0))
        names = list(dict.fromkeys(column.name for column in chosen))
        return sorted(dict.fromkeys(chosen), key=lambda column: (names.index(column.name), -(column.labels or 0)))

    def get(self, column: Column, arch: str, init: str) -> Row | None:
        """The row of a cell, if there is one."""
        return self.rows.get((column, arch, init))

    def present(self, columns: Sequence[Column]) -> list[tuple[str, str]]:
        """(architecture, start) of all rows with a value in one of the columns."""
        return [
            (arch, init)
            for arch in self.archs
            for init in self.inits
            if any(self.get(column, arch, init) for column in columns)
        ]

    def best(self, column: Column) -> tuple[str, str] | None:
        """The best row of a column if it is beyond the noise of every other one; else None."""
        rows = [(key[1:], row) for key, row in self.rows.items() if key[0] == column]
        if len(rows) < 2:
            return None
        sign = 1 if column.greater_is_better else -1
        name, winner = max(rows, key=lambda item: sign * item[1].mean)
        others = [row for other, row in rows if other != name]
        return name if all(difference(winner.values, row.values).beyond_noise for row in others) else None

    def gain(self, column: Column, arch: str, init: str, base: str = "scratch") -> Gain | None:
        """What a start gave above another one, if both were run."""
        row, reference = self.get(column, arch, init), self.get(column, arch, base)
        if row is None or reference is None or init == base:
            return None
        if base == "scratch-tied" and row.steps != reference.steps:
            return None  # a variant that pretrains for longer or shorter
        sign = 1 if column.greater_is_better else -1
        found = difference([sign * value for value in row.values], [sign * value for value in reference.values])
        return Gain(column, arch, init, base, found)

    def gains(self, columns: Sequence[Column]) -> list[Gain]:
        """All self-pretrained starts against scratch and against scratch with pretraining's steps added."""
        pretrained = [init for init in self.inits if not init.startswith("scratch")]
        found = [
            self.gain(column, arch, init, base)
            for column in columns
            for arch in self.archs
            for init in pretrained
            for base in ("scratch", "scratch-tied")
        ]
        return [gain for gain in found if gain is not None]

    def tied(self, gains: Sequence[Gain]) -> str | None:
        """Which steps those arms share that stand against scratch: "labelled", "all", or None where some differ."""
        pairs = [
            (self.rows[gain.column, gain.arch, gain.init], self.rows[gain.column, gain.arch, gain.base])
            for gain in gains
            if gain.base == "scratch"
        ]
        if all(row.finetune_steps == reference.finetune_steps for row, reference in pairs):
            return "labelled"
        return "all" if all(row.steps == reference.steps for row, reference in pairs) else None

    def scarcity(self) -> dict[str, list[Column]]:
        """For each name of which one plan tried several numbers of labels: its columns, fewest labels first."""
        names = {plan.name for plan in self.plans if len({row.labels for row in plan.rows} - {None}) > 1}
        found = {}
        for name in names:
            columns = {key[0] for key in self.rows if key[0].name == name and key[0].labels is not None}
            found[name] = sorted(columns, key=lambda column: column.labels)
        return dict(sorted(found.items()))

    def candidates(self) -> list[Candidate]:
        """Every setting that was scored on the validation split, chosen or not; nothing where there was no choice."""
        found: list[Candidate] = []
        for plan in self.plans:
            examples = {(row.fraction, row.arch): row.labels for row in plan.rows}
            for raw in plan.candidates:
                selected = bool(raw.get("selected"))
                labels = examples.get((raw.get("fraction"), raw["arch"]), raw.get("fraction"))
                init = _init_of(plan, raw)
                if selected:
                    selected = any(
                        row.plan == plan.label and row.labels == labels and (row.arch, row.init) == (raw["arch"], init)
                        for row in self.rows.values()
                    )
                found.append(
                    Candidate(
                        plan.name,
                        labels,
                        raw["arch"],
                        init,
                        setting_text(raw.get("grid")) or "–",
                        tuple(raw.get("seeds") or ()),
                        tuple(raw.get("validation_values") or ()),
                        selected,
                    )  # fmt: skip
                )
        listed = {(one.name, one.labels, one.arch, one.init, one.setting) for one in found}
        for column, row in self.overruled:
            winner = self.rows[column, row.arch, row.init]
            for one in (winner, row):
                setting = setting_text(one.grid) or Path(one.plan).name
                key = (column.name, column.labels, row.arch, row.init, setting)
                if key not in listed:
                    listed.add(key)
                    found.append(Candidate(*key, one.seeds, one.validation_values, one is winner))
        choices: dict[Key, int] = {}
        for one in found:
            key = (one.name, one.labels, one.arch, one.init)
            choices[key] = choices.get(key, 0) + 1
        chosen_from = [one for one in found if choices[one.name, one.labels, one.arch, one.init] > 1]
        order = {name: index for index, name in enumerate(dict.fromkeys(plan.name for plan in self.plans))}
        return sorted(
            chosen_from,
            key=lambda one: (order[one.name], -(one.labels or 0), self.archs.index(one.arch), init_rank(one.init)),
        )


def setting_text(grid: dict[str, Any] | None) -> str:
    """A grid point in words."""
    points = (grid or {}).items()
    return ", ".join(
        f"{key} {value:g}" if isinstance(value, int | float) else f"{key} {value}" for key, value in points
    )


def _column(plan: Plan, row: Row) -> Column:
    return Column(plan.name, plan.task, plan.metric, plan.greater_is_better, plan.unit, row.labels, plan.resized)


def _init_of(plan: Plan, raw: dict[str, Any]) -> str:
    """The start of a candidate as its row names it."""
    rows = {row.raw_init: row.init for row in plan.rows if row.arch == raw["arch"]}
    return rows.get(raw["init"], raw["init"])
