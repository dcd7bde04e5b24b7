# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Pictures of what checkpoints learned: kernels, receptive fields, clusters, attention, position bias (matplotlib).

Offsets are those of the input from the output, the past on the left, on an axis that is linear within one step and
logarithmic beyond.
"""

import re
from itertools import cycle
from pathlib import Path

import numpy as np

from hf_longseq.analysis import kernel_measures, receptive_field
from hf_longseq.analysis.examples import load_pyplot, save_figure
from hf_longseq.analysis.kernels import Looked, binned, binned_envelopes, frequency_levels, one_sided, time_levels

COLOURS = ("#7f7f7f", "#1f6fb4", "#d9822b", "#2a9d5c", "#8e5bb5", "#b5473c", "#4aa5a5", "#a58f3d")
CLUSTER_COLOURS = ("#2b6ca3", "#79b8d9", "#e3b23c", "#c0504d", "#6b8e4e", "#8e5bb5", "#555555", "#d68fb0")
STYLE = {
    "figure.constrained_layout.use": True, "figure.titlesize": 10, "axes.titlesize": 9, "axes.labelsize": 7.5,
    "xtick.labelsize": 7, "ytick.labelsize": 7, "legend.fontsize": 8, "legend.title_fontsize": 8,
    "legend.frameon": False, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.alpha": 0.25, "grid.linewidth": 0.6,
}  # fmt: skip
OFFSET, KEY = "offset of the input (steps)", "offset of the key (steps)"
FREQUENCY = "frequency (cycles per step)"
MOST_LAYERS = 8
SHOWN_CHANNELS = 4
CURVES = 40


def draw(found: list[Looked], clusters: list[str], folder: Path) -> list[Path]:
    """Write every picture that the checkpoints give rise to into ``folder``; return their paths."""
    pyplot = load_pyplot()
    recurrent = [looked for looked in found if looked.kernels]
    attentive = [looked for looked in found if looked.attention is not None]
    biased = [looked for looked in found if looked.bias is not None]
    with pyplot.rc_context(STYLE):
        figures = {}
        for looked in recurrent:
            name = re.sub(r"[^\w.-]", "-", looked.label)
            figures[f"kernels-{name}.png"] = _kernels(pyplot, looked)
        if recurrent:
            figures["compare.png"] = _compare(pyplot, recurrent)
            figures["clusters.png"] = _clusters(pyplot, recurrent, clusters)
        figures["receptive_field.png"] = _fields(pyplot, found)
        if attentive:
            figures["attention.png"] = _attention(pyplot, attentive)
        if biased:
            figures["position_bias.png"] = _bias(pyplot, biased)
        for name, figure in figures.items():
            save_figure(figure, folder / name)
    return [folder / name for name in figures]


def _shown(layers: int) -> list[int]:
    """Layers that get a column: all, or evenly spaced ones where they are too many."""
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


def _offset_axis(axis, length: int, both: bool, label: str = "") -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    axis.set_xscale("symlog", linthresh=1, linscale=0.4)
    decades = [10**power for power in range(1, 7) if 10**power < length]
    ahead = decades[:: -max(1, -(-len(decades) // 3))]
    axis.set_xticks([-tick for tick in ahead] + [0] + (ahead if both else []))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}".replace("-", "\N{MINUS SIGN}")))
    axis.set(xlim=(-length, length if both else 0.5), xlabel=label)


def _kernels(pyplot, looked: Looked):
    """A column per layer: some kernels as lines, then all channels in time and in frequency as pictures."""
    shown = _shown(len(looked.kernels))
    figure, axes = _grid(pyplot, len(shown), [1.5, 2.4, 2.4], sharey="row")
    for (lines, time, frequency), layer in zip(axes.T, shown, strict=True):
        kernel_DHL = looked.kernels[layer]
        length, both = kernel_DHL.shape[-1], len(kernel_DHL) == 2
        order = np.argsort(kernel_measures.decay_length(kernel_DHL).max(0), kind="stable")
        _lines(lines, kernel_DHL, order)
        lines.set_title(f"layer {layer}")
        edges, levels = binned_envelopes(kernel_DHL)
        _picture(time, edges, levels[order])
        _offset_axis(lines, length, both)
        _offset_axis(time, length, both, OFFSET)
        frequencies, levels = frequency_levels(kernel_DHL)
        image = _picture(frequency, np.append(np.maximum(frequencies, frequencies[1] / 2), 0.5), levels[order])
        frequency.set(xscale="log", xlabel=FREQUENCY)
    for axis, label in zip(axes[:, 0], ("weight / peak", *["channels, by decay"] * 2), strict=True):
        axis.set_ylabel(label, fontsize=8)
    figure.colorbar(image, ax=axes[1:, :], shrink=0.6, pad=0.01, label="dB below the channel's peak")
    title = f"{looked.label} ({looked.arch}, {looked.kernels[0].shape[1]} channels)"
    title += ": each channel's response to itself" if looked.norms else ""
    figure.suptitle(title + (": moving average" if looked.arch == "mega" else ""))
    return figure


def _picture(axis, edges: np.ndarray, levels: np.ndarray):
    """Decibels (channels, bins) as colours."""
    rows = np.arange(len(levels) + 1)
    axis.grid(False)
    axis.set_yticks([0, len(levels)])
    return axis.pcolormesh(edges, rows, levels, vmin=-40, vmax=0, cmap="magma", rasterized=True)


def _lines(axis, kernel_DHL: np.ndarray, order: np.ndarray) -> None:
    """Some channels as lines, spread over the decay lengths, the longest in the lightest colour."""
    from matplotlib import colormaps

    length = kernel_DHL.shape[-1]
    both_HO = kernel_measures.two_sided(kernel_DHL)
    picked = order[np.unique(np.linspace(0, len(order) - 1, SHOWN_CHANNELS + 2).round().astype(int)[1:-1])]
    for place, channel in enumerate(picked):
        colour = colormaps["viridis"](0.05 + 0.85 * place / max(len(picked) - 1, 1))
        values = both_HO[channel] / max(np.abs(both_HO[channel]).max(), np.finfo(float).tiny)
        axis.plot(np.arange(1 - length, length), values, color=colour, linewidth=0.8)
    axis.set(ylim=(-1.1, 1.1), yticks=[-1, 0, 1])


def _compare(pyplot, found: list[Looked]):
    """A column per layer, a colour per checkpoint: envelope, response, and how many channels are gone by when."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    shown = _shown(max(len(looked.kernels) for looked in found))
    figure, axes = _grid(pyplot, len(shown), [1.9, 1.9, 1.9], sharey="row")
    length = max(looked.kernels[0].shape[-1] for looked in found)
    both = any(looked.bidirectional for looked in found)
    first = min(kernel_measures.decay_length(kernel).min() for looked in found for kernel in looked.kernels)
    for (top, middle, bottom), layer in zip(axes.T, shown, strict=True):
        for looked, colour in zip(found, cycle(COLOURS), strict=False):
            if layer >= len(looked.kernels):
                continue
            kernel_DHL = looked.kernels[layer]
            _band(top, *time_levels(kernel_DHL), colour, looked.label)
            frequencies, levels = frequency_levels(kernel_DHL)
            _band(middle, np.maximum(frequencies, frequencies[1] / 2), levels, colour, looked.label)
            for direction, decay_H in enumerate(kernel_measures.decay_length(kernel_DHL)):
                steps = np.sort(np.maximum(decay_H, 1))
                share = np.arange(1, len(steps) + 1) / len(steps)
                # a kernel that is not gone at the end of what was looked at does not count as gone
                gone = steps < kernel_DHL.shape[-1]
                steps, share = np.append(steps[gone], length), np.append(share[gone], gone.mean())
                bottom.step(steps, share, where="post", color=colour, linewidth=1.2, ls=("-", "--")[direction])
        _offset_axis(top, length, both, OFFSET)
        top.set_title(f"layer {layer}")
        middle.set(xscale="log", xlabel=FREQUENCY)
        bottom.set(
            xscale="log", xlabel="steps", xlim=(max(min(first / 1.5, length / 10), 0.8), length), ylim=(0, 1.02)
        )
        bottom.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        bottom.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        bottom.xaxis.set_minor_formatter(NullFormatter())
    labels = ("weight, dB below peak", "response, dB below peak", "channels gone (below 1 %)")
    for axis, label in zip(axes[:, 0], labels, strict=True):
        axis.set_ylabel(label, fontsize=8)
    _legend(figure, axes[0][0], "median over channels, shaded from the 10th to the 90th percentile" + _dashed(found))
    return figure


