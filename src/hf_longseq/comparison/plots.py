# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Pictures of a comparison: validation over the steps, and the test metric of each arm (needs matplotlib)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from hf_longseq.comparison.plan import plain
from hf_longseq.metrics import PERCENT
from hf_longseq.training import run_folder

COLOURS = {
    "scratch": "#7f7f7f",
    "scratch-tied": "#d9822b",
    "spt": "#1f6fb4",
    "spt-masked": "#1f6fb4",
    "spt-causal": "#2f9e6e",
}
LABELS = {
    "scratch": "scratch",
    "scratch-tied": "scratch, pretraining's steps added",
    "spt": "self-pretrained",
    "spt-masked": "self-pretrained, masked",
    "spt-causal": "self-pretrained, causal",
}


def colours_of(inits: Iterable[str]) -> dict[str, tuple]:
    """A colour per arm: variants of one arm are shades of its colour, by turns lighter and darker."""
    from matplotlib.colors import to_rgb

    shades: dict[str, int] = {}
    colours = {}
    for init in dict.fromkeys(inits):
        name = plain(init)
        shade = shades[name] = shades.get(name, -1) + 1
        towards, amount = (1.0 if shade % 2 else 0.0), 1 - 0.65 ** ((shade + 1) // 2)
        colours[init] = tuple((1 - amount) * part + amount * towards for part in to_rgb(COLOURS[name]))
    return colours


def label_of(init: str) -> str:
    """An arm in words."""
    return ", ".join([LABELS[plain(init)], *init.split("@")[1:]])


def draw(output_dir: Path, results: dict[str, Any]) -> list[Path]:
    """Write `learning_curves.png` and `results.png` into the folder of a comparison; return their paths.

    Raises:
        ImportError: If matplotlib is not installed (`pip install hf-longseq[plot]`).
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    if not results["rows"]:
        return []
    figures = {
        "learning_curves.png": _learning_curves(pyplot, output_dir, results),
        "results.png": _bars(pyplot, results),
    }
    for name, figure in figures.items():
        partial = output_dir / f".{name}"
        figure.savefig(partial, format="png", dpi=150, bbox_inches="tight")
        partial.replace(output_dir / name)
        pyplot.close(figure)
    return [output_dir / name for name in figures]


def _learning_curves(pyplot, output_dir: Path, results: dict[str, Any]):
    """A panel per architecture, a line of panels per fraction."""
    archs, fractions = _values(results, "arch"), _values(results, "fraction")
    metric = results["metric"]
    scale = 100.0 if metric in PERCENT else 1.0
    figure, axes = pyplot.subplots(
        len(fractions), len(archs), figsize=(5.2 * len(archs), 0.6 + 3.5 * len(fractions)), squeeze=False,
        sharey=True, layout="constrained",
    )  # fmt: skip
    colours = colours_of(_values(results, "init"))
    for line, fraction in zip(axes, fractions, strict=True):
        for axis, arch in zip(line, archs, strict=True):
            rows = [row for row in results["rows"] if row["arch"] == arch and row.get("fraction") == fraction]
            for row in rows:
                _curve(axis, output_dir, row, f"eval_{metric}", scale, colours[row["init"]])
            # arms that pretrain for equally long share one shade, of the first one's colour
            _shade(axis, {row["pretrain_steps"]: colours[row["init"]] for row in reversed(rows)})
            axis.set_title(arch if fraction is None else f"{arch}, {100 * fraction:g} % of the labels")
            axis.set_xlim(left=0)
            axis.grid(alpha=0.25)
            axis.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel(f"validation {metric}{' (%)' if scale == 100 else ''}")
    for axis in axes[-1]:
        axis.set_xlabel("optimiser steps, pretraining included")
    handles = {
        label: handle for axis in axes.flat for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, frameon=False, fontsize=8, loc="outside lower center", ncol=3)
    figure.suptitle(f"{results['task']}: mean over seeds, shaded from lowest to highest", fontsize=10)
    return figure


def _curve(axis, output_dir: Path, row: dict[str, Any], name: str, scale: float, colour: tuple) -> None:
    folders = [output_dir / run for run in row.get("runs") or _named_by_seed(row)]
    curves = [read_curve(folder, name) for folder in folders]
    # Pretraining's steps count: the curve of fine-tuning begins where they end.
    steps = row["pretrain_steps"] + np.array(curves[0][0])
    values = scale * np.array([curve[1] for curve in curves])
    axis.plot(steps, values.mean(0), color=colour, marker="o", markersize=3, label=label_of(row["init"]))
    if len(curves) > 1:
        axis.fill_between(steps, values.min(0), values.max(0), color=colour, alpha=0.15, linewidth=0)


def _shade(axis, colour_of: dict[int, tuple]) -> None:
    for steps, colour in colour_of.items():
        if steps:
            axis.axvspan(0, steps, color=colour, alpha=0.06, linewidth=0)
            axis.text(steps / 2, 0.03, "pretraining", transform=axis.get_xaxis_transform(),
                      ha="center", fontsize=8, color=colour)  # fmt: skip


def _named_by_seed(row: dict[str, Any]) -> list[str]:
    # results.json of earlier versions did not name the runs
    return [f"runs/{row['arch']}-{row['init']}-s{seed}" for seed in row["seeds"]]


def _values(results: dict[str, Any], name: str) -> list:
    return list(dict.fromkeys(row.get(name) for row in results["rows"]))


def read_curve(run: Path, name: str) -> tuple[list[int], list[float]]:
    """Steps and values of one metric in a run's history."""
    history = run_folder.read_json(run / run_folder.HISTORY)
    points = [(entry["step"], entry[name]) for entry in history if name in entry]
    return [step for step, _ in points], [value for _, value in points]


def _bars(pyplot, results: dict[str, Any]):
    """A group of bars per architecture, and per fraction where there are several."""
    rows = {(row["arch"], row.get("fraction"), row["init"]): row for row in results["rows"]}
    groups = list(dict.fromkeys(key[:2] for key in rows))
    inits = sorted(dict.fromkeys(key[2] for key in rows), key=lambda init: list(COLOURS).index(plain(init)))
    colours = colours_of(inits)
    metric = results["metric"]
    scale = 100.0 if metric in PERCENT else 1.0
    figure, axis = pyplot.subplots(figsize=(2.2 + 1.6 * len(groups), 3.8))
    width = 0.8 / len(inits)
    for index, init in enumerate(inits):
        places, chosen = [], []
        for place, group in enumerate(groups):
            if (*group, init) in rows:
                places.append(place + (index - (len(inits) - 1) / 2) * width)
                chosen.append(rows[(*group, init)])
        heights = [scale * row["mean"] for row in chosen]
        axis.bar(places, heights, width * 0.92, color=colours[init], label=label_of(init),
                 yerr=[scale * row["std"] for row in chosen], capsize=3, error_kw={"linewidth": 1})  # fmt: skip
        for place, row in zip(places, chosen, strict=True):
            dots = [scale * value for value in row["values"]]
            axis.scatter([place] * len(dots), dots, s=9, color="black", zorder=3, alpha=0.6)
    # variants have long names
    names = [
        arch.replace("@", "\n@") + ("" if fraction is None else f"\n{100 * fraction:g} %") for arch, fraction in groups
    ]
    names = [name.replace("=", "=\n") if "@" in name else name for name in names]
    axis.set_xticks(range(len(groups)), names)
    axis.set_ylabel(f"test {metric}{' (%)' if scale == 100 else ''}")
    axis.set_title(f"{results['task']}: mean ± std, a dot per seed", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    legend_below = -0.02 - 0.08 * max(name.count("\n") + 1 for name in names)
    axis.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, legend_below), ncol=1)
    return figure
