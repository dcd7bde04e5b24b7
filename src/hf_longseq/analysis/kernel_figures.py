# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Pictures of what checkpoints learned: kernels, receptive fields, clusters, attention, position bias (matplotlib).

Offsets are those of the input from the output, the past on the left, on an axis that is linear within one step and
logarithmic beyond.
"""

from pathlib import Path

import numpy as np

from hf_longseq.analysis import kernel_measures, receptive_field
from hf_longseq.analysis.kernels import Looked, binned, binned_envelopes, frequency_levels, one_sided

COLOURS = ("#7f7f7f", "#1f6fb4", "#d9822b", "#2a9d5c", "#8e5bb5", "#b5473c", "#4aa5a5", "#a58f3d")
CLUSTER_COLOURS = ("#2b6ca3", "#79b8d9", "#e3b23c", "#c0504d", "#6b8e4e", "#8e5bb5", "#555555", "#d68fb0")
MOST_LAYERS = 8
SHOWN_CHANNELS = 4


def load_pyplot():
    """matplotlib's pyplot, for files alone.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise ImportError("Kernels are drawn with matplotlib: run `pip install 'hf-longseq[plot]'`.") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def draw(found: list[Looked], clusters: list[str], folder: Path) -> list[Path]:
    """Write every picture that the checkpoints give rise to into ``folder``; return their paths."""
    pyplot = load_pyplot()
    recurrent = [looked for looked in found if looked.kernels]
    figures = {f"kernels-{file_name(looked.label)}.png": _kernels(pyplot, looked) for looked in recurrent}
    if recurrent:
        figures["compare.png"] = _compare(pyplot, recurrent)
        figures["clusters.png"] = _clusters(pyplot, recurrent, clusters)
    figures["receptive_field.png"] = _fields(pyplot, found)
    attentive = [looked for looked in found if looked.attention is not None]
    if attentive:
        figures["attention.png"] = _attention(pyplot, attentive)
    if any(looked.bias is not None for looked in found):
        figures["position_bias.png"] = _bias(pyplot, [looked for looked in found if looked.bias is not None])
    for name, figure in figures.items():
        partial = folder / f".{name}"
        # no date and no version in the file: the same checkpoint gives the same picture
        figure.savefig(partial, format="png", dpi=130, metadata={"Software": None})
        partial.replace(folder / name)
        pyplot.close(figure)
    return [folder / name for name in figures]


