# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The pictures of comparisons (needs matplotlib): gains, scores over the number of labels, learning curves.

Each is drawn once and kept as PNG and as SVG, for the page.
"""

import io
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pandas as pd
from markupsafe import Markup

from hf_longseq.comparison.arms import (
    BASELINE,
    GAIN,
    LOSS,
    arch_label,
    from_scratch,
    is_baseline,
    rank,
    split_name,
    style,
)
from hf_longseq.comparison.plan import slug
from hf_longseq.comparison.scores import Results
from hf_longseq.comparison.tables import Row, colour_of, labels_text, metric_text, number
from hf_longseq.metrics import PERCENT

INK, FAINT, RULE, PAPER = "#1f2328", "#656d76", "#dfe3e8", "#ffffff"
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 9.5, "svg.fonttype": "none",
    "text.parse_math": False, "axes.edgecolor": RULE, "axes.linewidth": 0.8, "axes.labelcolor": FAINT,
    "axes.grid": True, "axes.axisbelow": True, "axes.facecolor": "none", "figure.facecolor": "none",
    "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False, "grid.color": RULE,
    "xtick.major.size": 0, "ytick.major.size": 0, "xtick.labelcolor": FAINT, "ytick.labelcolor": FAINT,
    "text.color": INK, "legend.frameon": False, "axes.titlesize": 9.5, "axes.titleweight": "bold",
    "axes.titlelocation": "left",
}  # fmt: skip
MOST_ROWS = 12
# where the gains stand beside the headline, in widths of its axis
COLUMNS = (1.19, 1.42)
HEADINGS = {"over_scratch": "over\nscratch", "over_tied": "over equal\nbudget"}


class Figure(NamedTuple):
    """A figure: its file name, what it shows, SVG for the page and PNG for everything else."""

    name: str
    caption: str
    svg: Markup
    png: bytes


def report_figures(results: Results, means: pd.DataFrame, rows: Sequence[Row]) -> dict[str, list[Figure]]:
    """The headline under "", and each name's figures: scores over labels, learning curves."""
    found = {"": [headline(rows)]}
    for name in dict.fromkeys(means["data"]):
        curves, mine = results.curves[results.curves["data"] == name], means[means["data"] == name]
        found[name] = [label_curves(mine), learning_curves(curves, mine)]
    return {name: [figure for figure in figures if figure] for name, figures in found.items()}


def headline(rows: Sequence[Row]) -> Figure | None:
    """Scores of all arms, a line per row, with the gains over scratch and over equal budget beside them."""
    best = best_baselines(rows)
    rows = [row for row in rows if not is_baseline(row.architecture)]
    if not rows:
        return None
    some = f" The {MOST_ROWS} of {len(rows)} rows with the most to tell." if len(rows) > MOST_ROWS else ""
    caption = (
        "Test score: a large marker for the mean, a dot for each seed. Numbers: gain of self-pretraining over scratch "
        "and over equal budget, bold where the 95 % interval leaves out zero and p < 0.05 after Holm's correction."
        f"{' Grey bar: the best linear model with the same labels.' if best else ''}{some}"
    )
    return _figure("headline", caption, lambda: _headline(most_telling(rows), best))


def best_baselines(rows: Sequence[Row]) -> dict[tuple[str, float], float]:
    """The mean of the best linear model for each data set and number of labels."""
    found: dict[tuple[str, float], float] = {}
    for row in (row for row in rows if is_baseline(row.architecture)):
        one, place = next(iter(row.arms.values())), (row.data, row.labels)
        better = max if one["greater_is_better"] else min
        found[place] = better(found.get(place, one["mean"]), one["mean"])
    return found


def most_telling(rows: Sequence[Row]) -> list[Row]:
    """At most 12 rows, in their order: those with equal budget first, then one per data (a name up to its comma) and
    architecture, variants of these last, fewest labels first."""
    order = pd.DataFrame(
        [(row.data.split(",")[0], row.architecture, row.gain is None, row.over_tied is None) for row in rows]
    )
    order["within"] = order.groupby([0, 1]).cumcount()
    order["variant"] = order[1].str.contains("@")
    chosen = order.sort_values([2, 3, "within", "variant"], kind="stable").index[:MOST_ROWS]
    return [rows[place] for place in sorted(chosen)]


