# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Voices: which of four speakers is heard in one second of raw audio, 4 classes. Real data from a game.

The dialogues of Fish Fillets, spoken by two actors in Czech and two in Dutch: a file's name tells the fish (`-m-` the
small one, `-v-` the big one), its folders the scene and the language. Clips are cut into pieces of one second, each
freed of its mean and scaled to its own peak; the rest of a clip and pieces of silence are left out. The splits share
no scene, and a scene has the same lines in both languages.

A linear model on a piece's log spectrum is the score to beat: 89 % with 100 labels, at 500 samples a second
(`hf-longseq baselines`). Noise and microphone may tell recordings apart as well as speech does.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from datasets import ClassLabel, DatasetDict, Features, List, Value

from hf_longseq.data.cache import Row, load_converted
from hf_longseq.data.own_reader import open_audio
from hf_longseq.data.task_spec import MissingDataError, TaskSpec, cache_directory
from hf_longseq.errors import HfLongSeqError

PACKAGES = "fillets-ng-data-cs fillets-ng-data-nl"
LABELS = ("cs-m", "cs-v", "nl-m", "nl-v")
SHARES = {"test": 0.28, "validation": 0.14}  # of the scenes; training has the rest
PEAK = 4.0  # gives pieces about unit variance
SILENCE = 0.02
FEATURES = Features({"input_values": List(Value("float32")), "labels": ClassLabel(names=list(LABELS))})


def load(
    sampling_rate: int = 2000, data_dir: str | None = None, cache_dir: str | None = None
) -> tuple[DatasetDict, TaskSpec]:
    """Load the pieces; needs soundfile and scipy (the extra `audio`).

    Args:
        sampling_rate: Samples per second, and so in a piece: 2,000 keep the pitch and the first formants.
        data_dir: Folder with the unpacked packages, or any folder with files <scene>/<cs or nl>/<name>-m-<line>.ogg.
        cache_dir: Where the pieces are kept; default: `cache_directory()`.
    """
    if not 100 <= sampling_rate <= 22_050:
        raise HfLongSeqError(f"sampling_rate is {sampling_rate}: use 100 to 22050, the rate of the recordings.")
    folder = Path(data_dir) if data_dir else Path(cache_dir or cache_directory()) / "downloads" / "voices"
    clips = find_clips(folder)
    split_of = split_scenes(sorted({path.parent.parent.name for path, _ in clips}))

    def rows() -> Iterator[tuple[str, Row]]:
        for path, label in clips:
            split = split_of[path.parent.parent.name]
            yield from ((split, {"input_values": piece, "labels": label}) for piece in cut(path, sampling_rate))

    options, files = {"version": 2, "sampling_rate": sampling_rate}, [path for path, _ in clips]
    return load_converted("voices", options, files, FEATURES, rows, cache_dir), task_spec(sampling_rate)


def task_spec(sampling_rate: int = 2000) -> TaskSpec:
    """Description of pieces of one second."""
    return TaskSpec(
        name="voices",
        modality="values",
        max_length=sampling_rate,
        num_channels=1,
        labels=LABELS,
        mask_ratio=0.25,
        value_range=(-PEAK, PEAK),
        sampling_rate=sampling_rate,
        peak=PEAK,
        source=f"Debian packages {PACKAGES}",
        license="GPL-2",
        note="Not a task of the paper. Recordings differ in noise, too; the splits share no scene.",
    )


def find_clips(folder: Path) -> list[tuple[Path, int]]:
    """Every clip of the four voices with its label, sorted."""
    clips = []
    for path in sorted(folder.rglob("*.ogg")):
        fish = re.search(r"-([mv])-", path.name)
        voice = f"{path.parent.name}-{fish[1]}" if fish else ""
        if voice in LABELS:
            clips.append((path, LABELS.index(voice)))
    missing = set(range(len(LABELS))) - {label for _, label in clips}
    if missing:
        raise MissingDataError(
            f"{folder} has no clips of the voice {LABELS[min(missing)]}: run `apt-get download {PACKAGES} && "
            f"for f in fillets-ng-data-*.deb; do dpkg-deb -x $f {folder}; done`."
        )
    return clips


def split_scenes(scenes: list[str]) -> dict[str, str]:
    """The split of every scene."""
    order = [scenes[i] for i in np.random.RandomState(0).permutation(len(scenes))]
    counts = [max(1, int(share * len(order))) for share in SHARES.values()]
    parts = np.split(order, np.cumsum(counts))
    return {str(scene): split for split, part in zip((*SHARES, "train"), parts, strict=True) for scene in part}


def cut(path: Path, sampling_rate: int) -> list[np.ndarray]:
    """The whole seconds of a clip, (sampling_rate,) float32 each, without mean and with the peak `PEAK`."""
    samples_LC, _ = open_audio(str(path), str(path), sampling_rate)
    samples = samples_LC.mean(axis=1)
    pieces = samples[: len(samples) // sampling_rate * sampling_rate].reshape(-1, sampling_rate)
    pieces = pieces - pieces.mean(axis=1, keepdims=True)
    peaks = np.abs(pieces).max(axis=1, keepdims=True)
    return list((pieces[peaks[:, 0] > SILENCE] * (PEAK / peaks[peaks[:, 0] > SILENCE])).astype(np.float32))
