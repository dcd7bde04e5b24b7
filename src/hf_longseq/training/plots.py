# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Pictures of a comparison: validation over the steps, and the test metric of each arm (needs matplotlib)."""

from pathlib import Path
from typing import Any

import numpy as np

from hf_longseq.training import manifest
from hf_longseq.training.comparison import PERCENT

COLOURS = {"scratch": "#7f7f7f", "scratch-tied": "#d9822b", "spt": "#1f6fb4"}
LABELS = {"scratch": "scratch", "scratch-tied": "scratch, pretraining's steps added", "spt": "self-pretrained"}


def draw(output_dir: Path, results: dict[str, Any]) -> list[Path]:
    """Write `learning_curves.png` and `results.png` into the folder of a comparison; return their paths.

    Raises:
        ImportError: If matplotlib is not installed (`pip install hf-longseq[plot]`).
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

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
    archs = list(dict.fromkeys(row["arch"] for row in results["rows"]))
    metric = results["metric"]
    scale = 100.0 if metric in PERCENT else 1.0
    figure, axes = pyplot.subplots(
        1, len(archs), figsize=(5.2 * len(archs), 4.1), squeeze=False, sharey=True, layout="constrained"
    )
    for axis, arch in zip(axes[0], archs, strict=True):
        for row in (row for row in results["rows"] if row["arch"] == arch):
            curves = [
                read_curve(output_dir / "runs" / f"{arch}-{row['init']}-s{seed}", f"eval_{metric}")
                for seed in row["seeds"]
            ]
            # Pretraining's steps count: the curve of fine-tuning begins where they end.
            steps = row["pretrain_steps"] + np.array(curves[0][0])
            values = scale * np.array([curve[1] for curve in curves])
            mean, colour = values.mean(0), COLOURS[row["init"]]
            axis.plot(steps, mean, color=colour, marker="o", markersize=3, label=LABELS[row["init"]])
            if len(curves) > 1:
                axis.fill_between(steps, values.min(0), values.max(0), color=colour, alpha=0.15, linewidth=0)
            if row["pretrain_steps"]:
                axis.axvspan(0, row["pretrain_steps"], color=colour, alpha=0.06, linewidth=0)
                axis.text(row["pretrain_steps"] / 2, 0.03, "pretraining", transform=axis.get_xaxis_transform(),
                          ha="center", fontsize=8, color=colour)  # fmt: skip
        axis.set_title(arch)
        axis.set_xlabel("optimiser steps, pretraining included")
        axis.set_xlim(left=0)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel(f"validation {metric}{' (%)' if scale == 100 else ''}")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=8, loc="outside lower center", ncol=3)
    figure.suptitle(f"{results['task']}: mean over seeds, shaded from lowest to highest", fontsize=10)
    return figure


def read_curve(run: Path, name: str) -> tuple[list[int], list[float]]:
    """Steps and values of one metric in a run's history."""
    points = [(entry["step"], entry[name]) for entry in manifest.read_json(run / manifest.HISTORY) if name in entry]
    return [step for step, _ in points], [value for _, value in points]


def _bars(pyplot, results: dict[str, Any]):
    archs = list(dict.fromkeys(row["arch"] for row in results["rows"]))
    inits = [init for init in COLOURS if any(row["init"] == init for row in results["rows"])]
    metric = results["metric"]
    scale = 100.0 if metric in PERCENT else 1.0
    figure, axis = pyplot.subplots(figsize=(2.2 + 1.6 * len(archs), 3.8))
    width = 0.8 / len(inits)
    for index, init in enumerate(inits):
        rows = {row["arch"]: row for row in results["rows"] if row["init"] == init}
        places = [place + (index - (len(inits) - 1) / 2) * width for place, arch in enumerate(archs) if arch in rows]
        chosen = [rows[arch] for arch in archs if arch in rows]
        heights = [scale * row["mean"] for row in chosen]
        axis.bar(places, heights, width * 0.92, color=COLOURS[init], label=LABELS[init],
                 yerr=[scale * row["std"] for row in chosen], capsize=3, error_kw={"linewidth": 1})  # fmt: skip
        for place, row in zip(places, chosen, strict=True):
            dots = [scale * value for value in row["values"]]
            axis.scatter([place] * len(dots), dots, s=9, color="black", zorder=3, alpha=0.6)
    axis.set_xticks(range(len(archs)), archs)
    axis.set_ylabel(f"test {metric}{' (%)' if scale == 100 else ''}")
    axis.set_title(f"{results['task']}: mean ± std, a dot per seed", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncol=1)
    return figure
