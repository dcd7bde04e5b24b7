# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The tables of a report: frames of text, which `write.py` sets as HTML, Markdown and LaTeX, and the screen as lines.

A cell may have a second line, set smaller: a mean and its interval, a verdict and its reason.
"""

from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from hf_longseq.comparison.arms import (
    arch_label,
    from_scratch,
    is_tied,
    point_text,
    settings_text,
    split_name,
    style,
)  # fmt: skip
from hf_longseq.comparison.axes import FULL, WINDOW
from hf_longseq.comparison.scores import KEY, Results, read_results
from hf_longseq.comparison.statistics import LEVEL, arm_means, gains, partners
from hf_longseq.metrics import PERCENT

NONE, UNKNOWN = "–", "not recorded"


class Table(NamedTuple):
    """A table of at most 8 columns: its name and caption, its cells, and of each row the colour and the bold cell."""

    name: str
    caption: str
    cells: pd.DataFrame
    colours: list[str] = []
    bold: list[str] = []


class Row(NamedTuple):
    """A line of a task's table: one architecture, number of labels, protocol and variant of pretraining.

    Attributes:
        arms: By heading (scratch, equal budget, masked, ...), rows of `arm_means`.
        variant: Protocol and settings of its pretraining, in words.
        over_tied, over_scratch: Gains of the arm that validation prefers; None where there is no such partner.
    """

    data: str
    architecture: str
    labels: float
    variant: str
    arms: dict[str, pd.Series]
    over_tied: pd.Series | None
    over_scratch: pd.Series | None

    @property
    def gain(self) -> pd.Series | None:
        """The gain over equal budget; where that was not run, over scratch."""
        return self.over_scratch if self.over_tied is None else self.over_tied


def comparison_rows(means: pd.DataFrame, gains: pd.DataFrame) -> list[Row]:
    """All lines of all tasks' tables, in the order of `means`."""
    rows = []
    for (data, architecture, labels), block in means.groupby(["data", "architecture", "labels"], sort=False):
        scratch = block["arm"].map(from_scratch)
        bases = {row["arm"]: row for _, row in block[scratch].iterrows()}
        variants = block["arm"].map(lambda name: settings_text(split_name(name)[1]))
        groups = block[~scratch].groupby(["protocol", variants[~scratch]], sort=False)
        for words, arms in [*groups] or [((), block[:0])]:
            found = [row for _, row in arms.iterrows()]
            over = _preferred(arms, gains)
            best = next((gain["arm"] for gain in over if gain is not None), None)
            # where arms have different partners, those stand in the line over which the gain is
            ordered = sorted(found, key=lambda one: one["arm"] != best)
            against = dict.fromkeys(base for one in ordered for base in partners(one, bases)) or bases
            by_heading = {style(base).heading: bases[base] for base in reversed(list(against))}
            by_heading |= {style(one["arm"]).heading: one for one in found}
            variant = ", ".join(filter(None, words))
            rows.append(Row(data, architecture, labels, variant, by_heading, *over))
    return rows


def _preferred(arms: pd.DataFrame, gains: pd.DataFrame) -> tuple[pd.Series | None, pd.Series | None]:
    """Gains over equal budget and over scratch of the arm that validation prefers."""
    mine = gains.merge(arms[[*KEY, "validation"]], on=KEY) if len(gains) and len(arms) else gains[:0]
    if not len(mine):
        return None, None
    mine["validation"] *= mine["greater_is_better"].map({True: 1, False: -1})
    mine = mine.sort_values("validation", ascending=False, kind="stable")
    mine = mine[mine["arm"] == mine["arm"].iloc[0]]
    tied = mine["against"].map(is_tied)
    over_tied, over_scratch = (None if not len(one) else one.iloc[0] for one in (mine[tied], mine[~tied]))
    return over_tied, over_scratch