def _headline(rows: Sequence[Row], best: dict[tuple[str, float], float]):
    panels: dict[str, list[Row]] = {}
    for row in rows:
        panels.setdefault(metric_text(next(iter(row.arms.values()))), []).append(row)
    heights = [1.6 * len(members) + len({row.data for row in members}) + 2.5 for members in panels.values()]
    figure = _canvas(4.8, 0.23 * sum(heights) + 0.6)
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    arms = sorted({split_name(one["arm"])[0] for row in rows for one in row.arms.values()}, key=rank)
    gains = [gain for gain in HEADINGS if any(getattr(row, gain) is not None for row in rows)]
    for axis, (text, members) in zip(axes, panels.items(), strict=True):
        place, name = 0.0, None
        for row in members:
            what = ", ".join(filter(None, (labels_text(row.labels), row.variant)))
            words = [(arch_label(row.architecture), INK), (what, FAINT)]
            if row.data != name:
                name, place = row.data, place - 0.3
                _words(axis, 0, place, [(name, INK)], weight="bold")
                place -= 1.0
            _words(axis, 0, place, words)
            _headline_row(axis, row, place - 0.75, [getattr(row, gain) for gain in gains])
            if (row.data, row.labels) in best:
                x = _factor(next(iter(row.arms.values()))) * best[row.data, row.labels]
                axis.plot(x, place - 0.75, "|", ms=11, mew=2.2, color=FAINT, zorder=3)
            place -= 1.65
        axis.set_yticks([])
        axis.set_ylim(place + 0.3, 0.6)
        axis.margins(x=0.04)
        axis.set_xlabel(text)
        for x, gain in zip(COLUMNS, gains, strict=False):
            axis.annotate(HEADINGS[gain], (x, 0.2), xycoords=("axes fraction", "data"), ha="right", va="bottom",
                          color=FAINT, fontsize=8.5)  # fmt: skip
    _legend(figure, arms, lines=False)
    return figure


def _words(axis, x: float, place: float, words: Sequence[tuple[str, str]], **style) -> None:
    """Words of several colours, one after the other, with paper behind them that keeps the grid off."""
    box = {"facecolor": PAPER, "linewidth": 0, "pad": 1.0}
    at = axis.annotate(words[0][0], (x, place), xycoords=("axes fraction", "data"), va="center", color=words[0][1],
                       bbox=box, **style)  # fmt: skip
    for text, colour in words[1:]:
        at = axis.annotate(text, (1, 0), xycoords=at, xytext=(5, 0), textcoords="offset points", va="bottom",
                           color=colour, fontsize=8.5, bbox=box)  # fmt: skip


def _headline_row(axis, row: Row, place: float, gains: Sequence[pd.Series | None]) -> None:
    factor = _factor(next(iter(row.arms.values())))
    for one in row.arms.values():
        look = style(one["arm"])
        hollow = from_scratch(one["arm"])
        axis.scatter([factor * value for value in one["values"]], [place] * one["n"], s=7, color=look.colour,
                     alpha=0.45, linewidths=0, zorder=3)  # fmt: skip
        axis.plot(factor * one["mean"], place, look.marker, ms=6.5, color=look.colour, zorder=4 if hollow else 5,
                  mfc=PAPER if hollow else look.colour, mew=1.6 if hollow else 0)  # fmt: skip
    for x, gain in zip(COLUMNS, gains, strict=False):
        kind = colour_of(gain)
        axis.annotate(
            "–" if gain is None else number(gain, "value", True), (x, place), xycoords=("axes fraction", "data"),
            ha="right", va="center", weight="bold" if kind else "normal",
            color={"gain": GAIN, "loss": LOSS}.get(kind, FAINT),
        )  # fmt: skip


