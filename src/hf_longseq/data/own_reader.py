# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Turns what a user's table holds (text, lists, arrays, pictures, sounds) into checked arrays."""

import io
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Audio, Image

from hf_longseq.data import byte_text
from hf_longseq.data.own_sources import AUDIO_ENDINGS, IMAGE_ENDINGS, Source
from hf_longseq.errors import HfLongSeqError, explained

# Higher token ids are refused unless `vocab_size` makes room for them: the embedding would have a row for each.
MOST_TOKEN_IDS = 1_000_000
# Squares of larger values, of which the deviation is made, are infinite.
LARGEST = 1e150
# A list of numbers as text.
NUMBERS = re.compile(r"\s*\[[\s\d.,eE+\-\[\]]*\d[\s,]+[\s\d.,eE+\-\[\]]*\]\s*")
MODALITIES = ("text", "tokens", "values", "image", "audio")


def modality_of(source: Source, column: str) -> str:
    """Modality of a column: as the data set states it, else by its first value, else by its name."""
    cells = source.column(column)
    stated = source.first.features[column]
    if isinstance(stated, Image | Audio):
        return "image" if isinstance(stated, Image) else "audio"
    value = next((value for value in cells if not is_absent(value)), None)
    if value is None:
        raise HfLongSeqError(f"{source.name}, column {column!r}, is empty: name another --input_column.")
    if words_in(value):
        return "text"
    if isinstance(value, str):
        ending = "." + value.rsplit(".", 1)[-1].lower()
        found = "image" if ending in IMAGE_ENDINGS else "audio" if ending in AUDIO_ENDINGS else "text"
        if NUMBERS.fullmatch(value):  # a csv file holds numbers as text
            found = "tokens" if re.fullmatch(r"\s*\[[\s\d,]+\]\s*", value) else "values"
        return {"input_values": "values", "input_ids": "tokens"}.get(column, found)
    where = f"{source.name}, column {column!r},"
    array = np.asarray(read_numbers(value, where) if isinstance(value, list) else None)
    if column == "input_ids" and array.dtype.kind in "iubf":
        return "tokens"
    if array.dtype.kind in "iub" and array.ndim == 1:
        return "tokens"
    if array.dtype.kind in "iuf":
        return "values"
    said = repr(value) if len(repr(value)) < 60 else f"{repr(value)[:60]}..."
    raise HfLongSeqError(
        f"{where} holds {said} ({type(value).__name__}) as one input: give a text, a list of numbers or a file in "
        "each row, or name another --input_column."
    )