def file_name(label: str) -> str:
    """A label as part of a file name."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in label)


def _shown(layers: int) -> list[int]:
    """Layers that get a column: all, or evenly spaced ones where they are too many."""
    return sorted({round(i) for i in np.linspace(0, layers - 1, min(layers, MOST_LAYERS))})


def _grid(pyplot, rows: int, columns: int, heights: list[float], width: float = 2.9, **options):
    size = (max(width * columns, 5.0) + 0.8, sum(heights) + 0.7)
    figure, axes = pyplot.subplots(
        rows, columns, figsize=size, squeeze=False, layout="constrained",
        gridspec_kw={"height_ratios": heights}, **options,
    )  # fmt: skip
    for axis in axes.flat:
        axis.tick_params(labelsize=7)
    return figure, axes


def _offset_axis(axis, length: int, both: bool) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_xscale("symlog", linthresh=1, linscale=0.4)
    decades = [10**power for power in range(1, 7) if 10**power < length]
    step = max(1, -(-len(decades) // 3))
    ahead = decades[::-1][::step]
    ticks = [-tick for tick in ahead] + [0] + (ahead if both else [])
    axis.xaxis.set_major_locator(FixedLocator(ticks))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}".replace("-", "\N{MINUS SIGN}")))
    axis.set_xlim(-length, length if both else 0.5)


def _plain(axis) -> None:
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)


def _kernels(pyplot, looked: Looked):
    """A column per layer: some kernels as lines, then all channels in time and in frequency as pictures."""
    shown = _shown(len(looked.kernels))
    figure, axes = _grid(pyplot, 3, len(shown), [1.5, 2.4, 2.4])
    image = None
    for column, layer in enumerate(shown):
        kernel_DHL = looked.kernels[layer]
        length, both = kernel_DHL.shape[-1], len(kernel_DHL) == 2
        order = _order(kernel_DHL)
        _lines(axes[0][column], kernel_DHL, order)
        axes[0][column].set_title(f"layer {layer}", fontsize=9)
        edges, levels = binned_envelopes(kernel_DHL)
        rows = np.arange(len(order) + 1)
        image = axes[1][column].pcolormesh(edges, rows, levels[order], vmin=-40, vmax=0, cmap="magma", rasterized=True)
        for row in (0, 1):
            _offset_axis(axes[row][column], length, both)
        axes[1][column].set_xlabel("offset of the input (steps)", fontsize=7.5)
        frequencies, levels = frequency_levels(kernel_DHL)
        edges = np.append(np.maximum(frequencies, frequencies[1] / 2), 0.5)
        axes[2][column].pcolormesh(edges, rows, levels[order], vmin=-40, vmax=0, cmap="magma", rasterized=True)
        axes[2][column].set_xscale("log")
        axes[2][column].set_xlabel("frequency (cycles per step)", fontsize=7.5)
        for row in (1, 2):
            axes[row][column].set_yticks([0, len(order)])
            if column:
                axes[row][column].set_yticklabels([])
    axes[0][0].set_ylabel("weight / peak", fontsize=8)
    for row in (1, 2):
        axes[row][0].set_ylabel("channels, by decay", fontsize=8)
    bar = figure.colorbar(image, ax=axes[1:, :], shrink=0.6, pad=0.01)
    bar.set_label("dB below the channel's peak", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    figure.suptitle(_title(looked), fontsize=10)
    return figure


def _title(looked: Looked) -> str:
    text = f"{looked.label} ({looked.arch}, {looked.kernels[0].shape[1]} channels)"
    if looked.norms:
        text += ": each channel's response to itself"
    if looked.arch == "mega":
        text += ": moving average"
    return text


def _order(kernel_DHL: np.ndarray) -> np.ndarray:
    """Channels by decay length, the shortest first."""
    return np.argsort(kernel_measures.decay_length(kernel_DHL).max(0), kind="stable")


def _lines(axis, kernel_DHL: np.ndarray, order: np.ndarray) -> None:
    """Some channels as lines, spread over the decay lengths, the longest in the lightest colour."""
    from matplotlib import colormaps

    length = kernel_DHL.shape[-1]
    both_HO = kernel_measures.two_sided(kernel_DHL)
    offsets = np.arange(1 - length, length)
    picked = order[np.unique(np.linspace(0, len(order) - 1, SHOWN_CHANNELS + 2).round().astype(int)[1:-1])]
    for place, channel in enumerate(picked):
        colour = colormaps["viridis"](0.05 + 0.85 * place / max(len(picked) - 1, 1))
        values = both_HO[channel] / max(np.abs(both_HO[channel]).max(), np.finfo(float).tiny)
        axis.plot(offsets, values, color=colour, linewidth=0.8)
    axis.set_ylim(-1.1, 1.1)
    axis.set_yticks([-1, 0, 1])
    _plain(axis)


def _compare(pyplot, found: list[Looked]):
    """A column per layer, a colour per checkpoint: envelope, response, and how many channels are gone by when."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    shown = _shown(max(len(looked.kernels) for looked in found))
    figure, axes = _grid(pyplot, 3, len(shown), [1.9, 1.9, 1.9], sharey="row")
    length = max(looked.kernels[0].shape[-1] for looked in found)
    both = any(looked.bidirectional for looked in found)
    first = min(kernel_measures.decay_length(kernel).min() for looked in found for kernel in looked.kernels)
    for column, layer in enumerate(shown):
        top, middle, bottom = axes[:, column]
        for looked, colour in zip(found, COLOURS * len(found), strict=False):
            if layer >= len(looked.kernels):
                continue
            kernel_DHL = looked.kernels[layer]
            edges, levels = binned_envelopes(kernel_DHL)
            _band(top, np.trunc((edges[:-1] + edges[1:]) / 2), levels, colour, looked.label)
            frequencies, levels = frequency_levels(kernel_DHL)
            _band(middle, np.maximum(frequencies, frequencies[1] / 2), levels, colour, looked.label)
            for direction, decay_H in enumerate(kernel_measures.decay_length(kernel_DHL)):
                steps = np.sort(np.maximum(decay_H, 1))
                share = np.arange(1, len(steps) + 1) / len(steps)
                # a kernel that is not gone at the end of what was looked at does not count as gone
                gone = steps < kernel_DHL.shape[-1]
                steps, share = np.append(steps[gone], length), np.append(share[gone], gone.mean())
                bottom.step(steps, share, where="post", color=colour, linewidth=1.2, ls=("-", "--")[direction])
        _offset_axis(top, length, both)
        top.set_title(f"layer {layer}", fontsize=9)
        top.set_xlabel("offset of the input (steps)", fontsize=7.5)
        middle.set_xscale("log")
        middle.set_xlabel("frequency (cycles per step)", fontsize=7.5)
        bottom.set_xscale("log")
        bottom.set_xlim(max(min(first / 1.5, length / 10), 0.8), length)
        bottom.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        bottom.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        bottom.xaxis.set_minor_formatter(NullFormatter())
        bottom.set_ylim(0, 1.02)
        bottom.set_xlabel("steps", fontsize=7.5)
        for axis in axes[:, column]:
            _plain(axis)
    axes[0][0].set_ylabel("weight, dB below peak", fontsize=8)
    axes[1][0].set_ylabel("response, dB below peak", fontsize=8)
    axes[2][0].set_ylabel("channels gone (below 1 %)", fontsize=8)
    handles, names = axes[0][0].get_legend_handles_labels()
    _legend(figure, handles, names, "median over channels, shaded from the 10th to the 90th percentile"
            + _dashed(found))  # fmt: skip
    return figure


