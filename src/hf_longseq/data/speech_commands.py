# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Speech Commands: 35 spoken words from raw audio at 16 kHz, 84,843/9,981/11,005 clips of up to 16,000 steps.

Read from the official archive (version 0.02) with its own lists of validation and test clips; the Hub's copy has
another test split. Samples are plain numbers in [-1, 1] and short clips keep their length: the published results
divide by 2^15 once more, then standardise every time step by itself, and fill up with zeros.
"""

import struct
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from datasets import ClassLabel, DatasetDict, Features, List, Value
from scipy.io import wavfile

from hf_longseq.data.cache import Row, load_converted
from hf_longseq.data.task_spec import TaskSpec, cache_directory, find_file
from hf_longseq.errors import HfLongSeqError, explained

URL = "http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz"
RATE = 16_000
LISTS = {"validation_list.txt": "validation", "testing_list.txt": "test"}
LABELS = tuple(
    "bed cat down five forward go house left marvin no on right sheila tree up visual yes backward bird dog eight "
    "follow four happy learn nine off one seven six stop three two wow zero".split()
)
FEATURES = Features({"input_values": List(Value("float32")), "labels": ClassLabel(names=list(LABELS))})


def load(
    subsample: int = 1, data_dir: str | None = None, cache_dir: str | None = None
) -> tuple[DatasetDict, TaskSpec]:
    """Load the clips.

    Args:
        subsample: Keep every n-th sample; 2 gives the "zero-shot 8 kHz" test of the published results.
        data_dir: The folder into which the archive was unpacked.
        cache_dir: Where the decoded clips are kept; default: `cache_directory()`.
    """
    if subsample < 1:
        raise HfLongSeqError(f"subsample is {subsample}: use 1 for every sample, 2 for every second one.")
    folder = data_dir or f"{cache_dir or cache_directory()}/downloads/speech_commands"
    packed = f"{folder}/clips.tar.gz"  # 2.3 GB
    command = f"curl -C - -L --create-dirs -o {packed} {URL} && tar -xf {packed} -C {folder}"
    lists = [find_file(folder, name, command) for name in LISTS]
    options, rows = {"version": 2, "subsample": subsample}, partial(_rows, lists[0].parent, subsample)
    return load_converted("speech-commands", options, lists, FEATURES, rows, cache_dir), task_spec(subsample)


def task_spec(subsample: int = 1) -> TaskSpec:
    """Description of the task with every `subsample`-th sample."""
    return TaskSpec(
        name="speech-commands",
        modality="values",
        max_length=-(-RATE // subsample),
        num_channels=1,
        labels=LABELS,
        mask_ratio=0.25,
        value_range=(-1.0, 1.0),
        sampling_rate=RATE // subsample,
        source=URL,
        license="CC BY 4.0",
        note="samples are plain numbers in [-1, 1]; the published results standardise every time step by itself",
    )


def _rows(source: Path, subsample: int) -> Iterator[tuple[str, Row]]:
    lists = {split: (source / name).read_text().split() for name, split in LISTS.items()}
    split_of = {clip: split for split, clips in lists.items() for clip in clips}
    for label, word in enumerate(LABELS):
        for path in sorted((source / word).glob("*.wav")):
            name = f"{word}/{path.name}"
            samples = read_wave(path, name)
            yield split_of.pop(name, "train"), {"input_values": samples[::subsample], "labels": label}
    if split_of:
        raise HfLongSeqError(
            f"{source} lacks {len(split_of)} clips that its lists name, {min(split_of)} among them: finish unpacking "
            f"{URL}."
        )


def read_wave(path: Path, name: str) -> np.ndarray:
    """Samples (L,) float32 in [-1, 1] of a 16-bit mono file at 16 kHz."""
    remedy = f"get the archive again from {URL}"
    with explained(f"{name} is not a readable wave file", ValueError, EOFError, struct.error, remedy=remedy):
        rate, samples = wavfile.read(path)
    if (rate, samples.dtype, samples.ndim) != (RATE, np.int16, 1) or not 0 < len(samples) <= RATE:
        raise HfLongSeqError(
            f"{name} has {len(samples)} samples at {rate} Hz, {samples.dtype}, {samples[:1].size} channels: expected "
            f"up to {RATE} at {RATE} Hz, int16, mono; {remedy}."
        )
    return samples.astype(np.float32) / 32768