def is_absent(value: Any) -> bool:
    """Whether a cell of a table is empty: None, not a number, or blank text."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and value != value)


def groups_of(source: Source, column: str) -> list[str]:
    """The group of every row, as text; the first row without one raises."""
    groups = list(source.column(column))
    for row, group in enumerate(groups):
        if is_absent(group):
            raise HfLongSeqError(f"{source.where(row)} has no {column}, so it belongs to no group: remove the row.")
    return [str(group) for group in groups]


def words_in(value: Any) -> bool:
    """Whether an input is a list of words."""
    return isinstance(value, list) and len(value) > 0 and all(isinstance(word, str) for word in value)


def text_of(value: Any) -> Any:
    """Words joined by blanks; anything else as it is."""
    return " ".join(value) if words_in(value) else value


@dataclass
class Reader:
    """Reads the inputs of one source as arrays: ids (L,), values (L, C), or pixels (H·W,) or (H·W, 3) in uint8.

    Args:
        colour, image_size: Of pictures: three channels, side to resize to.
        sampling_rate: To resample sounds to.
        most_ids: Token ids have to be below.
        shape: Of the first picture, or channels of the first series; all others must agree.
        rate: Sampling rate of the first sound; all others must agree.
    """

    modality: str
    colour: bool = False
    image_size: int | None = None
    sampling_rate: int | None = None
    max_length: int | None = None
    most_ids: int = MOST_TOKEN_IDS
    shape: tuple[int, ...] = ()
    rate: int | None = None

    @property
    def channels(self) -> int:
        """Numbers per step, once the first input was read."""
        if self.modality == "image":
            return 3 if self.colour else 1
        return self.shape[0] if self.shape else 1

    def read(self, raw: Any, where: str, cut: bool = True) -> np.ndarray:
        """The array of one input, `cut` to the longest allowed; `where` begins the messages about it."""
        raw = text_of(raw)
        if is_absent(raw):
            raise HfLongSeqError(f"{where} is empty: remove the row.")
        array = getattr(self, f"_read_{self.modality}")(raw, where)
        if len(array) == 0:
            raise HfLongSeqError(f"{where} has length 0: remove the row.")
        return array if self.max_length is None or not cut else array[: self.max_length]

    def _read_text(self, raw: Any, where: str) -> np.ndarray:
        if not isinstance(raw, str):
            raise HfLongSeqError(f"{where} is {type(raw).__name__}, no text: change --input_column or --modality.")
        return byte_text.encode(raw, self.max_length or len(raw.encode()) + 1)

    def _read_tokens(self, raw: Any, where: str) -> np.ndarray:
        ids = np.asarray(read_numbers(raw, where))
        if ids.ndim != 1 or (ids.size and (not np.all(ids == np.floor(ids)) or ids.min() < 0)):
            raise HfLongSeqError(
                f"{where} is not a list of token ids from 0: use modality 'values' for other numbers."
            )
        if ids.size and ids.max() >= self.most_ids:
            raise HfLongSeqError(
                f"{where} holds token id {int(ids.max()):,}, and ids below {self.most_ids:,} are read: state a larger "
                "vocab_size, or use modality 'values'."
            )
        return ids.astype(np.int64)

    def _read_values(self, raw: Any, where: str) -> np.ndarray:
        # float32 fits standardised values alone: times and the like lose their last digits in it
        values = np.asarray(read_numbers(raw, where), dtype=np.float64)
        if values.ndim == 1:
            values = values[:, None]
        if values.ndim != 2:
            raise HfLongSeqError(f"{where} has shape {values.shape}: give (length,) or (length, channels).")
        if not np.isfinite(values).all():
            raise HfLongSeqError(f"{where} holds a missing or infinite value: fill it or remove the row.")
        if np.abs(values).max(initial=0) > LARGEST:
            raise HfLongSeqError(f"{where} holds {np.abs(values).max():g}, beyond {LARGEST:g}: mend or rescale it.")
        return self._same_shape(values, values.shape[1:], where, "channels")

    def _read_image(self, raw: Any, where: str) -> np.ndarray:
        pixels = open_image(raw, where, self.colour, self.image_size)
        self._same_shape(pixels, pixels.shape, where, "height and width", "set image_size")
        height, width = pixels.shape[:2]
        if self.max_length is not None and self.max_length < height * width:
            raise HfLongSeqError(
                f"{where} has {height} x {width} pixels, but max_length is {self.max_length}: set image_size to make "
                "pictures smaller, or leave max_length out."
            )
        return pixels.reshape(-1, *pixels.shape[2:])

    def _read_audio(self, raw: Any, where: str) -> np.ndarray:
        samples, rate = open_audio(raw, where, self.sampling_rate)
        self.rate = self.rate or rate
        if rate != self.rate:
            raise HfLongSeqError(f"{where} has {rate} Hz, earlier ones {self.rate} Hz: set sampling_rate to resample.")
        return self._same_shape(samples, samples.shape[1:], where, "channels")

    def _same_shape(self, array, shape, where: str, what: str, remedy: str = "make them equal"):
        self.shape = self.shape or tuple(shape)
        if tuple(shape) != self.shape:
            raise HfLongSeqError(f"{where} has {what} {tuple(shape)}, earlier ones {self.shape}: {remedy}.")
        return array


def content_of(raw: Any, modality: str, where: str) -> bytes:
    """What the source holds of an input, before anything is cut, resized or resampled."""
    if modality == "text":
        return text_of(raw).encode()
    if modality in ("image", "audio"):
        value = _file(raw)
        return Path(value).read_bytes() if isinstance(value, str) else value.getvalue()
    numbers = np.asarray(read_numbers(raw, where), np.float64)
    return str(numbers.shape).encode() + numbers.tobytes()


def read_numbers(raw: Any, where: str) -> Any:
    """Numbers from a list, an array, or text with blanks or commas between them."""
    remedy = "give numbers alone, as many for every step"
    with explained(f"{where} is not a sequence of numbers of one shape", ValueError, remedy=remedy):
        if not isinstance(raw, str):
            return np.asarray(raw)
        if raw.lstrip().startswith("[["):
            return np.asarray(json.loads(raw))
        return [float(part) for part in raw.strip().strip("[]").replace(",", " ").split()]


def pillow():
    """The module `PIL.Image`, or the error that says how to get it."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("Pictures take Pillow, which is missing: run `pip install pillow`.") from None
    return Image


def _file(value: Any) -> Any:
    """The name of a file, or the content that a table holds of one."""
    if isinstance(value, str) and not os.path.isfile(value):
        raise FileNotFoundError(f"there is no file {value}")
    if not isinstance(value, dict):
        return value
    in_table = value.get("bytes") or not value.get("path")
    return io.BytesIO(value.get("bytes") or b"") if in_table else value["path"]


def open_image(value: Any, where: str, colour: bool, size: int | None) -> np.ndarray:
    """Pixels (H, W) or (H, W, 3) uint8 of a file or of bytes."""
    Image = pillow()
    kinds = (OSError, Image.DecompressionBombError)
    with explained(f"{where} is not a readable picture", *kinds, remedy="remove it or save it again"):
        image = Image.open(_file(value))
        if image.mode[0] in "IF":  # converted, all levels above 255 would be white
            raise HfLongSeqError(f"{where} has more than 8 bits a pixel (mode {image.mode}): save it with 8 bits.")
        image = image.convert("RGB" if colour else "L")
        if size is not None:
            image = image.resize((size, size), Image.Resampling.BILINEAR)
        return np.asarray(image)


def open_audio(value: Any, where: str, sampling_rate: int | None) -> tuple[np.ndarray, int]:
    """Samples (L, C) float32 and sampling rate of a file or of bytes; resampled if `sampling_rate` says so."""
    try:
        import soundfile
    except ImportError:
        raise ImportError("Sounds are read with soundfile, which is missing: run `pip install soundfile`.") from None
    kinds = (soundfile.LibsndfileError, OSError, TypeError)
    with explained(f"{where} is not a readable sound", *kinds, remedy="remove it or save it again"):
        samples, rate = soundfile.read(_file(value), dtype="float32", always_2d=True)
    if sampling_rate is not None and rate != sampling_rate:
        from scipy.signal import resample_poly  # slow to import

        if len(samples):
            samples = resample_poly(samples, sampling_rate, rate, axis=0).astype(np.float32)
        rate = sampling_rate
    return samples, rate
