# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Pictures of what checkpoints learned: kernels, receptive fields, attention (matplotlib).

Offsets are those of the input from the output, the past on the left, on an axis that is linear within one step and
logarithmic beyond.
"""

from itertools import cycle
from pathlib import Path

import numpy as np

from hf_longseq.analysis import kernel_measures, receptive_field
from hf_longseq.analysis.examples import load_pyplot, save_figure
from hf_longseq.analysis.kernels import Analysis

COLOURS = ("#7f7f7f", "#1f6fb4", "#d9822b", "#2a9d5c", "#8e5bb5", "#b5473c", "#4aa5a5", "#a58f3d")
STYLE = {
    "figure.constrained_layout.use": True, "figure.titlesize": 10, "axes.titlesize": 9, "axes.labelsize": 7.5,
    "xtick.labelsize": 7, "ytick.labelsize": 7, "legend.fontsize": 8, "legend.title_fontsize": 8,
    "legend.frameon": False, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.alpha": 0.25, "grid.linewidth": 0.6,
}  # fmt: skip
MOST_LAYERS = 8


def draw(found: list[Analysis], folder: Path) -> list[Path]:
    """Write the pictures of checkpoints into ``folder``; return their paths."""
    pyplot = load_pyplot()
    recurrent = [one for one in found if one.kernels]
    attentive = [one for one in found if len(one.attention)]
    with pyplot.rc_context(STYLE):
        figures = {"receptive_field.png": _fields(pyplot, found)}
        if recurrent:
            figures["kernels.png"] = _kernels(pyplot, recurrent)
        if attentive:
            figures["attention.png"] = _attention(pyplot, attentive)
        for name, figure in figures.items():
            save_figure(figure, folder / name)
    return [folder / name for name in figures]


def _shown(layers: int) -> list[int]:
    """Layers that get a column: all, or evenly spaced ones of many."""
    return sorted({round(i) for i in np.linspace(0, layers - 1, min(layers, MOST_LAYERS))})


def _grid(pyplot, columns: int, heights: list[float], width: float = 2.9, **options):
    size = (max(width * columns, 5.0) + 0.8, sum(heights) + 0.7)
    return pyplot.subplots(len(heights), columns, figsize=size, squeeze=False, height_ratios=heights, **options)


def _panels(pyplot, count: int, height: float, width: float, **options):
    """A figure with ``count`` panels in rows of up to five."""
    columns = min(count, 5)
    figure, axes = _grid(pyplot, columns, [height] * -(-count // columns), width, **options)
    for axis in axes.flat[count:]:
        axis.set_visible(False)
    return figure, axes.flat[:count]


def _offset_axis(axis, length: int, both: bool, label: str) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    axis.set_xscale("symlog", linthresh=1, linscale=0.4)
    decades = [10**power for power in range(1, 7) if 10**power < length]
    ahead = decades[:: -max(1, -(-len(decades) // 3))]
    axis.set_xticks([-tick for tick in ahead] + [0] + (ahead if both else []))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}".replace("-", "\N{MINUS SIGN}")))
    axis.set(xlim=(-length, length if both else 0.5), xlabel=label)


def _kernels(pyplot, found: list[Analysis]):
    """A column per layer: the channels of each checkpoint as a picture; below, their medians in time and frequency."""
    shown = _shown(max(len(one.kernels) for one in found))
    figure, axes = _grid(pyplot, len(shown), [1.9] * (len(found) + 2), sharey="row")
    length, both = found[0].kernels[0].shape[-1], any(one.bidirectional for one in found)
    for (*pictures, time, frequency), layer in zip(axes.T, shown, strict=True):
        for one, picture, colour in zip(found, pictures, cycle(COLOURS), strict=False):
            if layer >= len(one.kernels):
                continue
            kernel_DHL = one.kernels[layer]
            image = _picture(picture, kernel_DHL)
            _offset_axis(picture, length, both, "")
            _band(time, *kernel_measures.time_levels(kernel_DHL), colour, one.label)
            frequencies, levels = kernel_measures.frequency_levels(kernel_DHL)
            _band(frequency, np.maximum(frequencies, frequencies[1] / 2), levels, colour, one.label)
        pictures[0].set_title(f"layer {layer}")
        _offset_axis(time, length, both, "offset of the input (steps)")
        frequency.set(xscale="log", xlabel="frequency (cycles per step)")
    labels = [f"{one.label}\nchannels, by decay" for one in found]
    for axis, label in zip(axes[:, 0], [*labels, "weight, dB below peak", "response, dB below peak"], strict=True):
        axis.set_ylabel(label, fontsize=8)
    figure.colorbar(image, ax=axes[: len(found), :], shrink=0.6, pad=0.01, label="dB below the channel's peak")
    _legend(figure, axes[-1][0], "median over channels, shaded from the 10th to the 90th percentile")
    return figure


def _picture(axis, kernel_DHL: np.ndarray):
    """The largest weight of every channel within bins of offsets, in decibels as colours, the shortest-lived below."""
    edges, levels = kernel_measures.binned_envelopes(kernel_DHL)
    order = np.argsort(kernel_measures.decay_length(kernel_DHL).max(0), kind="stable")
    axis.grid(False)
    axis.set_yticks([0, len(levels)])
    rows = np.arange(len(levels) + 1)
    return axis.pcolormesh(edges, rows, levels[order], vmin=-40, vmax=0, cmap="magma", rasterized=True)


def _band(axis, at: np.ndarray, levels: np.ndarray, colour: str, label: str) -> None:
    low, median, high = np.percentile(levels, [10, 50, 90], axis=0)
    axis.plot(at, median, color=colour, linewidth=1.3, label=label)
    axis.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
    axis.set_ylim(-41, 1)


def _legend(figure, axis, title: str) -> None:
    """The legend of a panel below the figure."""
    handles, names = axis.get_legend_handles_labels()
    figure.legend(handles, names, title=title, loc="outside lower center", ncol=min(len(names), 4))


def _fields(pyplot, found: list[Analysis]):
    """A panel per mixer and one for the network: influence up to a distance, into the past and into the future."""
    layers = sorted({layer for one in found for layer in one.fields if layer != "network"})
    shown = [layers[index] for index in _shown(len(layers))] + ["network"]
    figure, panels = _panels(pyplot, len(shown), 2.3, 2.6, sharey=True)
    shares = [share_O for one in found for share_O in one.fields.values()]
    furthest = max(np.abs(np.flatnonzero(share_O) - len(share_O) // 2).max(initial=1) for share_O in shares)
    for axis, layer in zip(panels, shown, strict=True):
        for one, colour in zip(found, cycle(COLOURS), strict=False):
            if layer not in one.fields:
                continue
            share_O = one.fields[layer]
            middle = len(share_O) // 2
            axis.plot(np.cumsum(share_O[middle::-1]), color=colour, linewidth=1.3, label=one.label)
            if one.bidirectional:
                future = np.concatenate(([0.0], np.cumsum(share_O[middle + 1 :])))
                axis.plot(future, color=colour, linewidth=1.1, ls="--")
        axis.set_xscale("symlog", linthresh=1, linscale=0.4)
        title = "whole network" if layer == "network" else f"mixer of layer {layer}"
        axis.set(xlim=(0, furthest), ylim=(0, 1.02), title=title, xlabel="distance (steps)")
    for axis in panels[:: min(len(shown), 5)]:
        axis.set_ylabel("share of influence", fontsize=8)
    dashed = "; dashed: future" if any(one.bidirectional for one in found) else ""
    title = f"gradient of an output by the inputs up to a distance; solid: present and past{dashed}"
    _legend(figure, panels[0], title)
    return figure


def _attention(pyplot, found: list[Analysis]):
    """First the mean distance of every head, then where its attention goes, a panel per layer."""
    deepest = max(len(one.attention) for one in found)
    layers = _shown(deepest)
    figure, (first, *others) = _panels(pyplot, 1 + len(layers), 2.5, 2.8)
    for place, (one, colour) in enumerate(zip(found, cycle(COLOURS), strict=False)):
        shift = 0.5 * (place - (len(found) - 1) / 2) / len(found)
        for layer, values in enumerate(receptive_field.mean_distance(one.attention)):
            label = one.label if layer == 0 else None
            first.scatter([layer + shift] * len(values), values, s=16, color=colour, alpha=0.8, label=label)
        first.axhline(receptive_field.mean_distance(one.uniform), color=colour, ls=":", linewidth=1)
        at, equal = kernel_measures.binned(one.uniform)
        for axis, layer in zip(others, layers, strict=True):
            for share_O in one.attention[layer : layer + 1].reshape(-1, one.attention.shape[-1]):
                ratio = kernel_measures.binned(share_O)[1][equal > 0] / equal[equal > 0]
                axis.plot(at[equal > 0], np.maximum(ratio, 0.01), color=colour, linewidth=1, alpha=0.8)
    length, both = found[0].attention.shape[-1] // 2 + 1, any(one.bidirectional for one in found)
    for axis, layer in zip(others, layers, strict=True):
        _offset_axis(axis, length, both, "offset of the key (steps)")
        axis.axhline(1, color="black", ls=":", linewidth=1)
        axis.set(title=f"layer {layer}", yscale="log")
    first.set(xticks=range(deepest), xlim=(-0.5, deepest - 0.5), ylim=(0, None), xlabel="layer")
    first.set_title("mean distance, a dot per head (steps)", fontsize=8.5)
    others[0].set_ylabel("attention / equal attention", fontsize=8)
    _legend(figure, first, "a line per head; dotted: equal attention to all that is visible")
    return figure