def task_table(data: str, rows: list[Row]) -> Table:
    """What each architecture reaches with each number of labels, from scratch and self-pretrained, and the gain."""
    cells, mine = [], [row for row in rows if row.data == data]
    for row in mine:
        cell = {"model": f"{arch_label(row.architecture)}\n{_what(row)}"}
        cell |= {heading: score(one) for heading, one in row.arms.items()}
        cell |= {"gain": NONE, "converged": _converged(row.arms), "verdict": NONE}
        if row.gain is not None:
            over = "" if row.over_tied is not None else " over scratch"
            cell["gain"] = f"{number(row.gain, 'value', True)}\n{interval(row.gain)}{over}"
            cell["verdict"] = f"{row.gain['verdict']}\n{row.gain['reason']}".strip()
        cells.append(cell)
    frame = pd.DataFrame(cells)
    first, last = ["model", "scratch", "equal budget", "masked", "causal"], ["gain", "converged", "verdict"]
    first = [column for column in first if column in frame]
    frame = frame[[*first, *(column for column in frame if column not in (*first, *last)), *last]].fillna(NONE)
    bold = ["" if row.gain is None else style(row.gain["arm"]).heading for row in mine]
    caption = metric_text(next(iter(mine[0].arms.values())))
    return Table("results", caption, frame, [colour_of(row.gain) for row in mine], bold)


def _model(row: Any) -> str:
    return f"{arch_label(row['architecture'])}\n{labels_text(row['labels'])}"


def gains_table(data: str, gains: pd.DataFrame) -> Table:
    """Every self-pretrained arm against every partner from scratch, with its test."""
    mine = gains[gains["data"] == data] if len(gains) else gains
    rows = [
        {
            "model": _model(row),
            "arm": _arm_text(row),
            "against": style(row["against"]).label,
            "gain": f"{number(row, 'value', True)}\n{interval(row)}",
            "seeds": f"{row['n']}\n{'paired' if row['paired'] else ''}",
            "p": p_text(row["p"]),
            "p, corrected": p_text(row["p_holm"]),
            "verdict": f"{row['verdict']}\n{row['reason']}" if is_tied(row["against"]) else NONE,
        }
        for _, row in mine.iterrows()
    ]
    caption = "Every gain with its 95 % interval and t-test; corrected by Holm within a family"
    return Table("gains", caption, pd.DataFrame(rows), [colour_of(row) for _, row in mine.iterrows()])


def arms_table(data: str, means: pd.DataFrame) -> Table:
    """Every arm with its score, interval and budget."""

    def both(row: pd.Series, key: str) -> str:
        pretraining, labelled = (row[f"{phase}_{key}"] for phase in ("pretrain", "finetune"))
        return f"{compact(pretraining)} + {compact(labelled)}" if pretraining else compact(labelled)

    rows = [
        {
            "model": _model(row),
            "arm": f"{_arm_text(row)}\n{point_text(row['point'])}",
            "score": score(row),
            "seeds": f"{row['n']}\n{compact(row['evaluations'])} evaluations",
            "inputs read": f"{count(row['inputs'])}\n{row['protocol']}",
            "steps": f"{both(row, 'steps')}\n{both(row, 'epochs')} epochs",
            "FLOPs": f"{compact(row['flops'])}\n{count(row['parameters'])} parameters",
            "converged": _converged({"": row}),
        }
        for _, row in means[means["data"] == data].iterrows()
    ]
    return Table("arms", "Every arm: mean ± deviation, 95 % interval, and what one run cost", pd.DataFrame(rows))


def window_table(data: str, means: pd.DataFrame) -> Table | None:
    """What each arm reaches when its mixers see so many positions; None where no window was cut."""
    rows: dict[tuple, dict] = {}
    for _, row in means[means["data"] == data].iterrows():
        name, settings = split_name(row["architecture"])
        window = settings.pop(WINDOW, FULL)
        name = "@".join([name, *(f"{key}={value}" for key, value in settings.items())])
        first = {"model": f"{arch_label(name)}\n{labels_text(row['labels'])}", "arm": _arm_text(row)}
        rows.setdefault((name, row["labels"], *first.values()), first)[window] = score(row)
    windows = sorted(
        {key for row in rows.values() for key in row} - {"model", "arm"}, key=lambda w: (w == FULL, w.zfill(9))
    )
    cut = [row for row in rows.values() if set(row) - {"model", "arm", FULL}]
    if not cut:
        return None
    metric = metric_text(means[means["data"] == data].iloc[0])
    caption = f"What length is worth: {metric}, by the positions that a mixer sees"
    cells = pd.DataFrame(cut, columns=["model", "arm", *windows]).fillna(NONE)
    return Table("windows", caption, cells)


