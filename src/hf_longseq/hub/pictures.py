# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Pictures for a model card: the learning curve, the kernels that recurrent layers learned, and labelled spans."""

from pathlib import Path

import torch

from hf_longseq.errors import HfLongSeqError
from hf_longseq.hub.records import Run
from hf_longseq.training.inference import predict

CURVE, KERNELS, SPANS = "learning_curve.png", "kernels.png", "spans.png"
CHANNELS, LAGS = 4, 256
EXAMPLES = 6


def draw(run: Run | None, model, folder: Path) -> list[str]:
    """Write the pictures that can be drawn: none without matplotlib, no curve without a run. Returns their names."""
    try:
        import matplotlib
    except ImportError:
        return []
    matplotlib.use("Agg")
    matplotlib.rcParams["text.parse_math"] = False  # a metric may have any name
    from matplotlib import pyplot

    figures = {
        CURVE: run and _learning_curve(pyplot, run),
        SPANS: run and _spans(pyplot, run, model),
        KERNELS: _kernels(pyplot, model),
    }
    drawn = [name for name, figure in figures.items() if figure is not None]
    for name in drawn:
        # no date and no version in the file: the same run gives the same picture
        figures[name].savefig(folder / name, dpi=120, bbox_inches="tight", metadata={"Software": None})
        pyplot.close(figures[name])
    return drawn


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
    figure, axes = pyplot.subplots(1, len(kernels), figsize=(2.6 * len(kernels), 2.4), squeeze=False)
    for index, (axis, taps) in enumerate(zip(axes[0], kernels, strict=True)):
        axis.plot(taps.T, linewidth=0.9)
        axis.set_title(f"layer {index}", fontsize=9)
        axis.set_xlabel("lag", fontsize=8)
        axis.tick_params(labelsize=7)
    return figure


def _spans(pyplot, run: Run, model):
    """Bands for the true and the predicted spans of some test examples, without their content."""
    if not type(model).__name__.endswith("ForTokenClassification"):
        return None
    try:
        answers = predict(run.folder, split="test", limit=EXAMPLES)
    except (HfLongSeqError, OSError):  # the data are no longer where the run found them
        return None
    names = list(dict.fromkeys(span["label"] for one in answers for spans in _both(one) for span in spans))
    if not names:
        return None
    figure, axes = pyplot.subplots(
        len(answers), figsize=(7, 0.45 * len(answers) + 0.8), squeeze=False, layout="constrained"
    )
    colours = pyplot.get_cmap("tab10")
    for axis, answer in zip(axes[:, 0], answers, strict=True):
        for place, spans in zip((1, 0), _both(answer), strict=True):
            for span in spans:
                width, colour = span["end"] - span["start"], colours(names.index(span["label"]) % 10)
                axis.broken_barh([(span["start"], width)], (place, 0.9), color=colour)
        axis.set_yticks([1.45, 0.45], ["truth", "model"], fontsize=6)
        axis.tick_params(axis="x", labelsize=6)
        axis.set_xlim(left=0)
        axis.set_ylim(0, 2)
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=colours(index % 10)) for index in range(len(names))]
    figure.legend(handles, names, frameon=False, fontsize=7, loc="outside upper center", ncols=min(len(names), 5))
    return figure


def _both(answer: dict) -> tuple[list[dict], list[dict]]:
    """True and predicted spans of an answer; none of a regression."""
    return (answer["label"], answer["spans"]) if "spans" in answer else ([], [])