def label_curves(means: pd.DataFrame) -> Figure | None:
    """Scores over the number of labels, a panel per architecture; None where there is only one number."""
    means = _by_protocol(means[means.groupby("architecture")["labels"].transform("nunique") > 1])
    linear = means[means["architecture"].str.startswith(BASELINE) & (means["architecture"] != f"{BASELINE}majority")]
    means = means[~means["architecture"].str.startswith(BASELINE)]
    if not len(means):
        return None
    name, text = means["data"].iloc[0], metric_text(means.iloc[0])
    panels = {
        arch_label(architecture): {arm: line.set_index("labels") for arm, line in panel.groupby("arm", sort=False)}
        for architecture, panel in means.groupby("architecture", sort=False)
    }

    def finish(axis, lines: dict[str, pd.DataFrame]) -> None:
        labels = sorted({count for line in lines.values() for count in line.index})
        axis.set_xscale("log")
        axis.set_xticks(labels, [f"{count:,g}" for count in labels])
        axis.minorticks_off()
        for _, one in linear.groupby("architecture", sort=False):
            axis.plot(one["labels"], _factor(one.iloc[0]) * one["mean"], ":", color=FAINT, linewidth=1.2, zorder=1)

    caption = f"{name}: score over the number of labels (logarithmic); mean over seeds, with its 95 % interval."
    caption += " Dotted: linear models on counts or spectra." if len(linear) else ""
    return _figure(f"labels-{slug(name).lower()}", caption,
                   lambda: _lines(panels, _factor(means.iloc[0]), "labelled examples", text, finish))  # fmt: skip


def learning_curves(curves: pd.DataFrame, means: pd.DataFrame) -> Figure | None:
    """Validation scores over the labelled steps, with pretraining before step 0; None without curves."""
    if not len(curves):
        return None
    name, text = means["data"].iloc[0], metric_text(means.iloc[0]).replace("test", "validation", 1)
    places = {arch: place for place, arch in enumerate(means["architecture"].unique())}
    curves = _by_protocol(curves).sort_values(
        ["architecture", "labels"], kind="stable",
        key=lambda column: column.map(places) if column.name == "architecture" else column,
    )  # fmt: skip
    panels, before = {}, {}
    for (architecture, labels), panel in curves.groupby(["architecture", "labels"], dropna=False, sort=False):
        title = f"{arch_label(architecture)}, {labels_text(labels)}".removesuffix(", ")
        panels[title] = {
            # seeds of other steps have values at other places: drawn through, and the mean is that of all
            arm: line.pivot_table(index="step", columns="seed", values="value").interpolate(
                "index", limit_area="inside"
            )
            for arm, line in panel.groupby("arm", sort=False)
        }
        before[title] = panel["pretrain_steps"].max()

    def finish(axis, lines: dict[str, pd.DataFrame]) -> None:
        from matplotlib.ticker import LogLocator

        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axis.xaxis.set_major_formatter(lambda step, _: f"{step:,g}")
        axis.minorticks_off()
        if steps := before[axis.get_title(loc="left")]:
            axis.set_xlabel(f"{axis.get_xlabel()}\nself-pretrained: after {steps:,.0f} steps without")

    caption = (
        f"{name}: learning curves over the steps with labels (logarithmic); a thin line for every seed, a thick one "
        "for their mean. Self-pretrained arms begin after their pretraining, whose steps are not drawn."
    )
    factor = _factor(means.iloc[0])
    return _figure(f"curves-{slug(name).lower()}", caption,
                   lambda: _lines(panels, factor, "steps with labels", text, finish, seeds=True))  # fmt: skip


# --- one style for all ---


def _canvas(width: float, height: float):
    from matplotlib.figure import Figure as Canvas

    return Canvas(figsize=(width, height), layout="constrained")