def _band(axis, at: np.ndarray, levels: np.ndarray, colour: str, label: str) -> None:
    low, median, high = np.percentile(levels, [10, 50, 90], axis=0)
    axis.plot(at, median, color=colour, linewidth=1.3, label=label)
    axis.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
    axis.set_ylim(-41, 1)


def _dashed(found: list[Looked]) -> str:
    return "; dashed: future" if any(looked.bidirectional for looked in found) else ""


def _legend(figure, axis, title: str) -> None:
    """The legend of a panel below the figure."""
    handles, names = axis.get_legend_handles_labels()
    # in inches: a letter of 8 points is about 0.07 wide, and the line beside a name with its gaps 0.6
    fitting = int(figure.get_figwidth() / (0.6 + 0.07 * max(map(len, names), default=0)))
    figure.legend(handles, names, title=title, loc="outside lower center", ncol=max(1, min(len(names), fitting)))


def _fields(pyplot, found: list[Looked]):
    """A panel per mixer and one for the network: influence up to a distance, into the past and into the future."""
    layers = sorted({layer for looked in found for layer in looked.fields if layer != "network"})
    shown = [layers[index] for index in _shown(len(layers))] + ["network"]
    figure, panels = _panels(pyplot, len(shown), 2.3, 2.6, sharey=True)
    shares = [share_O for looked in found for share_O in looked.fields.values()]
    furthest = max(np.abs(np.flatnonzero(share_O) - len(share_O) // 2).max(initial=1) for share_O in shares)
    for axis, layer in zip(panels, shown, strict=True):
        for looked, colour in zip(found, cycle(COLOURS), strict=False):
            if layer not in looked.fields:
                continue
            share_O = looked.fields[layer]
            middle = len(share_O) // 2
            axis.plot(np.cumsum(share_O[middle::-1]), color=colour, linewidth=1.3, label=looked.label)
            if looked.bidirectional:
                future = np.concatenate(([0.0], np.cumsum(share_O[middle + 1 :])))
                axis.plot(future, color=colour, linewidth=1.1, ls="--")
        axis.set_xscale("symlog", linthresh=1, linscale=0.4)
        title = "whole network" if layer == "network" else f"mixer of layer {layer}"
        axis.set(xlim=(0, furthest), ylim=(0, 1.02), title=title, xlabel="distance (steps)")
    for axis in panels[:: min(len(shown), 5)]:
        axis.set_ylabel("share of influence", fontsize=8)
    title = "gradient of an output by the inputs up to a distance; solid: present and past"
    _legend(figure, panels[0], title + _dashed(found))
    return figure


def _clusters(pyplot, found: list[Looked], words: list[str]):
    """A column per cluster: its members in time and in frequency; below, what the layers are made of."""
    figure = pyplot.figure(figsize=(max(2.9 * len(words), 6.5), 6.6))
    grid = figure.add_gridspec(3, len(words), height_ratios=[1.5, 1.5, 1.7])
    kernel_KL = np.concatenate([one_sided(looked.kernels) for looked in found])
    members = np.concatenate([looked.clusters.reshape(-1) for looked in found])
    for cluster, (meaning, colour) in enumerate(zip(words, cycle(CLUSTER_COLOURS), strict=False)):
        chosen = kernel_KL[members == cluster]
        top, middle = (figure.add_subplot(grid[row, cluster]) for row in (0, 1))
        edges = kernel_measures.log_edges(chosen.shape[-1], CURVES)
        levels = kernel_measures.decibel(kernel_measures.envelope(chosen, edges))
        _band(top, np.maximum((edges[:-1] + edges[1:] - 1) / 2, 0), levels, colour, "")
        top.set_xscale("symlog", linthresh=1, linscale=0.4)
        top.set(xlim=(0, chosen.shape[-1]), xlabel="distance (steps)")
        top.set_title(f"cluster {cluster + 1}: {len(chosen):,} kernels\n" + meaning.replace("; ", "\n"), fontsize=8)
        frequencies, response = kernel_measures.spectrum(chosen)
        edges = kernel_measures.frequency_edges(len(frequencies), 2 * CURVES)
        at = np.maximum(frequencies[edges[:-1]], frequencies[1] / 2)
        _band(middle, at, kernel_measures.decibel(kernel_measures.envelope(response, edges)), colour, "")
        middle.set(xscale="log", xlabel=FREQUENCY)
        if cluster == 0:
            top.set_ylabel("dB below peak", fontsize=8)
            middle.set_ylabel("dB below peak", fontsize=8)
    _composition(figure.add_subplot(grid[2, :]), found, len(words))
    return figure


def _composition(axis, found: list[Looked], count: int) -> None:
    """Stacked bars: the share of each cluster in every layer, direction by direction."""
    names, places, shares = [], [], []
    for number, looked in enumerate(found):
        first = len(names) + number  # a gap between checkpoints
        for layer, clusters_DH in enumerate(looked.clusters):
            marks = ("",) if len(clusters_DH) == 1 else (" past", " future")
            names += [f"{layer}{mark}" for mark in marks]
            shares += [np.bincount(clusters_H, minlength=count) / len(clusters_H) for clusters_H in clusters_DH]
        places += range(first, len(names) + number)
        axis.text((first + places[-1]) / 2, 1.03, looked.label, ha="center", fontsize=8)
    share_NC = np.array(shares)
    below_NC = np.cumsum(share_NC, axis=1) - share_NC
    for cluster, colour in zip(range(count), cycle(CLUSTER_COLOURS), strict=False):
        axis.bar(places, share_NC[:, cluster], 0.85, bottom=below_NC[:, cluster], color=colour)
    many = len(names) > 16
    axis.set_xticks(places, names, fontsize=6.5 if many else 7, rotation=90 if many else 0)
    axis.set(xlim=(-0.7, places[-1] + 0.7), ylim=(0, 1.12), xlabel="layer", ylabel="share of channels")
    axis.grid(False)


def _attention(pyplot, found: list[Looked]):
    """First the mean distance of every head, then where its attention goes, a panel per layer."""
    deepest = max(len(looked.attention) for looked in found)
    layers = _shown(deepest)
    figure, (first, *others) = _panels(pyplot, 1 + len(layers), 2.5, 2.8)
    for place, (looked, colour) in enumerate(zip(found, cycle(COLOURS), strict=False)):
        shift = 0.5 * (place - (len(found) - 1) / 2) / len(found)
        for layer, values in enumerate(receptive_field.mean_distance(looked.attention)):
            label = looked.label if layer == 0 else None
            first.scatter([layer + shift] * len(values), values, s=16, color=colour, alpha=0.8, label=label)
        first.axhline(receptive_field.mean_distance(looked.uniform), color=colour, ls=":", linewidth=1)
        at, equal = binned(looked.uniform)
        for axis, layer in zip(others, layers, strict=True):
            for share_O in looked.attention[layer : layer + 1].reshape(-1, looked.attention.shape[-1]):
                ratio = binned(share_O)[1][equal > 0] / equal[equal > 0]
                axis.plot(at[equal > 0], np.maximum(ratio, 0.01), color=colour, linewidth=1, alpha=0.8)
    length, both = found[0].attention.shape[-1] // 2 + 1, any(looked.bidirectional for looked in found)
    for axis, layer in zip(others, layers, strict=True):
        _offset_axis(axis, length, both, KEY)
        axis.axhline(1, color="black", ls=":", linewidth=1)
        axis.set(title=f"layer {layer}", yscale="log")
    first.set(xticks=range(deepest), xlim=(-0.5, deepest - 0.5), ylim=(0, None), xlabel="layer")
    first.set_title("mean distance, a dot per head (steps)", fontsize=8.5)
    others[0].set_ylabel("attention / equal attention", fontsize=8)
    _legend(figure, first, "a line per head; dotted: equal attention to all that is visible")
    return figure


def _bias(pyplot, found: list[Looked]):
    """A line per layer over the offset of the key, smoothed, the table itself behind it; a panel per checkpoint."""
    from matplotlib import colormaps

    figure, axes = _grid(pyplot, len(found), [2.7], width=4.6)
    for axis, looked in zip(axes[0], found, strict=True):
        reach = looked.bias.shape[-1] // 2
        offsets = np.arange(-reach, reach + 1 if looked.bidirectional else 1)
        for layer, bias_O in enumerate(looked.bias):
            colour = colormaps["viridis"](0.9 * layer / max(len(looked.bias) - 1, 1))
            shown = bias_O[: len(offsets)]
            width = max(reach // 25, 1)
            smooth = np.convolve(shown, np.ones(width) / width, mode="valid")
            axis.plot(offsets, shown, color=colour, linewidth=0.6, alpha=0.25)
            centre = offsets[(width - 1) // 2 :][: len(smooth)]
            axis.plot(centre, smooth, color=colour, linewidth=1.5, label=f"layer {layer}")
        axis.set(title=looked.label, xlabel=KEY)
        axis.legend(fontsize=7, ncol=2)
    axes[0][0].set_ylabel("added to the score", fontsize=8)
    return figure
