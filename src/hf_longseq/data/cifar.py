# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Image (grey) and scifar (colour): CIFAR-10 pixel by pixel, 10 classes, 45,000/5,000/10,000 images of 1,024 steps.

Validation is a tenth of train, chosen as in the published results (torch, seed 42). Grey images are scaled by the mean
and deviation of those results; colour images get one such scale for the three channels, not one for each.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from datasets import DatasetDict

from hf_longseq.data.columns import Row
from hf_longseq.data.converted import load_converted
from hf_longseq.data.parquet_source import find_parquet, read_batches
from hf_longseq.data.pixels import pixel_features, pixel_form, pixel_row, pixel_rows, read_picture
from hf_longseq.data.task_spec import TaskSpec
from hf_longseq.errors import HfLongSeqError

REPO_ID = "uoft-cs/cifar10"
LABELS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BINARY_FILES = {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]}
RECORD = 1 + 3 * 1024
# (0 - mean) / std and (1 - mean) / std: where grey levels 0 and 255 end up.
GREY_RANGE = tuple((level - 122.6 / 255) / (61.0 / 255) for level in (0.0, 1.0))
COLOUR_RANGE = tuple((level - 0.4734) / 0.2517 for level in (0.0, 1.0))


def load(
    grey: bool = True,
    tokens: bool = False,
    num_levels: int | None = None,
    data_dir: str | None = None,
    cache_dir: str | None = None,
) -> tuple[DatasetDict, TaskSpec]:
    """Load CIFAR-10 as sequences.

    Args:
        grey: One channel (the Image task); else three (sCIFAR).
        tokens: Grey levels as token ids instead of values.
        num_levels: What pretraining predicts from values: None for L1 (as the paper does), 256 for grey levels.
        data_dir: Folder with the parquet files of uoft-cs/cifar10 or with the unpacked `cifar-10-binary.tar.gz` at any
            depth; default: the Hub.
        cache_dir: Where the converted images are kept; default: `cache_directory()`.
    """
    spec = pixel_form(task_spec(grey), tokens, num_levels)
    binary = _find_binary(data_dir)
    files = binary or find_parquet(REPO_ID, ("train", "test"), data_dir, cache_dir)
    read = _read_binary if binary else _read_parquet

    def rows() -> Iterator[tuple[str, Row]]:
        for split in ("train", "test"):
            images, labels = read(files[split])
            images = to_grey(images) if grey else images
            order = list(range(len(images)))
            if split == "train":
                order = torch.randperm(len(images), generator=torch.Generator().manual_seed(42)).tolist()
            for place, index in enumerate(order):
                held_out = split == "train" and place >= int(0.9 * len(order))
                yield "validation" if held_out else split, pixel_row(images[index], labels[index])

    options, sources = {"version": 2, "grey": grey}, [*files["train"], *files["test"]]
    features = pixel_features(LABELS, 1 if grey else 3)
    return pixel_rows(load_converted(spec.name, options, sources, features, rows, cache_dir), spec), spec


def task_spec(grey: bool) -> TaskSpec:
    """Description of the Image task or of sCIFAR, as values."""
    return TaskSpec(
        name="image" if grey else "scifar",
        modality="values",
        max_length=1024,
        num_channels=1 if grey else 3,
        labels=LABELS,
        value_range=GREY_RANGE if grey else COLOUR_RANGE,
        image_shape=(32, 32),
        source=f"CIFAR-10, Hugging Face Hub, {REPO_ID}",
        license="as stated by the authors of CIFAR-10",
    )


def _find_binary(data_dir: str | None) -> dict[str, list[Path]] | None:
    if data_dir is None:
        return None
    found = {
        split: [path for name in names for path in sorted(Path(data_dir).rglob(name))[:1]]
        for split, names in BINARY_FILES.items()
    }
    if not found["train"] and not found["test"]:
        return None
    for split, names in BINARY_FILES.items():
        if len(found[split]) != len(names):
            raise HfLongSeqError(f"{data_dir} holds some of {', '.join(names)} but not all: unpack the archive again.")
    return found


def _read_binary(files: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    images, labels = [], []
    for file in files:
        records = np.fromfile(file, dtype=np.uint8)
        if len(records) == 0 or len(records) % RECORD:
            raise HfLongSeqError(
                f"{file} has {len(records)} bytes, no multiple of {RECORD}: unpack the archive again."
            )
        records = records.reshape(-1, RECORD)
        if records[:, 0].max() > 9:
            raise HfLongSeqError(f"{file} holds label {records[:, 0].max()}: expected 0..9, unpack the archive again.")
        labels.append(records[:, 0].astype(np.int64))
        images.append(records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    return np.concatenate(images), np.concatenate(labels)


def _read_parquet(files: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    images, labels = [], []
    for batch in read_batches(files, ["img", "label"]):
        for row in batch.column("img").to_pylist():
            images.append(read_picture(row, f"{files[0].parent}, image {len(images)},", (32, 32, 3)))
        labels += batch.column("label").to_pylist()
    return np.stack(images), np.array(labels)


def to_grey(images: np.ndarray) -> np.ndarray:
    """Luma (B, H, W) uint8 of RGB images (B, H, W, 3), with the weights and the rounding of Pillow's mode L."""
    red, green, blue = (images[..., channel].astype(np.uint32) for channel in range(3))
    return ((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16).astype(np.uint8)
