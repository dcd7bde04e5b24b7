# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""The pictures of a report (needs matplotlib): what self-pretraining gains, learning curves, the label-scarcity curve.

Each is drawn once as SVG, whose colours follow the reader's light or dark mode, and once as PNG on white.
"""

import base64
import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hf_longseq.comparison.report_cells import Cells, Column
from hf_longseq.comparison.report_read import Plan, curve_key, init_rank
from hf_longseq.escaping import html
from hf_longseq.training.run_folder import refuse_links

# light and dark value of everything that has a colour; the names are CSS variables of the page
PALETTE = {
    "ink": ("#1f2328", "#e6e9ee"),
    "faint": ("#656d76", "#9aa4b2"),
    "rule": ("#dfe3e8", "#30363f"),
    "paper": ("#ffffff", "#15191f"),
    "scratch": ("#6e7781", "#a3adba"),
    "scratch-tied": ("#bf6a02", "#f0a44b"),
    "spt-masked": ("#0b63b8", "#5fb0ff"),
    "spt-causal": ("#8a3fb0", "#c893ec"),
    "other-1": ("#12806a", "#4fcbb0"),
    "other-2": ("#b3305f", "#f58ab0"),
    "other-3": ("#8a6d00", "#d8b93c"),
    "other-4": ("#3a7d24", "#8fd06f"),
}
LABELS = {
    "scratch": "from scratch",
    "scratch-tied": "from scratch, equal steps",
    "spt-masked": "self-pretrained, masked",
    "spt-causal": "self-pretrained, causal",
}
MARKERS = {"scratch": "o", "scratch-tied": "D", "spt-masked": "o", "spt-causal": "^"}
FONTS = "-apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Figure:
    """A drawn figure: SVG for the page ("" where there is only a picture), PNG for Markdown, and words."""

    name: str
    title: str
    caption: str
    svg: str
    png: bytes
    dark_png: bytes | None = None

    @property
    def png_text(self) -> str:
        """The PNG as it stands in a page."""
        return base64.b64encode(self.png).decode()


def init_label(init: str) -> str:
    """A start in words, with the settings of a variant such as `spt-masked@span_length=8`."""
    name, *settings = init.split("@")
    words = LABELS.get(name, name.replace("spt-", "self-pretrained, ").replace("spt", "self-pretrained"))
    return ", ".join([words, *settings])


def _style(init: str, inits: Sequence[str]) -> tuple[str, str]:
    """(colour name, marker) of a start; unknown ones get the spare colours in turn."""
    if init in PALETTE:
        return init, MARKERS[init]
    if init == "spt":
        return "spt-masked", "o"
    spare = [one for one in inits if one not in PALETTE and one != "spt"]
    return f"other-{spare.index(init) % 4 + 1}", "svPX"[spare.index(init) % 4]


def draw_all(cells: Cells) -> list[Figure]:
    """All figures that the results have data for.

    Raises:
        ImportError: If matplotlib is not installed (`pip install hf-longseq[plot]`).
    """
    figures = []
    columns = cells.columns()
    if any(cells.gain(column, arch, init) for column in columns for arch in cells.archs for init in cells.inits):
        seeds = sorted({len(row.values) for row in cells.rows.values()})
        count = " to ".join(dict.fromkeys((str(seeds[0]), str(seeds[-1]))))
        same = {"labelled": " with the same fine-tuning", "all": " for as many steps", None: ""}
        figures.append(
            _figure(
                "headline",
                "From scratch and self-pretrained",
                f"Test metric, mean ± standard deviation over {count} seed{'s' if seeds[-1] > 1 else ''}. The number "
                "is the gain of self-pretraining over training from scratch"
                f"{same[cells.tied(cells.gains(columns))]}; in grey where "
                "it is within the noise of the seeds, or there is one seed only.",
                lambda pick: _headline(cells, columns, pick),
                dark=True,
            )
        )
    for name, points in cells.scarcity().items():
        figures.append(
            _figure(
                f"scarcity-{_slug(name)}",
                f"{name}: fewer labels",
                "Test metric over the number of labelled examples (logarithmic); mean over seeds, band of one "
                "standard deviation. Self-pretraining reads the inputs without their labels.",
                lambda pick, points=points: _scarcity(cells, points, pick),
            )
        )
    for plan in cells.plans:
        name = f"curves-{_slug(plan.name)}-{cells.plans.index(plan) + 1}"
        panels = _curve_panels(plan, cells)
        kept = plan.folder / "learning_curves.png"
        if not panels and kept.is_file():
            refuse_links(plan.folder, kept.name)
            caption = f"As drawn when the plan was run ({plan.label}); its curves were not kept as numbers."
            figures.append(Figure(name, f"{plan.name}: learning curves", caption, "", kept.read_bytes()))
        if panels:
            figures.append(
                _figure(
                    name,
                    f"{plan.name}: learning curves{_labels_of(panels)}",
                    "Validation metric over all optimiser steps, those of pretraining (shaded) included; mean over "
                    "seeds, band from the lowest to the highest.",
                    lambda pick, plan=plan, panels=panels: _curves(plan, panels, cells.inits, pick),
                )
            )
    return figures


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _figure(name: str, title: str, caption: str, draw: Callable, dark: bool = False) -> Figure:
    """Draw in both modes; the same results give the same bytes."""
    import matplotlib

    settings = {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 9.5,
        "svg.fonttype": "none",
        "text.parse_math": False,  # a name may hold dollars
        "svg.hashsalt": name,
        "axes.linewidth": 0.8,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
    }
    with matplotlib.rc_context(settings):
        light = draw(lambda colour: PALETTE[colour][0])
        pages = io.StringIO()
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        light.savefig(pages, format="svg", bbox_inches="tight", pad_inches=0.05, transparent=True, metadata=nothing)
        png = _png(light, PALETTE["paper"][0])
        dark_png = _png(draw(lambda colour: PALETTE[colour][1]), PALETTE["paper"][1]) if dark else None
    return Figure(name, title, caption, _inline_svg(pages.getvalue(), f"{title}. {caption}"), png, dark_png)


def _png(figure, background: str) -> bytes:
    file = io.BytesIO()
    figure.savefig(
        file, format="png", dpi=150, bbox_inches="tight", pad_inches=0.15, facecolor=background,
        metadata={"Software": None},
    )  # fmt: skip
    return file.getvalue()


def _inline_svg(text: str, words: str) -> str:
    """An SVG that can stand in a page: no header, no fixed size, colours and font of the page."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    width, height, box = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt" viewBox="([^"]+)"', text).groups()
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="{box}" '
        f'style="width:{float(width) * 4 / 3:.0f}px;max-width:100%;height:auto" role="img" aria-label="{html(words)}">'
    )
    text = re.sub(r"<svg[^>]*>", lambda _: head, text, count=1)
    text = re.sub(r'<g id="[^"]+">', "<g>", text)
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.S)
    text = re.sub(r"font: (bold |700 )?([\d.]+px) [^;\"]+", _page_font, text)
    for name, (light, _) in PALETTE.items():
        text = text.replace(light, f"var(--{name})")
    return re.sub(r"\n\s*", "\n", text).strip()


