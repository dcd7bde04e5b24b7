# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Pathfinder, Path-X and PathX-256: does one dashed path join the two discs?

Drawn again from a description of the benchmark's generator (Long Range Arena, section 2.2.5, after Linsley et al.
2018); positive and negative examples come from the same picture of two long paths, only the second disc moves.
Pictures at 32, 64, 128 and 256 pixels a side are sequences of 1,024, 4,096, 16,384 and 65,536 pixels.

At 16 pixels a side (`pathfinder-16`, 256 pixels, short paths) it is a small task of our own: its numbers cannot be
compared with published ones. There, pairs of paths are drawn until they keep their distance everywhere and the
distance of the discs tells nothing of the label.
"""

import hashlib
import importlib.util
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import DatasetDict

from hf_longseq.data.cache import Row, load_converted, load_generated
from hf_longseq.data.lra_release import COMMAND
from hf_longseq.data.own_reader import pillow
from hf_longseq.data.pathfinder_tables import SETTINGS, make_tables, widen
from hf_longseq.data.pixels import pixel_features, pixel_form, pixel_row, pixel_rows, read_picture
from hf_longseq.data.task_spec import TaskSpec, find_file
from hf_longseq.errors import HfLongSeqError

logger = logging.getLogger(__name__)

NAMES = {16: "pathfinder-16", 32: "pathfinder", 64: "pathfinder-64", 128: "pathx", 256: "pathx-256"}
LABELS = ("apart", "joined")
OWN_NOTE = "a small task of our own, not the benchmark's: its numbers cannot be compared with published ones"
OWN_SIZE = 16  # ours alone: no released pictures, no code to be compatible with
CONTOUR_LENGTH = 14
VERSION = 1  # of the pictures that a seed gives


def load(
    size: int = 32,
    contour_length: int | None = None,
    margins: tuple[int, ...] | int | None = None,
    lra_compat: bool = True,
    train_examples: int = 160_000,
    eval_examples: int = 20_000,
    seed: int = 0,
    tokens: bool = False,
    num_levels: int | None = 256,
    num_workers: int | None = None,
    data_dir: str | None = None,
    cache_dir: str | None = None,
) -> tuple[DatasetDict, TaskSpec]:
    """Generate (once) and load Pathfinder, or read the released pictures.

    Drawing is fast with numba (`pip install numba`), and some 50 times slower without.

    Args:
        size: Pixels a side: 32, 64, 128 or 256; or 16, a small task of our own that no benchmark has.
        contour_length: Dashes of the long paths; default: 14, and 3 at 16 pixels with room for at most 4. The
            benchmark has 6 (easy), 9 and 14 (hard, the one in use).
        margins: Distances between dashes of which each picture has one; default: the benchmark's. At 128 pixels it
            has (2, 3), and (2,) alone is ten times faster to draw. At 16 pixels there is only (1,).
        lra_compat: Repeat the original's restricted search for places, without which pictures of 32 and 64 pixels
            have brighter statistics than the benchmark's. Without effect at 16 pixels.
        train_examples: Pictures in train.
        eval_examples: Pictures in validation, and again in test.
        seed: Seed of the whole set.
        tokens: Grey levels as token ids instead of values.
        num_levels: What pretraining predicts from values: 256 grey levels (as the paper does), None for L1.
        num_workers: Processes; any number gives the same data.
        data_dir: A folder with the released pathfinder folders at any depth; then only size and contour_length count
            of what is above. There are none of 16 pixels.
        cache_dir: Where generated files are kept; default: `cache_directory()`.
    """
    spec = pixel_form(task_spec(size), tokens, num_levels)
    if data_dir is not None:
        if size == OWN_SIZE:
            raise HfLongSeqError(
                f"data_dir is {data_dir}, but pictures of {size} pixels a side are ours and in no release: leave "
                "data_dir out, and they are drawn."
            )
        dashes = contour_length or CONTOUR_LENGTH
        difficulty = "curv_baseline" if dashes == 6 else f"curv_contour_length_{dashes}"
        folder = find_file(data_dir, f"pathfinder{size}/{difficulty}", COMMAND)
        files, rows = sorted((folder / "metadata").glob("*.npy")), partial(released_rows, folder, size)
        splits = load_converted(NAMES[size], {}, files, pixel_features(LABELS), rows, cache_dir)
        return pixel_rows(splits, spec), replace(spec, source="the Long Range Arena release", note="")
    if importlib.util.find_spec("numba") is None:
        logger.warning("numba is missing: pictures are drawn some 50 times slower; run `pip install numba`.")
    parameters = drawing_parameters(size, contour_length, margins, lra_compat)
    # Compiled here once, the code is inherited by the processes that draw.
    make_row(parameters, seed, 0)
    splits = {"train": train_examples, "validation": eval_examples, "test": eval_examples}
    generated = load_generated(
        NAMES[size], VERSION, make_row, pixel_features(LABELS), parameters, splits, seed,
        rows_per_part=2000 if size <= 32 else 250, num_workers=num_workers, cache_dir=cache_dir,
    )  # fmt: skip
    return pixel_rows(generated, spec), spec


def task_spec(size: int) -> TaskSpec:
    """Description of Pathfinder with pictures of `size` pixels a side."""
    if size not in NAMES:
        raise HfLongSeqError(f"size is {size}: Pathfinder pictures have {', '.join(map(str, NAMES))} pixels a side.")
    own = size == OWN_SIZE
    return TaskSpec(
        name=NAMES[size],
        modality="values",
        max_length=size * size,
        num_channels=1,
        labels=LABELS,
        value_range=(-1.0, 1.0),
        image_shape=(size, size),
        source="generated by rules of our own" if own else "generated after the benchmark's description",
        license="Apache-2.0",
        note=OWN_NOTE if own else "drawn anew from a seed; the released pictures cannot be reproduced byte for byte",
    )


def drawing_parameters(
    size: int,
    contour_length: int | None = None,
    margins: Sequence[int] | int | None = None,
    lra_compat: bool = True,
) -> dict[str, Any]:
    """What pictures depend on besides their seed and number, checked."""
    margins = SETTINGS[size].margins if margins is None else tuple(np.atleast_1d(margins).tolist())
    room, usual, longest = ((1,), 3, 4) if size == OWN_SIZE else ((1, 2, 3), CONTOUR_LENGTH, 14)
    if not margins or not set(margins) <= set(room):
        raise HfLongSeqError(f"margins is {margins}: pictures of {size} pixels have room for distances of {room}.")
    contour_length = usual if contour_length is None else contour_length
    if not 2 <= contour_length <= longest:
        raise HfLongSeqError(
            f"contour_length is {contour_length}: pictures of {size} pixels have room for 2..{longest} dashes; the "
            "benchmark has 6, 9 and 14."
        )
    return {
        "size": size,
        "contour_length": contour_length,
        "distractor_length": max(2, contour_length // 3),
        "margins": list(margins),
        "lra_compat": lra_compat and size != OWN_SIZE,
    }


def make_row(parameters: dict[str, Any], seed: int, number: int, draw: int = 0) -> Row:
    """The picture with a number: `input_values` (grey levels in raster order), and `labels`, 1 if the discs are
    joined."""
    from hf_longseq.data.pathfinder_kernel import draw_picture  # numba takes a second to load

    settings = SETTINGS[parameters["size"]]
    digest = digest_of(seed, number, draw)
    margins = parameters["margins"]
    margin = margins[int.from_bytes(digest[8:], "little") % len(margins)]
    tables, frame = _canvas(parameters["size"], margin, parameters["lra_compat"])
    with np.errstate(over="ignore"):  # the random generator counts modulo 2**64
        picture, label = draw_picture(
            np.uint64(int.from_bytes(digest[:8], "little")),
            tables,
            frame,
            settings.size,
            parameters["contour_length"],
            parameters["distractor_length"],
            settings.num_distractors,
            settings.contrast * settings.dash_contrast,
            settings.contrast,
        )
    if label < 0:
        raise HfLongSeqError(
            f"No two paths of {parameters['contour_length']} dashes with margin {margin} fit into {settings.size} "
            "pixels: ask for a smaller contour_length or margin."
        )
    return pixel_row(picture, label)


def digest_of(seed: int, number: int, draw: int = 0) -> bytes:
    """Sixteen bytes that all randomness of a picture comes from: eight for its lines, eight for its margin."""
    return hashlib.blake2b(f"pathfinder/{seed}/{number}/{draw}".encode(), digest_size=16).digest()


@lru_cache
def _canvas(size: int, margin: int, lra_compat: bool) -> tuple:
    """Tables, and the state of an empty picture: a frame (and the border around it) that may not be touched."""
    pillow()
    tables = make_tables(SETTINGS[size], margin, lra_compat)
    frame = np.full((size + 2 * tables.pad,) * 2, 255, dtype=np.uint8)
    edge = tables.pad + SETTINGS[size].frame
    frame[edge:-edge, edge:-edge] = 0
    return tables, np.stack([frame, widen(frame, margin)])


def released_rows(folder: Path, size: int) -> Iterator[tuple[str, Row]]:
    """Released rows in the split of the published results: shuffled by torch with seed 42, cut 80/10/10.

    The `.npy` files are plain text and are read as such.
    """
    metadata = {path.stem: path for path in (folder / "metadata").glob("*.npy")}
    bare = min({path.name for path in (folder / "imgs").iterdir()} - set(metadata), default=None)
    if bare is not None:
        raise HfLongSeqError(
            f"{folder}/metadata lacks the file for imgs/{bare}: unpack the archive again, to its end."
        )
    listed, empty = [], []
    for stem in sorted(metadata, key=int):
        for number, line in enumerate(metadata[stem].read_text(encoding="utf-8").splitlines(), start=1):
            where = f"{metadata[stem]}, line {number},"
            fields = line.split()
            if len(fields) < 4 or fields[3] not in ("0", "1"):
                raise HfLongSeqError(f"{where} reads {line[:60]!r}: expected folder, file, number, label 0 or 1, ...")
            path = folder / fields[0] / fields[1]
            if not path.is_file():
                raise HfLongSeqError(f"{where} names {path}, which is missing: unpack the archive again.")
            if path.stat().st_size:
                listed.append((path, int(fields[3])))
            else:
                empty.append(path)
    if empty:
        # the release has one such file, and everybody leaves it out
        logger.warning("%s: %d empty picture(s) left out, %s first.", folder, len(empty), empty[0])
    held_out = len(listed) // 10
    order = torch.randperm(len(listed), generator=torch.Generator().manual_seed(42)).tolist()
    first = len(order) - 2 * held_out
    parts = {"train": order[:first], "validation": order[first : first + held_out], "test": order[first + held_out :]}
    for split, chosen in parts.items():
        for path, label in (listed[index] for index in chosen):
            yield split, pixel_row(read_picture(str(path), str(path), (size, size)), label)
