# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Which of two exact methods reads a sequence through a state space: the chunked scan or a Fourier convolution.

The scan costs a few thousand operations per value, whatever the batch; the convolution costs fewer, of a kind that
caches and long transforms slow down, and needs a kernel, which costs the same for one sequence as for many. The times
below were measured once and are part of the package: a shape takes the same method on every machine, so that a seed
gives the same numbers.

Axes: B batch, L length, H channels.
"""

from collections.abc import Iterator
from contextlib import contextmanager

METHODS = ("fourier", "scan")

_forced: list[str] = []  # a plain list, which torch.compile can read


def choose_method(batch: int, length: int) -> str:
    """ "fourier" or "scan", the faster one for (B, L); channels cost both the same."""
    if _forced:
        return _forced[-1]
    return "fourier" if fourier_ns(batch, length) <= scan_ns(batch, length) else "scan"


def fourier_ns(batch: int, length: int) -> float:
    """Nanoseconds of one thread per channel, forward and backward: the kernel, its transforms, those of the input."""
    per_value = 32 + 9 * max(0, length.bit_length() - 13)  # long transforms leave the caches
    return 300_000 + 75 * length + batch * length * per_value


def scan_ns(batch: int, length: int) -> float:
    """The same of the scan: the operators of a chunk, and the chunks."""
    return 800_000 + 62 * batch * length


@contextmanager
def forced(method: str) -> Iterator[None]:
    """Inside, every layer takes ``method``, one of :data:`METHODS`; ValueError for another name.

    >>> with forced("scan"):
    ...     choose_method(32, 200)
    'scan'
    """
    if method not in METHODS:
        raise ValueError(f"method is {method!r}: choose one of {', '.join(METHODS)}.")
    _forced.append(method)
    try:
        yield
    finally:
        _forced.pop()