def _lines(panels: dict, factor: float, x: str, y: str, finish: Callable, seeds: bool = False):
    """Panels of lines with common axes, at most two in a row, which a telephone can show.

    `panels` are, by title and by arm, frames over x, their index: with mean, low and high, drawn with bars, or with a
    column for every one of the `seeds`. `finish` is called with every axis and its lines.
    """
    wide = min(2, len(panels))
    high = math.ceil(len(panels) / wide)
    figure = _canvas(3.1 * wide + (1.2 if wide == 1 else 0), 2.2 * high + 0.7)
    axes = figure.subplots(high, wide, squeeze=False, sharex=True, sharey=True)
    arms = sorted({arm for lines in panels.values() for arm in lines}, key=rank)
    for axis, (title, lines) in zip(axes.ravel(), panels.items(), strict=False):
        axis.set_title(title)
        axis.tick_params(labelbottom=True)
        axis.set_xlabel(x)
        for arm, line in lines.items():
            look, place = style(arm), arms.index(arm)
            drawn = {"color": look.colour, "marker": look.marker, "ms": 4, "mew": 0, "linewidth": 1.8}
            drawn["linestyle"] = line_style(arm, arms)
            if seeds:
                thin = {"color": look.colour, "linestyle": drawn["linestyle"], "linewidth": 0.8, "alpha": 0.45}
                axis.plot(line.index, factor * line, **thin)
                axis.plot(line.index, factor * line.mean(axis=1, skipna=False), **drawn)
            else:  # arms stand beside each other, so that none hides another one's interval
                mean, low, top = (factor * line[key] for key in ("mean", "low", "high"))
                beside = line.index * 1.05 ** (place - len(arms) / 2)
                axis.errorbar(beside, mean, [(mean - low).fillna(0), (top - mean).fillna(0)], elinewidth=1, **drawn)
        finish(axis, lines)
    for axis in axes.ravel()[len(panels) :]:
        axis.remove()
    for row in axes:
        row[0].set_ylabel(y)
    _legend(figure, arms)
    return figure


def _by_protocol(frame: pd.DataFrame) -> pd.DataFrame:
    """Arms that were pretrained under several protocols, as variants of their own."""
    several = frame.groupby("arm")["protocol"].transform("nunique") > 1
    return frame.assign(arm=frame["arm"].where(~several, frame["arm"] + "@protocol=" + frame["protocol"]))


def _factor(row: pd.Series) -> float:
    return 100.0 if row["metric"] in PERCENT else 1.0


def _legend(figure, arms: Sequence[str], lines: bool = True) -> None:
    from matplotlib.lines import Line2D

    handles = []
    for arm in arms:
        look, hollow = style(arm), from_scratch(arm) and not lines
        handles.append(
            Line2D([], [], color=look.colour, marker=look.marker,
                   linestyle=line_style(arm, arms) if lines else "none",
                   mfc=PAPER if hollow else look.colour, mew=1.6 if hollow else 0, ms=4 if lines else 6.5)
        )  # fmt: skip
    figure.legend(handles, [style(arm).label for arm in arms], loc="outside upper left", ncols=2,
                  handlelength=3 if lines else 2)  # fmt: skip


def line_style(arm: str, arms: Sequence[str]) -> Any:
    """How the line of an arm is drawn: variants of one colour differ in their dashes."""
    return ["-", "--", ":", "-."][list(arms).index(arm) % 4] if "@" in arm else "-"


def _figure(name: str, caption: str, draw_one: Callable) -> Figure:
    """Draw; the same results give the same bytes."""
    import matplotlib

    with matplotlib.rc_context(STYLE | {"svg.hashsalt": name}):
        figure = draw_one()
        page, picture = io.StringIO(), io.BytesIO()
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(page, format="svg", bbox_inches="tight", pad_inches=0.05, metadata=nothing)
        figure.savefig(picture, format="png", dpi=150, bbox_inches="tight", pad_inches=0.15, facecolor=PAPER,
                       metadata={"Software": None})  # fmt: skip
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->\n?", "", page.getvalue(), flags=re.S)
    return Figure(name, caption, Markup(svg[svg.index("<svg") :]), picture.getvalue())