def _page_font(found: re.Match) -> str:
    return f"font: {'600 ' if found.group(1) else ''}{found.group(2)} var(--sans)"


def _plain(axis, pick, grid: str) -> None:
    """Our look: a grid in one direction, no frame."""
    axis.set_facecolor("none")
    axis.grid(axis=grid, color=pick("rule"), linewidth=0.8)
    axis.set_axisbelow(True)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.spines["bottom"].set_color(pick("rule"))
    axis.tick_params(colors=pick("faint"), labelcolor=pick("faint"))


def _new(width: float, height: float, pick):
    from matplotlib.figure import Figure as Canvas

    return Canvas(figsize=(width, height), layout="constrained", facecolor="none")


# --- the headline ---


def _headline(cells: Cells, columns: list[Column], pick):
    """A line per task and architecture, from scratch to self-pretrained; one panel per metric."""
    groups: dict[Any, list[Column]] = {}
    for column in columns:
        if any(cells.get(column, arch, init) for arch in cells.archs for init in cells.inits):
            groups.setdefault("percent" if column.percent else (column.name, column.metric), []).append(column)
    lines = {group: _headline_lines(cells, members) for group, members in groups.items()}
    heights = [sum(1.0 if line[1] else 1.15 for line in members) + 1.0 for members in lines.values()]
    figure = _new(7.6, 0.27 * sum(heights) + 0.35 + 0.35 * len(groups), pick)
    axes = figure.subplots(len(groups), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, (group, members) in zip(axes, lines.items(), strict=True):
        _headline_panel(axis, cells, members, pick)
        one = groups[group][0]
        better = "" if one.greater_is_better else " (smaller is better)"
        axis.set_xlabel(f"test {one.metric_text}{better}", color=pick("faint"))
    handles = [_handle(init, cells.inits, pick) for init in cells.inits]
    figure.legend(
        handles, [init_label(init) for init in cells.inits], loc="outside upper left", ncols=min(len(handles), 2),
        frameon=False, labelcolor=pick("ink"), handletextpad=0.3, columnspacing=1.8, borderpad=0.1,
    )  # fmt: skip
    return figure


def _headline_lines(cells: Cells, columns: list[Column]) -> list[tuple[Column, str | None]]:
    """(column, None) heads a task, (column, architecture) is a line of it."""
    lines: list[tuple[Column, str | None]] = []
    for column in columns:
        lines.append((column, None))
        lines += [(column, arch) for arch in cells.archs if any(cells.get(column, arch, i) for i in cells.inits)]
    return lines


def _headline_panel(axis, cells: Cells, lines: list[tuple[Column, str | None]], pick) -> None:
    _plain(axis, pick, "x")
    place, ticks, names = 0.0, [], []
    for column, arch in lines:
        if arch is None:
            place -= 0.15
            beside = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center"}
            axis.annotate(
                column.name, (0, place), xytext=(-4, 0), ha="right", weight="bold", color=pick("ink"), **beside
            )
            box = {"facecolor": pick("paper"), "linewidth": 0, "pad": 1.5}  # keeps the grid off the words
            axis.annotate(
                column.labels_text, (0, place), xytext=(4, 0), fontsize=8.5, color=pick("faint"), bbox=box, **beside
            )
        else:
            ticks.append(place)
            names.append(arch)
            _headline_line(axis, cells, column, arch, place, pick)
        place -= 1.0
    axis.set_yticks(ticks, names)
    axis.tick_params(axis="y", labelcolor=pick("ink"))
    axis.set_ylim(place + 0.4, 0.55)
    low, high = axis.dataLim.intervalx
    room = max(high - low, 1e-9)
    axis.set_xlim(low - 0.05 * room, high + 0.14 * room)


def _headline_line(axis, cells: Cells, column: Column, arch: str, place: float, pick) -> None:
    rows = {init: row for init in cells.inits if (row := cells.get(column, arch, init))}
    pretrained = [init for init in rows if not init.startswith("scratch")]
    main = pretrained[0] if pretrained else None
    edges = []
    if main and "scratch" in rows:
        ends = [column.scale * rows[init].mean for init in ("scratch", main)]
        axis.plot(ends, [place, place], color=pick(_style(main, cells.inits)[0]), alpha=0.28, linewidth=5,
                  solid_capstyle="round", zorder=2)  # fmt: skip
    dodge = {init: 0.23 if init.startswith("scratch") else -0.23 for init in rows} | {"scratch": 0.0, main: 0.0}
    for init, row in rows.items():
        colour, marker = _style(init, cells.inits)
        mean, std = column.scale * row.mean, column.scale * (row.std or 0.0)
        hollow = init.startswith("scratch")
        axis.errorbar(
            mean, place + dodge[init], xerr=std or None, fmt=marker, ms=6.5 if init in ("scratch", main) else 5,
            color=pick(colour), mfc=pick("paper") if hollow else pick(colour), mew=1.6 if hollow else 0,
            elinewidth=1.1, zorder=4 if hollow else 5,
        )  # fmt: skip
        edges.append(mean + std)
    gain = cells.gain(column, arch, main) if main else None
    if gain:
        value = column.scale * gain.difference.value * (1 if column.greater_is_better else -1)
        digits = 1 if column.percent else 3
        axis.annotate(
            f"{value:+.{digits}f}".replace("-", "−"), (max(edges), place), xytext=(8, 0), textcoords="offset points",
            va="center", weight="bold" if gain.difference.beyond_noise else "normal",
            color=pick(_style(main, cells.inits)[0]) if gain.difference.beyond_noise else pick("faint"),
        )  # fmt: skip


def _handle(init: str, inits: Sequence[str], pick, line: bool = False):
    from matplotlib.lines import Line2D

    colour, marker = _style(init, inits)
    hollow = init.startswith("scratch") and not line
    return Line2D(
        [], [], color=pick(colour), marker=marker, linestyle="-" if line else "none", ms=4 if line else 6.5,
        mfc=pick("paper") if hollow else pick(colour), mew=1.6 if hollow else 0, linewidth=1.8,
    )  # fmt: skip


# --- small multiples, a panel per architecture ---


def _panels(count: int, pick):
    """A grid of panels with common axes, at most three in a row; returns the figure and its used axes."""
    wide = {1: 1, 2: 2, 4: 2}.get(count, 3)
    high = math.ceil(count / wide)
    figure = _new(max(2.75 * wide + 0.4, 5.4), 2.45 * high + 0.75, pick)
    axes = figure.subplots(high, wide, squeeze=False, sharex=True, sharey=True).ravel()
    for axis in axes[count:]:
        axis.set_visible(False)
    for axis in axes[max(count - wide, 0) : count]:  # the lowest in their columns
        axis.tick_params(labelbottom=True)
    for axis in axes[:count]:
        _plain(axis, pick, "y")
    return figure, list(axes[:count]), wide


def _finish(figure, axes, wide: int, inits: list[str], everything: Sequence[str], x: str, y: str, pick) -> None:
    for index, axis in enumerate(axes):
        if index % wide == 0:
            axis.set_ylabel(y, color=pick("faint"))
        if index >= len(axes) - wide:
            axis.set_xlabel(x, color=pick("faint"))
    handles = [_handle(init, everything, pick, line=True) for init in inits]
    figure.legend(handles, [init_label(init) for init in inits], loc="outside upper left", ncols=2, frameon=False,
                  labelcolor=pick("ink"), columnspacing=1.8, borderpad=0.1)  # fmt: skip


def _scarcity(cells: Cells, columns: list[Column], pick):
    archs = [a for a in cells.archs if sum(any(cells.get(c, a, i) for i in cells.inits) for c in columns) > 1]
    archs = archs or [a for a in cells.archs if any(cells.get(c, a, i) for c in columns for i in cells.inits)]
    inits = [init for init in cells.inits if any(cells.get(c, a, init) for c in columns for a in archs)]
    figure, axes, wide = _panels(len(archs), pick)
    for axis, arch in zip(axes, archs, strict=True):
        for init in inits:
            found = [(column, row) for column in columns if (row := cells.get(column, arch, init))]
            if not found:
                continue
            scale, (colour, marker) = found[0][0].scale, _style(init, cells.inits)
            labels = [column.labels for column, _ in found]
            means = [scale * row.mean for _, row in found]
            stds = [scale * (row.std or 0.0) for _, row in found]
            axis.plot(labels, means, color=pick(colour), marker=marker, ms=4.5, mew=0, linewidth=1.8)
            bands = [[mean + sign * std for mean, std in zip(means, stds, strict=True)] for sign in (-1, 1)]
            axis.fill_between(labels, *bands, color=pick(colour), alpha=0.16, linewidth=0)
        axis.set_title(arch, color=pick("ink"), fontsize=10, loc="left", weight="bold")
        axis.set_xscale("log")
        ticks = _apart([column.labels for column in columns], 8 if wide == 1 else 5)
        axis.set_xticks(ticks, [compact(tick) for tick in ticks])
        axis.minorticks_off()
    one = columns[0]
    what = "labelled examples" if isinstance(one.labels, int) else "share of the labels"
    _finish(figure, axes, wide, inits, cells.inits, what, f"test {one.metric_text}", pick)
    return figure


def _apart(numbers: list[float], most: int) -> list[float]:
    """Those of the numbers, the greatest first, whose labels do not run into each other on a logarithmic axis."""
    span = math.log(max(numbers) / min(numbers)) or 1.0
    kept: list[float] = []
    for number in sorted(numbers, reverse=True):
        if not kept or math.log(kept[-1] / number) >= span / (most + 0.5):
            kept.append(number)
    return kept[::-1]


def compact(number: float) -> str:
    """12500 as 12.5K."""
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if number >= limit:
            return f"{number / limit:.3g}{letter}"
    return f"{number:g}"


def _curve_panels(plan: Plan, cells: Cells) -> dict[str, dict[str, Any]]:
    """{architecture: {start: curve}} of a plan at the most labels that it used."""
    most = max((row.labels or 0 for row in plan.rows), default=0)
    several = len({row.fraction for row in plan.rows}) > 1
    panels: dict[str, dict[str, Any]] = {}
    for row in sorted(plan.rows, key=lambda row: (cells.archs.index(row.arch), init_rank(row.init))):
        curve = plan.curves.get(curve_key(row.arch, row.raw_init, row.fraction, several))
        if curve and (row.labels or 0) == most:
            panels.setdefault(row.arch, {})[row.init] = curve | {"labels": row.labels}
    return panels


def _labels_of(panels: dict[str, dict[str, Any]]) -> str:
    labels = {curve["labels"] for curves in panels.values() for curve in curves.values()} - {None}
    return f", {next(iter(labels)):,} labels" if len(labels) == 1 and min(labels) > 1 else ""


def _curves(plan: Plan, panels: dict[str, dict[str, Any]], everything: Sequence[str], pick):
    figure, axes, wide = _panels(len(panels), pick)
    scale = Column(plan.name, plan.task, plan.metric, plan.greater_is_better, plan.unit, None)
    for axis, (arch, curves) in zip(axes, panels.items(), strict=True):
        for init, curve in curves.items():
            colour, _ = _style(init, everything)
            steps = [curve["pretrain_steps"] + step for step in curve["steps"]]
            by_step = list(zip(*curve["metric"], strict=True))
            means = [scale.scale * sum(values) / len(values) for values in by_step]
            axis.plot(steps, means, color=pick(colour), linewidth=1.8, marker="o", ms=2.6, mew=0)
            low, high = ([scale.scale * pole(values) for values in by_step] for pole in (min, max))
            axis.fill_between(steps, low, high, color=pick(colour), alpha=0.16, linewidth=0)
        axis.set_title(arch, color=pick("ink"), fontsize=10, loc="left", weight="bold")
        pretraining = max((curve["pretrain_steps"] for curve in curves.values()), default=0)
        if pretraining:
            axis.axvspan(0, pretraining, color=pick("faint"), alpha=0.09, linewidth=0, zorder=0)
            axis.annotate(
                "pretraining", (pretraining, 1), xycoords=("data", "axes fraction"), xytext=(-4, -4),
                textcoords="offset points", ha="right", va="top", fontsize=8, color=pick("faint"),
            )  # fmt: skip
    for axis in axes:
        axis.set_xlim(left=0)
        axis.xaxis.set_major_locator(_few_ticks())
        axis.xaxis.set_major_formatter(lambda value, _: compact(value))
    inits = sorted({init for curves in panels.values() for init in curves}, key=init_rank)
    _finish(figure, axes, wide, inits, everything, "optimiser steps", f"validation {scale.metric_text}", pick)
    return figure


def _few_ticks():
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=5, integer=True)
