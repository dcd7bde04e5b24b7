# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Spoken tones: the tone of a Mandarin syllable from raw audio samples. Real data that travel with the package.

One speaker, 1 kHz, 294 to 424 steps. Pitch is all that the label depends on, and the model is given waveforms, not
pitch: what denoising has to discover is what the classifier needs. Splits share no syllable.
"""

from datasets import DatasetDict

from hf_longseq.data.cache import SPLITS
from hf_longseq.data.task_spec import EMBEDDED, TaskSpec

# 8-bit samples around 128; divided by 40 they have about unit variance
VALUE_RANGE = (-128 / 40, 127 / 40)


def load(cache_dir: str | None = None) -> tuple[DatasetDict, TaskSpec]:
    """Load the embedded recordings.

    Args:
        cache_dir: Where `datasets` keeps its memory-mapped copy; default: its own cache.
    """
    paths = {split: str(EMBEDDED / f"spoken-tones-{split}.parquet") for split in SPLITS}
    splits = DatasetDict.from_parquet(paths, cache_dir=cache_dir)
    return splits.remove_columns("syllable"), task_spec()


def task_spec() -> TaskSpec:
    """Description of the embedded recordings."""
    return TaskSpec(
        name="spoken-tones",
        modality="values",
        max_length=424,
        num_channels=1,
        labels=("first", "second", "third", "fourth"),
        mask_ratio=0.25,
        value_range=VALUE_RANGE,
        sampling_rate=1000,
        peak=VALUE_RANGE[1],
        source="Debian package gcin-voice 0~20170223-3, recordings of one speaker, embedded",
        license="CC BY 3.0 (ChionMeilin recording group, voice of Chu Lo)",
        note="Not a task of the paper. One speaker; the splits share no syllable.",
    )