def candidates_table(scores: pd.DataFrame) -> Table:
    """Settings that were tried, with their validation scores; the chosen one is bold."""
    rows = []
    validation = scores[scores["split"] == "validation"]
    for _, tried in validation.groupby(["data", "architecture", "arm", "labels"], sort=False):
        # where seeds of their own choose, the others have no say
        tried = tried[tried["tuning"]] if tried["tuning"].any() else tried
        for point, runs in tried.groupby("point", sort=False) if tried["point"].nunique() > 1 else ():
            first = runs.iloc[0]
            values = [runs["value"].mean(), *runs["value"]]
            mean, *values = (number({**first, "value": value}, "value") for value in values)
            rows.append({
                "task": first["data"], "model": _model(first), "arm": style(first["arm"]).label,
                "setting": point_text(point), "validation": f"{mean}\n{', '.join(values)}",
                "chosen": "yes" if first["chosen"] else "",
            })  # fmt: skip
    bold = ["setting" if row["chosen"] else "" for row in rows]
    return Table("candidates", "Settings that were tried; validation chooses", pd.DataFrame(rows), bold=bold)


def failed_table(failed: pd.DataFrame) -> Table:
    """Runs that failed, and those that are not finished."""
    cells = failed[["data", "run", "error"]].fillna("not finished").set_axis(["task", "run", "reason"], axis=1)
    return Table("failed", "Runs that failed or are not finished", cells)


def origin_table(results: Results) -> Table:
    """The command of every results folder, and what it ran on."""

    def said(environment: dict, *keys: str) -> str:
        parts = (environment.get(key) for key in keys)
        return ", ".join(str(part)[:48] for part in parts if part) or UNKNOWN

    rows = [
        {
            "folder": row["folder"],
            "command": row["command"] or UNKNOWN,
            "software": said(row["environment"], "hf_longseq", "commit", "torch", "transformers"),
            "machine": said(row["environment"], "gpu", "cpu", "cpu_count"),
        }
        for _, row in results.folders.iterrows()
    ]
    return Table("origin", "Where the numbers come from", pd.DataFrame(rows))


def data_note(data: str, results: Results) -> str | None:
    """What a reader must know about the data of a task, such as how many rows of a file have labels."""
    found = results.folders.loc[results.folders["data"] == data, "note"].dropna().unique()
    return f"Data: {'; '.join(note.rstrip('.') for note in found)}." if len(found) else None


def results_text(folder: str | Path) -> str:
    """The results of a comparison for the screen: the table of its task, and the runs that failed."""
    results = read_results([str(folder)])
    lines = [f"{results.folders['data'].iloc[0]}: no run has finished yet"]
    means = arm_means(results.scores)
    if len(means):
        data = means["data"].iloc[0]
        table = task_table(data, comparison_rows(means, gains(means)))
        seeds = " ".join(str(seed) for seed in sorted(set().union(*means["seeds"])))
        lines = [f"{data}: {table.caption}; mean ± deviation over seeds {seeds}, 95 % interval", ""]
        lines += _aligned(table.cells)
        if windows := window_table(data, means):
            lines += ["", f"{windows.caption}", "", *_aligned(windows.cells)]
        if (table.cells["gain"] != NONE).any():
            lines += ["", gain_text(means.iloc[0])]
        if note := data_note(data, results):
            lines += ["", note]
    for run, error in results.failed[["run", "error"]].itertuples(index=False):
        lines.append(f"unfinished: {run}" if pd.isna(error) else f"failed: {run}: {error}")
    return "\n".join(lines)


