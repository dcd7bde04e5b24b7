# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Pictures for a model card: the learning curve, and the kernels that recurrent layers learned."""

from pathlib import Path

import torch

from hf_longseq.analysis.examples import load_pyplot, save_figure
from hf_longseq.hub.records import Run

CURVE, KERNELS = "learning_curve.png", "kernels.png"
CHANNELS, LAGS = 4, 256


def draw(run: Run | None, model, folder: Path) -> list[str]:
    """Write the pictures that can be drawn: none without matplotlib, no curve without a run. Returns their names."""
    try:
        pyplot = load_pyplot()
    except ImportError:
        return []
    with pyplot.rc_context({"text.parse_math": False}):  # a metric may have any name
        figures = {CURVE: run and _learning_curve(pyplot, run), KERNELS: _kernels(pyplot, model)}
        drawn = {name: figure for name, figure in figures.items() if figure is not None}
        for name, figure in drawn.items():
            save_figure(figure, folder / name)
    return list(drawn)


def _learning_curve(pyplot, run: Run):
    metric = run.metrics["metric"]
    named = {"training loss": "loss", "validation loss": "eval_loss"}
    curves = {title: [(e["step"], e[key]) for e in run.history if key in e] for title, key in named.items()}
    scores = [(e["step"], e[f"eval_{metric}"]) for e in run.history if f"eval_{metric}" in e]
    if not any(curves.values()):
        return None
    figure, axis = pyplot.subplots(figsize=(6, 3.4), layout="constrained")
    for title, points in curves.items():
        if points:
            axis.plot(*zip(*points, strict=True), label=title, linewidth=1)
    axis.set_xlabel("optimiser steps")
    axis.set_ylabel("loss")
    lines, _ = axis.get_legend_handles_labels()
    if metric != "loss" and scores:
        right = axis.twinx()
        lines += right.plot(*zip(*scores, strict=True), color="black", marker="o", ms=3, label=f"validation {metric}")
        right.set_ylabel(metric)
    figure.legend(handles=lines, frameon=False, fontsize=8, loc="outside upper center", ncols=len(lines))
    return figure


@torch.no_grad()
def learned_kernels(model) -> list[torch.Tensor]:
    """Convolution kernels (channels, lags) of each layer that has any: what an input does to later outputs."""
    # a trunk of transformers has no mixers of ours
    mixers = [layer.mixer for layer in getattr(getattr(model, model.base_model_prefix, model), "layers", ())]
    return [mixer.kernel(LAGS)[0, :CHANNELS].float().cpu() for mixer in mixers if hasattr(mixer, "kernel")]


def _kernels(pyplot, model):
    kernels = learned_kernels(model)
    if not kernels:
        return None
    size = (2.6 * len(kernels), 2.4)
    figure, axes = pyplot.subplots(1, len(kernels), figsize=size, squeeze=False, layout="constrained")
    for index, (axis, taps) in enumerate(zip(axes[0], kernels, strict=True)):
        axis.plot(taps.T, linewidth=0.9)
        axis.set_title(f"layer {index}", fontsize=9)
        axis.set_xlabel("lag", fontsize=8)
        axis.tick_params(labelsize=7)
    return figure
