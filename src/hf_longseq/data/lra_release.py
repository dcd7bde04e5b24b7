# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Reads the unpacked Long Range Arena release: `lra_release.gz`, a tar archive in spite of its name.

Nothing in it is executed: the `.npy` files of Pathfinder are plain text and are read as such.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from hf_longseq.data import byte_text
from hf_longseq.data.cache import Row
from hf_longseq.data.pixels import pixel_row, read_picture
from hf_longseq.errors import HfLongSeqError

logger = logging.getLogger(__name__)

URL = "https://storage.googleapis.com/long-range-arena/lra_release.gz"
COMMAND = f"curl -C - -LO {URL} && tar -xf lra_release.gz"
LISTOPS_FILES = {"train": "basic_train.tsv", "validation": "basic_val.tsv", "test": "basic_test.tsv"}
AAN_FILES = {
    "train": "new_aan_pairs.train.tsv",
    "validation": "new_aan_pairs.eval.tsv",
    "test": "new_aan_pairs.test.tsv",
}


def listops_rows(files: dict[str, Path], vocabulary: tuple[str, ...], max_length: int) -> Iterator[tuple[str, Row]]:
    """Rows of ListOps from its tsv files: parentheses dropped, brackets closed by X, end-of-sequence added."""
    ids = {symbol: index for index, symbol in enumerate(vocabulary)} | {"]": vocabulary.index("X")}
    for split, where, (source, label) in _lines(files, 2):
        if source == "Source":
            continue
        symbols = [symbol for symbol in source.split() if symbol not in "()"]
        unknown = next((symbol for symbol in symbols if symbol not in ids), None)
        if unknown is not None or not label.isdigit() or int(label) > 9:
            what = f"symbol {unknown!r}" if unknown is not None else f"label {label!r}"
            raise HfLongSeqError(f"{where} holds {what}: it is not the released ListOps file.")
        kept = [ids[symbol] for symbol in symbols][: max_length - 1]
        yield split, {"input_ids": np.array([*kept, vocabulary.index("[EOS]")]), "labels": int(label)}


def aan_rows(files: dict[str, Path], max_length: int) -> Iterator[tuple[str, Row]]:
    """Rows of Retrieval from its tsv files (label, two ids, two texts; quotes mean nothing)."""
    for split, where, (label, _, _, first, second) in _lines(files, 5):
        if label not in ("0", "1", "0.0", "1.0"):
            raise HfLongSeqError(f"{where} has label {label!r}: expected 0 or 1.")
        if not first or not second:
            raise HfLongSeqError(f"{where} has an empty document: remove the row.")
        ids, ids_2 = (byte_text.encode(text, max_length) for text in (first, second))
        yield split, {"input_ids": ids, "input_ids_2": ids_2, "labels": int(float(label))}


def pathfinder_folder(size: int, contour_length: int) -> str:
    """Folder of a resolution and difficulty."""
    return f"pathfinder{size}/" + ("curv_baseline" if contour_length == 6 else f"curv_contour_length_{contour_length}")


def pathfinder_rows(folder: Path, size: int) -> Iterator[tuple[str, Row]]:
    """Rows of Pathfinder in the split of the published results: shuffled by torch with seed 42, cut 80/10/10."""
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


def _lines(files: dict[str, Path], count: int) -> Iterator[tuple[str, str, list[str]]]:
    """Split, place and fields, `count` of them, of every line."""
    for split, path in files.items():
        with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                fields, where = line.rstrip("\r\n").split("\t"), f"{path.name}, row {number},"
                if len(fields) != count:
                    raise HfLongSeqError(f"{where} has {len(fields)} columns instead of {count}: run `{COMMAND}`.")
                yield split, where, fields
