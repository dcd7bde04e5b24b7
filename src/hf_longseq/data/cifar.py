# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Image (grey) and scifar (colour): CIFAR-10 pixel by pixel, 10 classes, 45,000/5,000/10,000 images of 1,024 steps.

Validation is a tenth of train, chosen as in the published results (torch, seed 42). Grey images are scaled by the mean
and deviation of those results; colour images get one such scale for the three channels, not one for each.
"""

from collections.abc import Iterator
from pathlib import Path

import torch
from datasets import DatasetDict

from hf_longseq.data.cache import Row, load_converted
from hf_longseq.data.parquet_source import find_parquet, read_batches
from hf_longseq.data.pixels import pixel_features, pixel_form, pixel_row, pixel_rows, read_picture
from hf_longseq.data.task_spec import TaskSpec

REPO_ID = "uoft-cs/cifar10"
LABELS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# (0 - mean) / std and (1 - mean) / std: where grey levels 0 and 255 end up.
GREY_RANGE = (-122.6 / 255 / (61.0 / 255), (1 - 122.6 / 255) / (61.0 / 255))
COLOUR_RANGE = (-0.4734 / 0.2517, (1 - 0.4734) / 0.2517)


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
        data_dir: Folder with the parquet files of uoft-cs/cifar10 at any depth; default: the Hub.
        cache_dir: Where the converted images are kept; default: `cache_directory()`.
    """
    spec = pixel_form(task_spec(grey), tokens, num_levels)
    files = find_parquet(REPO_ID, ("train", "test"), data_dir, cache_dir)

    def rows() -> Iterator[tuple[str, Row]]:
        train = list(_rows(files["train"], grey))
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(42)).tolist()
        for place, index in enumerate(order):
            yield "train" if place < int(0.9 * len(order)) else "validation", train[index]
        yield from (("test", row) for row in _rows(files["test"], grey))

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


def _rows(files: list[Path], grey: bool) -> Iterator[Row]:
    shape, number = (32, 32) if grey else (32, 32, 3), 0
    for batch in read_batches(files, ["img", "label"]):
        for row in batch.to_pylist():
            yield pixel_row(read_picture(row["img"], f"{files[0].parent}, image {number},", shape), row["label"])
            number += 1
