# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""BIDMC: heart rate, respiratory rate or oxygen saturation from 32 s of PPG and ECG; regression, 4,000 steps x 2.

The windows of one patient overlap by more than 90 %. The published results shuffle them all, so that a model is tested
on windows that it has nearly seen; `split="patient"` keeps all windows of a recording together. The files name no
patient: windows belong to the same recording if they share stretches of samples.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from datasets import DatasetDict, Features, Value
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import train_test_split

from hf_longseq.data.cache import SPLITS, Row, load_converted, sequence_feature
from hf_longseq.data.task_spec import TaskSpec, cache_directory, find_file
from hf_longseq.errors import HfLongSeqError, explained

RECORDS = {"HR": "4001456", "RR": "4001463", "SpO2": "4001464"}
UNITS = {"HR": "beats per minute", "RR": "breaths per minute", "SpO2": "per cent"}
NOTES = {
    "patient": "split by recording; the published results shuffle overlapping windows, so their errors are lower",
    "published": "overlapping windows of a patient are in train and test, as in the published results",
    "original": "the archive's own test windows",
}
FEATURES = Features({"input_values": sequence_feature("float32", 2), "labels": Value("float32")})
STRETCH = 16


def load(
    target: str = "HR", split: str = "patient", data_dir: str | None = None, cache_dir: str | None = None
) -> tuple[DatasetDict, TaskSpec]:
    """Load the windows.

    Args:
        target: "HR", "RR" or "SpO2".
        split: "patient" (70/15/15 of the recordings), "published" (all windows shuffled, 70/15/15) or "original" (the
            file's test windows, validation the last seventh of train).
        data_dir: Folder with BIDMC32<target>_TRAIN.ts and _TEST.ts at any depth.
        cache_dir: Where the parsed windows are kept; default: `cache_directory()`.
    """
    if split not in NOTES:
        raise HfLongSeqError(f"split is {split!r}: use {', '.join(map(repr, NOTES))}.")
    folder = data_dir or f"{cache_dir or cache_directory()}/downloads/bidmc"
    base = f"https://zenodo.org/records/{RECORDS[target]}/files"
    names = [f"BIDMC32{target}_{part}.ts" for part in ("TRAIN", "TEST")]
    command = " && ".join(f"curl -C - -L --create-dirs -o {folder}/{name} {base}/{name}" for name in names)
    files = [find_file(folder, name, command) for name in names]

    def rows() -> Iterator[tuple[str, Row]]:
        train, test = (list(read_ts(file)) for file in files)
        windows, targets = zip(*train, *test, strict=True)
        for name, chosen in _split(list(windows), split, len(train)).items():
            yield from ((name, {"input_values": windows[i], "labels": targets[i]}) for i in chosen)

    options, spec = {"version": 3, "target": target, "split": split}, task_spec(target, split)
    return load_converted(spec.name, options, files, FEATURES, rows, cache_dir), spec


def task_spec(target: str, split: str) -> TaskSpec:
    """Description of the task for one target and way of splitting."""
    return TaskSpec(
        name=f"bidmc-{target.lower()}",
        modality="values",
        max_length=4000,
        num_channels=2,
        problem_type="regression",
        unit=UNITS[target],
        metric="rmse",
        mask_ratio=0.25,
        source=f"BIDMC32{target}, Monash, UEA and UCR time series regression archive",
        license="ODC-By 1.0",
        note=NOTES[split],
    )


def read_ts(file: Path) -> Iterator[tuple[np.ndarray, float]]:
    """Windows (L, C) float32 and targets of a .ts file: dimensions separated by colons, the target last."""
    with file.open(encoding="utf-8") as content:
        lines = enumerate(map(str.strip, content), start=1)
        if not any(line.lower() == "@data" for _, line in lines):
            raise HfLongSeqError(f"{file} has no line '@data': it is no .ts file, get it again.")
        for number, line in lines:
            if not line:
                continue
            *dimensions, target = line.split(":")
            with explained(f"{file}, line {number}, is not a row of numbers", ValueError, remedy="get it again"):
                channels = [np.array(dimension.split(","), dtype=np.float32) for dimension in dimensions]
                value = float(target)
            lengths = sorted({len(channel) for channel in channels})
            if len(channels) != 2 or len(lengths) != 1:
                raise HfLongSeqError(
                    f"{file}, line {number}, has {len(channels)} dimensions of lengths {lengths}: "
                    "expected 2 of equal length."
                )
            window = np.stack(channels, axis=1)
            if not np.isfinite(window).all() or not np.isfinite(value):
                raise HfLongSeqError(f"{file}, line {number}, holds a missing value: remove the line.")
            yield window, value


def _split(windows: list[np.ndarray], split: str, in_train_file: int) -> dict[str, np.ndarray]:
    """Indices of the windows of train, validation and test."""
    count = len(windows)
    if split == "original":
        parts = np.split(np.arange(count), [in_train_file - in_train_file // 7, in_train_file])
    elif split == "published":
        train, held_out = train_test_split(np.arange(count), test_size=0.3, random_state=0)
        parts = [train, *train_test_split(held_out, test_size=0.5, random_state=1)]
    else:
        groups = recordings(windows)
        names = np.random.RandomState(0).permutation(groups.max() + 1)
        if len(names) < 3:
            raise HfLongSeqError(
                f"The windows come from {len(names)} recording(s): a split by patient needs at least 3."
            )
        held_out = max(1, round(0.15 * len(names)))
        shares = np.split(names, [len(names) - 2 * held_out, len(names) - held_out])
        parts = [np.flatnonzero(np.isin(groups, share)) for share in shares]
    return dict(zip(SPLITS, parts, strict=True))


def recordings(windows: list[np.ndarray]) -> np.ndarray:
    """Number of the recording that each window was cut from: windows that share stretches of samples go together.

    Stretches begin where the samples themselves say so (a sample whose hash is a multiple of 32), hence at the same
    place in every window that contains them.
    """
    first_with: dict[bytes, int] = {}
    links: list[tuple[int, int]] = []
    for index, window in enumerate(windows):
        signal = np.ascontiguousarray(window, dtype=np.float32)
        codes = signal.view(np.uint32).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)
        for start in np.flatnonzero((codes[:, 0] ^ codes[:, 1]) % 32 == 0):
            stretch = signal[start : start + STRETCH]
            # A flat stretch says nothing about where it is from.
            if len(stretch) < STRETCH or len(np.unique(stretch[:, 0])) < STRETCH // 2:
                continue
            digest = hashlib.blake2b(stretch.tobytes(), digest_size=12).digest()
            links.append((index, first_with.setdefault(digest, index)))
    graph = coo_array((np.ones(len(links)), np.reshape(links, (-1, 2)).T.astype(int)), (len(windows),) * 2)
    return connected_components(graph, directed=False)[1]
