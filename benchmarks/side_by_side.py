# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Time and peak memory of several things side by side, in one process and in turn.

Whatever else slows the machine then slows all of them alike, so that their ratios can be trusted sooner than their
times.
"""

import ctypes
import gc
import os
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from hf_longseq.errors import HfLongSeqError, did_you_mean


@dataclass
class Settings:
    """What the benchmarks of contestants by length take.

    Attributes:
        lengths: sequence lengths, or positions of a prompt.
        names: which contestants.
        batch: sequences at once.
        hidden_size: channels.
        layers: blocks of a model.
        s4_state: N of S4 and Mamba-2.
        dlr_state: modes of DLR.
        repeats: timed runs, after one that is not.
        device: where to run.
        memory_limit: bytes above which a contestant is not tried; four fifths of the free memory when None.
        seconds_limit: a contestant that once took longer is not tried at greater lengths.
        listener: is told what begins.
    """

    lengths: Iterable[int]
    names: Iterable[str]
    batch: int = 1
    hidden_size: int = 128
    layers: int = 8
    s4_state: int = 64
    dlr_state: int = 1024
    repeats: int = 5
    device: str = "cpu"
    memory_limit: int | None = None
    seconds_limit: float = 60.0
    listener: Callable[[str], None] | None = None

    def contest(self) -> "SideBySide":
        """What measures the contestants."""
        return SideBySide(self.device, self.repeats, self.memory_limit, self.seconds_limit, self.listener)

    @property
    def states(self) -> dict[str, int]:
        """Sizes of the states."""
        return {"s4_state": self.s4_state, "dlr_state": self.dlr_state}


QUICK = 5.0
"""Seconds below which a run may be repeated to measure its memory again."""


class SideBySide:
    """Measures the same named contestants at growing sizes, and drops those that became too slow or too large.

    Attributes:
        device: where they run.
        repeats: timed runs after the warm-up, in which memory is measured.
        memory_limit: bytes above which a contestant is not tried.
        seconds_limit: a contestant that once took longer is timed once and not tried at greater sizes.
    """

    def __init__(
        self,
        device: str = "cpu",
        repeats: int = 5,
        memory_limit: int | None = None,
        seconds_limit: float = 60.0,
        listener: Callable[[str], None] | None = None,
    ):
        self.device = torch.device(device)
        self.repeats, self.seconds_limit = repeats, seconds_limit
        self.memory_limit = memory_limit or int(0.8 * available_bytes(self.device))
        self.listener = listener or (lambda line: None)
        self._too_slow: set[str] = set()

    def reason_to_skip(self, name: str, needed_bytes: int = 0) -> str:
        """Why ``name`` is not tried at this size; empty when it is."""
        if needed_bytes > self.memory_limit:
            return f"needs about {needed_bytes / 2**30:.0f} GiB"
        if name in self._too_slow:
            return f"took more than {self.seconds_limit:g} s at a smaller length"
        return ""

    def measure(self, runs: dict[str, Callable[[], None]], needs: dict[str, int] | None = None) -> dict[str, dict]:
        """One row per name: "seconds" (median), "seconds_min", "cpu_seconds" (median over runs of the time of all
        threads, which other programs disturb least), "peak_mib", and "skipped", the reason if there is one.

        ``needs`` estimates the bytes of those that may not fit.
        """
        rows, times, cpu_times = {}, {}, {}
        for name, run in runs.items():
            rows[name] = {"seconds": None, "seconds_min": None, "cpu_seconds": None, "peak_mib": None}
            rows[name]["skipped"] = self.reason_to_skip(name, (needs or {}).get(name, 0))
            if rows[name]["skipped"]:
                continue
            self.listener(f"{name}: warm-up")
            before = time.process_time()
            first, peak = self._warm_up(run)
            rows[name]["peak_mib"] = None if peak is None else round(peak / 2**20, 1)
            # what is too slow has one run only, which is then the measurement
            slow = self.note_time(name, first)
            times[name], cpu_times[name] = ([first], [time.process_time() - before]) if slow else ([], [])
        for turn in range(self.repeats):
            for name, run in runs.items():
                if name in times and name not in self._too_slow:
                    self.listener(f"{name}: run {turn + 1} of {self.repeats}")
                    before = time.process_time()
                    times[name].append(seconds(run, self.device))
                    cpu_times[name].append(time.process_time() - before)
                    self.note_time(name, times[name][-1])
        for name, values in times.items():
            rows[name] |= {"seconds": statistics.median(values), "seconds_min": min(values)}
            rows[name]["cpu_seconds"] = statistics.median(cpu_times[name])
        return rows

    def note_time(self, name: str, taken: float) -> bool:
        """Remembers whether ``name`` took longer than it may; returns that."""
        if taken > self.seconds_limit:
            self._too_slow.add(name)
        return name in self._too_slow

    def _warm_up(self, run: Callable[[], None]) -> tuple[float, int | None]:
        taken = []
        peak = peak_bytes(lambda: taken.append(seconds(run, self.device)), self.device)
        if peak is not None and taken[0] < QUICK:
            # the very first call of a library also fills that library's own buffers
            peak = min(peak, peak_bytes(run, self.device))
        return taken[0], peak


def seconds(run: Callable[[], None], device: torch.device) -> float:
    """Wall-clock time of one call."""
    synchronise(device)
    start = time.perf_counter()
    run()
    synchronise(device)
    return time.perf_counter() - start


def synchronise(device: torch.device) -> None:
    """Waits for what was sent to a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_bytes(run: Callable[[], None], device: torch.device) -> int | None:
    """Memory one call needs on top of what is there: the allocator's peak on a GPU, the resident set's on Linux."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        return torch.cuda.max_memory_allocated(device) - before
    try:
        # freed memory that the C library keeps would hide what the call needs
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # resets the peak of the resident set
    except (OSError, AttributeError):
        run()
        return None
    before = _kibibytes("/proc/self/status", "VmRSS")
    run()
    return max(0, _kibibytes("/proc/self/status", "VmHWM") - before)


def available_bytes(device: torch.device) -> int:
    """Memory that can still be had on the device, page cache included."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return _kibibytes("/proc/meminfo", "MemAvailable") if os.path.exists("/proc/meminfo") else 4 * 2**30


def _kibibytes(path: str, field: str) -> int:
    with open(path) as file:
        line = next(line for line in file if line.startswith(field))
    return int(line.split()[1]) * 1024


def check_names(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """The names as a list; an error for one that is not known."""
    names, known = list(names), list(known)
    for name in names:
        if name not in known:
            raise HfLongSeqError(
                f"this benchmark has no contestant {name!r}{did_you_mean(name, known)}: use {' or '.join(known)}."
            )
    return names
