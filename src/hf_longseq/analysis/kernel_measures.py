# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Numbers that say what a convolution kernel does: how long it lasts, which frequencies it passes, what it resembles.

Axes: D directions (past, future), H channels, L distances from 0, K kernels, F features.
"""

import numpy as np
from scipy.cluster.vq import kmeans2

DIRECTIONS = ("past", "future")
GONE = 0.01
"""A kernel is gone where it stays below this share of its peak."""

FEATURE_BINS = 24


def decay_length(kernel: np.ndarray, share: float = GONE) -> np.ndarray:
    """Steps after which a kernel (..., L) stays below ``share`` of its peak: (...), L where it never does, 0 for
    kernels that are zero everywhere."""
    size = np.abs(kernel)
    alive = size >= share * np.maximum(size.max(-1, keepdims=True), np.finfo(size.dtype).tiny)
    return np.where(alive.any(-1), size.shape[-1] - np.argmax(alive[..., ::-1], axis=-1), 0)


def spectrum(kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies in cycles per step (F,) from 0 to 1/2, and the magnitude of the response (..., F)."""
    size = 1 << (2 * kernel.shape[-1] - 1).bit_length()
    return np.fft.rfftfreq(size), np.abs(np.fft.rfft(kernel, n=size))


def measures(kernel: np.ndarray) -> dict[str, np.ndarray]:
    """What the CSV says of every kernel (..., L)."""
    size = np.abs(kernel)
    total = np.maximum(size.sum(-1), np.finfo(np.float64).tiny)
    frequencies, response = spectrum(kernel)
    return {
        "peak": size.max(-1),
        "peak_distance": size.argmax(-1),
        "decay_length": decay_length(kernel),
        "mean_distance": (size * np.arange(size.shape[-1])).sum(-1) / total,
        "peak_frequency": frequencies[response.argmax(-1)],
        "median_frequency": median_frequency(frequencies, response),
    }


def median_frequency(frequencies: np.ndarray, response: np.ndarray) -> np.ndarray:
    """Frequency (...) below which half of the power of a response (..., F) lies."""
    power = np.cumsum(np.square(response), axis=-1)
    return frequencies[(power < 0.5 * power[..., -1:]).sum(-1).clip(max=len(frequencies) - 1)]


def two_sided(kernel_DHL: np.ndarray) -> np.ndarray:
    """Weight of the input at every offset -(L - 1) ... L - 1 from the output, (H, 2L - 1); the past is negative."""
    length = kernel_DHL.shape[-1]
    both = np.zeros((kernel_DHL.shape[1], 2 * length - 1))
    both[:, :length] = kernel_DHL[0, :, ::-1]
    if len(kernel_DHL) == 2:
        both[:, length - 1 :] += kernel_DHL[1]
    return both


def log_edges(length: int, count: int) -> np.ndarray:
    """Integer edges of at most ``count`` bins that cover 0 ... length - 1 and widen by a constant factor."""
    return np.unique(np.round(np.geomspace(1, length + 1, count + 1)).astype(int)) - 1


def offset_edges(length: int, count: int) -> np.ndarray:
    """Edges for offsets -(length - 1) ... length - 1, halves of integers, ``count`` bins or less on either side."""
    ahead = log_edges(length, count)[1:] - 0.5
    return np.concatenate((-ahead[::-1], ahead))


def envelope(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Largest magnitude in every bin of the last axis; ``edges`` are indices, from 0 to its length."""
    return np.maximum.reduceat(np.abs(values), edges[:-1], axis=-1)


def frequency_edges(size: int, count: int) -> np.ndarray:
    """Index edges of log-spaced bins over ``size`` frequencies; the first holds frequency 0."""
    return np.concatenate(([0], 1 + log_edges(size - 1, count)))


def decibel(values: np.ndarray, floor: float = -40.0) -> np.ndarray:
    """20 log10 of the values over the largest of each row, cut at ``floor``."""
    peak = np.maximum(values.max(-1, keepdims=True), np.finfo(np.float64).tiny)
    return 20 * np.log10(np.maximum(values / peak, 10 ** (floor / 20)))


def shape_features(kernel_KL: np.ndarray) -> np.ndarray:
    """(K, F): envelope over log-spaced distances beside the response over log-spaced frequencies, each in decibels
    below its peak and cut at 1 %, so that size and sign do not count."""
    in_time = envelope(kernel_KL, log_edges(kernel_KL.shape[-1], FEATURE_BINS))
    _, response = spectrum(kernel_KL)
    in_frequency = envelope(response, frequency_edges(response.shape[-1], FEATURE_BINS))
    return np.concatenate([decibel(part) / 40 / np.sqrt(part.shape[-1]) for part in (in_time, in_frequency)], axis=-1)


def k_means(features_KF: np.ndarray, count: int, rounds: int = 100) -> np.ndarray:
    """Cluster (K,) of every row; nothing is drawn: each first centre is the row farthest from those before it."""
    count = min(count, len(np.unique(features_KF, axis=0)))
    distance = np.square(features_KF - features_KF.mean(0)).sum(-1)
    chosen = [int(distance.argmin())]
    nearest = np.full(len(features_KF), np.inf)
    while len(chosen) < count:
        nearest = np.minimum(nearest, np.square(features_KF - features_KF[chosen[-1]]).sum(-1))
        chosen.append(int(nearest.argmax()))
    return kmeans2(features_KF, features_KF[chosen], iter=rounds, minit="matrix")[1]


def cluster_shapes(kernel_KL: np.ndarray, count: int) -> tuple[np.ndarray, list[str]]:
    """Clusters (K,) of kernels by their shape, the shortest-lived first, and what each has in common, in words."""
    members = k_means(shape_features(kernel_KL), count)
    decay = decay_length(kernel_KL)
    order = sorted(set(members.tolist()), key=lambda c: (np.median(decay[members == c]), c))
    members = np.array([order.index(c) for c in members.tolist()])
    return members, [_in_words(kernel_KL[members == c], decay[members == c]) for c in range(len(order))]


def _in_words(kernel_KL: np.ndarray, decay_K: np.ndarray) -> str:
    lasts, length = int(np.median(decay_K)), kernel_KL.shape[-1]
    gone = f"gone after {lasts} steps" if lasts < length else f"not gone after {length} steps"
    half = np.median(median_frequency(*spectrum(kernel_KL)))
    return f"{gone}; half of the power below {half:.2g} cycles/step"