def _band(axis, at: np.ndarray, levels: np.ndarray, colour: str, label: str) -> None:
    low, median, high = np.percentile(levels, [10, 50, 90], axis=0)
    axis.plot(at, median, color=colour, linewidth=1.3, label=label)
    axis.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
    axis.set_ylim(-41, 1)


def _dashed(found: list[Looked]) -> str:
    return "; dashed: future" if any(looked.bidirectional for looked in found) else ""


def _legend(figure, handles, names, title: str) -> None:
    # in inches: a letter of 8 points is about 0.07 wide, and the line beside a name with its gaps 0.6
    fitting = int(figure.get_figwidth() / (0.6 + 0.07 * max(map(len, names), default=0)))
    figure.legend(handles, names, title=title, title_fontsize=8, fontsize=8, frameon=False,
                  loc="outside lower center", ncol=max(1, min(len(names), fitting)))  # fmt: skip


def _fields(pyplot, found: list[Looked]):
    """A panel per mixer and one for the network: influence up to a distance, into the past and into the future."""
    layers = sorted({layer for looked in found for layer in looked.fields if layer != "network"})
    panels = [layers[index] for index in _shown(len(layers))] + ["network"]
    columns = min(len(panels), 5)
    rows = -(-len(panels) // columns)
    figure, axes = _grid(pyplot, rows, columns, [2.3] * rows, width=2.6, sharey=True)
    shares = [share_O for looked in found for share_O in looked.fields.values()]
    furthest = max(np.abs(np.flatnonzero(share_O) - len(share_O) // 2).max(initial=1) for share_O in shares)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, panel in zip(axes.flat, panels, strict=False):
        for looked, colour in zip(found, COLOURS * len(found), strict=False):
            if panel not in looked.fields:
                continue
            share_O = looked.fields[panel]
            middle = len(share_O) // 2
            steps = np.arange(middle + 1)
            axis.plot(steps, np.cumsum(share_O[middle::-1]), color=colour, linewidth=1.3, label=looked.label)
            if looked.bidirectional:
                future = np.concatenate(([0.0], np.cumsum(share_O[middle + 1 :])))
                axis.plot(steps, future, color=colour, linewidth=1.1, ls="--")
        axis.set_xscale("symlog", linthresh=1, linscale=0.4)
        axis.set_xlim(0, furthest)
        axis.set_ylim(0, 1.02)
        axis.set_title("whole network" if panel == "network" else f"mixer of layer {panel}", fontsize=9)
        axis.set_xlabel("distance (steps)", fontsize=7.5)
        _plain(axis)
    for row in axes:
        row[0].set_ylabel("share of influence", fontsize=8)
    handles, names = axes.flat[0].get_legend_handles_labels()
    title = "gradient of an output by the inputs up to a distance; solid: present and past"
    _legend(figure, handles, names, title + _dashed(found))
    return figure


def _clusters(pyplot, found: list[Looked], words: list[str]):
    """A column per cluster: its members in time and in frequency; below, what the layers are made of."""
    columns = len(words)
    figure = pyplot.figure(figsize=(max(2.9 * columns, 6.5), 6.6), layout="constrained")
    grid = figure.add_gridspec(3, columns, height_ratios=[1.5, 1.5, 1.7])
    kernel_KL = np.concatenate([one_sided(looked.kernels) for looked in found])
    members = np.concatenate([looked.clusters.reshape(-1) for looked in found])
    for cluster, meaning in enumerate(words):
        chosen = kernel_KL[members == cluster]
        colour = CLUSTER_COLOURS[cluster % len(CLUSTER_COLOURS)]
        top, middle = (figure.add_subplot(grid[row, cluster]) for row in (0, 1))
        edges = kernel_measures.log_edges(chosen.shape[-1], CURVES)
        levels = kernel_measures.decibel(kernel_measures.envelope(chosen, edges))
        _band(top, np.maximum((edges[:-1] + edges[1:] - 1) / 2, 0), levels, colour, "")
        top.set_xscale("symlog", linthresh=1, linscale=0.4)
        top.set_xlim(0, chosen.shape[-1])
        frequencies, response = kernel_measures.spectrum(chosen)
        edges = kernel_measures.frequency_edges(len(frequencies), 2 * CURVES)
        at = np.maximum(frequencies[edges[:-1]], frequencies[1] / 2)
        _band(middle, at, kernel_measures.decibel(kernel_measures.envelope(response, edges)), colour, "")
        middle.set_xscale("log")
        top.set_title(f"cluster {cluster + 1}: {len(chosen):,} kernels\n" + meaning.replace("; ", "\n"), fontsize=8)
        top.set_xlabel("distance (steps)", fontsize=7.5)
        middle.set_xlabel("frequency (cycles per step)", fontsize=7.5)
        for axis in (top, middle):
            axis.tick_params(labelsize=7)
            _plain(axis)
            if cluster == 0:
                axis.set_ylabel("dB below peak", fontsize=8)
    _composition(figure.add_subplot(grid[2, :]), found, len(words))
    return figure


CURVES = 40


def _composition(axis, found: list[Looked], count: int) -> None:
    """Stacked bars: the share of each cluster in every layer, direction by direction."""
    names, shares = [], []
    for looked in found:
        for layer, clusters_DH in enumerate(looked.clusters):
            for direction, clusters_H in enumerate(clusters_DH):
                mark = "" if len(clusters_DH) == 1 else (" past", " future")[direction]
                names.append((looked.label, f"{layer}{mark}"))
                shares.append(np.bincount(clusters_H, minlength=count) / len(clusters_H))
    shares = np.array(shares)
    places = np.arange(len(names)) + np.array([[looked.label for looked in found].index(label) for label, _ in names])
    bottom = np.zeros(len(names))
    for cluster in range(count):
        colour = CLUSTER_COLOURS[cluster % len(CLUSTER_COLOURS)]
        axis.bar(places, shares[:, cluster], 0.85, bottom=bottom, color=colour, label=f"cluster {cluster + 1}")
        bottom += shares[:, cluster]
    many = len(names) > 16
    axis.set_xticks(places, [text for _, text in names], fontsize=6.5 if many else 7, rotation=90 if many else 0)
    for looked in found:
        own = [place for place, (label, _) in zip(places, names, strict=True) if label == looked.label]
        axis.text(np.mean(own), 1.03, looked.label, ha="center", fontsize=8)
    axis.set_xlim(places[0] - 0.7, places[-1] + 0.7)
    axis.set_ylim(0, 1.12)
    axis.set_ylabel("share of channels", fontsize=8)
    axis.set_xlabel("layer", fontsize=8)
    axis.tick_params(axis="y", labelsize=7)
    axis.spines[["top", "right"]].set_visible(False)


def _attention(pyplot, found: list[Looked]):
    """First the mean distance of every head, then where its attention goes, a panel per layer."""
    layers = _shown(max(len(looked.attention) for looked in found))
    panels = 1 + len(layers)
    columns = min(panels, 5)
    rows = -(-panels // columns)
    figure, axes = _grid(pyplot, rows, columns, [2.5] * rows, width=2.8)
    for axis in axes.flat[panels:]:
        axis.set_visible(False)
    first, *others = axes.flat[:panels]
    for place, (looked, colour) in enumerate(zip(found, COLOURS * len(found), strict=False)):
        shift = 0.5 * (place - (len(found) - 1) / 2) / len(found)
        for layer, values in enumerate(receptive_field.mean_distance(looked.attention)):
            first.scatter([layer + shift] * len(values), values, s=16, color=colour, alpha=0.8,
                          label=looked.label if layer == 0 else None)  # fmt: skip
        first.axhline(receptive_field.mean_distance(looked.uniform), color=colour, ls=":", linewidth=1)
        for axis, layer in zip(others, layers, strict=False):
            if layer < len(looked.attention):
                at, equal = binned(looked.uniform)
                for share_O in looked.attention[layer]:
                    ratio = binned(share_O)[1][equal > 0] / equal[equal > 0]
                    axis.plot(at[equal > 0], np.maximum(ratio, 0.01), color=colour, linewidth=1, alpha=0.8)
    for axis, layer in zip(others, layers, strict=False):
        length = found[0].attention.shape[-1] // 2 + 1
        _offset_axis(axis, length, any(looked.bidirectional for looked in found))
        axis.axhline(1, color="black", ls=":", linewidth=1)
        axis.set_title(f"layer {layer}", fontsize=9)
        axis.set_xlabel("offset of the key (steps)", fontsize=7.5)
        axis.set_yscale("log")
        _plain(axis)
    first.set_xticks(range(max(len(looked.attention) for looked in found)))
    first.set_xlim(-0.5, max(len(looked.attention) for looked in found) - 0.5)
    first.set_xlabel("layer", fontsize=7.5)
    first.set_ylim(bottom=0)
    first.set_title("mean distance, a dot per head (steps)", fontsize=8.5)
    _plain(first)
    if others:
        others[0].set_ylabel("attention / equal attention", fontsize=8)
    handles, names = first.get_legend_handles_labels()
    _legend(figure, handles, names, "a line per head; dotted: equal attention to all that is visible")
    return figure


def _bias(pyplot, found: list[Looked]):
    """A line per layer over the offset of the key, smoothed, the table itself behind it; a panel per checkpoint."""
    from matplotlib import colormaps

    figure, axes = _grid(pyplot, 1, len(found), [2.7], width=4.6)
    for axis, looked in zip(axes[0], found, strict=True):
        reach = looked.bias.shape[-1] // 2
        offsets = np.arange(-reach, reach + 1)
        if not looked.bidirectional:
            offsets = offsets[: reach + 1]
        for layer, bias_O in enumerate(looked.bias):
            colour = colormaps["viridis"](0.9 * layer / max(len(looked.bias) - 1, 1))
            shown = bias_O[: len(offsets)]
            width = max(reach // 25, 1)
            smooth = np.convolve(shown, np.ones(width) / width, mode="valid")
            axis.plot(offsets, shown, color=colour, linewidth=0.6, alpha=0.25)
            centre = offsets[(width - 1) // 2 :][: len(smooth)]
            axis.plot(centre, smooth, color=colour, linewidth=1.5, label=f"layer {layer}")
        axis.set_title(looked.label, fontsize=9)
        axis.set_xlabel("offset of the key (steps)", fontsize=8)
        axis.legend(fontsize=7, frameon=False, ncol=2)
        _plain(axis)
    axes[0][0].set_ylabel("added to the score", fontsize=8)
    return figure
