# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Images as pixel sequences in raster order, stored as grey levels 0..255; shared by the image tasks.

A pixel is a value with one or three channels (the default), or a token: ids 0..255 are the grey levels, 256 is the
mask and 257 the padding.
"""

from dataclasses import replace

import numpy as np
from datasets import ClassLabel, DatasetDict, Features

from hf_longseq.data.cache import Row, sequence_feature
from hf_longseq.data.own_reader import open_image
from hf_longseq.data.task_spec import TaskSpec
from hf_longseq.errors import HfLongSeqError

PIXEL_MASK_ID, PIXEL_PAD_ID, PIXEL_VOCAB_SIZE = 256, 257, 258


def pixel_features(labels: tuple[str, ...], num_channels: int = 1) -> Features:
    """Columns of an image task: `input_values` as uint8 grey levels, `labels`."""
    return Features(
        {"input_values": sequence_feature("uint8", num_channels), "labels": ClassLabel(names=list(labels))}
    )


def pixel_row(image: np.ndarray, label: int) -> Row:
    """The row of an image (H, W) or (H, W, C) in uint8."""
    return {"input_values": image.reshape(-1, *image.shape[2:]), "labels": label}


def read_picture(content: dict | str, where: str, shape: tuple[int, ...]) -> np.ndarray:
    """Pixels in uint8 of a picture in a file or in memory; it must have this shape, (H, W) or (H, W, 3)."""
    pixels = open_image(content, where, len(shape) == 3, None)
    if pixels.shape != shape:
        raise HfLongSeqError(f"{where} has shape {pixels.shape}, not {shape}: it is none of the data set's pictures.")
    return pixels


def pixel_form(spec: TaskSpec, tokens: bool, num_levels: int | None) -> TaskSpec:
    """Description of an image task, given as values, in the form that the user asked for.

    Grey levels become `input_ids` with `tokens`; `num_levels` is what pretraining predicts from values: None for the
    value itself (L1), 256 for its grey level.
    """
    if num_levels not in (None, 256):
        raise HfLongSeqError(f"num_levels is {num_levels}: use None for values (L1) or 256 for grey levels.")
    if not tokens:
        return replace(spec, num_levels=num_levels)
    if spec.num_channels != 1:
        raise HfLongSeqError(f"Task {spec.name!r} has {spec.num_channels} channels, so use tokens=False.")
    return replace(
        spec,
        modality="tokens",
        num_channels=None,
        vocab_size=PIXEL_VOCAB_SIZE,
        mask_token_id=PIXEL_MASK_ID,
        pad_token_id=PIXEL_PAD_ID,
        value_range=None,
        num_levels=None,
    )


def pixel_rows(splits: DatasetDict, spec: TaskSpec) -> DatasetDict:
    """Splits with uint8 `input_values` in the form that the description states."""
    return splits.rename_column("input_values", "input_ids") if spec.modality == "tokens" else splits