def _aligned(cells: pd.DataFrame) -> list[str]:
    """A frame as lines of text, the second line of a cell below the first."""
    rows = [list(cells), *cells.itertuples(index=False)]
    halves = [[str(cell).partition("\n")[place] for cell in row] for row in rows for place in (0, 2)]
    widths = [max(map(len, column)) for column in zip(*halves, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in halves]
    return [line.rstrip() for line in lines if line.strip()]


# --- cells ---


def metric_text(row: pd.Series) -> str:
    """The metric with its unit and direction."""
    unit = "%" if row["metric"] in PERCENT else row["unit"]
    better = "" if row["greater_is_better"] else " (smaller is better)"
    return f"test {row['metric']}{f', {unit}' if unit else ''}{better}"


def gain_text(row: pd.Series) -> str:
    """What a gain is, with its unit and direction."""
    unit = "points" if row["metric"] in PERCENT else row["unit"]
    arms = ["self-pretrained", "from scratch on an equal budget"]
    arms = arms if row["greater_is_better"] else arms[::-1]
    return f"gain: test {row['metric']} {' minus '.join(arms)}{f', in {unit}' if unit else ''}; above 0 is better"


def number(row: pd.Series | dict, key: str, sign: bool = False) -> str:
    """A score or gain with the digits that it deserves, shares in percent."""
    value = row[key] * (100.0 if row["metric"] in PERCENT else 1.0)
    digits = 1 if row["metric"] in PERCENT or abs(value) >= 100 else 3
    return f"{value:{'+' if sign else ''}.{digits}f}".replace("-", "−")


def interval(gain: pd.Series) -> str:
    """The 95 % interval of a gain; "" where seeds tell nothing of the noise."""
    return "" if pd.isna(gain["low"]) else f"{number(gain, 'low', True)} to {number(gain, 'high', True)}"


def score(row: pd.Series) -> str:
    """Mean ± standard deviation, and the 95 % interval of the mean."""
    if row["n"] < 2:
        return number(row, "mean")
    return f"{number(row, 'mean')} ± {number(row, 'std')}\n{number(row, 'low')} to {number(row, 'high')}"


def colour_of(gain: pd.Series | None) -> str:
    """gain, loss, or "" within the noise, by the interval and, for gains over equal budget, the correction."""
    if gain is None or gain["p_holm"] >= 1 - LEVEL:
        return ""
    return "gain" if gain["low"] > 0 else "loss" if gain["high"] < 0 else ""


def labels_text(labels: float, validation: float | None = None) -> str:
    """How many labels, with those of a separate validation split; "" of an arm without a finished run."""
    more = f" + {validation:,.0f}" if validation and not pd.isna(validation) else ""
    return "" if pd.isna(labels) else f"{labels:,.0f}{more} label{'s' if labels != 1 or more else ''}"


def p_text(p: float) -> str:
    """A p-value with three digits."""
    return NONE if pd.isna(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def count(value: float) -> str:
    """A whole number, or that it is not recorded."""
    return UNKNOWN if pd.isna(value) else f"{value:,.0f}"


def compact(value: float) -> str:
    """Three digits and a prefix: 1.3 P, 12.5 k."""
    if pd.isna(value):
        return UNKNOWN
    for limit, letter in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            return f"{value / limit * (10 if letter == 'k' else 1):.3g} {letter}"
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def _what(row: Row) -> str:
    """Labels, inputs that pretraining read, protocol, variant."""
    read = {count(one["inputs"]) for one in row.arms.values() if not from_scratch(one["arm"])} - {UNKNOWN}
    more = next(iter(row.arms.values())).get("validation_labels")
    words = [labels_text(row.labels, more), f"{' / '.join(sorted(read))} inputs" if read else "", row.variant]
    return ", ".join(filter(None, words))


def _arm_text(row: pd.Series) -> str:
    return style(row["arm"]).label + (f", {row['protocol']}" if row["protocol"] else "")


def _converged(arms: dict[str, pd.Series]) -> str:
    known = {heading: row["converged"] for heading, row in arms.items() if not pd.isna(row["converged"])}
    if not known:
        return UNKNOWN
    lacking = [heading for heading, converged in known.items() if not converged]
    return f"no\n{', '.join(lacking)}" if lacking else "yes"
