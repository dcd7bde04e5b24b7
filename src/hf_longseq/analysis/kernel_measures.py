# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Measures of a convolution kernel: how long it lasts and which frequencies it passes.

Axes: D directions (past, future), H channels, L distances from 0, O offsets -(L - 1) ... L - 1, F frequencies.
"""

import numpy as np

DIRECTIONS = ("past", "future")
GONE = 0.01
"""A kernel is gone where it stays below this share of its peak."""

BINS = 48
"""Bins of the curves on either side of offset 0."""


def decay_length(kernel: np.ndarray) -> np.ndarray:
    """Steps after which a kernel (..., L) stays below ``GONE`` of its peak: (...), L where it never does, 0 for
    kernels that are zero everywhere."""
    size = np.abs(kernel)
    alive = size >= GONE * np.maximum(size.max(-1, keepdims=True), np.finfo(size.dtype).tiny)
    return np.where(alive.any(-1), size.shape[-1] - np.argmax(alive[..., ::-1], axis=-1), 0)


def spectrum(kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies in cycles per step (F,) from 0 to 1/2, and the magnitude of the response (..., F)."""
    size = 1 << (2 * kernel.shape[-1] - 1).bit_length()
    return np.fft.rfftfreq(size), np.abs(np.fft.rfft(kernel, n=size))


def measures(kernel: np.ndarray) -> dict[str, np.ndarray]:
    """The measures of kernels (..., L) in the CSV."""
    frequencies, response = spectrum(kernel)
    return {
        "peak": np.abs(kernel).max(-1),
        "decay_length": decay_length(kernel),
        "peak_frequency": frequencies[response.argmax(-1)],
    }


def two_sided(kernel_DHL: np.ndarray) -> np.ndarray:
    """Weight of the input at every offset -(L - 1) ... L - 1 from the output, (H, 2L - 1); the past is negative."""
    length = kernel_DHL.shape[-1]
    both = np.zeros((kernel_DHL.shape[1], 2 * length - 1))
    both[:, :length] = kernel_DHL[0, :, ::-1]
    if len(kernel_DHL) == 2:
        both[:, length - 1 :] += kernel_DHL[1]
    return both


def log_edges(length: int, count: int = BINS) -> np.ndarray:
    """Integer edges of at most ``count`` bins that cover 0 ... length - 1 and widen by a constant factor."""
    return np.unique(np.round(np.geomspace(1, length + 1, count + 1)).astype(int)) - 1


def offset_bins(length: int) -> tuple[np.ndarray, np.ndarray]:
    """Bins of the offsets -(length - 1) ... length - 1: their edges, halves of integers, and the first index of each
    in an array of all offsets."""
    ahead = log_edges(length)[1:] - 0.5
    edges = np.concatenate((-ahead[::-1], ahead))
    return edges, np.round(edges[:-1] + length - 0.5).astype(int)


def decibel(values: np.ndarray) -> np.ndarray:
    """20 log10 of the values over the largest of each row, cut at -40."""
    peak = np.maximum(values.max(-1, keepdims=True), np.finfo(np.float64).tiny)
    return 20 * np.log10(np.maximum(values / peak, 0.01))


def binned_envelopes(kernel_DHL: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Edges of the bins of offsets, and levels (H, bins) in decibels; a causal kernel has bins of the past."""
    edges, firsts = offset_bins(kernel_DHL.shape[-1])
    values = np.maximum.reduceat(np.abs(two_sided(kernel_DHL)), firsts, axis=-1)
    if len(kernel_DHL) == 1:
        past = edges[:-1] < 0
        edges, values = edges[: past.sum() + 1], values[:, past]
    return edges, decibel(values)


def time_levels(kernel_DHL: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets in the middle of log-spaced bins, and each channel's largest weight there in decibels below its peak."""
    edges, levels = binned_envelopes(kernel_DHL)
    return np.trunc((edges[:-1] + edges[1:]) / 2), levels


def frequency_levels(kernel_DHL: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lowest frequencies of log-spaced bins, and each channel's response (both directions together) in decibels."""
    frequencies, response = spectrum(two_sided(kernel_DHL))
    edges = np.concatenate(([0], 1 + log_edges(len(frequencies) - 1, 2 * BINS)))  # frequency 0 has a bin of its own
    return frequencies[edges[:-1]], decibel(np.maximum.reduceat(response, edges[:-1], axis=-1))


def binned(share_O: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets in the middle of log-spaced bins, and the share that falls into each."""
    edges, firsts = offset_bins(len(share_O) // 2 + 1)
    return np.trunc((edges[:-1] + edges[1:]) / 2), np.add.reduceat(share_O, firsts)
